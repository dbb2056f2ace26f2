//! Watching: the engine pushes every change; here they become observations.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use futures::FutureExt;
use futures::stream::{self, StreamExt};
use stateway_engine::{Changes, Engine, ErrorKind, ListQuery, News, View as Seen};
use stateway_model::ExecutionId;
use stateway_provider_api::{
    Call, Capabilities, Observation, ObservationStream, Result, Verb, View,
};
use tokio::sync::watch;

use crate::error::refused;
use crate::line::Line;
use crate::response::observation;

/// How many executions are looked at at once when everything has to be looked at.
const PAGE: usize = 200;

fn follow(engine: &Engine, id: &Arc<str>, every_step: bool) -> watch::Receiver<News> {
    if every_step {
        engine.watch_one(id)
    } else {
        engine.watch_end(id)
    }
}

/// Follows one execution; what it shows now comes first.
pub(crate) async fn one(
    engine: Engine,
    can: Capabilities,
    (line, call): (&Line, &Call),
    (id, every_step): (&ExecutionId, bool),
) -> Result<ObservationStream> {
    let id: Arc<str> = id.as_str().into();
    let news = follow(&engine, &id, every_step);
    let present = engine.get(Arc::clone(&id));
    let present = line.carry(call, Verb::Watch, present).await?;
    let watcher = One {
        engine,
        can,
        id,
        every_step,
        news,
        next: Some(Arc::new(present)),
        shown: Age::default(),
        last: None,
        over: false,
    };
    Ok(stream::unfold(watcher, One::step).boxed())
}

struct One {
    engine: Engine,
    can: Capabilities,
    id: Arc<str>,
    every_step: bool,
    news: watch::Receiver<News>,
    next: Option<Arc<Seen>>,
    shown: Age,
    /// What was shown last.
    last: Option<Observation>,
    over: bool,
}

/// How far an execution was when it was shown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Age(u32, u64);

impl Age {
    fn of(seen: &Seen) -> Self {
        Self(seen.branch, seen.sequence)
    }
}

impl One {
    async fn step(mut self) -> Option<(Result<Observation>, Self)> {
        while !self.over {
            let told = match self.next.take() {
                Some(seen) => Ok(seen),
                None => self.look().await,
            };
            let seen = match told {
                Ok(seen) => seen,
                Err(error) => {
                    self.over = true;
                    return Some((Err(error), self));
                }
            };
            let age = Age::of(&seen);
            if age < self.shown {
                continue;
            }
            let shown = observation(&seen, View::Basic, &self.can);
            if age == self.shown && self.last.as_ref() == Some(&shown) {
                continue;
            }
            self.shown = age;
            self.over = seen.state.is_terminal();
            self.last = Some(shown.clone());
            return Some((Ok(shown), self));
        }
        None
    }

    /// The execution once it has changed.
    async fn look(&mut self) -> Result<Arc<Seen>> {
        if self.news.changed().await.is_ok() {
            let told = self.news.borrow_and_update().clone();
            if let Some(seen) = told {
                // Nothing happened to it: workers came or left, and what was sent may be older than
                // what was read at first.
                if Age::of(&seen) == self.shown {
                    return self.read().await;
                }
                return Ok(seen);
            }
        }
        // It was removed, or its news have ended: reading it says which.
        self.news = follow(&self.engine, &self.id, self.every_step);
        self.read().await
    }

    async fn read(&self) -> Result<Arc<Seen>> {
        let seen = self.engine.get(Arc::clone(&self.id)).await;
        seen.map(Arc::new)
            .map_err(|error| refused(Verb::Watch, error))
    }
}

/// Follows every execution; the present set comes first.
pub(crate) fn all(engine: Engine, can: Capabilities) -> ObservationStream {
    let watcher = All {
        changes: engine.watch(),
        engine,
        can,
        ready: VecDeque::new(),
        page: Page::From(None),
        looked_at: HashMap::new(),
        meanwhile: BTreeMap::new(),
        unsure: Vec::new(),
    };
    stream::unfold(Some(watcher), |watcher| async move {
        let mut watcher = watcher?;
        match watcher.next().await {
            Ok(seen) => {
                let shown = observation(&seen, View::Basic, &watcher.can);
                Some((Ok(shown), Some(watcher)))
            }
            Err(error) => Some((Err(error), None)),
        }
    })
    .boxed()
}

struct All {
    engine: Engine,
    can: Capabilities,
    changes: Changes,
    ready: VecDeque<Arc<Seen>>,
    page: Page,
    /// What was read of executions, until the changes that came meanwhile are told: an older one
    /// among them must not come after it.
    looked_at: HashMap<i64, Age>,
    /// The newest of the changes that came meanwhile, by execution.
    meanwhile: BTreeMap<i64, Arc<Seen>>,
    /// Executions to read again.
    unsure: Vec<Arc<str>>,
}

/// How far the present set has been looked at.
enum Page {
    From(Option<i64>),
    Done,
}

impl All {
    async fn next(&mut self) -> Result<Arc<Seen>> {
        loop {
            if let Some(seen) = self.ready.pop_front() {
                return Ok(seen);
            }
            if let Some(id) = self.unsure.pop() {
                match self.engine.get(id).await {
                    Ok(seen) => {
                        self.looked_at.insert(seen.number, Age::of(&seen));
                        return Ok(Arc::new(seen));
                    }
                    // Removed meanwhile.
                    Err(error) if error.kind == ErrorKind::NotFound => continue,
                    Err(error) => return Err(refused(Verb::Watch, error)),
                }
            }
            match self.page {
                Page::From(before) => self.look(before).await?,
                Page::Done => match self.changes.next().await {
                    Ok(seen) if self.is_older(&seen) => {}
                    Ok(seen) => return Ok(seen),
                    Err(_missed) => self.page = Page::From(None),
                },
            }
        }
    }

    /// Whether a change came before what was read of the execution.
    fn is_older(&mut self, seen: &Seen) -> bool {
        let Some(age) = self.looked_at.get(&seen.number) else {
            return false;
        };
        let older = Age::of(seen) < *age;
        if !older {
            self.looked_at.remove(&seen.number);
        }
        older
    }

    /// Looks at the next page of the present set, newest first.
    async fn look(&mut self, before: Option<i64>) -> Result<()> {
        let query = ListQuery {
            before,
            limit: PAGE,
            ..ListQuery::default()
        };
        let page = self.engine.list(query).await;
        let page = page.map_err(|error| refused(Verb::Watch, error))?;
        for seen in page.items {
            self.looked_at.insert(seen.number, Age::of(&seen));
            self.ready.push_back(Arc::new(seen));
        }
        if !self.gather() {
            // So much was missed that what was looked at says little.
            self.page = Page::From(None);
            return Ok(());
        }
        match page.next {
            Some(next) => self.page = Page::From(Some(next)),
            None => self.catch_up(),
        }
        Ok(())
    }

    /// Takes in the changes that came while a page was looked at; false if some were missed.
    fn gather(&mut self) -> bool {
        while let Some(change) = self.changes.next().now_or_never() {
            match change {
                Ok(seen) => {
                    self.meanwhile.insert(seen.number, seen);
                }
                Err(_missed) => return false,
            }
        }
        true
    }

    /// Tells the changes that came while the present set was looked at.
    fn catch_up(&mut self) {
        self.page = Page::Done;
        let looked_at = std::mem::take(&mut self.looked_at);
        for seen in std::mem::take(&mut self.meanwhile).into_values() {
            let known = looked_at.get(&seen.number);
            let age = Age::of(&seen);
            if known.is_none_or(|known| age > *known) {
                self.ready.push_back(seen);
            } else if known == Some(&age) {
                // Workers came or left meanwhile; which of the two is newer is not known.
                self.unsure.push(Arc::clone(&seen.id));
            }
        }
    }
}
