//! Makes the configured providers.

use std::collections::BTreeMap;
use std::sync::Arc;

use stateway_model::ProviderId;
use stateway_provider_api::{Limited, Registration, Registry};

use crate::config::{
    BUILT_IN_STORE, Config, Kind, StoreFailure, Unmade, check_shared_store, table,
};
use crate::exit::Exit;
use crate::failure::Failure;

/// Every configured provider with its table.
///
/// # Errors
/// A provider whose options or table cannot be used.
pub fn build(config: &Config) -> Result<Registry, Failure> {
    let mut registry = Registry::default();
    for provider in &config.providers {
        let id = &provider.id;
        let wrong = |message: String| Failure::usage(format!("provider {id}: {message}"));
        let table = table(provider.kind, provider.table.as_deref());
        let table = table.map_err(|problem| wrong(problem.to_string()))?;
        let options = provider.options.clone();
        let made = provider
            .kind
            .make(id, table, options, config.settings.max_message_bytes);
        let made = made.map_err(|error| match error {
            Unmade::Setting(message) => wrong(message),
            Unmade::Store(error) => store(id, error),
        })?;
        // Without a disabled capability there is nothing to check for at every call.
        let made = if provider.disable.is_empty() {
            made
        } else {
            let limited = Limited::without(made, &provider.disable);
            Arc::new(limited.map_err(|error| wrong(error.to_string()))?)
        };
        let registration = Registration {
            id: id.clone(),
            kind: provider.kind.as_str().to_owned(),
            provider: made,
        };
        let registered = registry.register(registration);
        registered.map_err(|error| Failure::new(Exit::Internal, error.to_string()))?;
    }
    Ok(registry)
}

/// The failure for a store that cannot be opened, with the reason and the hint of the store.
fn store(id: &ProviderId, error: StoreFailure) -> Failure {
    let mut failure = Failure::new(Exit::Refused, format!("provider {id}: {}", error.message));
    failure.reason = error.reason.to_owned();
    failure.hint(error.hint)
}

/// Whether every provider can be made, without touching the stores of those that have one: they
/// are made with an empty one.
///
/// Returns the error of each provider, as [`build`] reports it, and providers that have one store.
pub fn check(config: &Config) -> Vec<Failure> {
    let folder = match tempfile::tempdir() {
        Ok(folder) => folder,
        Err(error) => {
            let message = format!("a temporary folder cannot be created: {error}");
            return vec![Failure::new(Exit::Refused, message)];
        }
    };
    let mut found = Vec::new();
    let mut config = config.clone();
    let (mut stores, mut shared) = (BTreeMap::new(), BTreeMap::new());
    for provider in &mut config.providers {
        if provider.kind != Kind::Builtin {
            continue;
        }
        let id = &provider.id;
        let is_shared = provider.options.contains_key("store");
        // A database is not asked. Its settings are checked here, because the provider is made without them.
        if let Some(address) = provider.options.get("store") {
            if let Err(error) = check_shared_store(&provider.options) {
                found.push(Failure::usage(format!("provider {id}: {error}")));
            }
            let schema = provider.options.get("store_schema");
            let store = format!("{address} {schema:?}");
            if let Some(other) = shared.insert(store, id.clone()) {
                let message = format!("providers {other} and {id} have the same store");
                let hint = "Configure another `store_schema` for one of them.";
                found.push(Failure::usage(message).hint(hint));
            }
            provider.options.retain(|key, _| !key.starts_with("store"));
        }
        let empty = folder.path().join(id.as_str()).display().to_string();
        let store = provider.options.insert("path".to_owned(), empty.into());
        let store = store.and_then(|path| path.as_str().map(str::to_owned));
        if is_shared {
            continue;
        }
        if let Some(other) = stores.insert(store.clone(), id.clone()) {
            let store = store.unwrap_or_else(|| BUILT_IN_STORE.to_owned());
            let message = format!("providers {other} and {id} have the same store, {store}");
            found.push(Failure::usage(message).hint("Configure another `path` for one of them."));
        }
    }
    for provider in std::mem::take(&mut config.providers) {
        config.providers = vec![provider];
        found.extend(build(&config).err());
    }
    found
}
