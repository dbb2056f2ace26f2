//! What a list or a watch covers: one provider, or all of them.

use stateway_model::{NameError, ProviderId};
use thiserror::Error;

/// The collection a request names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Parent {
    /// `providers/-`
    All,
    /// `providers/{provider}`
    One(ProviderId),
}

#[derive(Debug, Error)]
pub(crate) enum ParentError {
    #[error("`parent` is not of the form `providers/{{provider}}` or `providers/-`")]
    Pattern,
    #[error(transparent)]
    Provider(#[from] NameError),
}

impl Parent {
    /// Reads `providers/{provider}` or `providers/-`, each with or without `/executions`.
    pub(crate) fn parse(text: &str) -> Result<Self, ParentError> {
        let collection = text.strip_suffix("/executions").unwrap_or(text);
        match collection
            .strip_prefix("providers/")
            .ok_or(ParentError::Pattern)?
        {
            "-" => Ok(Self::All),
            id if id.contains('/') => Err(ParentError::Pattern),
            id => Ok(Self::One(id.parse()?)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_provider_or_all_with_or_without_the_collection() {
        assert_eq!(Parent::parse("providers/-").unwrap(), Parent::All);
        assert_eq!(
            Parent::parse("providers/-/executions").unwrap(),
            Parent::All
        );
        let shop = Parent::One("shop".parse().unwrap());
        assert_eq!(Parent::parse("providers/shop").unwrap(), shop);
        for wrong in [
            "",
            "shop",
            "providers/",
            "providers/a/b",
            "providers/A",
            "providers",
        ] {
            assert!(Parent::parse(wrong).is_err(), "{wrong}");
        }
    }
}
