//! Why the management API could not be asked. No text here holds a password.

use std::error::Error;

use thiserror::Error;

use crate::tls::TlsError;

/// Why the management API gave no answer that can be used.
#[derive(Debug, Error)]
pub enum ManagementError {
    /// The configured URL cannot be one of a management API.
    #[error("cannot use the management url: {problem}; give one such as http://localhost:15672")]
    BadUrl {
        /// What is wrong with it.
        problem: &'static str,
    },
    /// The CA file, or the system's roots, cannot be used.
    #[error("cannot trust any certificate of the management api: {0}")]
    BadCa(#[from] TlsError),
    /// The API's certificate is not accepted, or what answers speaks no TLS.
    #[error("cannot reach the management api at {url}: {problem}")]
    Tls {
        /// What was asked for.
        url: String,
        /// What is wrong, and what to do.
        problem: String,
    },
    /// Nobody answered in time.
    #[error(
        "cannot reach the management api at {url} ({source}): check management.url, that the plugin \
         rabbitmq_management is enabled, and that the port (15672, or 15671 for https) is open from here"
    )]
    Unreachable {
        /// What was asked for.
        url: String,
        /// What the HTTP client says.
        source: Box<dyn Error + Send + Sync>,
    },
    /// The broker knows the user not, or does not let it see this.
    #[error(
        "the management api refuses {url} to user {user:?} ({reason}): check the password, give the user the tag \
         management and permissions in the virtual host"
    )]
    Unauthorized {
        /// What was asked for.
        url: String,
        /// The user that asked.
        user: String,
        /// What the broker says.
        reason: String,
    },
    /// What was asked for is not there.
    #[error("the management api knows nothing at {url}: check management.url and the virtual host's name")]
    NotFound {
        /// What was asked for.
        url: String,
    },
    /// The answer is not one that a management API gives.
    #[error(
        "cannot use the answer of {url}: {problem}; check that management.url is RabbitMQ's management api and not \
         a proxy's page"
    )]
    BadAnswer {
        /// What was asked for.
        url: String,
        /// What is wrong with the answer.
        problem: String,
    },
}
