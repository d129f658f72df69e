//! What the environment selects. The only reader of environment variables in these tests.
//!
//! - `LEVERET_TEST_BROKERS`: the installations to test on, of `installed` and `rabbitmq-4`, separated by commas.
//!   Default `installed`.
//! - `LEVERET_TEST_AMQP_URI`: an external broker to test on instead, as `amqp://user:password@host:port`; the user must
//!   be an administrator.
//! - `LEVERET_TEST_MANAGEMENT_URL`: its management API. Default: the same host and user, port 15672.

use super::broker::Address;
use super::node::Installation;

/// Where the tests run.
pub(crate) enum Brokers {
    /// On private nodes of these installations.
    Private(Vec<Installation>),
    /// On a broker that somebody else runs.
    External {
        /// Where it speaks AMQP.
        amqp: Address,
        /// Its management API, with user and password.
        management_url: String,
    },
}

/// Reads the selection.
///
/// # Errors
///
/// An installation that does not exist, or a URI that is not understood.
pub(crate) fn brokers() -> Result<Brokers, String> {
    if let Some(uri) = variable("LEVERET_TEST_AMQP_URI") {
        let amqp = Address::parse(&uri)?;
        let management_url = variable("LEVERET_TEST_MANAGEMENT_URL").unwrap_or_else(|| {
            let Address { host, user, password, .. } = &amqp;
            format!("http://{user}:{password}@{host}:15672")
        });
        return Ok(Brokers::External { amqp, management_url });
    }
    let names = variable("LEVERET_TEST_BROKERS").unwrap_or_else(|| "installed".to_owned());
    let installations: Vec<_> =
        names.split(',').map(|name| Installation::from_name(name.trim())).collect::<Result<_, _>>()?;
    Ok(Brokers::Private(installations))
}

fn variable(name: &str) -> Option<String> {
    #[allow(clippy::disallowed_methods, reason = "the tests' own settings, not the sidecar's configuration")]
    std::env::var(name).ok().filter(|value| !value.is_empty())
}
