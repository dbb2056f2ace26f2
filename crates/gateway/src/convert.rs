//! Between the model's words and protobuf's. Nothing is decided here.

mod execution;
mod provider;

use std::time::Duration;

use jiff::Timestamp;
use stateway_model::{
    Blocker, ErrorCategory, MappingBasis, Reason, RetryBasis, SubState, WaitKind,
};
use stateway_proto::v1;

pub(crate) use execution::{
    error, event, execution, explanation, payload_from, payload_into, step, usage,
};
pub(crate) use provider::{provider, table_row};

pub(crate) const fn sub_state(state: SubState) -> v1::SubState {
    match state {
        SubState::Running => v1::SubState::Running,
        SubState::Waiting => v1::SubState::Waiting,
        SubState::BackingOff => v1::SubState::BackingOff,
        SubState::Error => v1::SubState::Error,
        SubState::Succeeded => v1::SubState::Succeeded,
        SubState::Failed => v1::SubState::Failed,
    }
}

/// The sub-state behind a wire value; none for a value this build does not know.
pub(crate) fn sub_state_from(value: i32) -> Option<SubState> {
    match v1::SubState::try_from(value).ok()? {
        v1::SubState::Unspecified => None,
        v1::SubState::Running => Some(SubState::Running),
        v1::SubState::Waiting => Some(SubState::Waiting),
        v1::SubState::BackingOff => Some(SubState::BackingOff),
        v1::SubState::Error => Some(SubState::Error),
        v1::SubState::Succeeded => Some(SubState::Succeeded),
        v1::SubState::Failed => Some(SubState::Failed),
    }
}

pub(crate) const fn reason(reason: Option<Reason>) -> v1::Reason {
    match reason {
        None => v1::Reason::Unspecified,
        Some(Reason::Cancelled) => v1::Reason::Cancelled,
        Some(Reason::TimedOut) => v1::Reason::TimedOut,
        Some(Reason::Killed) => v1::Reason::Killed,
        Some(Reason::RolledBack) => v1::Reason::RolledBack,
        Some(Reason::PartiallyRolledBack) => v1::Reason::PartiallyRolledBack,
        Some(Reason::Paused) => v1::Reason::Paused,
        Some(Reason::Escalated) => v1::Reason::Escalated,
        Some(Reason::Compensating) => v1::Reason::Compensating,
        Some(Reason::Queued) => v1::Reason::Queued,
        Some(Reason::RetriesExhausted) => v1::Reason::RetriesExhausted,
        Some(Reason::Scheduled) => v1::Reason::Scheduled,
        Some(Reason::AwaitingInput) => v1::Reason::AwaitingInput,
        Some(Reason::AwaitingTimer) => v1::Reason::AwaitingTimer,
        Some(Reason::AwaitingChild) => v1::Reason::AwaitingChild,
        Some(Reason::NotRetryable) => v1::Reason::NotRetryable,
        Some(Reason::FailurePending) => v1::Reason::FailurePending,
        Some(Reason::Stuck) => v1::Reason::Stuck,
        Some(Reason::Redrivable) => v1::Reason::Redrivable,
        Some(Reason::Superseded) => v1::Reason::Superseded,
        Some(Reason::Rejected) => v1::Reason::Rejected,
        Some(Reason::Governance) => v1::Reason::Governance,
        Some(Reason::Cancelling) => v1::Reason::Cancelling,
        Some(Reason::NoWorker) => v1::Reason::NoWorker,
        Some(Reason::NotStarted) => v1::Reason::NotStarted,
        Some(Reason::Skipped) => v1::Reason::Skipped,
    }
}

pub(crate) const fn error_category(category: Option<ErrorCategory>) -> v1::ErrorCategory {
    match category {
        None => v1::ErrorCategory::Unspecified,
        Some(ErrorCategory::Transient) => v1::ErrorCategory::Transient,
        Some(ErrorCategory::AgentError) => v1::ErrorCategory::AgentError,
        Some(ErrorCategory::Timeout) => v1::ErrorCategory::Timeout,
        Some(ErrorCategory::Validation) => v1::ErrorCategory::Validation,
        Some(ErrorCategory::External) => v1::ErrorCategory::External,
        Some(ErrorCategory::Governance) => v1::ErrorCategory::Governance,
    }
}

/// The category behind a wire value; none where the sender says nothing.
pub(crate) const fn error_category_from(category: v1::ErrorCategory) -> Option<ErrorCategory> {
    match category {
        v1::ErrorCategory::Unspecified => None,
        v1::ErrorCategory::Transient => Some(ErrorCategory::Transient),
        v1::ErrorCategory::AgentError => Some(ErrorCategory::AgentError),
        v1::ErrorCategory::Timeout => Some(ErrorCategory::Timeout),
        v1::ErrorCategory::Validation => Some(ErrorCategory::Validation),
        v1::ErrorCategory::External => Some(ErrorCategory::External),
        v1::ErrorCategory::Governance => Some(ErrorCategory::Governance),
    }
}

const fn wait_kind(kind: WaitKind) -> v1::wait::Kind {
    match kind {
        WaitKind::Signal => v1::wait::Kind::Signal,
        WaitKind::Approval => v1::wait::Kind::Approval,
        WaitKind::Escalation => v1::wait::Kind::Escalation,
        WaitKind::Timer => v1::wait::Kind::Timer,
        WaitKind::Callback => v1::wait::Kind::Callback,
        WaitKind::Capacity => v1::wait::Kind::Capacity,
        WaitKind::Child => v1::wait::Kind::Child,
    }
}

const fn blocker(blocker: Option<Blocker>) -> v1::wait::Blocker {
    match blocker {
        None => v1::wait::Blocker::Unspecified,
        Some(Blocker::Worker) => v1::wait::Blocker::Worker,
        Some(Blocker::Slot) => v1::wait::Blocker::Slot,
        Some(Blocker::Concurrency) => v1::wait::Blocker::Concurrency,
        Some(Blocker::Memory) => v1::wait::Blocker::Memory,
        Some(Blocker::Provider) => v1::wait::Blocker::Provider,
    }
}

/// A number as the wire has it; a larger one is the largest that the wire has.
pub(crate) fn int32(number: impl TryInto<i32>) -> i32 {
    number.try_into().unwrap_or(i32::MAX)
}

/// A number as the wire has it; a larger one is the largest that the wire has.
pub(crate) fn int64(number: impl TryInto<i64>) -> i64 {
    number.try_into().unwrap_or(i64::MAX)
}

const fn mapping_basis(basis: MappingBasis) -> v1::MappingBasis {
    match basis {
        MappingBasis::Native => v1::MappingBasis::Native,
        MappingBasis::Derived => v1::MappingBasis::Derived,
        MappingBasis::Defaulted => v1::MappingBasis::Defaulted,
    }
}

const fn retry_basis(basis: RetryBasis) -> v1::RetryBasis {
    match basis {
        RetryBasis::Reported => v1::RetryBasis::Reported,
        RetryBasis::Inferred => v1::RetryBasis::Inferred,
        RetryBasis::None => v1::RetryBasis::None,
    }
}

pub(crate) fn timestamp(time: Timestamp) -> prost_types::Timestamp {
    // Protobuf wants the nanoseconds counted upwards also before 1970.
    let nanos = time.as_nanosecond();
    let seconds = nanos.div_euclid(1_000_000_000);
    prost_types::Timestamp {
        seconds: i64::try_from(seconds).unwrap_or_default(),
        nanos: i32::try_from(nanos.rem_euclid(1_000_000_000)).unwrap_or_default(),
    }
}

/// The longest duration that protobuf allows: about 10,000 years.
const LONGEST: Duration = Duration::from_secs(315_576_000_000);

/// A duration for the wire; at most the longest one that protobuf allows.
pub(crate) fn duration(duration: Duration) -> prost_types::Duration {
    let duration = duration.min(LONGEST);
    prost_types::Duration {
        seconds: i64::try_from(duration.as_secs()).unwrap_or_default(),
        nanos: i32::try_from(duration.subsec_nanos()).unwrap_or_default(),
    }
}

/// A duration from the wire; none for a negative one.
pub(crate) fn duration_from(duration: prost_types::Duration) -> Option<Duration> {
    let seconds = u64::try_from(duration.seconds).ok()?;
    let nanos = u32::try_from(duration.nanos)
        .ok()
        .filter(|nanos| *nanos < 1_000_000_000)?;
    Some(Duration::new(seconds, nanos))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_duration_is_longer_than_protobuf_allows() {
        for long in [LONGEST, LONGEST + Duration::from_nanos(1), Duration::MAX] {
            let sent = duration(long);
            assert_eq!((sent.seconds, sent.nanos), (315_576_000_000, 0));
        }
        let short = Duration::new(5, 7);
        assert_eq!(duration(short).nanos, 7);
        assert_eq!(duration_from(duration(short)), Some(short));
    }

    #[test]
    fn every_sub_state_survives_the_wire() {
        for state in SubState::ALL {
            assert_eq!(sub_state_from(sub_state(*state) as i32), Some(*state));
        }
        assert_eq!(sub_state_from(0), None);
        assert_eq!(sub_state_from(99), None);
    }

    #[test]
    fn every_reason_has_the_name_of_its_word() {
        for known in Reason::ALL {
            let name = reason(Some(*known)).as_str_name();
            assert_eq!(name.strip_prefix("REASON_"), Some(known.as_str()));
        }
    }

    #[test]
    fn closed_lists_have_the_names_of_their_words() {
        for known in ErrorCategory::ALL {
            let name = error_category(Some(*known)).as_str_name().to_lowercase();
            assert_eq!(name.strip_prefix("error_category_"), Some(known.as_str()));
            let wire = error_category(Some(*known));
            assert_eq!(error_category_from(wire), Some(*known));
        }
        for known in WaitKind::ALL {
            let name = wait_kind(*known).as_str_name().to_lowercase();
            assert_eq!(name, known.as_str());
        }
        for known in Blocker::ALL {
            let name = blocker(Some(*known)).as_str_name().to_lowercase();
            assert_eq!(name, known.as_str());
        }
    }

    #[test]
    fn times_before_1970_count_upwards() {
        let time: Timestamp = "1969-12-31T23:59:59.25Z".parse().unwrap();
        assert_eq!(
            timestamp(time),
            prost_types::Timestamp {
                seconds: -1,
                nanos: 250_000_000
            }
        );
    }
}
