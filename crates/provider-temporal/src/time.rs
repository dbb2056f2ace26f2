//! Times and durations of protobuf in the types of this gateway. The server writes times that it does
//! not have as the year 1.

use std::time::Duration;

use jiff::Timestamp;

/// A time, where there is one.
pub(crate) fn timestamp(time: Option<&prost_types::Timestamp>) -> Option<Timestamp> {
    let time = time?;
    if time.seconds <= 0 {
        return None;
    }
    Timestamp::new(time.seconds, time.nanos).ok()
}

/// A duration, where there is one that is not zero.
pub(crate) fn duration(duration: Option<&prost_types::Duration>) -> Option<Duration> {
    let duration = Duration::try_from(*duration?).ok()?;
    (!duration.is_zero()).then_some(duration)
}

/// For requests.
pub(crate) fn proto_duration(duration: Duration) -> Option<prost_types::Duration> {
    prost_types::Duration::try_from(duration).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_year_one_is_no_time() {
        let year_one = prost_types::Timestamp {
            seconds: -62_135_596_800,
            nanos: 0,
        };
        assert_eq!(timestamp(Some(&year_one)), None);
        let real = prost_types::Timestamp {
            seconds: 5,
            nanos: 7,
        };
        assert_eq!(timestamp(Some(&real)), Timestamp::new(5, 7).ok());
    }

    #[test]
    fn a_duration_of_zero_is_no_duration() {
        assert_eq!(duration(Some(&prost_types::Duration::default())), None);
        let second = proto_duration(Duration::from_secs(1));
        assert_eq!(duration(second.as_ref()), Some(Duration::from_secs(1)));
    }
}
