//! Resource names: what an execution and a definition are called.
//!
//! A name is always one clean path. An engine's own id may hold anything (an ARN has colons, a
//! Restate target has slashes), so ids are percent-encoded inside a name, in exactly one form.

mod definition;
mod encoding;
mod execution;
mod provider;

pub use definition::{DefinitionName, DefinitionParts};
pub use encoding::encoded;
pub use execution::{ExecutionId, ExecutionName, MAX_ID_LENGTH};
pub use provider::{MAX_PROVIDER_ID_LENGTH, ProviderId};

use thiserror::Error;

/// Why a text is not a resource name.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NameError {
    /// The path has other segments than the pattern.
    #[error("`{name}` is not of the form `{pattern}`")]
    Pattern {
        /// The text, cut to a bounded length.
        name: String,
        /// The expected pattern.
        pattern: &'static str,
    },
    /// A provider id breaks its rule.
    #[error(
        "`{id}` is not a provider id: 1 to {MAX_PROVIDER_ID_LENGTH} lower-case letters, digits \
         or `-`, beginning with a letter and not ending with `-`"
    )]
    ProviderId {
        /// The text, cut to a bounded length.
        id: String,
    },
    /// An id is empty.
    #[error("an id must not be empty")]
    EmptyId,
    /// An id is longer than anything an engine gives.
    #[error("an id has {length} bytes, more than {MAX_ID_LENGTH}")]
    IdTooLong {
        /// Its length in bytes.
        length: usize,
    },
    /// An encoded id is not what encoding gives.
    #[error("`{segment}` is not an encoded id at byte {at}: {rule}")]
    Encoding {
        /// The segment, cut to a bounded length.
        segment: String,
        /// Where in the segment.
        at: usize,
        /// The rule that is broken.
        rule: &'static str,
    },
}

/// Error texts quote what was sent, but never more of it than a person can use.
fn quote(text: &str) -> String {
    const MOST: usize = 80;
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Implements serde for a type that prints and parses itself.
macro_rules! serde_as_text {
    ($type:ty) => {
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                let text = <std::borrow::Cow<'de, str> as serde::Deserialize>::deserialize(from)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}
pub(crate) use serde_as_text;
