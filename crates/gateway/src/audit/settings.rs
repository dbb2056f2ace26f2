//! What an operator can set about the audit log.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// The audit log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditSettings {
    /// The file that is written. Rotated files, the anchor and the position of the webhook are beside it.
    pub file: PathBuf,
    /// The size at which the file is rotated.
    pub max_bytes: u64,
    /// The number of rotated files that are kept.
    pub keep: usize,
    /// A file with the key of the hash chain. Without one the chain has no key.
    pub key_file: Option<PathBuf>,
    /// What happens to mutations while records cannot be written.
    pub on_failure: OnFailure,
    /// The maximum number of refusals per second that get a record each. Further ones are counted.
    pub max_refusals: u32,
    /// A receiver of CloudEvents.
    pub webhook: Option<AuditWebhook>,
}

/// What happens to mutations while records cannot be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnFailure {
    /// They are refused.
    #[default]
    Refuse,
    /// They are done without a record.
    Continue,
}

/// A receiver of records.
#[derive(Clone, PartialEq, Eq)]
pub struct AuditWebhook {
    /// Where records are posted: `https`, or `http` on this machine.
    pub url: String,
    /// A file with the secret of the signatures.
    pub secret_file: PathBuf,
    /// How long one delivery may take.
    pub timeout: Duration,
}

impl AuditWebhook {
    /// The address without its user, password and query, which may be secrets.
    #[must_use]
    pub fn printable_url(&self) -> String {
        let (scheme, rest) = self.url.split_once("://").unwrap_or(("", &self.url));
        let rest = rest.split(['?', '#']).next().unwrap_or_default();
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let host = authority.rsplit('@').next().unwrap_or_default();
        format!("{scheme}://{host}{path}")
    }
}

impl fmt::Debug for AuditWebhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuditWebhook")
            .field("url", &self.printable_url())
            .field("secret_file", &self.secret_file)
            .field("timeout", &self.timeout)
            .finish()
    }
}

impl AuditSettings {
    /// A log in this file.
    #[must_use]
    pub fn new(file: impl Into<PathBuf>) -> Self {
        Self {
            file: file.into(),
            max_bytes: 64 * 1024 * 1024,
            keep: 16,
            key_file: None,
            on_failure: OnFailure::default(),
            max_refusals: 100,
            webhook: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_printed_without_its_secrets() {
        let webhook = |url: &str| AuditWebhook {
            url: url.to_owned(),
            secret_file: PathBuf::new(),
            timeout: Duration::ZERO,
        };
        let secret = webhook("https://ada:sentinel@audit.example.org/in/x?key=sentinel#sentinel");
        assert_eq!(secret.printable_url(), "https://audit.example.org/in/x");
        assert!(!format!("{secret:?}").contains("sentinel"));
        let plain = webhook("http://127.0.0.1:8080");
        assert_eq!(plain.printable_url(), "http://127.0.0.1:8080");
    }
}
