//! The exit codes of the command line.

use stateway_client::Code;

/// How the process ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Done.
    Ok = 0,
    /// The execution that was waited for or watched ended `failed`.
    ExecutionFailed = 1,
    /// Wrong arguments, configuration or request.
    Usage = 2,
    /// There is no such execution, definition or provider.
    NotFound = 3,
    /// Rejected: wrong state, already done, or not permitted.
    Refused = 4,
    /// The provider cannot do this.
    Unsupported = 5,
    /// The gateway or a provider does not answer, is too slow or too busy. A retry may succeed.
    Unreachable = 6,
    /// The deadline of a wait or a watch expired.
    Deadline = 7,
    /// The stored data differs from the log, a shadow differs from the recording, or a provider breaks the
    /// contract.
    Found = 8,
    /// A defect of Stateway.
    Internal = 70,
    /// A person ended a watch, or a change of many executions before all of them were changed.
    Interrupted = 130,
}

/// For `--help`.
pub const HELP: &str = "\
Exit codes:
  0   done
  1   the execution ended `failed` (wait, start --wait, watch of one execution)
  2   wrong arguments, configuration or request
  3   no such execution, definition or provider
  4   rejected: wrong state, already done, or not permitted
  5   the provider cannot do this
  6   the gateway or a provider does not answer, is too slow or too busy
  7   the timeout expired (wait, start --wait, watch)
  8   verify found a problem, the simulation differs (replay), or a case failed (conformance)
  70  internal error of Stateway
  130 interrupted (watch, start --wait, login, commands with --filter)";

impl Exit {
    /// The exit code for an answer of the gateway.
    #[must_use]
    pub const fn of(code: Code) -> Self {
        match code {
            Code::Ok => Self::Ok,
            Code::InvalidArgument => Self::Usage,
            Code::NotFound => Self::NotFound,
            Code::AlreadyExists
            | Code::FailedPrecondition
            | Code::Aborted
            | Code::OutOfRange
            | Code::PermissionDenied
            | Code::Unauthenticated => Self::Refused,
            Code::Unimplemented => Self::Unsupported,
            Code::Unavailable
            | Code::DeadlineExceeded
            | Code::ResourceExhausted
            | Code::Cancelled => Self::Unreachable,
            Code::Unknown | Code::Internal | Code::DataLoss => Self::Internal,
        }
    }
}

impl From<Exit> for std::process::ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_exit_code_is_in_the_help_text() {
        for exit in [
            Exit::Ok,
            Exit::ExecutionFailed,
            Exit::Usage,
            Exit::NotFound,
            Exit::Refused,
            Exit::Unsupported,
            Exit::Unreachable,
            Exit::Deadline,
            Exit::Found,
            Exit::Internal,
            Exit::Interrupted,
        ] {
            let line = format!("\n  {:<3} ", exit as u8);
            assert!(HELP.contains(&line), "{exit:?} is missing");
        }
    }
}
