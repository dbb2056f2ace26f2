//! Open watches and waits, shared fairly: no caller can take all of them.
//!
//! A caller can open another stream while it has fewer open than are free. One greedy caller gets at
//! most half of all streams, two get a third each, and there is always one for a newcomer as long
//! as there are fewer greedy callers than streams. Watches and waits have separate pools, so that
//! watches never keep anyone from waiting.
//!
//! A stream counts for its connection and, where the caller has a name, for that name: neither many
//! connections of one name nor many names on one connection get more.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use metrics::gauge;
use stateway_provider_api::{ANONYMOUS, Call};
use tonic::{Code, Status};

use crate::front::Peer;
use crate::status::Refusal;

/// How long a refused caller should pause.
const PAUSE: Duration = Duration::from_secs(5);

/// What the streams of a pool are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StreamKind {
    Watch,
    Wait,
}

/// The streams of one kind that are open.
#[derive(Debug)]
pub(crate) struct StreamPool {
    kind: StreamKind,
    most: usize,
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    all: usize,
    by: HashMap<Holder, usize>,
}

/// Who holds streams.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Holder {
    /// A connection; none for calls from inside the process.
    Connection(Option<Peer>),
    Actor(Arc<str>),
}

/// The right to one open stream.
#[derive(Debug)]
pub(crate) struct StreamPermit {
    pool: Arc<StreamPool>,
    holders: Vec<Holder>,
}

impl StreamPool {
    pub(crate) fn new(kind: StreamKind, most: usize) -> Arc<Self> {
        Arc::new(Self {
            kind,
            most,
            open: Mutex::default(),
        })
    }

    /// Counts one more stream of a caller, or refuses it.
    pub(crate) fn open(
        self: &Arc<Self>,
        peer: Option<Peer>,
        call: &Call,
    ) -> Result<StreamPermit, Status> {
        let mut holders = vec![Holder::Connection(peer)];
        if &*call.actor != ANONYMOUS {
            holders.push(Holder::Actor(call.actor.clone()));
        }
        let mut open = self.lock();
        let free = self.most.saturating_sub(open.all);
        let held = |holder| open.by.get(holder).copied().unwrap_or(0);
        if free == 0 {
            return Err(self.refusal(&format!("{} are open", self.most)));
        }
        if let Some(held) = holders.iter().map(held).find(|held| *held >= free) {
            let what = format!("this caller has {held} of {} open", self.most);
            return Err(self.refusal(&what));
        }
        open.all += 1;
        for holder in &holders {
            *open.by.entry(holder.clone()).or_default() += 1;
        }
        self.report(open.all);
        drop(open);
        Ok(StreamPermit {
            pool: self.clone(),
            holders,
        })
    }

    fn refusal(&self, what: &str) -> Status {
        let (reason, setting, streams) = match self.kind {
            StreamKind::Watch => ("TOO_MANY_WATCHES", "watch.max_streams", "watches"),
            StreamKind::Wait => ("TOO_MANY_WAITS", "watch.max_waits", "waits"),
        };
        Refusal::new(
            Code::ResourceExhausted,
            reason,
            format!("{streams}: {what}"),
        )
        .hint(format!(
            "Close {streams} that are not needed. One caller can open at most half of the \
                 {streams} that other callers leave free; `{setting}` limits all callers \
                 together."
        ))
        .retry_after(PAUSE)
        .into()
    }

    fn report(&self, open: usize) {
        match self.kind {
            StreamKind::Watch => gauge!("stateway_watchers").set(open as f64),
            StreamKind::Wait => gauge!("stateway_waiters").set(open as f64),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for StreamPermit {
    fn drop(&mut self) {
        let mut open = self.pool.lock();
        open.all -= 1;
        for holder in &self.holders {
            if let Some(held) = open.by.get_mut(holder) {
                *held -= 1;
                if *held == 0 {
                    open.by.remove(holder);
                }
            }
        }
        self.pool.report(open.all);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller(actor: &str) -> Call {
        Call {
            actor: actor.into(),
            ..Call::within(Duration::from_secs(1))
        }
    }

    fn peer(port: u16) -> Option<Peer> {
        Some(Peer(([127, 0, 0, 1], port).into()))
    }

    /// Opens as many as it can.
    fn all(pool: &Arc<StreamPool>, peer: Option<Peer>, actor: &str) -> Vec<StreamPermit> {
        std::iter::from_fn(|| pool.open(peer, &caller(actor)).ok()).collect()
    }

    #[test]
    fn a_greedy_connection_gets_half_and_the_next_ones_less() {
        let pool = StreamPool::new(StreamKind::Watch, 100);
        let first = all(&pool, peer(1), ANONYMOUS);
        assert_eq!(first.len(), 50);
        let second = all(&pool, peer(2), ANONYMOUS);
        assert_eq!(second.len(), 25);
        assert!(pool.open(peer(3), &caller(ANONYMOUS)).is_ok());
        drop(first);
        assert_eq!(all(&pool, peer(3), ANONYMOUS).len(), 38);
    }

    #[test]
    fn neither_many_connections_nor_many_names_get_more() {
        let pool = StreamPool::new(StreamKind::Watch, 100);
        let by_name: Vec<_> = (0..100).flat_map(|n| all(&pool, peer(n), "eve")).collect();
        assert_eq!(by_name.len(), 50);
        drop(by_name);
        let by_connection: Vec<_> = (0..100)
            .flat_map(|n| all(&pool, peer(1), &format!("eve{n}")))
            .collect();
        assert_eq!(by_connection.len(), 50);
        assert!(pool.open(peer(2), &caller("ada")).is_ok());
    }

    #[test]
    fn what_is_closed_is_free_again_and_nothing_is_remembered() {
        let pool = StreamPool::new(StreamKind::Wait, 1);
        let permit = pool.open(peer(1), &caller("ada")).unwrap();
        let refused = pool.open(peer(2), &caller("ben")).unwrap_err();
        assert_eq!(refused.code(), Code::ResourceExhausted);
        drop(permit);
        assert!(pool.open(peer(2), &caller("ben")).is_ok());
        assert!(pool.lock().by.is_empty());
    }
}
