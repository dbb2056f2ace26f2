//! Task tokens: which hand-out of which execution a worker answers. Opaque to workers.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use stateway_machine::Task;

use crate::message::OpenTask;

const PREFIX: &str = "h1.";

/// Names one hand-out of one attempt. The number of the hand-out is the fencing token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Token {
    /// The execution.
    pub(super) e: String,
    /// The branch of its log.
    pub(super) b: u32,
    /// Step, attempt, and whether it is a compensation.
    pub(super) t: Task,
    /// The number of the hand-out.
    pub(super) h: u32,
}

impl Token {
    pub(super) fn of(execution: &str, task: &OpenTask) -> Self {
        Self {
            e: execution.to_owned(),
            b: task.branch,
            t: task.task.clone(),
            h: task.hand_out,
        }
    }

    pub(super) fn text(&self) -> String {
        let json = serde_json::to_vec(self).expect("a token is plain data");
        format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(json))
    }

    /// The token of a text; `None` for a text that is none of this provider's.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let json = URL_SAFE_NO_PAD.decode(text.strip_prefix(PREFIX)?).ok()?;
        serde_json::from_slice(&json).ok()
    }

    /// Whether an open task is the hand-out that this token names.
    pub(super) fn names(&self, task: &OpenTask) -> bool {
        self.b == task.branch && self.t == task.task && self.h == task.hand_out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_read_as_it_was_written_and_nothing_else_is() {
        let token = Token {
            e: "order-1".into(),
            b: 2,
            t: Task {
                step: "charge".into(),
                attempt: 3,
                undo: true,
            },
            h: 4,
        };
        assert_eq!(Token::parse(&token.text()), Some(token));
        for foreign in ["", "h1.", "h1.e30", "1/0/charge/1"] {
            assert_eq!(Token::parse(foreign), None, "{foreign}");
        }
    }
}
