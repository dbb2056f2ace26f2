//! The section `[audit]`: where records are written, and who else gets them.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use stateway_gateway::{AuditSettings, AuditWebhook, OnFailure};

use crate::duration::Span;

/// `[audit]`. Paths are relative to the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Audit {
    /// The file that is written.
    pub file: PathBuf,
    /// The size at which the file is rotated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_bytes: Option<u64>,
    /// The number of rotated files that are kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep: Option<usize>,
    /// A file with the key of the hash chain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_file: Option<PathBuf>,
    /// What happens to mutations while records cannot be written.
    #[serde(default)]
    pub on_failure: Policy,
    /// The maximum number of records of refusals per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_refusals: Option<u32>,
    /// A receiver of CloudEvents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub webhook: Option<Webhook>,
}

/// `on_failure`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Policy {
    /// Mutations are refused.
    #[default]
    Refuse,
    /// Mutations are done without a record.
    Continue,
}

/// `[audit.webhook]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Webhook {
    /// The address.
    pub url: String,
    /// A file with the secret of the signatures.
    pub secret_file: PathBuf,
    /// How long one delivery may take.
    #[serde(default = "default_timeout")]
    pub timeout: Span,
}

fn default_timeout() -> Span {
    Duration::from_secs(10).into()
}

impl Audit {
    /// The settings of the section in a file of this directory.
    #[must_use]
    pub fn settings(&self, directory: &Path) -> AuditSettings {
        let mut settings = AuditSettings::new(directory.join(&self.file));
        settings.max_bytes = self.max_bytes.unwrap_or(settings.max_bytes);
        settings.keep = self.keep.unwrap_or(settings.keep);
        settings.key_file = self.key_file.as_ref().map(|file| directory.join(file));
        settings.on_failure = match self.on_failure {
            Policy::Refuse => OnFailure::Refuse,
            Policy::Continue => OnFailure::Continue,
        };
        settings.max_refusals = self.max_refusals.unwrap_or(settings.max_refusals);
        settings.webhook = self.webhook.as_ref().map(|webhook| AuditWebhook {
            url: webhook.url.clone(),
            secret_file: directory.join(&webhook.secret_file),
            timeout: webhook.timeout.into(),
        });
        settings
    }

    /// The section with all values.
    #[must_use]
    pub fn of(settings: &AuditSettings) -> Self {
        Self {
            file: settings.file.clone(),
            max_bytes: Some(settings.max_bytes),
            keep: Some(settings.keep),
            key_file: settings.key_file.clone(),
            on_failure: match settings.on_failure {
                OnFailure::Refuse => Policy::Refuse,
                OnFailure::Continue => Policy::Continue,
            },
            max_refusals: Some(settings.max_refusals),
            webhook: settings.webhook.as_ref().map(|webhook| Webhook {
                url: webhook.printable_url(),
                secret_file: webhook.secret_file.clone(),
                timeout: webhook.timeout.into(),
            }),
        }
    }
}
