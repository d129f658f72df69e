//! How a command ends: its exit code and, where it stopped short, why.

use std::process::ExitCode;

use crate::amqp::connection::ConnectError;
use crate::amqp::failure::Failure;
use crate::config::ConfigErrors;
use crate::domain::ladder::LadderError;

/// What a command ends with, in the numbers of `sysexits.h`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Exit {
    /// Done, and all is well.
    Success = 0,
    /// Something else failed, or is not as it should be.
    Failure = 1,
    /// The command line means nothing. Most of these end in the parser of the command line.
    Usage = 2,
    /// The broker cannot be reached.
    Unreachable = 69,
    /// Stopped, but not everything was settled in time.
    DeadlinePassed = 75,
    /// The configuration is wrong, or contradicts what the broker holds.
    Configuration = 78,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Why a command stopped short, in words for the operator.
#[derive(Debug)]
pub(super) struct Stop {
    pub(super) exit: Exit,
    pub(super) why: String,
}

/// How a command ended.
pub(super) type Outcome = Result<Exit, Stop>;

impl Stop {
    pub(super) fn new(exit: Exit, why: impl Into<String>) -> Self {
        Self { exit, why: why.into() }
    }

    pub(super) fn failure(why: impl Into<String>) -> Self {
        Self::new(Exit::Failure, why)
    }
}

impl From<ConfigErrors> for Stop {
    fn from(errors: ConfigErrors) -> Self {
        let problems: Vec<_> = errors.problems().iter().map(|problem| format!("\n  {problem}")).collect();
        Self::new(Exit::Configuration, format!("the configuration is not valid:{}", problems.concat()))
    }
}

impl From<LadderError> for Stop {
    fn from(error: LadderError) -> Self {
        Self::new(Exit::Configuration, error.to_string())
    }
}

impl From<ConnectError> for Stop {
    fn from(error: ConnectError) -> Self {
        let exit = match error {
            ConnectError::Configuration(_) => Exit::Configuration,
            ConnectError::Unreachable(_) => Exit::Unreachable,
        };
        Self::new(exit, error.to_string())
    }
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Channel { .. } | Failure::ChannelGone => Self::failure(failure.to_string()),
            Failure::Connection(text) => {
                Self::new(Exit::Unreachable, format!("lost the connection to the broker: {text}"))
            }
            Failure::Unreadable(_) => Self::failure(format!(
                "{failure}: a text in a message's routing key, header names or properties is not UTF-8; see Limits in \
                 the README"
            )),
        }
    }
}
