//! Values from the command line: JSON given directly, from `@file` or from standard input (`-`), and
//! texts that must not be empty.

use std::io::Read;

use crate::failure::Failure;

/// The largest body that is read, the gateway's own default for a message.
const LARGEST: u64 = 4 * 1024 * 1024;

/// Reads and checks JSON.
///
/// # Errors
/// A file that cannot be read, too much of it, or a text that is not JSON, with line and column.
pub fn json(argument: &str) -> Result<String, Failure> {
    let (origin, text) = match argument {
        "-" => (
            "standard input".to_owned(),
            read(std::io::stdin().lock(), "standard input")?,
        ),
        _ => match argument.strip_prefix('@') {
            Some(path) => {
                let file = std::fs::File::open(path)
                    .map_err(|error| Failure::usage(format!("cannot read {path}: {error}")))?;
                (path.to_owned(), read(file, path)?)
            }
            None => ("the argument".to_owned(), argument.to_owned()),
        },
    };
    match serde_json::from_str::<serde::de::IgnoredAny>(&text) {
        Ok(_) => Ok(text),
        Err(error) => Err(Failure::usage(format!("{origin} is not JSON: {error}"))
            .hint("Write JSON, @file, or - for standard input.")),
    }
}

/// The value of an option that must not be empty. An empty value usually comes from an unset variable; to
/// treat it as "not given" would silently change the command.
///
/// # Errors
/// An empty text.
pub fn non_empty(text: &str) -> Result<String, String> {
    if text.is_empty() {
        Err("it is empty; check that the variable is set".into())
    } else {
        Ok(text.to_owned())
    }
}

fn read(from: impl Read, origin: &str) -> Result<String, Failure> {
    let mut text = String::new();
    let read = from.take(LARGEST + 1).read_to_string(&mut text);
    match read {
        Err(error) => Err(Failure::usage(format!("cannot read {origin}: {error}"))),
        Ok(length) if length as u64 > LARGEST => Err(Failure::usage(format!(
            "{origin} has more than {LARGEST} bytes"
        ))),
        Ok(_) => Ok(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_is_not_the_same_as_not_non_empty() {
        assert_eq!(non_empty("a").as_deref(), Ok("a"));
        assert!(non_empty("").is_err());
    }

    #[test]
    fn json_is_checked_before_it_is_sent() {
        assert_eq!(json(r#"{"a": 1}"#).unwrap(), r#"{"a": 1}"#);
        let failure = json("{a: 1}").unwrap_err();
        assert!(
            failure.message.contains("line 1 column 2"),
            "{}",
            failure.message
        );
        assert!(
            json("@no-such-file")
                .unwrap_err()
                .message
                .contains("no-such-file")
        );
    }
}
