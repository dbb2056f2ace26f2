//! What callers may do. `stateway-access` decides; this is the shell around it: rules that are read again
//! when their file changes, the grants of each identity, and the answers to what is denied.
//!
//! One place decides about a request: [`ApiCall`]. Every method of the API gets one, and asks it before
//! anything is read for the caller, changed or shown.

mod call;
mod changes;
mod control;
mod method;
mod not_found;
mod page;
mod refusal;
mod worker;

pub(crate) use call::{Access, ApiCall, name_only};
pub(crate) use changes::until_changed;
pub(crate) use control::AccessControl;
pub use control::{AccessError, AccessSettings, NO_RULES, RulesSource};
pub(crate) use method::permission_of;
pub(crate) use not_found::not_found_pause;
pub(crate) use page::MetricsAccess;
pub(crate) use refusal::changed;
