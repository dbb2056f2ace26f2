//! Relative times, such as `12 s`.

use jiff::Timestamp;

/// `12 s`, `3 min`, `2 h`, `5 d`: how long since then.
#[must_use]
pub fn ago(then: Timestamp, now: Timestamp) -> String {
    short(now.as_second() - then.as_second())
}

/// How long until then, the started second counted: a countdown ends at 0 when the time has come.
#[must_use]
pub fn until(then: Timestamp, now: Timestamp) -> String {
    let millis = then.as_millisecond() - now.as_millisecond();
    short((millis.max(0) + 999) / 1000)
}

/// A point in time, to the millisecond: finer figures only make lines long.
#[must_use]
pub fn moment(time: Timestamp) -> String {
    let rounded = time.round(jiff::Unit::Millisecond).unwrap_or(time);
    rounded.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string()
}

fn short(seconds: i64) -> String {
    match seconds.max(0) {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds @ 120..7_200 => format!("{} min", seconds / 60),
        seconds @ 7_200..172_800 => format!("{} h", seconds / 3_600),
        seconds => format!("{} d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_end_at_the_millisecond() {
        let time: Timestamp = "2026-11-16T02:25:22.805986928Z".parse().unwrap();
        assert_eq!(moment(time), "2026-11-16T02:25:22.806Z");
        assert_eq!(moment(Timestamp::UNIX_EPOCH), "1970-01-01T00:00:00.000Z");
    }

    #[test]
    fn the_unit_fits_the_length() {
        let at = |second| Timestamp::from_second(second).unwrap();
        for (seconds, said) in [
            (0, "0 s"),
            (119, "119 s"),
            (120, "2 min"),
            (7_200, "2 h"),
            (172_800, "2 d"),
        ] {
            assert_eq!(ago(at(0), at(seconds)), said);
            assert_eq!(until(at(seconds), at(0)), said);
        }
        assert_eq!(until(at(0), at(9)), "0 s");
    }
}
