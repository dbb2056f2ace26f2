//! Watching: the engine pushes every change; here they become the items of a stream.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use futures::FutureExt;
use futures::stream::{self, StreamExt};
use stateway_engine::{
    Change, Changes, Engine, EngineError, ErrorKind, ListQuery, News, View as Seen,
};
use stateway_model::ExecutionId;
use stateway_provider_api::{Call, Observation, Result, Verb, Version, View, WatchStream, Watched};
use tokio::sync::watch;

use crate::error::refused;
use crate::line::Line;
use stateway_hosted::{id_of, observation, version};

/// Executions per page while the current set is read.
const PAGE: usize = 200;

fn follow(engine: &Engine, id: &Arc<str>, verb: Verb) -> watch::Receiver<News> {
    if verb == Verb::WatchEnd {
        engine.watch_end(id)
    } else {
        engine.watch_one(id)
    }
}

/// Follows one execution; its present state comes first. Where only its end is of interest, the state of an execution
/// that is under way is left out.
pub(crate) async fn one(
    engine: Engine,
    (line, call): (&Line, &Call),
    (id, verb): (&ExecutionId, Verb),
) -> Result<WatchStream> {
    let key: Arc<str> = id.as_str().into();
    let news = follow(&engine, &key, verb);
    let present = async {
        if verb == Verb::WatchEnd {
            return engine.get_unless_in_memory(Arc::clone(&key)).await;
        }
        engine.get(Arc::clone(&key)).await.map(Some)
    };
    let present = line.carry(call, verb, present).await?;
    let watcher = One {
        engine,
        id: id.clone(),
        key,
        verb,
        news,
        next: present.map(Arc::new),
        last: None,
        in_sync: false,
        over: false,
    };
    Ok(stream::unfold(watcher, One::step).boxed())
}

struct One {
    engine: Engine,
    id: ExecutionId,
    /// The same, as the engine takes it.
    key: Arc<str>,
    verb: Verb,
    news: watch::Receiver<News>,
    next: Option<Arc<Seen>>,
    /// What was reported last.
    last: Option<Observation>,
    in_sync: bool,
    over: bool,
}

impl One {
    async fn step(mut self) -> Option<(Result<Watched>, Self)> {
        if self.last.is_some() && !self.in_sync {
            self.in_sync = true;
            return Some((Ok(Watched::InSync), self));
        }
        while !self.over {
            let told = match self.next.take() {
                Some(seen) => Ok(seen),
                None => self.look().await,
            };
            let seen = match told {
                Ok(seen) => seen,
                Err(error) => {
                    self.over = true;
                    return Some((self.ended(error), self));
                }
            };
            let shown = observation(&seen, View::Basic);
            if self.is_old(&shown) {
                continue;
            }
            self.over = seen.state.is_terminal();
            self.last = Some(shown.clone());
            return Some((Ok(Watched::seen(shown)), self));
        }
        None
    }

    /// Whether this is older than what was reported last, or the same.
    fn is_old(&self, shown: &Observation) -> bool {
        let last = self.last.as_ref();
        last.is_some_and(|last| shown.version < last.version || shown == last)
    }

    fn ended(&self, error: EngineError) -> Result<Watched> {
        if error.kind == ErrorKind::NotFound {
            return Ok(Watched::Gone(self.id.clone()));
        }
        Err(refused(self.verb, error))
    }

    /// The execution once it has changed.
    async fn look(&mut self) -> std::result::Result<Arc<Seen>, EngineError> {
        if self.news.changed().await.is_ok() {
            let told = self.news.borrow_and_update().clone();
            if let Some(seen) = told {
                // Nothing happened to it: workers came or left, and what was sent may be older than
                // what was read at first.
                let reported = self.last.as_ref().and_then(|last| last.version);
                if reported == Some(version(&seen)) {
                    return self.read().await;
                }
                return Ok(seen);
            }
        }
        // It was removed, or its news have ended: reading it says which.
        self.news = follow(&self.engine, &self.key, self.verb);
        self.read().await
    }

    async fn read(&self) -> std::result::Result<Arc<Seen>, EngineError> {
        self.engine.get(Arc::clone(&self.key)).await.map(Arc::new)
    }
}

/// Follows every execution; those of the query come first, none without a query.
pub(crate) fn all(engine: Engine, first: Option<ListQuery>) -> WatchStream {
    let watcher = All {
        // Subscribed before anything is read, so that no change falls between the two.
        changes: engine.watch(),
        engine,
        ready: VecDeque::new(),
        page: if first.is_some() {
            Page::From(None)
        } else {
            Page::None
        },
        first: first.unwrap_or_default(),
        read: HashMap::new(),
        meanwhile: BTreeMap::new(),
        unsure: Vec::new(),
    };
    stream::unfold(Some(watcher), move |watcher| async move {
        let mut watcher = watcher?;
        match watcher.next().await {
            Ok(item) => Some((Ok(item?.watched()), Some(watcher))),
            Err(error) => Some((Err(refused(Verb::WatchAll, error)), None)),
        }
    })
    .boxed()
}

struct All {
    engine: Engine,
    changes: Changes,
    ready: VecDeque<Item>,
    page: Page,
    /// Which executions come first.
    first: ListQuery,
    /// The versions that were read of executions, until the changes that came meanwhile are
    /// reported: an older one among them must not come after what was read.
    read: HashMap<i64, Version>,
    /// The newest of the changes that came meanwhile, by execution.
    meanwhile: BTreeMap<i64, Change>,
    /// Executions to read again.
    unsure: Vec<Arc<str>>,
}

/// How far the current set has been read.
enum Page {
    From(Option<i64>),
    /// There is nothing to read.
    None,
    Done,
}

enum Item {
    Change(Change),
    InSync,
}

impl Item {
    fn watched(self) -> Watched {
        match self {
            Self::Change(Change::Seen(seen)) => Watched::seen(observation(&seen, View::Basic)),
            Self::Change(Change::Removed(removed)) => {
                Watched::Gone(id_of(&removed.id).expect("the engine gives and takes only good ids"))
            }
            Self::InSync => Watched::InSync,
        }
    }
}

fn number_of(change: &Change) -> i64 {
    match change {
        Change::Seen(seen) => seen.number,
        Change::Removed(removed) => removed.number,
    }
}

impl All {
    /// The next item; none when so much was missed that everything has to be read again.
    async fn next(&mut self) -> std::result::Result<Option<Item>, EngineError> {
        loop {
            if let Some(item) = self.ready.pop_front() {
                return Ok(Some(item));
            }
            if let Some(id) = self.unsure.pop() {
                match self.engine.get(id).await {
                    Ok(seen) => {
                        self.read.insert(seen.number, version(&seen));
                        return Ok(Some(Item::Change(Change::Seen(Arc::new(seen)))));
                    }
                    // Its removal is among the changes.
                    Err(error) if error.kind == ErrorKind::NotFound => continue,
                    Err(error) => return Err(error),
                }
            }
            match self.page {
                Page::From(before) => {
                    if !self.read_page(before).await? {
                        return Ok(None);
                    }
                }
                Page::None => self.catch_up(),
                Page::Done => match self.changes.next().await {
                    Ok(change) if self.is_older(&change) => {}
                    Ok(change) => return Ok(Some(Item::Change(change))),
                    Err(_missed) => return Ok(None),
                },
            }
        }
    }

    /// Whether a change came before what was read of the execution.
    fn is_older(&mut self, change: &Change) -> bool {
        let number = number_of(change);
        let older = match (change, self.read.get(&number)) {
            (Change::Seen(seen), Some(read)) => version(seen) < *read,
            _ => false,
        };
        if !older {
            self.read.remove(&number);
        }
        older
    }

    /// Reads the next page of the current set, newest first; false if changes were missed.
    async fn read_page(&mut self, before: Option<i64>) -> std::result::Result<bool, EngineError> {
        let query = ListQuery {
            before,
            limit: PAGE,
            ..self.first.clone()
        };
        let page = self.engine.list(query).await?;
        for seen in page.items {
            self.read.insert(seen.number, version(&seen));
            self.ready
                .push_back(Item::Change(Change::Seen(Arc::new(seen))));
        }
        while let Some(change) = self.changes.next().now_or_never() {
            let Ok(change) = change else {
                return Ok(false);
            };
            self.meanwhile.insert(number_of(&change), change);
        }
        match page.next {
            Some(next) => self.page = Page::From(Some(next)),
            None => self.catch_up(),
        }
        Ok(true)
    }

    /// Reports the changes that came while the current set was read, and that it is complete.
    fn catch_up(&mut self) {
        self.page = Page::Done;
        let read = std::mem::take(&mut self.read);
        for (number, change) in std::mem::take(&mut self.meanwhile) {
            match (&change, read.get(&number)) {
                // Workers came or left meanwhile; which of the two is newer is not known.
                (Change::Seen(seen), Some(read)) if version(seen) == *read => {
                    self.unsure.push(Arc::clone(&seen.id));
                }
                (Change::Seen(seen), Some(read)) if version(seen) < *read => {}
                // It was removed before its page was read.
                (Change::Removed(_), None) => {}
                (Change::Seen(_), _) | (Change::Removed(_), Some(_)) => {
                    self.ready.push_back(Item::Change(change));
                }
            }
        }
        self.ready.push_back(Item::InSync);
    }
}
