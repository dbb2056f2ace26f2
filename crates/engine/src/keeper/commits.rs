//! Commits beside the deciding: while one turn is written, the keeper decides about the next.
//!
//! The store is at one place at a time. [`StoreSlot`] hands it to a [`Writer`] together with a turn and its
//! effects. The writer writes the turn, shows the effects, and gives the store back. Code that uses the store
//! meanwhile waits for that. If the turn cannot be written, the keeper drops everything that it has decided
//! since, together with the turn: see [`Keeper::settle_commit`].

use std::cell::{OnceCell, RefCell};
use std::ops::{Deref, DerefMut};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use tokio::sync::watch;

use super::outbox::{Changed, Requests};
use super::{Effect, Keeper, Live, show};
use crate::EngineError;
use crate::bug::Bug;
use crate::news::Board;
use crate::store::{Reading, Store, StoreError, Turn};

/// A turn that is to be written.
#[derive(Debug)]
pub(crate) struct Job {
    store: Box<dyn Store>,
    turn: Turn,
    /// The changes that are visible already, before the effects.
    shown: Vec<Effect>,
    /// The changes that become visible when the turn is on disk.
    effects: Vec<Effect>,
}

/// A turn that was written, or could not be.
#[derive(Debug)]
pub(crate) struct Done {
    store: Box<dyn Store>,
    ended: Ended,
}

/// The end of a commit.
#[derive(Debug)]
struct Ended {
    turn: Turn,
    outcome: Result<(), StoreError>,
    /// The effects of a turn that could not be written.
    effects: Vec<Effect>,
}

impl Job {
    /// Writes the turn, and shows its effects.
    pub(crate) fn carry_out(mut self, board: &Board, committed: &watch::Sender<i64>) -> Done {
        show(self.shown, board, committed);
        let written = catch_unwind(AssertUnwindSafe(|| write(&mut *self.store, &self.turn)));
        let written = written
            .unwrap_or_else(|_| Err(StoreError::Failed("a commit ended in a panic".to_owned())));
        let mut effects = self.effects;
        let outcome = written.map(|position| {
            show(position.into_iter().collect(), board, committed);
            show(std::mem::take(&mut effects), board, committed);
        });
        Done {
            store: self.store,
            ended: Ended {
                turn: self.turn,
                outcome,
                effects,
            },
        }
    }
}

/// Writes a turn; what may be seen of the log then.
pub(super) fn write(store: &mut dyn Store, turn: &Turn) -> Result<Option<Effect>, StoreError> {
    let began = Instant::now();
    store.commit(turn).result()?;
    account(turn, began.elapsed());
    let position = store.last_position();
    Ok((!turn.appends.is_empty()).then_some(Effect::Committed(position)))
}

fn account(turn: &Turn, took: Duration) {
    metrics::histogram!("stateway_engine_commit_seconds").record(took);
    metrics::counter!("stateway_engine_commits_total").increment(1);
    metrics::counter!("stateway_engine_appends_total").increment(turn.appends.len() as u64);
}

/// Writes turns beside the keeper.
pub(crate) trait Writer: std::fmt::Debug + Send {
    /// Whether a turn is written beside the keeper. A turn that is not, is written by the keeper.
    fn takes(&self, turn: &Turn) -> bool;

    /// Begins to write a turn. There is one at a time.
    fn begin(&self, job: Job);

    /// Waits for the end of the turn that was begun.
    fn end(&self) -> Done;
}

/// The keeper writes every turn itself.
#[cfg(test)]
#[derive(Debug)]
pub(crate) struct NoWriter;

#[cfg(test)]
impl Writer for NoWriter {
    fn takes(&self, _: &Turn) -> bool {
        false
    }

    fn begin(&self, _: Job) {
        unreachable!("no turn is taken");
    }

    fn end(&self) -> Done {
        unreachable!("no turn was begun");
    }
}

/// The operations of a store that the keeper uses.
#[derive(Debug)]
pub(crate) struct StoreAccess {
    pub(crate) store: Box<dyn Store>,
    /// Reads what is on disk while the store is with the writer.
    pub(crate) reader: Box<dyn Reading + Send>,
    pub(crate) writer: Box<dyn Writer>,
}

/// The store of the keeper. Using it waits for the end of the turn that is being written.
#[derive(Debug)]
pub(super) struct StoreSlot {
    /// Empty while the store is with the writer.
    here: OnceCell<Box<dyn Store>>,
    writer: Box<dyn Writer>,
    /// The end of the last commit, until [`Keeper::settle_commit`] takes notice of it.
    ended: RefCell<Option<Ended>>,
}

impl StoreSlot {
    pub(super) fn new(store: Box<dyn Store>, writer: Box<dyn Writer>) -> Self {
        Self {
            here: OnceCell::from(store),
            writer,
            ended: RefCell::new(None),
        }
    }

    /// Whether a turn is being written.
    pub(super) fn is_away(&self) -> bool {
        self.here.get().is_none()
    }

    pub(super) fn takes(&self, turn: &Turn) -> bool {
        self.writer.takes(turn)
    }

    /// Hands a turn to the writer.
    pub(super) fn begin(&mut self, turn: Turn, (shown, effects): (Vec<Effect>, Vec<Effect>)) {
        self.get();
        if let Some(store) = self.here.take() {
            self.writer.begin(Job {
                store,
                turn,
                shown,
                effects,
            });
        }
    }

    /// Waits for the turn that is being written, and takes notice of its end.
    fn take_ended(&mut self) -> Option<Ended> {
        self.get();
        self.ended.take()
    }

    /// Why the turn that was written last could not be written.
    pub(super) fn failure(&self) -> Option<EngineError> {
        self.get();
        let ended = self.ended.borrow();
        let error = ended.as_ref()?.outcome.as_ref().err()?;
        Some(EngineError::from_store(error))
    }

    fn get(&self) -> &(dyn Store + 'static) {
        let store = self.here.get_or_init(|| {
            let Done { store, ended } = self.writer.end();
            self.ended.replace(Some(ended));
            store
        });
        store.as_ref()
    }
}

impl Deref for StoreSlot {
    type Target = dyn Store;

    fn deref(&self) -> &Self::Target {
        self.get()
    }
}

impl DerefMut for StoreSlot {
    fn deref_mut(&mut self) -> &mut Self::Target {
        self.get();
        let store = self.here.get_mut().expect("the store was just taken back");
        &mut **store
    }
}

/// The data about a turn that the keeper needs while the turn is being written.
#[derive(Debug, Default)]
pub(super) struct UnderWay {
    /// The executions that may leave memory when the turn is on disk.
    pub(super) leaving: Vec<i64>,
    pub(super) changed: Vec<Changed>,
    /// How often someone had begun to follow executions when their changes were gathered.
    pub(super) followed: u64,
    /// The request ids of the turn.
    pub(super) requests: Requests,
    /// Whether memory was full.
    pub(super) was_full: bool,
}

impl Keeper {
    /// Waits for the turn that is being written. If it could not be written, everything that was decided
    /// since is dropped with it, and this returns false.
    pub(super) fn settle_commit(&mut self) -> bool {
        let Some(under_way) = self.under_way.take() else {
            return true;
        };
        let Some(ended) = self.store.take_ended() else {
            return true;
        };
        let failed = ended.outcome.err();
        if let Some(error) = failed.filter(|_| !self.config.has(Bug::KeepsDecisionsOfFailedTurns)) {
            self.outbox.return_effects(ended.effects);
            self.break_off(&error);
            return false;
        }
        self.outbox.recycle(ended.turn);
        self.committed(under_way);
        true
    }

    /// A turn is on disk: what waited for that happens.
    pub(super) fn committed(&mut self, under_way: UnderWay) {
        // Someone who began to follow executions while the turn was being written may have read the store
        // before: they learn of the changes with the next turn.
        if self.board.followed() != under_way.followed {
            for changed in under_way.changed {
                self.outbox.changed(changed);
            }
            // They are shown first.
            for number in under_way.leaving {
                self.executions.touch(number);
            }
        } else {
            self.leaving.extend(under_way.leaving);
        }
        self.was_full |= under_way.was_full;
    }

    /// Executions that this turn has touched do not leave by what was found in the turn before.
    pub(super) fn keep_touched(&mut self) {
        let executions = &self.executions;
        let touched = |live: &Live| live.touched || live.gathered;
        self.leaving
            .retain(|number| !executions.get(*number).is_some_and(touched));
    }

    /// Unloads the executions that have nothing to do in memory and are on disk.
    pub(super) fn unload(&mut self) {
        let left = !self.leaving.is_empty();
        for number in std::mem::take(&mut self.leaving) {
            if let Some(ended) = self.executions.unload(number) {
                self.board.release(&ended);
            }
        }
        // There may be room for a queued execution now; the next turn sees to it.
        let was_full = std::mem::take(&mut self.was_full);
        let has_room = left || was_full && !self.is_memory_full();
        if has_room && self.slots.are_wanted() {
            self.slots_due = true;
        }
    }

    /// Whether a turn is being written.
    #[cfg(feature = "simulation")]
    pub(crate) const fn is_writing(&self) -> bool {
        self.under_way.is_some()
    }

    /// Waits until everything that was decided is on disk; what may be seen then.
    pub(crate) fn flush(&mut self) -> Vec<Effect> {
        if self.settle_commit() {
            self.keep_touched();
            self.unload();
        }
        std::mem::take(&mut self.shown)
    }

    /// Drops what is remembered of the turn that is being written, with the effects that it did not have.
    pub(super) fn drop_commit(&mut self) {
        if self.under_way.take().is_some()
            && let Some(ended) = self.store.take_ended()
        {
            // Those of a turn on disk were shown.
            self.outbox.return_effects(ended.effects);
        }
        self.leaving.clear();
        self.was_full = false;
    }
}
