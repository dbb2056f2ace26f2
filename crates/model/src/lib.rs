//! The words of Stateway, and nothing else.
//!
//! Every other crate speaks in these types: where an execution is ([`SubState`]), why ([`Reason`]),
//! how it is being retried ([`Retry`]), what it waits for ([`Wait`]) and what it is called
//! ([`ExecutionName`]). Nothing here reads a clock, does IO or knows an engine. How an engine's
//! own word becomes one of ours is the business of `stateway-provider-api`.
//!
//! Display, serde and the API all spell a word the same way: `backing-off` is `backing-off`
//! everywhere a person or a program can see it.

mod basis;
mod error;
mod error_kind;
mod etag;
mod execution;
mod headline;
pub mod hint;
mod history;
mod intervention;
mod name;
mod payload;
mod progress;
mod reason;
mod retry;
mod step;
mod sub_state;
mod usage;
mod wait;
mod words;

pub use basis::{MappingBasis, RetryBasis};
pub use error::{ErrorCategory, ExecutionError};
pub use error_kind::ErrorKind;
pub use etag::content_etag;
pub use execution::{Execution, Labels};
pub use headline::{headline, one_line_summary};
pub use history::{AttemptPhase, Event, EventDetail};
pub use intervention::{CancelInfo, PauseInfo, ReopenInfo};
pub use name::{
    DefinitionName, DefinitionParts, ExecutionId, ExecutionName, MAX_ID_LENGTH,
    MAX_PROVIDER_ID_LENGTH, NameError, ProviderId, encoded,
};
pub use payload::Payload;
pub use progress::{Fraction, Progress};
pub use reason::Reason;
pub use retry::Retry;
pub use step::Step;
pub use sub_state::SubState;
pub use usage::Usage;
pub use wait::{Blocker, Wait, WaitKind};
pub use words::UnknownWord;
