//! Lists of workers over one provider or several, a page at a time.
//!
//! The providers are asked at the same time. A provider that does not answer is named in `unreachable` and
//! keeps its place: the next page asks it again. The list ends when only providers that did not answer are
//! left. Order: by provider, then by name.

use std::sync::Arc;

use futures::future::join_all;
use serde::{Deserialize, Serialize};
use stateway_model::ProviderId;
use stateway_proto::v1;
use stateway_provider_api::WorkQueue;
use tonic::Status;

use super::super::executions::page_token_refused;
use super::super::validate;
use super::{Activities, Workers, queue_of, readable, worker};
use crate::access::ApiCall;
use crate::parent::Parent;
use crate::upstream::{CallError, Topic, Upstream};

const WORKERS_PER_PAGE: usize = 50;

/// Where a list continues: at these providers, each behind the last worker that was listed.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Position(Vec<Turn>);

/// A provider, and the name of its last worker that was listed.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Turn(ProviderId, Option<String>);

impl Workers {
    pub(super) async fn list(
        &self,
        call: ApiCall,
        request: v1::ListWorkersRequest,
    ) -> Result<v1::ListWorkersResponse, Status> {
        let parent = validate::parent(&request.parent)?;
        let size = validate::page_size(request.page_size, WORKERS_PER_PAGE)?;
        let upstreams = self
            .directory
            .under(&call.access, &parent, Topic::WORKERS)?;
        let purpose = call.access.bound(format!("workers|{}", request.parent));
        let Position(turns) = match request.page_token.as_str() {
            "" => Position(
                upstreams
                    .iter()
                    .map(|upstream| Turn(upstream.id.clone(), None))
                    .collect(),
            ),
            token => self
                .sealer
                .open(&purpose, token)
                .map_err(page_token_refused)?,
        };
        let answers = turns.into_iter().filter_map(|turn| {
            // A provider that has no tasks for workers any more has no workers to show.
            let upstream = upstreams.iter().find(|upstream| upstream.id == turn.0)?;
            let (call, parent) = (&call, &parent);
            Some(async move { (turn, ask(call, upstream, parent).await) })
        });
        let mut page = Page::new(size);
        for (turn, answer) in join_all(answers).await {
            match (answer, &parent) {
                (Ok(mut queue), _) => {
                    readable(&call, &turn.0, &mut queue);
                    page.add(turn, &queue, &self.activities);
                }
                (Err(error), Parent::One(_)) => return Err(error.into()),
                (Err(error), Parent::All) => {
                    tracing::info!("left out of a page: {error}");
                    page.failed.push(turn);
                }
            }
        }
        let names = page.failed.iter().map(|turn| turn.0.resource_name());
        Ok(v1::ListWorkersResponse {
            unreachable: names.collect(),
            next_page_token: if page.pending.is_empty() {
                String::new()
            } else {
                page.pending.append(&mut page.failed);
                self.sealer.seal(&purpose, Position(page.pending))
            },
            workers: page.workers,
        })
    }
}

async fn ask(
    call: &ApiCall,
    upstream: &Arc<Upstream>,
    parent: &Parent,
) -> Result<WorkQueue, CallError> {
    queue_of(match parent {
        Parent::All => upstream.merged(call),
        Parent::One(_) => upstream.within(call),
    })
    .await
}

/// A page while it is put together.
struct Page {
    size: usize,
    workers: Vec<v1::Worker>,
    /// The providers that have more workers.
    pending: Vec<Turn>,
    /// The providers that did not answer.
    failed: Vec<Turn>,
}

impl Page {
    const fn new(size: usize) -> Self {
        Self {
            size,
            workers: Vec::new(),
            pending: Vec::new(),
            failed: Vec::new(),
        }
    }

    /// Adds the workers of a provider from its turn on, as far as there is room.
    fn add(&mut self, Turn(id, last): Turn, queue: &WorkQueue, activities: &Activities) {
        let found = queue.workers.iter();
        let found = found.map(|found| worker(activities, &id, found));
        let follows = |one: &v1::Worker| last.as_ref().is_none_or(|last| one.name > *last);
        let mut found: Vec<_> = found.filter(follows).collect();
        found.sort_by(|a, b| a.name.cmp(&b.name));
        let room = self.size - self.workers.len();
        if found.len() > room {
            found.truncate(room);
            let last = found.last().map(|worker| worker.name.clone()).or(last);
            self.pending.push(Turn(id, last));
        }
        self.workers.append(&mut found);
    }
}
