//! Makes the configured providers.

use std::sync::Arc;

use stateway_gateway::Engines;
use stateway_provider_api::{Registration, Registry};

use crate::config::{Config, table};
use crate::exit::Exit;
use crate::failure::Failure;

/// Every configured provider with its table, and the engines among them that are in this process.
///
/// # Errors
/// A provider whose options or table cannot be used.
pub fn build(config: &Config) -> Result<(Registry, Engines), Failure> {
    let (mut registry, mut engines) = (Registry::default(), Engines::new());
    for provider in &config.providers {
        let id = &provider.id;
        let wrong = |message: String| Failure::usage(format!("provider {id}: {message}"));
        let table = table(provider.kind, provider.table.as_deref());
        let table = Arc::new(table.map_err(|problem| wrong(problem.to_string()))?);
        let options = provider.options.clone();
        let made = provider.kind.make(id, &table, options).map_err(wrong)?;
        if let Some(built_in) = made.built_in {
            engines.insert(id.clone(), built_in);
        }
        let registration = Registration {
            id: id.clone(),
            kind: provider.kind.as_str().to_owned(),
            provider: made.provider,
            table,
        };
        let registered = registry.register(registration);
        registered.map_err(|error| Failure::new(Exit::Internal, error.to_string()))?;
    }
    Ok((registry, engines))
}
