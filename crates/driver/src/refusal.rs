//! How a host refuses a command: the same kind and reason on every host.

use stateway_machine::Rejection;
use stateway_model::ErrorKind;

/// One kind and one reason for every rejection by the core.
#[must_use]
pub const fn refusal_of(rejection: &Rejection) -> (ErrorKind, &'static str) {
    use ErrorKind::{
        AlreadyExists, FailedPrecondition, InvalidArgument, NotFound, PermissionDenied,
    };
    match rejection {
        Rejection::NotCreated => (NotFound, "EXECUTION_NOT_FOUND"),
        Rejection::AlreadyCreated => (AlreadyExists, "EXECUTION_ALREADY_EXISTS"),
        Rejection::AlreadyFinished { .. } => (FailedPrecondition, "ALREADY_FINISHED"),
        Rejection::WrongState { .. } => (FailedPrecondition, "WRONG_STATE"),
        Rejection::RollingBack => (FailedPrecondition, "ROLLING_BACK"),
        Rejection::Escalated => (FailedPrecondition, "ESCALATED"),
        Rejection::NothingBacksOff => (FailedPrecondition, "NOT_BACKING_OFF"),
        Rejection::CompensationInProgress { .. } => {
            (FailedPrecondition, "COMPENSATION_IN_PROGRESS")
        }
        Rejection::EscalationUnresolved(rejection) => refusal_of(rejection),
        Rejection::StepAndStart => (InvalidArgument, "STEP_AND_START"),
        Rejection::NothingFailed => (FailedPrecondition, "NOTHING_FAILED"),
        Rejection::NotBegun { .. } => (FailedPrecondition, "STEP_NOT_BEGUN"),
        Rejection::TakesNoInput { .. } => (InvalidArgument, "STEP_TAKES_NO_INPUT"),
        Rejection::TakesNoFeedback { .. } => (InvalidArgument, "STEP_TAKES_NO_FEEDBACK"),
        Rejection::UnknownStep { .. } => (NotFound, "STEP_NOT_FOUND"),
        Rejection::StaleAttempt { .. } | Rejection::AlreadyAssigned { .. } => {
            (FailedPrecondition, "STALE_TASK")
        }
        Rejection::StaleTimer | Rejection::TimerNotDue => (FailedPrecondition, "STALE_TIMER"),
        Rejection::UnknownSignal { .. } | Rejection::StaleSignal { .. } => {
            (FailedPrecondition, "SIGNAL_NOT_AWAITED")
        }
        Rejection::TooManySignals => (FailedPrecondition, "TOO_MANY_SIGNALS"),
        Rejection::NoApproval { .. } => (FailedPrecondition, "NO_APPROVAL"),
        Rejection::StaleApproval { .. } => (FailedPrecondition, "STALE_APPROVAL"),
        Rejection::ApprovalExpired { .. } => (FailedPrecondition, "APPROVAL_EXPIRED"),
        Rejection::AlreadyDecided { .. } => (FailedPrecondition, "ALREADY_DECIDED"),
        Rejection::RoleRequired { .. } => (PermissionDenied, "ROLE_REQUIRED"),
        Rejection::SelfApproval { .. }
        | Rejection::RedoneBySelf { .. }
        | Rejection::OwnWork { .. }
        | Rejection::ReassignedBySelf { .. } => (PermissionDenied, "SELF_APPROVAL"),
        Rejection::StaleEscalation { .. } => (FailedPrecondition, "STALE_ESCALATION"),
        Rejection::NotEscalated { .. } => (FailedPrecondition, "NOT_ESCALATED"),
        Rejection::NotBackingOff { .. } => (FailedPrecondition, "NOT_BACKING_OFF"),
        Rejection::Incompatible { .. } => (FailedPrecondition, "INCOMPATIBLE_REVISION"),
        Rejection::UnusableDefinition { .. } => (InvalidArgument, "INVALID_DEFINITION"),
        Rejection::StaleBranch { .. } => (FailedPrecondition, "STALE_BRANCH"),
    }
}
