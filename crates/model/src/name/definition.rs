//! What can be started: `definitions/{id}` or `providers/{provider}/definitions/{id}`.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use super::encoding::{decode, encode_into};
use super::execution::check_length;
use super::{NameError, ProviderId, provider, quote, serde_as_text};

/// The name of a definition.
///
/// Without a provider it is portable and runs wherever it can; with one it is that engine's own
/// (a state machine, a `Service/handler`, a workflow type).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DefinitionName {
    /// The provider it is native to; none for a portable one.
    pub provider: Option<ProviderId>,
    /// Its id, not encoded.
    pub id: Arc<str>,
}

/// The parts of a definition's name, borrowed from its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DefinitionParts<'n> {
    /// The id of the provider it is native to; none for a portable one.
    pub provider: Option<&'n str>,
    /// Its id, not encoded.
    pub id: Cow<'n, str>,
}

impl<'n> DefinitionParts<'n> {
    /// The parts of a name. Accepts exactly what can be parsed as a [`DefinitionName`].
    ///
    /// # Errors
    /// A text that is not the name of a definition.
    pub fn of(name: &'n str) -> Result<Self, NameError> {
        let wrong = || NameError::Pattern {
            name: quote(name),
            pattern: "definitions/{definition} or \
                      providers/{provider}/definitions/{definition}",
        };
        let (provider, id) = match name.strip_prefix("providers/") {
            Some(rest) => {
                let (provider, rest) = rest.split_once('/').ok_or_else(wrong)?;
                (Some(provider), rest.strip_prefix("definitions/"))
            }
            None => (None, name.strip_prefix("definitions/")),
        };
        let id = id.filter(|id| !id.contains('/')).ok_or_else(wrong)?;
        if let Some(provider) = provider {
            provider::check(provider)?;
        }
        let id = decode(id)?;
        check_length(&id)?;
        Ok(Self { provider, id })
    }
}

impl DefinitionName {
    /// A definition of the provider's own.
    ///
    /// # Errors
    /// An empty id, or one that is too long.
    pub fn native(provider: ProviderId, id: &str) -> Result<Self, NameError> {
        check_length(id)?;
        Ok(Self {
            provider: Some(provider),
            id: id.into(),
        })
    }

    /// A portable definition.
    ///
    /// # Errors
    /// An empty id, or one that is too long.
    pub fn portable(id: &str) -> Result<Self, NameError> {
        check_length(id)?;
        Ok(Self {
            provider: None,
            id: id.into(),
        })
    }

    /// The name of a provider's own definition as clients write it: the same text as that of
    /// [`native`](Self::native), in one allocation.
    ///
    /// # Errors
    /// An empty id, or one that is too long.
    pub fn native_resource_name(provider: &ProviderId, id: &str) -> Result<String, NameError> {
        check_length(id)?;
        let parts = "providers//definitions/".len();
        let mut name = String::with_capacity(provider.as_str().len() + parts + id.len());
        // Writing to a String cannot fail.
        let _ = write_name(&mut name, Some(provider), id);
        Ok(name)
    }
}

fn write_name(name: &mut impl fmt::Write, provider: Option<&ProviderId>, id: &str) -> fmt::Result {
    if let Some(provider) = provider {
        name.write_str("providers/")?;
        name.write_str(provider.as_str())?;
        name.write_str("/")?;
    }
    name.write_str("definitions/")?;
    encode_into(name, id)
}

impl FromStr for DefinitionName {
    type Err = NameError;

    fn from_str(name: &str) -> Result<Self, NameError> {
        let DefinitionParts { provider, id } = DefinitionParts::of(name)?;
        Ok(Self {
            provider: provider.map(str::parse).transpose()?,
            id: (*id).into(),
        })
    }
}

impl fmt::Display for DefinitionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_name(f, self.provider.as_ref(), &self.id)
    }
}

serde_as_text!(DefinitionName);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_kinds_survive_the_round_trip() {
        for name in [
            "definitions/order-saga",
            "providers/r/definitions/Order%2Frun",
        ] {
            assert_eq!(name.parse::<DefinitionName>().unwrap().to_string(), name);
        }
        let provider = "r".parse().unwrap();
        let name = DefinitionName::native_resource_name(&provider, "Order/run");
        assert_eq!(name.unwrap(), "providers/r/definitions/Order%2Frun");
        let native: DefinitionName = "providers/r/definitions/Order%2Frun".parse().unwrap();
        assert_eq!(&*native.id, "Order/run");
    }

    #[test]
    fn wrong_shapes_are_refused() {
        for wrong in [
            "",
            "definitions/",
            "definitions/a/b",
            "providers/r/definitions",
            "a",
        ] {
            assert!(
                wrong.parse::<DefinitionName>().is_err(),
                "{wrong} was accepted"
            );
        }
    }
}
