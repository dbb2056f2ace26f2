//! The options that choose which resources a command reads.

use clap::Args;

use crate::failure::Failure;
use crate::resource;

/// All providers, or one of them.
#[derive(Debug, Args)]
pub struct Scope {
    /// Only results of this provider (default: all providers)
    #[arg(long, value_name = "PROVIDER")]
    provider: Option<String>,
}

/// The results of all providers or of one that match a filter.
#[derive(Debug, Args)]
pub struct Selection {
    #[command(flatten)]
    scope: Scope,
    /// Only results that match this filter (AIP-160, docs/filters.md)
    #[arg(long, value_name = "FILTER", allow_hyphen_values = true)]
    filter: Option<String>,
}

impl Scope {
    /// `providers/{id}`, or `providers/-` for all of them.
    ///
    /// # Errors
    /// The name is not that of a provider.
    pub fn parent(&self) -> Result<String, Failure> {
        resource::parent(self.provider.as_deref())
    }
}

impl Selection {
    /// The parent and the filter as fields of a request.
    ///
    /// # Errors
    /// The name is not that of a provider.
    pub fn into_fields(self) -> Result<(String, String), Failure> {
        let parent = self.scope.parent()?;
        Ok((parent, self.filter.unwrap_or_default()))
    }
}
