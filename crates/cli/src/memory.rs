//! Stands in for `stateway-provider-memory` until it is merged.

use std::sync::Arc;

use serde::Deserialize;
use stateway_provider_api::Provider;

/// No options yet.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Config {}

/// Nothing can be made yet.
pub(crate) fn make(_: Config) -> Result<Arc<dyn Provider>, String> {
    Err("the in-memory provider is not merged yet".into())
}
