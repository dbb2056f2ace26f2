//! The owner of the store: its lease, and its turns.
//!
//! The crate `lease` decides what is sent next and what an answer means; `tests/model.rs` there visits every state. Here
//! are the statements. Every turn is one transaction that begins with the update of the shard's row and is sent without
//! waiting in between. A turn whose outcome is unknown is settled by a take-over.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::Poll;
use std::time::Duration;

use jiff::Timestamp;
use stateway_lease::{Answer, Effect, Ownership, Request};
use stateway_model::SubState;
use tokio_postgres::error::SqlState;

use super::error::{is_answer, store_error, unreachable};
use super::fated::fated;
use super::read::PostgresReader;
use super::row::field;
use super::schema;
use super::session::{Server, Session, Value};
use super::turn::{last_number, writes};
use crate::Faults;
use crate::request::{DefinitionRecord, DisabledTrigger, EventRecord, ListQuery};
use crate::store::layer::layered_reading;
use crate::store::{
    Answered, Branch, Commit, DefinitionReading, EachRow, Epoch, ExecutionRow, Hash, LeaseClock,
    LeaseEnd, LogReading, Reading, RequestReading, Result, RowReading, Snapshot, Store, StoreError,
    Turn,
};

/// Becomes the owner if the lease has ended, the store was released, or this process owns it.
const TAKE: &str = "UPDATE shards SET epoch = epoch + 1, \
     since = CASE WHEN owner = $1 THEN since ELSE epoch + 1 END, owner = $1, owner_name = $2, \
     address = $4, address_since = CASE WHEN owner = $1 THEN since ELSE epoch + 1 END, \
     lease_until = clock_timestamp() + make_interval(secs => $3::float8) \
     WHERE id = 0 AND (owner IS NULL OR owner = $1 OR lease_until < clock_timestamp()) \
     RETURNING epoch, since, turn, position";
/// Begins a turn. If the row has another epoch or another turn, the division fails and with it the transaction.
const FENCE: &str = "WITH fence AS (UPDATE shards SET turn = turn + 1, position = $3, \
     number = greatest(number, $4), lease_until = clock_timestamp() + make_interval(secs => $5::float8) \
     WHERE id = 0 AND epoch = $1 AND turn = $2 RETURNING 1) SELECT 1 / count(*) FROM fence";
/// Gateways before version 2 of the tables write no address, and leave that of the owner before them.
const OWNER: &str = "SELECT owner_name, CASE WHEN owner IS NOT NULL AND address_since = since THEN address ELSE '' END \
     FROM shards WHERE id = 0";
const RENEW: &str = "UPDATE shards SET lease_until = clock_timestamp() + make_interval(secs => $2::float8) \
     WHERE id = 0 AND epoch = $1 RETURNING 1";
const RELEASE: &str = "UPDATE shards SET owner = NULL, owner_name = '', address = '', lease_until = '-infinity' \
     WHERE id = 0 AND epoch = $1 RETURNING 1";
/// Commits are never acknowledged before they are on disk. A stronger setting of the server stays.
const DURABLE: &str = "SELECT set_config('synchronous_commit', 'on', false) \
     WHERE current_setting('synchronous_commit') IN ('off', 'local')";

/// A store that this process owns or wants to own. Reads use a connection of their own.
#[derive(Debug)]
pub(super) struct OwnedStore<P> {
    inner: P,
    owner: Arc<Owner>,
    /// Whether this is the store itself, and not a view of it.
    closes: bool,
}

impl OwnedStore<Box<PostgresReader>> {
    pub(super) const fn new(inner: Box<PostgresReader>, owner: Arc<Owner>) -> Self {
        Self {
            inner,
            owner,
            closes: true,
        }
    }
}

impl<P> OwnedStore<P> {
    fn over<Q>(&self, inner: Q) -> OwnedStore<Q> {
        OwnedStore {
            inner,
            owner: Arc::clone(&self.owner),
            closes: false,
        }
    }

    #[allow(clippy::unused_self)] // The same call as in other layers.
    fn read<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        work()
    }
}

impl<P> Drop for OwnedStore<P> {
    fn drop(&mut self) {
        if self.closes {
            self.owner.close();
        }
    }
}

layered_reading!(OwnedStore);

impl Store for OwnedStore<Box<PostgresReader>> {
    fn own(&mut self) -> Result<Epoch> {
        self.owner.state().own()
    }

    fn check(&self) -> Result<()> {
        self.owner.check()
    }

    fn lease(&self) -> Option<Arc<LeaseEnd>> {
        Some(Arc::clone(&self.owner.known.lease))
    }

    fn commit(&mut self, turn: &Turn) -> Commit {
        self.owner.state().commit(turn)
    }

    fn last_position(&self) -> i64 {
        self.owner.known.position.load(Ordering::Acquire)
    }
}

/// The ownership of the store, shared with the thread that renews the lease.
#[derive(Debug)]
pub(super) struct Owner {
    state: Mutex<State>,
    known: Arc<Known>,
    /// Closed to end the thread.
    renewing: Mutex<Option<Sender<()>>>,
}

/// What is known without asking the server, and without waiting for whoever asks it.
#[derive(Debug)]
struct Known {
    lease: Arc<LeaseEnd>,
    /// Whether the memory of the keeper is what the store has. It is again after [`State::own`].
    valid: AtomicBool,
    /// The position of the last event.
    position: AtomicI64,
}

impl Known {
    fn is_valid(&self) -> bool {
        self.valid.load(Ordering::Acquire)
    }
}

impl Owner {
    /// The ownership, and a thread that renews the lease while this process is the owner.
    pub(super) fn start(server: Arc<Server>, faults: Faults) -> Result<Arc<Self>> {
        let known = Arc::new(Known {
            lease: Arc::new(LeaseEnd::new(server.shown.clone())),
            valid: AtomicBool::new(false),
            position: AtomicI64::new(0),
        });
        let (renewing, stop) = channel();
        let every = server.config.lease / 4;
        let owner = Arc::new(Self {
            state: Mutex::new(State {
                id: process_id()?,
                server,
                faults,
                session: None,
                ownership: Ownership::default(),
                dead: false,
                renewed: LeaseClock::now(),
                known: Arc::clone(&known),
            }),
            known,
            renewing: Mutex::new(Some(renewing)),
        });
        let weak = Arc::downgrade(&owner);
        std::thread::Builder::new()
            .name("stateway-lease".to_owned())
            .spawn(move || renew(&weak, &stop, every))
            .map_err(|error| StoreError::Failed(format!("no thread for the store: {error}")))?;
        Ok(owner)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Fails once the lease has ended by the clock of this process, or was lost.
    fn check(&self) -> Result<()> {
        if self.known.is_valid() {
            self.known.lease.check()
        } else {
            Err(self.known.lease.ended())
        }
    }

    /// Gives the store up, so that another process need not wait for the end of the lease.
    fn close(&self) {
        let renewing = self.renewing.lock();
        renewing.unwrap_or_else(PoisonError::into_inner).take();
        self.state().release();
    }
}

/// A name of this process that no other process has.
fn process_id() -> Result<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)
        .map_err(|error| StoreError::Failed(format!("no random numbers: {error}")))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn renew(owner: &Weak<Owner>, stop: &Receiver<()>, every: Duration) {
    while let Err(RecvTimeoutError::Timeout) = stop.recv_timeout(every) {
        let Some(owner) = owner.upgrade() else {
            return;
        };
        owner.state().renew_in_time(every);
    }
}

#[derive(Debug)]
struct State {
    /// This process, in the row of the shard.
    id: String,
    server: Arc<Server>,
    faults: Faults,
    session: Option<Session>,
    ownership: Ownership,
    /// A test has let the process die.
    dead: bool,
    /// When the last request was sent that extended the lease.
    renewed: LeaseClock,
    known: Arc<Known>,
}

/// The outcome of the transaction of a turn.
enum Sent {
    Stored,
    /// Nothing is stored, because of this.
    Refused(StoreError),
    /// The row of the shard had another epoch or turn. Nothing is stored.
    Fenced,
    Unknown(StoreError),
}

impl State {
    fn own(&mut self) -> Result<Epoch> {
        self.alive()?;
        // A keeper that drops its memory for a reason of its own still is the owner.
        if self.ownership.epoch().is_some() {
            self.renew();
        }
        if self.ownership.epoch().is_none() {
            self.take()?;
        }
        let epoch = self.ownership.epoch();
        let epoch = epoch.ok_or_else(|| self.standby())?;
        self.known.valid.store(true, Ordering::Release);
        Ok(epoch)
    }

    /// Becomes the owner; what that says about turns whose outcome was open.
    fn take(&mut self) -> Result<Vec<Effect>> {
        let Some(request) = self.ownership.take() else {
            return Ok(Vec::new());
        };
        let sent = LeaseClock::now();
        let taken = match self.ask_for_store() {
            Ok(taken) => taken,
            Err(error) => {
                self.ownership.answered(request, Answer::Unknown);
                return Err(error);
            }
        };
        let Some((answer, position)) = taken else {
            self.ownership.answered(request, Answer::Refused);
            self.known.lease.end();
            return Err(self.standby());
        };
        let effects = self.ownership.answered(request, answer);
        self.known.position.store(position, Ordering::Release);
        self.extended(sent);
        tracing::info!(
            epoch = self.ownership.epoch(),
            "this gateway owns the store"
        );
        Ok(effects)
    }

    fn ask_for_store(&mut self) -> Result<Option<(Answer, i64)>> {
        let (id, name) = (self.id.clone(), self.server.config.name.clone());
        let address = self.server.config.reached_at.clone().unwrap_or_default();
        let lease = self.lease();
        let session = self.session()?;
        let Some(row) = session.row(TAKE, &[&id, &name, &lease, &address])? else {
            return Ok(None);
        };
        let number = |at| field::<i64>(&row, at).map(i64::unsigned_abs);
        let answer = Answer::Taken {
            epoch: number(0)?,
            since: number(1)?,
            position: number(2)?,
        };
        Ok(Some((answer, field(&row, 3)?)))
    }

    fn commit(&mut self, turn: &Turn) -> Commit {
        if let Err(error) = self.alive() {
            return Commit::Failed(error);
        }
        if self.faults.is_full() {
            return Commit::Failed(StoreError::Full);
        }
        let Some((left, died)) = fated(turn, &self.faults) else {
            return self.store(turn);
        };
        let stored = self.store(&left);
        if died {
            self.dead = true;
            return Commit::Failed(StoreError::Failed("the process has died".to_owned()));
        }
        stored
    }

    fn store(&mut self, turn: &Turn) -> Commit {
        let request = if self.known.is_valid() {
            self.ownership.write()
        } else {
            None
        };
        let Some(request) = request else {
            let shown = &self.server.shown;
            return Commit::Failed(unreachable(shown, "the lease of the store was lost"));
        };
        let sent = LeaseClock::now();
        let position = self.known.position.load(Ordering::Acquire) + turn.appends.len() as i64;
        match self.send(request, turn, position) {
            Sent::Stored => {
                self.ownership.answered(request, Answer::Done);
                self.known.position.store(position, Ordering::Release);
                self.extended(sent);
                Commit::Committed
            }
            Sent::Refused(error) => {
                self.ownership.answered(request, Answer::Failed);
                self.lose();
                Err(error).into()
            }
            Sent::Fenced => {
                self.ownership.answered(request, Answer::Failed);
                self.lose();
                self.known.lease.end();
                Commit::Fenced(self.standby())
            }
            Sent::Unknown(error) => {
                self.ownership.answered(request, Answer::Unknown);
                tracing::warn!("the outcome of a commit is unknown: {error}");
                self.settle(request, error)
            }
        }
    }

    /// Finds out by a take-over whether a turn is stored. Its callers need not learn of the trouble if so. If another
    /// process owns the store by now, the turn may be stored all the same: its outcome stays unknown.
    fn settle(&mut self, request: Request, error: StoreError) -> Commit {
        self.session = None;
        let since = self.ownership.since();
        let taken = self.take();
        if taken.is_ok() && self.ownership.since() != since {
            // Another process was the owner meanwhile: what is in memory may be old.
            self.known.lease.end();
        }
        let stored = |effects: &Vec<Effect>| match request {
            Request::Write { position, .. } => effects.contains(&Effect::Acknowledge(position)),
            _ => true,
        };
        match taken {
            Ok(effects) if self.ownership.since() == since && stored(&effects) => {
                return Commit::Committed;
            }
            Ok(_) => {}
            Err(reason) => tracing::warn!("the outcome of a commit stays unknown: {reason}"),
        }
        self.lose();
        Commit::Failed(error)
    }

    /// Sends the transaction of a turn as a whole, then waits for the answers.
    fn send(&mut self, request: Request, turn: &Turn, position: i64) -> Sent {
        let Request::Write {
            epoch,
            position: number,
        } = request
        else {
            return Sent::Refused(StoreError::Failed("not a turn".to_owned()));
        };
        let (lease, patience) = (self.lease(), self.server.config.lease);
        let last = self.known.position.load(Ordering::Acquire);
        let session = match self.session() {
            Ok(session) => session,
            Err(error) => return Sent::Refused(error),
        };
        let epoch = i64::try_from(epoch).unwrap_or(i64::MAX);
        let before = i64::try_from(number.saturating_sub(1)).unwrap_or(i64::MAX);
        let highest = last_number(turn);
        let fence: [Value<'_>; 5] = [&epoch, &before, &position, &highest, &lease];
        let writes = writes(turn, last);
        let mut prepared = Vec::with_capacity(writes.len() + 1);
        for sql in std::iter::once(FENCE).chain(writes.iter().map(|write| write.sql)) {
            match session.statement(sql) {
                Ok(statement) => prepared.push(statement),
                Err(error) => return Sent::Refused(error),
            }
        }
        let values: Vec<Vec<Value<'_>>> = writes
            .iter()
            .map(|write| {
                write
                    .values
                    .iter()
                    .map(|value| &**value as Value<'_>)
                    .collect()
            })
            .collect();
        let client = session.client();
        let mut answers: Vec<Answering<'_>> = Vec::with_capacity(prepared.len() + 2);
        answers.push(Box::pin(client.batch_execute("BEGIN")));
        let all = std::iter::once(&fence[..]).chain(values.iter().map(|values| &values[..]));
        for (statement, values) in prepared.iter().zip(all) {
            answers.push(Box::pin(async move {
                client.execute(statement, values).await.map(drop)
            }));
        }
        answers.push(Box::pin(client.batch_execute("COMMIT")));
        let Some(failed) = session.within(first_failure(answers), patience) else {
            return Sent::Unknown(session.no_answer());
        };
        let Some(failed) = failed else {
            return Sent::Stored;
        };
        if failed.is_cut_short {
            // The transaction is open; it ends with its connection.
            self.session = None;
        }
        let error = failed.error;
        let fenced = failed.index == 1 && error.code() == Some(&SqlState::DIVISION_BY_ZERO);
        if fenced {
            return Sent::Fenced;
        }
        let reported = store_error(&self.server.shown, &error);
        if failed.is_cut_short || is_answer(&error) {
            Sent::Refused(reported)
        } else {
            Sent::Unknown(reported)
        }
    }

    /// Renews the lease if no turn has done so lately.
    fn renew_in_time(&mut self, every: Duration) {
        if self.known.is_valid() && !self.dead && self.renewed.elapsed() >= every {
            self.renew();
        }
    }

    fn renew(&mut self) {
        let Some(request @ Request::Renew { epoch }) = self.ownership.renew() else {
            return;
        };
        let sent = LeaseClock::now();
        let lease = self.lease();
        let epoch = i64::try_from(epoch).unwrap_or(i64::MAX);
        let renewed = self
            .session()
            .and_then(|session| session.row(RENEW, &[&epoch, &lease]));
        match renewed {
            Ok(Some(_)) => {
                self.ownership.answered(request, Answer::Done);
                self.extended(sent);
            }
            Ok(None) => {
                self.ownership.answered(request, Answer::Failed);
                self.lose();
                self.known.lease.end();
            }
            Err(error) => {
                self.ownership.answered(request, Answer::Unknown);
                tracing::warn!("the lease of the store was not renewed: {error}");
                // `check` reports it to the keeper.
                let _ = self.settle(request, error).result();
            }
        }
    }

    fn release(&mut self) {
        self.lose();
        self.known.lease.end();
        let Some(request @ Request::Release { epoch }) = self.ownership.release() else {
            return;
        };
        let epoch = i64::try_from(epoch).unwrap_or(i64::MAX);
        let released = self
            .session()
            .and_then(|session| session.row(RELEASE, &[&epoch]));
        self.ownership.answered(request, Answer::Done);
        match released {
            Ok(_) => tracing::info!("the store is released"),
            Err(error) => {
                tracing::warn!("the store is not released, its lease ends by itself: {error}");
            }
        }
    }

    /// The lease lasts from when a request was sent that extended it.
    fn extended(&mut self, sent: LeaseClock) {
        self.renewed = sent;
        self.known.lease.extend(sent, self.server.config.lease);
    }

    /// The memory of the keeper may differ from the store.
    fn lose(&self) {
        self.known.valid.store(false, Ordering::Release);
    }

    /// The connection, which is made if there is none.
    fn session(&mut self) -> Result<&Session> {
        if self
            .session
            .as_ref()
            .is_some_and(|session| !session.is_open())
        {
            self.session = None;
        }
        if self.session.is_none() {
            let session = self.server.connect_writer()?;
            schema::ensure(&self.server, &session)?;
            session.rows(DURABLE, &[])?;
            self.session = Some(session);
        }
        self.session
            .as_ref()
            .ok_or_else(|| unreachable(&self.server.shown, "there is no connection"))
    }

    /// Another process owns the store: who, and where it is reached.
    fn standby(&mut self) -> StoreError {
        let read = self
            .session()
            .and_then(|session| session.row(OWNER, &[]))
            .ok()
            .flatten();
        let text = |at| {
            let text = read.as_ref().and_then(|row| field::<String>(row, at).ok());
            text.filter(|text| !text.is_empty())
        };
        StoreError::Standby {
            owner: text(0).unwrap_or_else(|| "another gateway".to_owned()),
            address: text(1),
        }
    }

    /// The lease in seconds.
    fn lease(&self) -> f64 {
        self.server.config.lease.as_secs_f64()
    }

    /// A process that has died writes nothing.
    fn alive(&self) -> Result<()> {
        if self.dead {
            return Err(StoreError::Failed("the process has died".to_owned()));
        }
        Ok(())
    }
}

type Answering<'a, E = tokio_postgres::Error> =
    Pin<Box<dyn Future<Output = std::result::Result<(), E>> + Send + 'a>>;

/// The first request that failed.
#[derive(Debug, PartialEq, Eq)]
struct Failure<E> {
    index: usize,
    error: E,
    /// The requests after it were not sent, the last one among them.
    is_cut_short: bool,
}

/// Sends all requests in their order, and waits for all answers; the first of them that is an error. A request that
/// fails before it is sent ends the sending: the commit after it would store the rest of the turn.
async fn first_failure<E>(mut answers: Vec<Answering<'_, E>>) -> Option<Failure<E>> {
    let mut outcomes: Vec<Option<Option<E>>> = answers.iter().map(|_| None).collect();
    let (mut sent, count) = (0, answers.len());
    std::future::poll_fn(|context| {
        let mut waits = false;
        for (index, (answer, outcome)) in answers.iter_mut().zip(&mut outcomes).enumerate() {
            if outcome.is_some() {
                continue;
            }
            let polled = answer.as_mut().poll(context);
            let is_last = index + 1 == count;
            let is_first_poll = index >= sent;
            sent = sent.max(index + 1);
            match polled {
                Poll::Ready(Err(error)) => {
                    *outcome = Some(Some(error));
                    if is_first_poll && !is_last {
                        return Poll::Ready(());
                    }
                }
                Poll::Ready(Ok(())) => *outcome = Some(None),
                Poll::Pending => waits = true,
            }
        }
        if waits {
            Poll::Pending
        } else {
            Poll::Ready(())
        }
    })
    .await;
    let mut failures = outcomes.into_iter().enumerate();
    failures.find_map(|(index, outcome)| {
        Some(Failure {
            index,
            error: outcome.flatten()?,
            is_cut_short: sent < count,
        })
    })
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::task::{Context, Waker};

    use super::*;

    /// What a request does when it is polled: the answers of its polls, the last of them again and again.
    type Script = &'static [Poll<std::result::Result<(), &'static str>>];

    /// The outcome of some requests, and the order in which they were sent.
    fn outcome(scripts: &[Script]) -> (Option<Failure<&'static str>>, Vec<usize>) {
        thread_local!(static SENT: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) });
        SENT.take();
        let answers = scripts.iter().enumerate().map(|(index, script)| {
            let mut polls = 0;
            let answer = std::future::poll_fn(move |_: &mut Context<'_>| {
                if polls == 0 {
                    SENT.with_borrow_mut(|sent| sent.push(index));
                }
                polls += 1;
                script[(polls - 1).min(script.len() - 1)]
            });
            Box::pin(answer) as Answering<'_, _>
        });
        let mut all = Box::pin(first_failure(answers.collect()));
        let mut context = Context::from_waker(Waker::noop());
        loop {
            if let Poll::Ready(failure) = all.as_mut().poll(&mut context) {
                return (failure, SENT.take());
            }
        }
    }

    const DONE: Script = &[Poll::Pending, Poll::Ready(Ok(()))];
    const REFUSED: Script = &[Poll::Pending, Poll::Ready(Err("refused"))];
    const NOT_SENT: Script = &[Poll::Ready(Err("not sent"))];

    #[test]
    fn requests_are_sent_together_and_the_first_refusal_counts() {
        assert_eq!(outcome(&[DONE, DONE, DONE]), (None, vec![0, 1, 2]));
        let (failure, sent) = outcome(&[DONE, REFUSED, REFUSED, DONE]);
        let wanted = Failure {
            index: 1,
            error: "refused",
            is_cut_short: false,
        };
        assert_eq!((failure, sent), (Some(wanted), vec![0, 1, 2, 3]));
    }

    #[test]
    fn after_a_request_that_cannot_be_sent_nothing_is_committed() {
        let (failure, sent) = outcome(&[DONE, DONE, NOT_SENT, DONE, DONE]);
        let wanted = Failure {
            index: 2,
            error: "not sent",
            is_cut_short: true,
        };
        assert_eq!((failure, sent), (Some(wanted), vec![0, 1, 2]));
        // The outcome of a commit that fails immediately is not known.
        let (failure, _) = outcome(&[DONE, NOT_SENT]);
        assert!(!failure.unwrap().is_cut_short);
    }
}
