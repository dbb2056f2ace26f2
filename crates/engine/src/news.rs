//! The feed of changes: of one execution, of its end, of all executions, of those that wait for a person.
//!
//! The keeper checks for watchers before it builds a view.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{broadcast, watch};

use crate::View;

/// How far a watcher of everything may fall behind before it has to look again.
const BEHIND: usize = 4_096;

/// An execution as it was last seen; `None` before anything was.
pub type News = Option<Arc<View>>;

/// An execution that the store no longer has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Removed {
    /// Its place among all executions. It is not used again.
    pub number: i64,
    /// Its id. It may be used again.
    pub id: Arc<str>,
}

/// One item of the feed of all executions.
#[derive(Debug, Clone)]
pub enum Change {
    /// An execution as it is now.
    Seen(Arc<View>),
    /// An execution that was purged.
    Removed(Arc<Removed>),
}

/// Everyone who watches.
#[derive(Debug)]
pub(crate) struct Board {
    /// `None`: what was reported is not complete, and everything must be read again.
    everything: broadcast::Sender<Option<Change>>,
    everywhere: AtomicUsize,
    /// How often someone began to follow many executions.
    followed: AtomicU64,
    /// How many follow the executions that wait for a person.
    inboxes: AtomicUsize,
    ones: Mutex<HashMap<Arc<str>, Watched>>,
    watched: AtomicUsize,
}

/// An execution that is watched: step by step, or only for its end.
#[derive(Debug)]
struct Watched {
    tell: watch::Sender<News>,
    /// Whether a watcher wants more changes than the end.
    every_step: bool,
}

/// Changes of many executions, as they happen.
#[derive(Debug)]
pub struct Changes {
    receiver: broadcast::Receiver<Option<Change>>,
    scope: Scope,
    board: Arc<Board>,
}

/// Which executions a feed must report. It may report others.
#[derive(Debug, Clone, Copy)]
enum Scope {
    Everything,
    Inbox,
}

/// A change of an execution, as far as it matters to who wants to know of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Turned {
    /// The execution has ended.
    pub(crate) ended: bool,
    /// The execution waits for a person, or did so before the change.
    pub(crate) inbox: bool,
}

impl Default for Board {
    fn default() -> Self {
        Self {
            everything: broadcast::Sender::new(BEHIND),
            everywhere: AtomicUsize::new(0),
            followed: AtomicU64::new(0),
            inboxes: AtomicUsize::new(0),
            ones: Mutex::default(),
            watched: AtomicUsize::new(0),
        }
    }
}

impl Board {
    /// Whether a watcher wants this change of an execution.
    pub(crate) fn wants(&self, id: &str, turned: Turned) -> bool {
        if self.everywhere.load(Ordering::Acquire) > 0
            || turned.inbox && self.inboxes.load(Ordering::Acquire) > 0
        {
            return true;
        }
        let watched = self.watched.load(Ordering::Acquire) > 0;
        watched
            && self
                .ones()
                .get(id)
                .is_some_and(|watched| turned.ended || watched.every_step)
    }

    /// How often someone has begun to follow many executions.
    pub(crate) fn followed(&self) -> u64 {
        self.followed.load(Ordering::Acquire)
    }

    /// Notifies every watcher.
    pub(crate) fn tell(&self, view: Arc<View>) {
        if self.watched.load(Ordering::Acquire) > 0 {
            let mut ones = self.ones();
            if let Some(watched) = ones.get(&view.id) {
                watched.tell.send_replace(Some(Arc::clone(&view)));
                // Present watchers have the end; a later watcher reads the execution first.
                if view.state.is_terminal() || watched.tell.receiver_count() == 0 {
                    ones.remove(&view.id);
                    self.watched.store(ones.len(), Ordering::Release);
                }
            }
        }
        if self.is_followed() {
            // No listener is left, which is not an error.
            let _ = self.everything.send(Some(Change::Seen(view)));
        }
    }

    /// The keeper no longer has an execution that has ended. Someone who began to watch it after its end was
    /// told has to read it.
    pub(crate) fn release(&self, id: &str) {
        if self.watched.load(Ordering::Acquire) > 0 {
            let mut ones = self.ones();
            ones.remove(id);
            self.watched.store(ones.len(), Ordering::Release);
        }
    }

    /// The keeper has dropped everything: everyone who watches one execution has to read it.
    pub(crate) fn release_all(&self) {
        self.ones().clear();
        self.watched.store(0, Ordering::Release);
    }

    /// Changes may have been missed: everyone who follows many executions has to read them again.
    pub(crate) fn read_again(&self) {
        if self.is_followed() {
            let _ = self.everything.send(None);
        }
    }

    /// Reports a removal. Watchers of the one execution find out by reading it.
    pub(crate) fn tell_removed(&self, removed: Arc<Removed>) {
        if self.watched.load(Ordering::Acquire) > 0 {
            let mut ones = self.ones();
            ones.remove(&removed.id);
            self.watched.store(ones.len(), Ordering::Release);
        }
        if self.is_followed() {
            let _ = self.everything.send(Some(Change::Removed(removed)));
        }
    }

    pub(crate) fn watch_everything(self: &Arc<Self>) -> Changes {
        self.follow(Scope::Everything)
    }

    pub(crate) fn watch_inbox(self: &Arc<Self>) -> Changes {
        self.follow(Scope::Inbox)
    }

    fn follow(self: &Arc<Self>, scope: Scope) -> Changes {
        self.followers(scope).fetch_add(1, Ordering::AcqRel);
        self.followed.fetch_add(1, Ordering::AcqRel);
        Changes {
            receiver: self.everything.subscribe(),
            scope,
            board: Arc::clone(self),
        }
    }

    const fn followers(&self, scope: Scope) -> &AtomicUsize {
        match scope {
            Scope::Everything => &self.everywhere,
            Scope::Inbox => &self.inboxes,
        }
    }

    /// Whether a watcher follows many executions.
    fn is_followed(&self) -> bool {
        let followed = |scope| self.followers(scope).load(Ordering::Acquire) > 0;
        followed(Scope::Everything) || followed(Scope::Inbox)
    }

    pub(crate) fn watch_one(&self, id: &Arc<str>, every_step: bool) -> watch::Receiver<News> {
        let mut ones = self.ones();
        if ones.len() >= SWEEP_AT && ones.len().is_power_of_two() {
            ones.retain(|_, watched| watched.tell.receiver_count() > 0);
        }
        let watched = ones.entry(Arc::clone(id)).or_insert_with(|| Watched {
            tell: watch::Sender::new(None),
            every_step,
        });
        watched.every_step |= every_step;
        let receiver = watched.tell.subscribe();
        self.watched.store(ones.len(), Ordering::Release);
        receiver
    }

    fn ones(&self) -> std::sync::MutexGuard<'_, HashMap<Arc<str>, Watched>> {
        self.ones.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// From this many watched executions on, those without watchers are removed.
const SWEEP_AT: usize = 64;

impl Changes {
    /// The next change; `Err` if the watcher missed too many changes and must read everything again.
    ///
    /// # Errors
    /// How many were missed; zero if that is unknown.
    pub async fn next(&mut self) -> Result<Change, u64> {
        match self.receiver.recv().await {
            Ok(Some(change)) => Ok(change),
            Ok(None) => Err(0),
            Err(broadcast::error::RecvError::Lagged(missed)) => Err(missed),
            // Each watcher owns a reference to the board, so the board outlives it.
            Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
        }
    }
}

impl Drop for Changes {
    fn drop(&mut self) {
        let followers = self.board.followers(self.scope);
        followers.fetch_sub(1, Ordering::AcqRel);
    }
}
