//! `providers/{provider}/executions/{id}`.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use super::encoding::{decode, encode_into};
use super::{NameError, ProviderId, quote, serde_as_text};

/// The longest id, in bytes before encoding. The longest native one known is Temporal's: 1,000.
pub const MAX_ID_LENGTH: usize = 1_536;

/// An execution's id as its engine knows it, not encoded.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExecutionId(Arc<str>);

impl ExecutionId {
    /// Takes an engine's own id.
    ///
    /// # Errors
    /// An empty id, or one longer than [`MAX_ID_LENGTH`].
    pub fn new(id: impl AsRef<str>) -> Result<Self, NameError> {
        let id = id.as_ref();
        check_length(id)?;
        Ok(Self(id.into()))
    }

    /// The id as the engine knows it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

pub(super) fn check_length(id: &str) -> Result<(), NameError> {
    match id.len() {
        0 => Err(NameError::EmptyId),
        1..=MAX_ID_LENGTH => Ok(()),
        length => Err(NameError::IdTooLong { length }),
    }
}

impl fmt::Display for ExecutionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// The full name of an execution. It carries the provider, so that any replica can answer and
/// executions started elsewhere can be read too.
///
/// ```
/// use stateway_model::ExecutionName;
/// let name: ExecutionName = "providers/shop/executions/Order%2F17".parse()?;
/// assert_eq!(name.provider.as_str(), "shop");
/// assert_eq!(name.id.as_str(), "Order/17");
/// assert_eq!(name.to_string(), "providers/shop/executions/Order%2F17");
/// # Ok::<(), stateway_model::NameError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExecutionName {
    /// The provider that runs it.
    pub provider: ProviderId,
    /// Its id there.
    pub id: ExecutionId,
}

impl ExecutionName {
    /// Puts a name together.
    #[must_use]
    pub const fn new(provider: ProviderId, id: ExecutionId) -> Self {
        Self { provider, id }
    }

    /// The name as clients write it. The same text as with `to_string`, in one allocation.
    #[must_use]
    pub fn resource_name(&self) -> String {
        let parts = "providers//executions/".len();
        let length = self.provider.as_str().len() + parts + self.id.as_str().len();
        let mut name = String::with_capacity(length);
        // Writing to a String cannot fail.
        let _ = self.write_to(&mut name);
        name
    }

    fn write_to(&self, name: &mut impl fmt::Write) -> fmt::Result {
        name.write_str("providers/")?;
        name.write_str(self.provider.as_str())?;
        name.write_str("/executions/")?;
        encode_into(name, self.id.as_str())
    }
}

impl FromStr for ExecutionName {
    type Err = NameError;

    fn from_str(name: &str) -> Result<Self, NameError> {
        let pattern = || NameError::Pattern {
            name: quote(name),
            pattern: "providers/{provider}/executions/{execution}",
        };
        let after = name.strip_prefix("providers/").ok_or_else(pattern)?;
        let (provider, after) = after.split_once('/').ok_or_else(pattern)?;
        let id = after.strip_prefix("executions/").ok_or_else(pattern)?;
        if id.bytes().any(|byte| byte == b'/') {
            return Err(pattern());
        }
        Ok(Self {
            provider: provider.parse()?,
            id: ExecutionId::new(decode(id)?)?,
        })
    }
}

impl fmt::Display for ExecutionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_to(f)
    }
}

serde_as_text!(ExecutionName);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_shapes_are_refused() {
        for wrong in [
            "",
            "executions/a",
            "providers/p/executions/",
            "providers/p/executions/a/",
            "providers/p/executions/a/b",
            "/providers/p/executions/a",
            "providers//executions/a",
            "providers/-/executions/a",
            "providers/P/executions/a",
            "Providers/p/executions/a",
            "providers/p/executions/a b",
        ] {
            assert!(
                wrong.parse::<ExecutionName>().is_err(),
                "{wrong} was accepted"
            );
        }
    }

    #[test]
    fn length_is_bounded_before_encoding() {
        let longest = "é".repeat(MAX_ID_LENGTH / 2);
        let name = ExecutionName::new("p".parse().unwrap(), ExecutionId::new(&longest).unwrap());
        assert_eq!(name.to_string().parse::<ExecutionName>().unwrap(), name);
        assert_eq!(
            ExecutionId::new("a".repeat(MAX_ID_LENGTH + 1)),
            Err(NameError::IdTooLong {
                length: MAX_ID_LENGTH + 1
            })
        );
    }

    #[test]
    fn a_huge_wrong_name_is_quoted_briefly() {
        let error = "x".repeat(1_000_000).parse::<ExecutionName>().unwrap_err();
        assert!(error.to_string().len() < 400);
    }
}
