//! The id of a configured provider instance.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use super::{NameError, quote, serde_as_text};

/// The longest provider id.
pub const MAX_PROVIDER_ID_LENGTH: usize = 63;

/// The id of a provider instance, as the operator named it in the configuration.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProviderId(Arc<str>);

impl ProviderId {
    /// The id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The provider's resource name, `providers/{id}`.
    #[must_use]
    pub fn resource_name(&self) -> String {
        format!("providers/{self}")
    }
}

/// Refuses a text that is no id of a provider.
pub(super) fn check(id: &str) -> Result<(), NameError> {
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let good = (1..=MAX_PROVIDER_ID_LENGTH).contains(&id.len())
        && id.bytes().all(allowed)
        && id.starts_with(|first: char| first.is_ascii_lowercase())
        && !id.ends_with('-');
    if good {
        Ok(())
    } else {
        Err(NameError::ProviderId { id: quote(id) })
    }
}

impl FromStr for ProviderId {
    type Err = NameError;

    fn from_str(id: &str) -> Result<Self, NameError> {
        check(id)?;
        Ok(Self(id.into()))
    }
}

impl fmt::Display for ProviderId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

serde_as_text!(ProviderId);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_short_lower_case_words() {
        for good in ["a", "payments", "step-functions-eu", "r2"] {
            assert_eq!(good.parse::<ProviderId>().unwrap().as_str(), good);
        }
        let long = "a".repeat(MAX_PROVIDER_ID_LENGTH + 1);
        for wrong in [
            "",
            "-",
            "A",
            "1a",
            "a-",
            "a_b",
            "a/b",
            "a b",
            "ä",
            long.as_str(),
        ] {
            assert!(wrong.parse::<ProviderId>().is_err(), "{wrong} was accepted");
        }
    }
}
