//! Between the model's words and protobuf's. Nothing is decided here.

mod execution;
mod provider;

use std::time::Duration;

use jiff::Timestamp;
use stateway_model::{MappingBasis, RetryBasis, SubState};
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
