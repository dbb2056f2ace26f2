//! The thread around the keeper: waits for messages, lets the keeper process them, shows the effects.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::watch;

use super::inbox::Envelope;
use super::{Effect, Inbox, Keeper, Message, Shared};
use crate::Config;
use crate::clock::Clock;
use crate::error::Result;
use crate::fault::Faults;
use crate::news::Board;
use crate::store::{Store, StoreError};

/// The longest wait for a message: leases and a failed store are checked in between.
const LONGEST_WAIT: Duration = Duration::from_secs(1);
/// The longest wait while tests move the clock.
const MANUAL_CLOCK_WAIT: Duration = Duration::from_millis(2);

struct Thread {
    /// The position of the last event on disk. Dropped before the messages that wait, so that their
    /// senders see that the thread has ended.
    committed: watch::Sender<i64>,
    keeper: Keeper,
    clock: Clock,
    faults: Faults,
    messages: Receiver<Envelope>,
    board: Arc<Board>,
}

/// Starts the keeper's thread, once every execution that was under way is taken up.
pub(crate) fn spawn(
    config: &Config,
    store: Box<dyn Store>,
    shared: Shared,
) -> Result<(watch::Receiver<i64>, JoinHandle<()>, Inbox)> {
    let (inbox, messages) = Inbox::new(config.max_backlog);
    let committed = watch::Sender::new(store.last_position());
    let followed = committed.subscribe();
    let board = Arc::clone(&shared.board);
    let clock = config.clock.clone();
    let (keeper, effects) = Keeper::open(config, store, shared, clock.moment())?;
    let thread = Thread {
        keeper,
        clock,
        faults: config.faults.clone(),
        messages,
        board,
        committed,
    };
    show(effects, &thread.board, &thread.committed);
    let builder = std::thread::Builder::new().name("stateway-keeper".to_owned());
    let handle = builder
        .spawn(move || thread.run())
        .map_err(|error| StoreError::Failed(format!("no thread for the engine: {error}")))?;
    Ok((followed, handle, inbox))
}

impl Thread {
    fn run(mut self) {
        // Kept over turns: a turn that was abandoned may not have taken it.
        let mut first = None;
        loop {
            self.faults.panic_for("");
            if first.is_none() {
                first = match self.messages.recv_timeout(self.wait()) {
                    Ok(envelope) => Some(envelope),
                    Err(RecvTimeoutError::Timeout) => None,
                    Err(RecvTimeoutError::Disconnected) => return,
                };
            }
            let mut last = false;
            let messages = &self.messages;
            // Messages that arrive while the turn is being decided belong to it too.
            let arriving = std::iter::from_fn(|| {
                let envelope = first.take().or_else(|| messages.try_recv().ok())?;
                let message = envelope.open();
                last |= matches!(message, Message::Stop);
                Some(message)
            });
            let effects = self.keeper.turn(arriving, self.clock.moment());
            show(effects, &self.board, &self.committed);
            if last {
                return;
            }
        }
    }

    /// How long there is nothing to do unless a message arrives.
    fn wait(&self) -> Duration {
        let now = self.clock.moment();
        let wait = self.keeper.idle(now).min(LONGEST_WAIT);
        if self.clock.is_manual() {
            wait.min(MANUAL_CLOCK_WAIT)
        } else {
            wait
        }
    }
}

/// Shows what a turn has led to, now that it is on disk. A receiver that has gone away is no failure.
pub(crate) fn show(effects: Vec<Effect>, board: &Board, committed: &watch::Sender<i64>) {
    for effect in effects {
        match effect {
            Effect::Answer(answer) => answer.deliver(),
            Effect::Tell(worker, message) => drop(worker.send(message)),
            Effect::Changed(view) => board.tell(view),
            Effect::Removed(removed) => board.tell_removed(removed),
            Effect::Committed(position) => drop(committed.send_replace(position)),
        }
    }
}
