//! The options of every command that changes something.

use clap::Args;
use stateway_client::{Call, ConditionalWrite, Write};

use crate::input;

/// The idempotency key of a change.
#[derive(Debug, Clone, Default, Args)]
pub struct RequestId {
    /// Idempotency key: repeating the request with the same key has no further effect
    #[arg(long, value_name = "ID", value_parser = input::non_empty)]
    request_id: Option<String>,
}

/// The idempotency key of a change, and the state that it is meant for.
#[derive(Debug, Clone, Default, Args)]
pub struct WriteOptions {
    #[command(flatten)]
    key: RequestId,
    /// Reject the command if the resource no longer has this etag
    #[arg(long, value_parser = input::non_empty)]
    etag: Option<String>,
}

/// The reason of an action.
#[derive(Debug, Clone, Default, Args)]
pub struct Comment {
    /// Reason, recorded with the action
    #[arg(long, value_name = "TEXT")]
    comment: Option<String>,
}

impl From<Comment> for String {
    fn from(it: Comment) -> Self {
        it.comment.unwrap_or_default()
    }
}

/// Whether a cancellation compensates completed steps.
#[derive(Debug, Clone, Copy, Args)]
pub struct Compensation {
    /// Compensate completed steps (default: according to the definition's failurePolicy)
    #[arg(long, conflicts_with = "no_compensate")]
    compensate: bool,
    /// Compensate nothing (default: according to the definition's failurePolicy)
    #[arg(long)]
    no_compensate: bool,
}

impl Compensation {
    /// The choice, if the user made one.
    #[must_use]
    pub fn choice(self) -> Option<bool> {
        (self.compensate || self.no_compensate).then_some(self.compensate)
    }
}

impl RequestId {
    /// Whether the user gave a key.
    #[must_use]
    pub fn is_given(&self) -> bool {
        self.request_id.is_some()
    }

    /// The call with the key.
    pub fn apply<M: Write>(self, call: Call<M>) -> Call<M> {
        call.request_id(self.request_id.unwrap_or_default())
    }
}

impl WriteOptions {
    /// The options with this key and this etag.
    #[must_use]
    pub fn new(request_id: String, etag: String) -> Self {
        Self {
            key: RequestId {
                request_id: Some(request_id),
            },
            etag: Some(etag),
        }
    }

    /// The key and the etag as fields of a request.
    #[must_use]
    pub fn into_fields(self) -> (String, String) {
        let request_id = self.key.request_id.unwrap_or_default();
        (request_id, self.etag.unwrap_or_default())
    }

    /// The call with the key and the etag.
    pub fn apply<M: ConditionalWrite>(self, call: Call<M>) -> Call<M> {
        self.key.apply(call).etag(self.etag.unwrap_or_default())
    }
}
