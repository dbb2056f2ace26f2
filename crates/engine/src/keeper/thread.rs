//! The threads of the keeper. One waits for messages, lets the keeper process them, and shows the effects. The other
//! writes turns meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::watch;

use super::inbox::Envelope;
use super::{Done, Effect, Inbox, Job, Keeper, Message, Shared, StoreAccess, Writer};
use crate::Config;
use crate::clock::Clock;
use crate::error::Result;
use crate::fault::Faults;
use crate::news::Board;
use crate::store::{Reading, Store, StoreError, Turn};

/// The longest wait for a message: leases and a failed store are checked in between.
const LONGEST_WAIT: Duration = Duration::from_secs(1);
/// The longest wait while tests move the clock.
const MANUAL_CLOCK_WAIT: Duration = Duration::from_millis(2);

/// A turn with at most this many appends is written by the keeper itself: waking another thread would take as long as
/// what could be decided meanwhile.
const FEW_APPENDS: usize = 4;

struct Thread {
    /// The position of the last event on disk. Dropped before the messages that wait, so that their
    /// senders see that the thread has ended.
    committed: watch::Sender<i64>,
    keeper: Keeper,
    clock: Clock,
    faults: Faults,
    messages: Receiver<Envelope>,
    board: Arc<Board>,
    /// Whether a turn is being written.
    writing: Arc<AtomicBool>,
}

/// The thread that writes turns.
#[derive(Debug)]
struct WriterThread {
    /// Closed to end the thread.
    jobs: Option<SyncSender<Job>>,
    done: Receiver<Done>,
    writing: Arc<AtomicBool>,
    handle: Option<JoinHandle<()>>,
}

impl WriterThread {
    fn start(inbox: Inbox, board: Arc<Board>, committed: watch::Sender<i64>) -> Result<Self> {
        let (jobs, waiting) = sync_channel::<Job>(1);
        let (report, done) = sync_channel(1);
        let writing = Arc::<AtomicBool>::default();
        let flag = Arc::clone(&writing);
        let run = move || {
            for job in waiting {
                let done = job.carry_out(&board, &committed);
                flag.store(false, Ordering::Release);
                if report.send(done).is_err() {
                    return;
                }
                inbox.tell(Message::Written);
            }
        };
        let builder = std::thread::Builder::new().name("stateway-store".to_owned());
        let handle = builder.spawn(run).map_err(|error| no_thread(&error))?;
        Ok(Self {
            jobs: Some(jobs),
            done,
            writing,
            handle: Some(handle),
        })
    }
}

impl Writer for WriterThread {
    fn takes(&self, turn: &Turn) -> bool {
        turn.appends.len() > FEW_APPENDS
    }

    fn begin(&self, job: Job) {
        self.writing.store(true, Ordering::Release);
        let sent = match &self.jobs {
            Some(jobs) => jobs.send(job).is_ok(),
            None => false,
        };
        debug_assert!(sent, "the thread outlives the keeper");
    }

    fn end(&self) -> Done {
        self.done
            .recv()
            .expect("the thread outlives the keeper, and no commit panics")
    }
}

impl Drop for WriterThread {
    fn drop(&mut self) {
        self.jobs.take();
        if let Some(handle) = self.handle.take() {
            // A thread that panicked has printed why.
            let _ = handle.join();
        }
    }
}

fn no_thread(error: &std::io::Error) -> StoreError {
    StoreError::Failed(format!("no thread for the engine: {error}"))
}

/// Starts the keeper's thread, once every execution that was under way is taken up.
pub(crate) fn spawn(
    config: &Config,
    (store, reader): (Box<dyn Store>, Box<dyn Reading + Send>),
    shared: Shared,
) -> Result<(watch::Receiver<i64>, JoinHandle<()>, Inbox)> {
    let (inbox, messages) = Inbox::new(config.max_backlog);
    let committed = watch::Sender::new(store.last_position());
    let followed = committed.subscribe();
    let board = Arc::clone(&shared.board);
    let clock = config.clock.clone();
    let writer = WriterThread::start(inbox.clone(), Arc::clone(&board), committed.clone())?;
    let writing = Arc::clone(&writer.writing);
    let access = StoreAccess {
        store,
        reader,
        writer: Box::new(writer),
    };
    let (keeper, effects) = Keeper::open(config, access, shared, clock.moment())?;
    let thread = Thread {
        keeper,
        clock,
        faults: config.faults.clone(),
        messages,
        board,
        committed,
        writing,
    };
    show(effects, &thread.board, &thread.committed);
    let builder = std::thread::Builder::new().name("stateway-keeper".to_owned());
    let handle = builder
        .spawn(move || thread.run())
        .map_err(|error| no_thread(&error))?;
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
            let (mut last, mut is_lull) = (false, false);
            let (messages, writing) = (&self.messages, &self.writing);
            // Messages that arrive while the turn is being decided belong to it too, and so do those that arrive
            // while the turn before is being written. Its end is a message.
            let arriving = std::iter::from_fn(|| {
                let is_writing = writing.load(Ordering::Acquire);
                let waiting = first.take().or_else(|| messages.try_recv().ok());
                let envelope = match waiting {
                    None if is_writing && !is_lull => {
                        is_lull = true;
                        return Some(Message::Lull);
                    }
                    None if is_writing => messages.recv().ok()?,
                    waiting => waiting?,
                };
                is_lull = false;
                let message = envelope.open();
                last |= matches!(message, Message::Stop);
                Some(message)
            });
            let effects = self.keeper.turn(arriving, self.clock.moment());
            show(effects, &self.board, &self.committed);
            if last {
                let effects = self.keeper.flush();
                show(effects, &self.board, &self.committed);
                return;
            }
        }
    }

    /// How long the thread can sleep unless a message arrives.
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
///
/// Messages to workers come first, one right after the other: the session of a worker then sends all of them together.
pub(crate) fn show(effects: Vec<Effect>, board: &Board, committed: &watch::Sender<i64>) {
    let (messages, others): (Vec<_>, Vec<_>) = effects
        .into_iter()
        .partition(|effect| matches!(effect, Effect::Tell(..)));
    for effect in messages.into_iter().chain(others) {
        match effect {
            Effect::Answer(answer) => answer.deliver(),
            Effect::Tell(worker, message) => drop(worker.send(message)),
            Effect::Changed(view) => board.tell(view),
            Effect::Removed(removed) => board.tell_removed(removed),
            Effect::Committed(position) => drop(committed.send_replace(position)),
        }
    }
}
