//! Times and durations of the wire.

use jiff::Timestamp;

/// A point in time; none where there is none, or where it is none that a calendar knows.
#[must_use]
pub fn timestamp(wire: Option<&prost_types::Timestamp>) -> Option<Timestamp> {
    let wire = wire?;
    Timestamp::new(wire.seconds, wire.nanos).ok()
}

/// A duration as protobuf's JSON writes it.
#[must_use]
pub fn duration(wire: Option<&prost_types::Duration>) -> Option<String> {
    let wire = wire?;
    Some(match wire.nanos {
        0 => format!("{}s", wire.seconds),
        nanos if nanos % 1_000_000 == 0 => format!("{}.{:03}s", wire.seconds, nanos / 1_000_000),
        nanos => format!("{}.{nanos:09}s", wire.seconds),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_as_in_protobufs_json() {
        let shown =
            |seconds, nanos| duration(Some(&prost_types::Duration { seconds, nanos })).unwrap();
        assert_eq!(shown(3, 0), "3s");
        assert_eq!(shown(1, 500_000_000), "1.500s");
        assert_eq!(shown(0, 1), "0.000000001s");
        assert_eq!(duration(None), None);
    }

    #[test]
    fn times_are_rfc_3339() {
        let wire = prost_types::Timestamp {
            seconds: 0,
            nanos: 500_000_000,
        };
        assert_eq!(
            timestamp(Some(&wire)).unwrap().to_string(),
            "1970-01-01T00:00:00.5Z"
        );
    }
}
