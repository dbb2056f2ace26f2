//! The bounds of the data in a log, one table: each fits into the next one, so that data that was
//! accepted can be written, read, replayed and sent.
//!
//! | bound | value | fits into |
//! |---|---|---|
//! | depth of a payload | [`MAX_PAYLOAD_DEPTH`] | the depth an event is read with |
//! | bytes of a payload | [`Limits::payload_bytes`], at most [`MAX_PAYLOAD_BYTES`] | an event |
//! | bytes of a failure's message | [`MAX_MESSAGE_BYTES`] | an event |
//! | bytes of everything else in an event | [`ENVELOPE_BYTES`] | an event |
//! | bytes of a task's input | [`Limits::task_bytes`] | a message to a worker |
//! | bytes of an event | [`MAX_EVENT_BYTES`] | [`MAX_READ_EVENT_BYTES`] |
//!
//! Reading is more generous than writing: builds before these bounds wrote deeper and longer events, and
//! those events are still read.

use std::fmt;
use std::io::Write as _;
use std::sync::Arc;

use serde_json::Value;

/// The deepest payload: a list in a list has depth 2. Other systems read JSON with limits as low as 100,
/// and an event, a snapshot and a webhook each put the payload a few levels deeper.
pub const MAX_PAYLOAD_DEPTH: usize = 64;
/// The longest event that is written, in bytes.
pub const MAX_EVENT_BYTES: usize = 4 * 1024 * 1024;
/// The most bytes of an event, or of a message to a worker, beside its payload: names, times, texts of
/// people and workers, and a definition of at most 512 KiB.
pub const ENVELOPE_BYTES: usize = 1024 * 1024;
/// The highest `max_payload_bytes`.
pub const MAX_PAYLOAD_BYTES: usize = MAX_EVENT_BYTES - ENVELOPE_BYTES;
/// The longest message, code or feedback of a failure; longer ones are cut.
pub const MAX_MESSAGE_BYTES: usize = 8 * 1024;
/// The longest event that is read. Builds that bounded no output wrote up to 256 payloads into one.
pub const MAX_READ_EVENT_BYTES: usize = 512 * 1024 * 1024;
/// The deepest event that is read. Builds that bounded no depth wrote payloads of 127 levels.
pub const MAX_READ_DEPTH: usize = 256;

/// The bounds that a host configures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The longest input, output or signal, in bytes of JSON.
    pub payload_bytes: usize,
    /// The longest input of a task, in bytes of JSON.
    pub task_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            payload_bytes: 1024 * 1024,
            task_bytes: 3 * 1024 * 1024,
        }
    }
}

/// A bound that a payload exceeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Excess {
    /// Too many bytes of JSON. Counting stops soon after the bound.
    Bytes {
        /// The bytes that were counted.
        found: usize,
        /// The bound.
        most: usize,
    },
    /// Too many levels.
    Depth {
        /// The bound.
        most: usize,
    },
}

impl Excess {
    /// What to do about it.
    #[must_use]
    pub const fn remedy(&self) -> &'static str {
        match self {
            Self::Bytes { .. } => {
                "Store large data elsewhere and pass a reference, or raise `max_payload_bytes`."
            }
            Self::Depth { .. } => "Flatten the data, or pass it as text.",
        }
    }
}

impl fmt::Display for Excess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes { found, most } => {
                write!(f, "{found} bytes of JSON, more than the limit of {most}")
            }
            Self::Depth { most } => write!(f, "more than {most} levels of lists and objects"),
        }
    }
}

/// Checks a payload against a number of bytes and [`MAX_PAYLOAD_DEPTH`], without writing it. Returns its
/// bytes.
///
/// # Errors
/// The bound that the payload exceeds.
pub fn check_payload(value: &Value, most: usize) -> Result<usize, Excess> {
    let mut count = Count { bytes: 0, most };
    count.value(value, MAX_PAYLOAD_DEPTH)?;
    Ok(count.bytes)
}

/// Cuts a text to [`MAX_MESSAGE_BYTES`].
#[must_use]
pub fn cut_message(text: &Arc<str>) -> Arc<str> {
    const ELLIPSIS: &str = "…";
    if text.len() <= MAX_MESSAGE_BYTES {
        return Arc::clone(text);
    }
    let end = text.floor_char_boundary(MAX_MESSAGE_BYTES - ELLIPSIS.len());
    format!("{}{ELLIPSIS}", &text[..end]).into()
}

/// How deep the lists and objects of a JSON text nest, as far as its brackets say.
pub(crate) fn text_depth(text: &[u8]) -> usize {
    let (mut depth, mut deepest, mut in_text, mut escaped) = (0_usize, 0, false, false);
    for byte in text {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_text => escaped = true,
            b'"' => in_text = !in_text,
            b'[' | b'{' if !in_text => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' if !in_text => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

/// Counts the bytes that a value has as JSON.
struct Count {
    bytes: usize,
    most: usize,
}

impl Count {
    fn value(&mut self, value: &Value, levels: usize) -> Result<(), Excess> {
        match value {
            Value::Null => self.add(4),
            Value::Bool(true) => self.add(4),
            Value::Bool(false) => self.add(5),
            Value::Number(number) => {
                let mut digits = Digits(0);
                // Writing to a counter cannot fail.
                let _ = write!(digits, "{number}");
                self.add(digits.0)
            }
            Value::String(text) => self.text(text),
            Value::Array(items) => {
                let levels = deeper(levels)?;
                self.add(2 + items.len().saturating_sub(1))?;
                items.iter().try_for_each(|item| self.value(item, levels))
            }
            Value::Object(fields) => {
                let levels = deeper(levels)?;
                self.add(2 + fields.len().saturating_sub(1))?;
                fields.iter().try_for_each(|(name, value)| {
                    self.text(name)?;
                    self.add(1)?;
                    self.value(value, levels)
                })
            }
        }
    }

    fn text(&mut self, text: &str) -> Result<(), Excess> {
        let escapes: usize = text.bytes().map(escape).sum();
        self.add(2 + text.len() + escapes)
    }

    fn add(&mut self, bytes: usize) -> Result<(), Excess> {
        self.bytes += bytes;
        if self.bytes <= self.most {
            return Ok(());
        }
        Err(Excess::Bytes {
            found: self.bytes,
            most: self.most,
        })
    }
}

const fn deeper(levels: usize) -> Result<usize, Excess> {
    match levels.checked_sub(1) {
        Some(levels) => Ok(levels),
        None => Err(Excess::Depth {
            most: MAX_PAYLOAD_DEPTH,
        }),
    }
}

/// The bytes that JSON adds to a byte of text.
const fn escape(byte: u8) -> usize {
    match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 0x08 | 0x0c => 1,
        0..0x20 => 5,
        _ => 0,
    }
}

struct Digits(usize);

impl std::io::Write for Digits {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn nested(levels: usize) -> Value {
        (0..levels).fold(Value::Null, |inner, _| Value::Array(vec![inner]))
    }

    #[test]
    fn each_bound_fits_into_the_next() {
        let defaults = Limits::default();
        for (inner, outer, what) in [
            (
                defaults.payload_bytes,
                MAX_PAYLOAD_BYTES,
                "a payload, by default",
            ),
            (
                defaults.payload_bytes,
                defaults.task_bytes,
                "the input of an execution as a task's",
            ),
            (
                MAX_PAYLOAD_BYTES + ENVELOPE_BYTES,
                MAX_EVENT_BYTES,
                "a payload in an event",
            ),
            (
                MAX_EVENT_BYTES,
                MAX_READ_EVENT_BYTES,
                "an event that is read",
            ),
            (
                MAX_MESSAGE_BYTES * 8,
                ENVELOPE_BYTES,
                "the texts of an event",
            ),
            // The event, the fact, the name of the fact and the redo around a payload.
            (
                MAX_PAYLOAD_DEPTH + 8,
                MAX_READ_DEPTH,
                "the levels of an event",
            ),
            (
                127 + 8,
                MAX_READ_DEPTH,
                "the levels that builds without a bound accepted",
            ),
        ] {
            assert!(inner <= outer, "{what}: {inner} > {outer}");
        }
    }

    #[test]
    fn the_count_is_the_length_of_the_written_json() {
        for value in [
            json!(null),
            json!([true, false, 0, -1, 1.5, 1e300, u64::MAX]),
            json!({"a\"\\\n\u{1}\u{7f}": "é\r\t\u{8}\u{c}", "b": {}, "c": [], "d": [[1], {"e": ""}]}),
        ] {
            let length = value.to_string().len();
            assert_eq!(check_payload(&value, length), Ok(length), "{value}");
            assert!(check_payload(&value, length - 1).is_err(), "{value}");
        }
    }

    #[test]
    fn a_payload_is_bounded_in_depth() {
        assert_eq!(check_payload(&nested(MAX_PAYLOAD_DEPTH), 1_000), Ok(132));
        let most = MAX_PAYLOAD_DEPTH;
        let found = check_payload(&nested(MAX_PAYLOAD_DEPTH + 1), 1_000);
        assert_eq!(found, Err(Excess::Depth { most }));
    }

    #[test]
    fn brackets_in_text_are_no_levels() {
        assert_eq!(text_depth(br#"{"a":"[[[\"[[","b":[1,[2]]}"#), 3);
        assert_eq!(text_depth(nested(126).to_string().as_bytes()), 126);
    }

    #[test]
    fn a_message_is_cut_between_characters() {
        let short: Arc<str> = "no".into();
        assert_eq!(cut_message(&short), short);
        let cut = cut_message(&"é".repeat(MAX_MESSAGE_BYTES).into());
        assert!(cut.len() <= MAX_MESSAGE_BYTES && cut.ends_with('…'));
    }
}
