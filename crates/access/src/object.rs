//! What a caller wants to touch, as far as it is known.

use stateway_model::{Execution, Labels};

/// The label that names the tenant of an execution, as engines read it for workers.
pub(crate) const TENANT_LABEL: &str = "tenant";

/// What a caller wants to touch. A part that is not known satisfies no condition for certain.
#[derive(Debug, Clone, Copy, Default)]
pub struct Object<'o> {
    /// The id of the provider.
    pub provider: Option<&'o str>,
    /// The full name of the definition; empty if it is known that there is none.
    pub definition: Option<&'o str>,
    /// The labels.
    pub labels: KnownLabels<'o>,
    /// The role of a task.
    pub role: Option<&'o str>,
}

/// The labels of an object, as far as they are known.
#[derive(Debug, Clone, Copy, Default)]
pub enum KnownLabels<'o> {
    /// Nothing is known.
    #[default]
    Unknown,
    /// Exactly these.
    All(&'o Labels),
    /// The label `tenant` has this value; the others are not known. Empty: there is no such label.
    Tenant(&'o str),
}

impl<'o> Object<'o> {
    /// Something of a provider of which nothing else is known.
    #[must_use]
    pub fn of_provider(provider: &'o str) -> Self {
        Self {
            provider: Some(provider),
            ..Self::default()
        }
    }

    /// An execution.
    #[must_use]
    pub fn execution(execution: &'o Execution) -> Self {
        Self {
            provider: Some(execution.name.provider.as_str()),
            definition: Some(&execution.definition),
            labels: KnownLabels::All(&execution.labels),
            role: None,
        }
    }
}

impl<'o> KnownLabels<'o> {
    /// The value of a label: none if that is not known; `Some(None)` if there is no such label.
    pub(crate) fn get(self, key: &str) -> Option<Option<&'o str>> {
        match self {
            Self::Unknown => None,
            Self::All(labels) => Some(labels.get(key).map(String::as_str)),
            Self::Tenant(value) if key == TENANT_LABEL => {
                Some(Some(value).filter(|value| !value.is_empty()))
            }
            Self::Tenant(_) => None,
        }
    }

    /// Whether there is a label; none if that is not known.
    pub(crate) fn is_any(self) -> Option<bool> {
        match self {
            Self::Unknown => None,
            Self::All(labels) => Some(!labels.is_empty()),
            Self::Tenant(value) => (!value.is_empty()).then_some(true),
        }
    }
}
