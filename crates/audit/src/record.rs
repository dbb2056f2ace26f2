//! What one record says.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The verb of the record that a gateway writes when it opens the log.
pub const OPENED: &str = "audit.opened";
/// The verb of the record that counts refusals that have no record of their own.
pub const SUPPRESSED: &str = "audit.suppressed";

/// One record: who did what to which object, by which proof and rule, and what came of it. It has names
/// and never a payload, a comment or a secret.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Record {
    /// When the outcome was known.
    pub time: Timestamp,
    /// The method of the API, `page` for a page, `unknown` for a method that does not exist, or the log's own [`OPENED`] and [`SUPPRESSED`].
    pub verb: String,
    /// What the caller named: an execution, a definition, an approval.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub object: String,
    /// The id that the caller chose for a new execution.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub execution_id: String,
    /// What was made, if anything was.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub result: String,
    /// The gRPC code by name: `OK`, `PERMISSION_DENIED`.
    pub outcome: String,
    /// The reason of an error.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Who asked.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub actor: String,
    /// What proved it: `certificate`, `jwt`, `api-key`, `proxy`; `claimed` without authentication; `none`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub proof: String,
    /// The roles of the actor.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub roles: Vec<String>,
    /// The tenant of the actor.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub tenant: String,
    /// The permission that the verb needs.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub permission: String,
    /// The access rule that decided.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub rule: String,
    /// The correlation id of the request.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub request_id: String,
    /// The address of the client.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub address: String,
    /// What the log says about itself.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub note: String,
    /// How many refusals a record of [`SUPPRESSED`] stands for; how many records are missing before a
    /// record of [`OPENED`].
    #[serde(skip_serializing_if = "is_zero")]
    pub count: u64,
}

/// The longest texts, in bytes of JSON.
const LONG: usize = 1024;
const MIDDLE: usize = 512;
const SHORT: usize = 256;

impl Record {
    /// The record with texts that are cut where they are too long, so that every line is bounded.
    #[must_use]
    pub fn bounded(mut self) -> Self {
        for (text, most) in [
            (&mut self.verb, SHORT),
            (&mut self.object, LONG),
            (&mut self.execution_id, SHORT),
            (&mut self.result, LONG),
            (&mut self.outcome, SHORT),
            (&mut self.reason, SHORT),
            (&mut self.actor, MIDDLE),
            (&mut self.proof, SHORT),
            (&mut self.tenant, SHORT),
            (&mut self.permission, SHORT),
            (&mut self.rule, SHORT),
            (&mut self.request_id, SHORT),
            (&mut self.address, SHORT),
            (&mut self.note, MIDDLE),
        ] {
            cut(text, most);
        }
        let mut left = LONG;
        self.roles.retain(|role| {
            let size = escaped(role) + 3;
            let fits = size <= left;
            left = left.saturating_sub(size);
            fits
        });
        self
    }
}

// The signature is what serde asks for.
#[allow(clippy::trivially_copy_pass_by_ref)]
const fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// The size of a character in JSON.
const fn escaped_char(character: char) -> usize {
    match character {
        '"' | '\\' => 2,
        '\0'..='\u{1f}' => 6,
        other => other.len_utf8(),
    }
}

fn escaped(text: &str) -> usize {
    text.chars().map(escaped_char).sum()
}

/// Cuts a text to a maximum number of bytes of JSON, and marks the cut with an ellipsis.
fn cut(text: &mut String, most: usize) {
    const ELLIPSIS: char = '…';
    if escaped(text) <= most {
        return;
    }
    let mut left = most - ELLIPSIS.len_utf8();
    let end = text.char_indices().find(|(_, character)| {
        let size = escaped_char(*character);
        let fits = size <= left;
        left = left.saturating_sub(size);
        !fits
    });
    text.truncate(end.map_or(text.len(), |(at, _)| at));
    text.push(ELLIPSIS);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_cut_between_characters() {
        let mut text = "ä".repeat(200);
        cut(&mut text, 101);
        assert_eq!(text, format!("{}…", "ä".repeat(49)));
        let mut control = "\u{1}".repeat(200);
        cut(&mut control, 64);
        assert!(escaped(&control) <= 64, "{}", escaped(&control));
        let mut short = "short".to_owned();
        cut(&mut short, 5);
        assert_eq!(short, "short");
    }
}
