//! Points in time and spans.

use std::time::Duration;

use jiff::Timestamp;

use crate::Misfit;

const NANOS_PER_SECOND: i128 = 1_000_000_000;
/// The longest span that protobuf allows: about 10,000 years.
const LONGEST: Duration = Duration::from_secs(315_576_000_000);

/// A point in time for the wire.
#[must_use]
pub fn timestamp(time: Timestamp) -> prost_types::Timestamp {
    // Protobuf counts nanoseconds upwards also before 1970.
    let nanos = time.as_nanosecond();
    prost_types::Timestamp {
        seconds: i64::try_from(nanos.div_euclid(NANOS_PER_SECOND)).unwrap_or_default(),
        nanos: i32::try_from(nanos.rem_euclid(NANOS_PER_SECOND)).unwrap_or_default(),
    }
}

/// A point in time of the wire.
///
/// # Errors
/// It is outside of the years that a timestamp can have.
pub fn read_timestamp(field: &str, time: prost_types::Timestamp) -> Result<Timestamp, Misfit> {
    let wrong = || Misfit::new(field, "is not a valid timestamp");
    if !(0..1_000_000_000).contains(&time.nanos) {
        return Err(wrong());
    }
    let nanos = i128::from(time.seconds) * NANOS_PER_SECOND + i128::from(time.nanos);
    Timestamp::from_nanosecond(nanos).map_err(|_| wrong())
}

/// A point in time that may be absent.
pub(crate) fn read_time(
    field: &str,
    time: Option<prost_types::Timestamp>,
) -> Result<Option<Timestamp>, Misfit> {
    time.map(|time| read_timestamp(field, time)).transpose()
}

/// A span for the wire.
#[must_use]
pub fn duration(span: Duration) -> prost_types::Duration {
    let span = span.min(LONGEST);
    prost_types::Duration {
        seconds: i64::try_from(span.as_secs()).unwrap_or_default(),
        nanos: i32::try_from(span.subsec_nanos()).unwrap_or_default(),
    }
}

/// A span of the wire.
///
/// # Errors
/// It is negative or too long.
pub fn read_duration(field: &str, span: prost_types::Duration) -> Result<Duration, Misfit> {
    let wrong = || Misfit::new(field, "is not a valid duration");
    let seconds = u64::try_from(span.seconds).map_err(|_| wrong())?;
    let nanos = u32::try_from(span.nanos).map_err(|_| wrong())?;
    if nanos >= 1_000_000_000 || seconds > LONGEST.as_secs() {
        return Err(wrong());
    }
    Ok(Duration::new(seconds, nanos))
}

/// A span that may be absent.
pub(crate) fn read_span(
    field: &str,
    span: Option<prost_types::Duration>,
) -> Result<Option<Duration>, Misfit> {
    span.map(|span| read_duration(field, span)).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_spans_come_back_as_they_were() {
        for text in ["1969-12-31T23:59:59.25Z", "2026-01-01T00:00:00.000000001Z"] {
            let time: Timestamp = text.parse().unwrap();
            assert_eq!(read_timestamp("t", timestamp(time)), Ok(time));
        }
        let span = Duration::new(7, 5);
        assert_eq!(read_duration("d", duration(span)), Ok(span));
    }

    #[test]
    fn what_is_no_time_and_no_span_is_refused() {
        let time = |seconds, nanos| prost_types::Timestamp { seconds, nanos };
        for wrong in [time(i64::MAX, 0), time(0, -1), time(0, 1_000_000_000)] {
            assert!(read_timestamp("t", wrong).is_err(), "{wrong:?}");
        }
        let span = |seconds, nanos| prost_types::Duration { seconds, nanos };
        for wrong in [span(-1, 0), span(0, -1), span(i64::MAX, 0)] {
            assert!(read_duration("d", wrong).is_err(), "{wrong:?}");
        }
    }
}
