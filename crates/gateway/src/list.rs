//! Lists over one provider or all of them, a page at a time.
//!
//! Each provider is asked for its share of the page, so that every row that comes back is
//! returned and no cursor has to be moved back. A provider that does not answer is named in
//! `unreachable` and left out of the pages that follow.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use serde::{Deserialize, Serialize};
use stateway_model::{Execution, ProviderId};
use stateway_provider_api::filter::Filter;
use stateway_provider_api::{Call, Error, ListPage, ListRequest, Verb};

use crate::parent::Parent;
use crate::upstream::{Upstream, Upstreams};

/// The most often a provider is asked for one page. A filter that admits little would otherwise
/// read on and on; the client gets a short page and goes on when it likes.
const MOST_ROUNDS: usize = 4;
/// A merged list waits this long for its slowest provider, or half of what the call has left.
const PATIENCE: Duration = Duration::from_secs(3);

/// Where a listing stands: what a page token holds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Position {
    /// Providers that have more, with their own cursors.
    pending: Vec<(ProviderId, Option<String>)>,
    /// Providers that did not answer.
    unreachable: Vec<ProviderId>,
}

/// One page.
pub(crate) struct Page {
    pub(crate) executions: Vec<Execution>,
    /// Where to go on; none at the end.
    pub(crate) next: Option<Position>,
    pub(crate) unreachable: Vec<ProviderId>,
}

/// A listing over some providers.
pub(crate) struct Listing<'l> {
    pub(crate) upstreams: &'l Upstreams,
    pub(crate) parent: &'l Parent,
    pub(crate) filter: &'l Filter,
    pub(crate) page_size: usize,
}

impl Listing<'_> {
    /// Where a new listing begins. A provider that cannot list is as good as unreachable here:
    /// its executions are missing from the answer, and the client is told.
    pub(crate) fn beginning(&self) -> Position {
        let mut position = Position::default();
        let covered = self
            .upstreams
            .values()
            .filter(|upstream| match self.parent {
                Parent::All => self.filter.concerns(&upstream.id),
                Parent::One(id) => upstream.id == *id,
            });
        for upstream in covered {
            if upstream.capabilities.list || matches!(self.parent, Parent::One(_)) {
                position.pending.push((upstream.id.clone(), None));
            } else {
                position.unreachable.push(upstream.id.clone());
            }
        }
        position
    }

    /// The page at `position`. A listing of one provider fails as a whole when that one fails.
    pub(crate) async fn page(
        &self,
        call: &Call,
        mut position: Position,
    ) -> Result<Page, (ProviderId, Error)> {
        let mut executions = Vec::new();
        for _ in 0..MOST_ROUNDS {
            let room = self.page_size.saturating_sub(executions.len());
            if room == 0 || position.pending.is_empty() {
                break;
            }
            let asked = position.pending.len().min(room);
            let share = room / asked;
            let turn: Vec<_> = position.pending.drain(..asked).collect();
            let answers = join_all(
                turn.into_iter()
                    .map(|(id, cursor)| self.ask(call, id, cursor, share)),
            );
            for (id, answer) in answers.await {
                match (answer, self.parent) {
                    (Ok((upstream, page)), _) => {
                        let shown = page
                            .observations
                            .into_iter()
                            .map(|seen| upstream.execution(seen));
                        executions.extend(shown.filter(|execution| self.filter.admits(execution)));
                        if page.next.is_some() {
                            position.pending.push((id, page.next));
                        }
                    }
                    (Err(error), Parent::One(_)) => return Err((id, error)),
                    (Err(error), Parent::All) => {
                        tracing::info!(provider = %id, "left out of a list: {error}");
                        position.unreachable.push(id);
                    }
                }
            }
        }
        executions.sort_by_key(|execution: &Execution| std::cmp::Reverse(execution.create_time));
        let unreachable = position.unreachable.clone();
        let next = (!position.pending.is_empty()).then_some(position);
        Ok(Page {
            executions,
            next,
            unreachable,
        })
    }

    async fn ask(
        &self,
        call: &Call,
        id: ProviderId,
        cursor: Option<String>,
        page_size: usize,
    ) -> (ProviderId, Result<(Arc<Upstream>, ListPage), Error>) {
        let Some(upstream) = self.upstreams.get(&id) else {
            let gone = Error::new(
                stateway_provider_api::ErrorKind::NotFound,
                Verb::List,
                "it is not configured any more",
            );
            return (id, Err(gone));
        };
        let mut call = upstream.bounded(call);
        if *self.parent == Parent::All {
            let patience = PATIENCE.min(call.remaining() / 2);
            call.deadline = call.deadline.min(std::time::Instant::now() + patience);
        }
        let request = ListRequest {
            hints: self.filter.hints(&id),
            page_size: u32::try_from(page_size).unwrap_or(u32::MAX),
            cursor,
        };
        let work = upstream.provider().list(&call, request);
        let page = upstream.guard(Verb::List, &call, work).await;
        (id, page.map(|page| (upstream.clone(), page)))
    }
}

/// What a page token is bound to.
pub(crate) fn purpose(parent: &str, filter: &str) -> String {
    format!("list|{parent}|{filter}")
}
