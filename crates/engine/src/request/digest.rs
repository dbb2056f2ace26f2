//! The digest that distinguishes a repeated request from another request with the same id.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use sha2::{Digest, Sha256};

use super::RequestKey;
use crate::store::ANY_BODY;

/// The first bytes of every digest: the version of the way it is computed. Stores of earlier builds
/// contain digests without a version.
const VERSION: [u8; 4] = *b"rq2\0";

/// Computes what two requests with the same id must have in common: the method, the person who asks
/// and everything that is asked for. The length precedes each part, so that two different requests
/// never have the same parts.
#[derive(Debug, Clone)]
pub struct RequestDigest(Sha256);

impl RequestDigest {
    /// A digest of a method that this person calls.
    #[must_use]
    pub fn new(method: &str, actor: &str) -> Self {
        Self(Sha256::new()).text(method).text(actor)
    }

    /// Adds a text.
    #[must_use]
    pub fn text(self, text: &str) -> Self {
        self.bytes(text.as_bytes())
    }

    /// Adds bytes.
    #[must_use]
    pub fn bytes(mut self, bytes: &[u8]) -> Self {
        self.0.update((bytes.len() as u64).to_le_bytes());
        self.0.update(bytes);
        self
    }

    /// Adds a JSON document.
    #[must_use]
    pub fn json(self, value: &Value) -> Self {
        self.text(&value.to_string())
    }

    /// Adds labels.
    #[must_use]
    pub fn labels(self, labels: &BTreeMap<String, String>) -> Self {
        let count = self.text(&labels.len().to_string());
        labels
            .iter()
            .fold(count, |digest, (name, value)| digest.text(name).text(value))
    }

    /// The key of the request with this id.
    #[must_use]
    pub fn key(self, id: impl Into<Arc<str>>) -> RequestKey {
        let digest = self.0.finalize();
        let mut body = [0; 16];
        let (version, rest) = body.split_at_mut(VERSION.len());
        version.copy_from_slice(&VERSION);
        rest.copy_from_slice(&digest[..rest.len()]);
        RequestKey {
            id: id.into(),
            body,
        }
    }
}

impl RequestKey {
    /// Whether a stored digest is that of this request. A digest that an earlier build stored, or a
    /// recovery, cannot be compared: the id alone decides, so that the request is not carried out a
    /// second time.
    pub(crate) fn repeats(&self, stored: &[u8; 16]) -> bool {
        *stored == self.body || *stored == ANY_BODY || !stored.starts_with(&VERSION)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(actor: &str, parts: &[&str]) -> RequestKey {
        let digest = RequestDigest::new("Pause", actor);
        let digest = parts.iter().fold(digest, |digest, part| digest.text(part));
        digest.key("r")
    }

    #[test]
    fn parts_do_not_run_together() {
        assert!(key("ada", &["ab", "c"]).repeats(&key("ada", &["ab", "c"]).body));
        assert!(!key("ada", &["ab", "c"]).repeats(&key("ada", &["a", "bc"]).body));
        assert!(!key("ada", &["a"]).repeats(&key("adaa", &[]).body));
    }

    #[test]
    fn another_person_does_not_repeat_a_request() {
        assert!(!key("ada", &["a"]).repeats(&key("bob", &["a"]).body));
    }

    #[test]
    fn labels_are_part_of_the_digest() {
        let labels = |pairs: &[(&str, &str)]| {
            let pairs = pairs.iter();
            let labels = pairs.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
            RequestDigest::new("Start", "")
                .labels(&labels.collect())
                .key("r")
        };
        assert!(!labels(&[("a", "b")]).repeats(&labels(&[]).body));
        assert!(!labels(&[("a", "b")]).repeats(&labels(&[("a", "c")]).body));
    }

    #[test]
    fn a_digest_of_an_earlier_build_is_accepted_by_the_id_alone() {
        assert!(key("ada", &["a"]).repeats(&[7; 16]));
        assert!(key("ada", &["a"]).repeats(&ANY_BODY));
    }
}
