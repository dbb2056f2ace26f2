//! Watching: an execution is read again after a request to it, or when its next scheduled change is
//! due. Nothing is polled.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use futures::StreamExt;
use futures::stream;
use jiff::Timestamp;
use stateway_model::ExecutionId;
use stateway_provider_api::{
    Observation, Result, Verb, Version, View, WatchScope, WatchStream, Watched,
};
use tokio::sync::{broadcast, watch};

use crate::Upstream;
use crate::response::observation;

pub(crate) fn open(upstream: Arc<Upstream>, scope: WatchScope) -> Result<WatchStream> {
    let verb = scope.verb();
    match scope {
        WatchScope::One(id) | WatchScope::End(id) => one(upstream, (id, verb)),
        WatchScope::All | WatchScope::Within(_) => Ok(all(upstream)),
    }
}

/// The result of one read of an execution.
struct Look {
    seen: Observation,
    version: Version,
    due: Option<Timestamp>,
    over: bool,
}

fn look(upstream: &Upstream, (id, verb): (&ExecutionId, Verb)) -> Result<Look> {
    upstream.with(|store, now| {
        let record = store.get(id, now, verb)?;
        Ok(Look {
            seen: observation(record, View::Basic),
            version: record.version(),
            due: record.run.next_due(),
            over: record.run.is_over(),
        })
    })
}

/// A watcher of one execution.
struct One {
    upstream: Arc<Upstream>,
    id: ExecutionId,
    verb: Verb,
    asked: watch::Receiver<()>,
    shown: Option<Version>,
    in_sync: bool,
    finished: bool,
}

fn one(upstream: Arc<Upstream>, (id, verb): (ExecutionId, Verb)) -> Result<WatchStream> {
    let asked = upstream.with(|store, now| {
        let record = store.get(&id, now, verb)?;
        Ok(record.subscribe())
    })?;
    let watcher = One {
        upstream,
        id,
        verb,
        asked,
        shown: None,
        in_sync: false,
        finished: false,
    };
    Ok(stream::unfold(watcher, One::next).boxed())
}

impl One {
    async fn next(mut self) -> Option<(Result<Watched>, Self)> {
        if self.shown.is_some() && !self.in_sync {
            self.in_sync = true;
            return Some((Ok(Watched::InSync), self));
        }
        if self.finished {
            return None;
        }
        loop {
            let Ok(look) = look(&self.upstream, (&self.id, self.verb)) else {
                (self.finished, self.in_sync) = (true, true);
                return Some((Ok(Watched::Gone(self.id.clone())), self));
            };
            if self.shown != Some(look.version) {
                self.shown = Some(look.version);
                self.finished = look.over;
                return Some((Ok(Watched::seen(look.seen)), self));
            }
            tokio::select! {
                changed = self.asked.changed() => {
                    // The next look shows that the record is gone.
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
    asked: broadcast::Receiver<ExecutionId>,
    shown: BTreeMap<ExecutionId, Version>,
    due: BTreeSet<(Timestamp, ExecutionId)>,
    to_look_at: VecDeque<ExecutionId>,
    in_sync: bool,
}

fn all(upstream: Arc<Upstream>) -> WatchStream {
    // Subscribed first, so that no change falls between the two.
    let asked = upstream.changes.subscribe();
    let to_look_at = upstream.with(|store, now| {
        let records = store.before(None, now);
        records.map(|(_, record)| record.id.clone()).collect()
    });
    let watcher = All {
        asked,
        upstream,
        shown: BTreeMap::new(),
        due: BTreeSet::new(),
        to_look_at,
        in_sync: false,
    };
    stream::unfold(watcher, All::next).boxed()
}

impl All {
    async fn next(mut self) -> Option<(Result<Watched>, Self)> {
        loop {
            while let Some(id) = self.to_look_at.pop_front() {
                if let Some(news) = self.news_of(id) {
                    return Some((Ok(news), self));
                }
            }
            if !self.in_sync {
                self.in_sync = true;
                return Some((Ok(Watched::InSync), self));
            }
            let next = self.due.first().map(|(due, _)| *due);
            tokio::select! {
                asked = self.asked.recv() => match asked {
                    Ok(id) => self.to_look_at.push_back(id),
                    // Too much was missed, or the upstream is gone: the stream is opened again.
                    Err(_) => return None,
                },
                () = wait_for(&self.upstream, next) => self.take_due(),
            }
        }
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

    /// The execution, if it has changed since it was last shown, or that it is gone.
    fn news_of(&mut self, id: ExecutionId) -> Option<Watched> {
        let Ok(look) = look(&self.upstream, (&id, Verb::WatchAll)) else {
            return self.shown.remove(&id).map(|_| Watched::Gone(id));
        };
        if let Some(due) = look.due {
            self.due.insert((due, id.clone()));
        }
        if self.shown.insert(id, look.version) == Some(look.version) {
            return None;
        }
        Some(Watched::seen(look.seen))
    }
}
