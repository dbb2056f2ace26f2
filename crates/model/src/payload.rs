//! Input, output and signal bodies, carried as the engine has them.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// A body and its content type. Never parsed on the way through, so nothing is lost: neither a
/// number beyond 2^53 nor bytes that are not JSON.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Payload {
    /// A media type; `application/json` unless said otherwise.
    pub content_type: String,
    /// The bytes.
    pub data: Bytes,
}

impl Payload {
    /// The content type nearly every engine speaks.
    pub const JSON: &'static str = "application/json";

    /// A JSON document that is already serialised.
    #[must_use]
    pub fn json(document: impl Into<Bytes>) -> Self {
        Self {
            content_type: Self::JSON.to_owned(),
            data: document.into(),
        }
    }
}
