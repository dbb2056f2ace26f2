//! Lists over one provider or all of them, a page at a time.
//!
//! Each provider is asked for its share of the page, so that every row that a provider returns is
//! shown and no cursor has to be moved back. A provider that does not answer is named in
//! `unreachable` and keeps its cursor: the next page asks it again. The list ends when only
//! providers that did not answer are left; a client that wants their rows lists again.
//!
//! Order: the rows of one page are newest first. There is no order across pages.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::join_all;
use serde::{Deserialize, Serialize};
use stateway_model::{Execution, ProviderId};
use stateway_provider_api::filter::{Filter, Hints};
use stateway_provider_api::{Call, ListPage, ListRequest, Verb};

use crate::access::Access;
use crate::parent::Parent;
use crate::upstream::{CallError, Upstream, Upstreams};

/// How long a page is filled while the filter admits little. Then the client gets a short page and asks for the
/// next one.
const FILLED_FOR: Duration = Duration::from_millis(200);
/// The most often a provider is asked for one page, however fast it answers.
const MOST_ROUNDS: usize = 500;
/// A provider is asked this often however slow it is.
const LEAST_ROUNDS: usize = 4;

/// Where a listing stands: what a page token holds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Position {
    /// Providers that have more, with their own cursors.
    pending: Vec<Turn>,
}

/// A provider, and where its list continues.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Turn(ProviderId, Option<String>);

/// One page.
pub(crate) struct Page {
    pub(crate) executions: Vec<Execution>,
    /// Where to continue; none at the end.
    pub(crate) next: Option<Position>,
    /// The providers whose executions are missing from this page.
    pub(crate) unreachable: Vec<ProviderId>,
    /// How many executions that the caller may read were compared with the filter.
    pub(crate) examined: usize,
}

/// A listing over some providers.
pub(crate) struct Listing<'l> {
    pub(crate) upstreams: &'l Upstreams,
    /// What the caller may read.
    pub(crate) access: &'l Access,
    pub(crate) parent: &'l Parent,
    pub(crate) filter: &'l Filter,
    pub(crate) page_size: usize,
}

impl Listing<'_> {
    /// Where a new listing begins.
    pub(crate) fn beginning(&self) -> Position {
        let listed = self.covered().filter(|upstream| self.is_asked(upstream));
        Position {
            pending: listed
                .map(|upstream| Turn(upstream.id.clone(), None))
                .collect(),
        }
    }

    fn covered(&self) -> impl Iterator<Item = &Arc<Upstream>> {
        self.upstreams
            .values()
            .filter(|upstream| self.access.may_read(&upstream.id))
            .filter(|upstream| match self.parent {
                Parent::All => self.filter.concerns(&upstream.id),
                Parent::One(id) => upstream.id == *id,
            })
    }

    /// A provider that cannot list is asked only by name, and refuses. One that has not described itself yet
    /// may be able to.
    fn is_asked(&self, upstream: &Upstream) -> bool {
        let may_list = upstream.capabilities().list || upstream.describe().generation == 0;
        may_list || matches!(self.parent, Parent::One(_))
    }

    /// The page at `position`. A listing of one provider fails as a whole when that one fails.
    pub(crate) async fn page(
        &self,
        call: &Call,
        mut position: Position,
    ) -> Result<Page, CallError> {
        let mut executions = Vec::new();
        let mut failed: Vec<Turn> = Vec::new();
        let mut examined = 0;
        let began = Instant::now();
        for round in 0..MOST_ROUNDS {
            if round >= LEAST_ROUNDS && began.elapsed() >= FILLED_FOR {
                break;
            }
            let room = self.page_size.saturating_sub(executions.len());
            if room == 0 || position.pending.is_empty() {
                break;
            }
            let asked = position.pending.len().min(room);
            let share = room / asked;
            let turns: Vec<_> = position.pending.drain(..asked).collect();
            let answers = turns.iter().map(|turn| self.ask(call, turn, share));
            let answers = join_all(answers).await;
            for (turn, answer) in turns.into_iter().zip(answers) {
                // A provider that is not configured any more has nothing to show.
                let Some((upstream, answer)) = answer else {
                    continue;
                };
                match (answer, self.parent) {
                    (Ok(page), _) => {
                        let rows = page.observations.into_iter();
                        let shown = rows.map(|seen| upstream.execution(seen));
                        for execution in shown.filter(|one| self.access.reads(one)) {
                            examined += 1;
                            if self.filter.admits(&execution) {
                                executions.push(execution);
                            }
                        }
                        if page.next.is_some() {
                            position.pending.push(Turn(turn.0, page.next));
                        }
                    }
                    (Err(error), Parent::One(_)) => return Err(error),
                    (Err(error), Parent::All) => {
                        tracing::info!("left out of a page: {error}");
                        failed.push(turn);
                    }
                }
            }
        }
        executions.sort_by_key(|execution: &Execution| std::cmp::Reverse(execution.create_time));
        let silent = failed.iter().map(|turn| turn.0.clone());
        let unlisted = self.covered().filter(|upstream| !self.is_asked(upstream));
        let mut unreachable: Vec<_> = silent
            .chain(unlisted.map(|upstream| upstream.id.clone()))
            .collect();
        unreachable.sort();
        let has_more = !position.pending.is_empty();
        position.pending.append(&mut failed);
        Ok(Page {
            executions,
            next: has_more.then_some(position),
            unreachable,
            examined,
        })
    }

    /// What a provider may narrow its answer to: by the filter, and by what the caller may read.
    fn hints(&self, id: &ProviderId) -> Hints {
        let mut hints = self.filter.hints(id);
        self.access.narrow(id, &mut hints);
        hints
    }

    /// One provider's share; nothing from a provider that is not configured any more.
    async fn ask(
        &self,
        call: &Call,
        Turn(id, cursor): &Turn,
        page_size: usize,
    ) -> Option<(&Arc<Upstream>, Result<ListPage, CallError>)> {
        let upstream = self.upstreams.get(id)?;
        // The rules may have changed since the last page.
        if !self.access.may_read(id) {
            return None;
        }
        let request = ListRequest {
            hints: self.hints(id),
            page_size: u32::try_from(page_size).unwrap_or(u32::MAX),
            cursor: cursor.clone(),
        };
        let guarded = match self.parent {
            Parent::All => upstream.merged(call),
            Parent::One(_) => upstream.within(call),
        };
        let page = guarded.call(Verb::List, |provider, call| provider.list(call, request));
        Some((upstream, page.await))
    }
}

/// What a page token is bound to.
pub(crate) fn purpose(parent: &str, filter: &str) -> String {
    format!("list|{parent}|{filter}")
}
