//! Watching: an execution is looked at again when someone asked something of it, or when its next
//! change by itself is due. Nothing is polled.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use futures::StreamExt;
use futures::stream;
use jiff::Timestamp;
use stateway_model::ExecutionId;
use stateway_provider_api::{
    Capabilities, Observation, ObservationStream, Result, Verb, View, WatchScope,
};
use tokio::sync::{broadcast, watch};

use crate::Upstream;
use crate::response::observation;

pub(crate) fn open(
    upstream: Arc<Upstream>,
    can: Capabilities,
    scope: WatchScope,
) -> Result<ObservationStream> {
    match scope {
        WatchScope::One(id) | WatchScope::End(id) => one(upstream, can, id),
        WatchScope::All => Ok(all(upstream, can)),
    }
}

/// What a look at an execution shows.
struct Look {
    seen: Observation,
    revision: usize,
    due: Option<Timestamp>,
    over: bool,
}

fn look(upstream: &Upstream, can: &Capabilities, id: &ExecutionId) -> Result<Look> {
    upstream.with(|store, now| {
        let record = store.get(id, now, Verb::Watch)?;
        Ok(Look {
            seen: observation(record, View::Basic, can),
            revision: record.run.revision(),
            due: record.run.next_due(),
            over: record.run.is_over(),
        })
    })
}

/// A watcher of one execution.
struct One {
    upstream: Arc<Upstream>,
    can: Capabilities,
    id: ExecutionId,
    asked: watch::Receiver<()>,
    shown: Option<usize>,
    finished: bool,
}

fn one(upstream: Arc<Upstream>, can: Capabilities, id: ExecutionId) -> Result<ObservationStream> {
    let asked = upstream.with(|store, now| {
        let record = store.get(&id, now, Verb::Watch)?;
        Ok(record.subscribe())
    })?;
    let watcher = One {
        upstream,
        can,
        id,
        asked,
        shown: None,
        finished: false,
    };
    Ok(stream::unfold(watcher, One::next).boxed())
}

impl One {
    async fn next(mut self) -> Option<(Result<Observation>, Self)> {
        if self.finished {
            return None;
        }
        loop {
            let look = match look(&self.upstream, &self.can, &self.id) {
                Ok(look) => look,
                Err(forgotten) => {
                    self.finished = true;
                    return Some((Err(forgotten), self));
                }
            };
            if self.shown != Some(look.revision) {
                self.shown = Some(look.revision);
                self.finished = look.over;
                return Some((Ok(look.seen), self));
            }
            tokio::select! {
                changed = self.asked.changed() => {
                    // A record that is gone tells so at the next look.
                    let _ = changed;
                }
                () = wait_for(&self.upstream, look.due) => {}
            }
        }
    }
}

async fn wait_for(upstream: &Upstream, due: Option<Timestamp>) {
    match due {
        Some(due) => upstream.clock.wait_until(due).await,
        None => std::future::pending().await,
    }
}

/// A watcher of everything.
struct All {
    upstream: Arc<Upstream>,
    can: Capabilities,
    asked: broadcast::Receiver<ExecutionId>,
    shown: BTreeMap<ExecutionId, usize>,
    due: BTreeSet<(Timestamp, ExecutionId)>,
    to_look_at: VecDeque<ExecutionId>,
}

fn all(upstream: Arc<Upstream>, can: Capabilities) -> ObservationStream {
    let mut watcher = All {
        asked: upstream.changes.subscribe(),
        upstream,
        can,
        shown: BTreeMap::new(),
        due: BTreeSet::new(),
        to_look_at: VecDeque::new(),
    };
    watcher.look_at_everything();
    stream::unfold(watcher, All::next).boxed()
}

impl All {
    async fn next(mut self) -> Option<(Result<Observation>, Self)> {
        loop {
            while let Some(id) = self.to_look_at.pop_front() {
                if let Some(seen) = self.news_of(&id) {
                    return Some((Ok(seen), self));
                }
            }
            let next = self.due.first().map(|(due, _)| *due);
            tokio::select! {
                asked = self.asked.recv() => match asked {
                    Ok(id) => self.to_look_at.push_back(id),
                    Err(broadcast::error::RecvError::Lagged(_)) => self.look_at_everything(),
                    Err(broadcast::error::RecvError::Closed) => return None,
                },
                () = wait_for(&self.upstream, next) => self.take_due(),
            }
        }
    }

    fn look_at_everything(&mut self) {
        let ids: VecDeque<_> = self.upstream.with(|store, now| {
            let records = store.before(None, now);
            records.map(|(_, record)| record.id.clone()).collect()
        });
        let there: BTreeSet<_> = ids.iter().collect();
        self.shown.retain(|id, _| there.contains(id));
        self.to_look_at = ids;
    }

    fn take_due(&mut self) {
        let now = self.upstream.clock.now();
        while let Some((due, _)) = self.due.first() {
            if *due > now {
                return;
            }
            if let Some((_, id)) = self.due.pop_first() {
                self.to_look_at.push_back(id);
            }
        }
    }

    /// The execution, if it has changed since it was last shown. One that is gone is no news.
    fn news_of(&mut self, id: &ExecutionId) -> Option<Observation> {
        let Ok(look) = look(&self.upstream, &self.can, id) else {
            self.shown.remove(id);
            return None;
        };
        if let Some(due) = look.due {
            self.due.insert((due, id.clone()));
        }
        if self.shown.insert(id.clone(), look.revision) == Some(look.revision) {
            return None;
        }
        Some(look.seen)
    }
}
