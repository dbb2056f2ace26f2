//! What the server refuses, cuts off and survives: other sites, silent and flooding clients, greedy
//! callers, messages that cannot be read or sent. `docs/security.md` says why.

mod connections;
mod cross_site;
mod duties;
mod flood;
mod messages;
mod share;
pub(crate) mod wire;
