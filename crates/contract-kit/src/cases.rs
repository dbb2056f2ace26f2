//! Every case, one file per verb or concern.

mod approvals;
mod cancel;
mod capability;
mod count;
mod definitions;
mod fault;
mod get;
mod health;
mod history;
mod list;
mod mapping;
mod observe;
mod pause;
mod purge;
mod restart;
mod resume;
mod retry_from;
mod retry_now;
mod signal;
mod start;
mod unknown;
mod watch;

use stateway_provider_api::Table;

use crate::Case;

/// Every case for a provider that is mapped by this table, in a fixed order.
#[must_use]
pub fn all(table: &Table) -> Vec<Case> {
    [
        mapping::rows(table),
        mapping::cases(),
        health::cases(),
        start::cases(),
        get::cases(),
        observe::cases(),
        list::cases(),
        count::cases(),
        history::cases(),
        watch::cases(),
        signal::cases(),
        cancel::cases(),
        pause::cases(),
        resume::cases(),
        retry_now::cases(),
        retry_from::cases(),
        purge::cases(),
        definitions::cases(),
        approvals::cases(),
        unknown::cases(),
        capability::cases(),
        fault::cases(),
        restart::cases(),
    ]
    .into_iter()
    .flatten()
    .collect()
}
