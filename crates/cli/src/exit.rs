//! Ends a command: its exit status, and its error message on standard error.

use std::{io, process::ExitCode};

/// The reason why a command failed.
#[derive(Debug)]
pub(crate) struct Failure {
    code: u8,
    /// The error; none if it was reported already, or nobody listens.
    error: Option<anyhow::Error>,
}

/// The outcome of a command.
pub(crate) type Outcome = Result<ExitCode, Failure>;

impl Failure {
    /// A failure with an exit status of its own.
    pub(crate) fn coded(code: u8, error: impl Into<anyhow::Error>) -> Failure {
        Failure { code, error: Some(error.into()) }
    }

    /// The failure that standard output could not be written: silent if its reader just left.
    pub(crate) fn output(error: io::Error) -> Failure {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Failure { code: 0, error: None };
        }
        Failure::coded(1, anyhow::Error::new(error).context("cannot write to standard output"))
    }
}

impl Failure {
    /// The text of the error.
    pub(crate) fn text(&self) -> String {
        let told = self.error.as_ref().map(|error| swiftwater_event::causes(error.as_ref()));
        format!("error: {}", told.unwrap_or_default())
    }
}

/// The failure of a command that needs history, in a binary that was built without it.
#[cfg(not(feature = "history"))]
pub(crate) fn without_history() -> Failure {
    Failure::coded(WITHOUT_HISTORY_CODE, anyhow::anyhow!(swiftwater_server::WITHOUT_HISTORY))
}

/// The code of sysexits.h for an unavailable service.
#[cfg(not(feature = "history"))]
const WITHOUT_HISTORY_CODE: u8 = 69;

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Failure {
        Failure { code: 1, error: Some(error) }
    }
}

/// The process's exit status; `complain` receives the error and its causes.
pub(crate) fn code(outcome: Outcome, complain: impl FnOnce(&str)) -> ExitCode {
    let Failure { code, error } = match outcome {
        Ok(code) => return code,
        Err(failure) => failure,
    };
    if let Some(error) = error {
        complain(&format!("error: {}", swiftwater_event::causes(error.as_ref())));
    }
    ExitCode::from(code)
}
