//! The configured providers, by their ids.

use std::collections::BTreeMap;
use std::sync::Arc;

use stateway_model::ProviderId;
use thiserror::Error;

use crate::Provider;

/// One configured provider instance.
#[derive(Clone)]
pub struct Registration {
    /// Its id, as the operator named it.
    pub id: ProviderId,
    /// Its kind, for example `restate`. Any word: a kind need not be compiled in.
    pub kind: String,
    /// The adapter. Capabilities and table come from its description.
    pub provider: Arc<dyn Provider>,
}

/// Why a provider cannot be registered.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RegistryError {
    /// The id is taken.
    #[error("provider `{0}` is configured twice")]
    Duplicate(ProviderId),
}

/// Every configured provider. Built once at start-up.
#[derive(Clone, Default)]
pub struct Registry {
    providers: BTreeMap<ProviderId, Registration>,
}

impl Registry {
    /// Adds a provider.
    ///
    /// # Errors
    /// Its id is taken.
    pub fn register(&mut self, registration: Registration) -> Result<(), RegistryError> {
        if self.providers.contains_key(&registration.id) {
            return Err(RegistryError::Duplicate(registration.id));
        }
        self.providers.insert(registration.id.clone(), registration);
        Ok(())
    }

    /// The provider with this id.
    #[must_use]
    pub fn get(&self, id: &ProviderId) -> Option<&Registration> {
        self.providers.get(id)
    }

    /// Every provider, ordered by id.
    pub fn iter(&self) -> impl Iterator<Item = &Registration> {
        self.providers.values()
    }
}
