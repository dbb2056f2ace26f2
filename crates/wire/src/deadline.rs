//! The deadline of a call, as gRPC clients send it.

use std::time::Duration;

use tonic::metadata::MetadataMap;

/// How long the call may take by its header `grpc-timeout`; `None` without the header, or with one that
/// cannot be read.
#[must_use]
pub fn deadline(metadata: &MetadataMap) -> Option<Duration> {
    let text = metadata.get("grpc-timeout")?.to_str().ok()?;
    let (figure, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    // The protocol allows at most eight digits.
    if figure.len() > 8 || !figure.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let figure: u64 = figure.parse().ok()?;
    Some(match unit {
        "H" => Duration::from_secs(figure * 3_600),
        "M" => Duration::from_secs(figure * 60),
        "S" => Duration::from_secs(figure),
        "m" => Duration::from_millis(figure),
        "u" => Duration::from_micros(figure),
        "n" => Duration::from_nanos(figure),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_is_read_by_its_unit() {
        for (text, expected) in [
            ("2H", Some(Duration::from_secs(7_200))),
            ("100m", Some(Duration::from_millis(100))),
            ("99999999n", Some(Duration::from_nanos(99_999_999))),
            ("999999999S", None),
            ("S", None),
            ("1x", None),
            ("+1S", None),
        ] {
            let mut metadata = MetadataMap::new();
            metadata.insert("grpc-timeout", text.parse().unwrap());
            assert_eq!(deadline(&metadata), expected, "{text}");
        }
        assert_eq!(deadline(&MetadataMap::new()), None);
    }
}
