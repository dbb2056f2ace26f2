//! HTTP steps, as an operator configures them.

use std::time::Duration;

use jiff::{Span, SpanRelativeTo};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

/// HTTP steps.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Http {
    /// Where they may go: `https://api.example.com`, `https://*.example.org:8443/v2`. Nowhere
    /// unless configured.
    pub allow: Vec<String>,
    /// Whether names may lead to addresses inside a network.
    pub allow_private: bool,
    /// The maximum number of concurrent calls.
    pub capacity: u32,
    /// How long a call may take whose step has no `timeout`.
    #[serde(deserialize_with = "duration")]
    pub timeout: Duration,
    /// How long a connection may take to come about.
    #[serde(deserialize_with = "duration")]
    pub connect_timeout: Duration,
    /// The longest answer that is taken.
    pub max_response_bytes: usize,
}

impl Default for Http {
    fn default() -> Self {
        Self {
            allow: Vec::new(),
            allow_private: false,
            capacity: 64,
            timeout: Duration::from_secs(30),
            connect_timeout: Duration::from_secs(5),
            max_response_bytes: 512 * 1024,
        }
    }
}

fn duration<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(from)?;
    let parsed: Span = text.parse().map_err(D::Error::custom)?;
    let day = SpanRelativeTo::days_are_24_hours();
    let parsed = parsed.to_duration(day).map_err(D::Error::custom)?;
    Duration::try_from(parsed).map_err(|_| D::Error::custom("a duration cannot be negative"))
}
