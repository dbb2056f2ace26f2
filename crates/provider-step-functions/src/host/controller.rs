//! Attends to executions: fires alarms, delivers messages between objects, shows ends, and reads what other
//! gateways, or this one before its restart, have written.
//!
//! Several gateways may attend to the same execution. The one that wrote the newest turn comes first; whatever
//! two of them do at the same time counts once, because the token of a gate can be used once.

use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use futures::future::join_all;
use jiff::{SignedDuration, Timestamp};
use stateway_hosted::definition_object::{self, CURRENT};
use stateway_hosted::message::{ObjectAnswer, ObjectRequest, Refusal};
use stateway_hosted::object::{self, Message, oversize};
use stateway_hosted::provider::ObjectKind;
use stateway_provider_api::{Error, ErrorKind, Result, Verb};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::mirror::{Key, Row};
use super::name;
use super::store::Store;
use crate::client::{Ask, ExecutionsQuery};
use crate::id::ExecutionArn;
use crate::quota::Api;

/// How often the open executions are listed.
const SWEEP: Duration = Duration::from_secs(2);
/// The longest time without a look at what is due.
const LONGEST_PAUSE: Duration = Duration::from_millis(500);
/// An open execution that was not read for this long is read again: another gateway may have written.
const STALE: Duration = Duration::from_secs(5);
/// The same for a definition. Another gateway may have applied a schedule, and be gone when it is due.
const STALE_DEFINITION: Duration = Duration::from_secs(30);
/// The oldest start by a schedule that is delivered. AWS can delete an execution so long after its end, and the
/// same message would start it again.
const OLDEST_START: SignedDuration = SignedDuration::from_hours(24 * 30);
/// How many executions are attended to at a time.
const MOST_AT_ONCE: usize = 32;
/// How many objects are read at a time.
const MOST_READS: usize = 8;
/// The rows of a page of a list.
const PAGE: u32 = 1_000;
/// The most pages of open executions, and of all.
const MOST_PAGES: usize = 100;
/// The most pages of a list of all executions, the newest first.
const MOST_LISTED: usize = 10;
/// The most finished executions whose newest turn is kept in memory.
const MOST_CLOSED: usize = 10_000;
/// The part of a quota that the controller leaves for callers.
const RESERVE: f64 = 0.5;

/// Attends to executions until the port is dropped.
pub(crate) async fn run(store: Arc<Store>) {
    tokio::join!(attend_all(&store), sweep_all(&store));
}

/// Does what is due, when it is due.
async fn attend_all(store: &Arc<Store>) {
    let places = Arc::new(Semaphore::new(MOST_AT_ONCE));
    let mut tasks = JoinSet::new();
    loop {
        let due = store
            .mirror()
            .due(Timestamp::now(), places.available_permits());
        for key in due {
            let Ok(place) = Arc::clone(&places).acquire_owned().await else {
                return;
            };
            let store = Arc::clone(store);
            tasks.spawn(async move {
                let mut attending = Attending {
                    store: &store,
                    key: &key,
                    is_done: false,
                };
                match attend(&store, &key).await {
                    Ok(()) => attending.is_done = true,
                    Err(error) => tracing::debug!(object = key.1, "tried again later: {error}"),
                }
                drop(place);
            });
        }
        while let Some(ended) = tasks.try_join_next() {
            if let Err(error) = ended {
                tracing::error!("an execution is attended to again after a defect: {error}");
            }
        }
        let next = store.mirror().next_due();
        let pause = next.map(|due| due.duration_since(Timestamp::now()));
        let pause = pause.map_or(LONGEST_PAUSE, |pause| {
            Duration::try_from(pause).unwrap_or_default()
        });
        let pause = if places.available_permits() == 0 {
            LONGEST_PAUSE
        } else {
            pause.min(LONGEST_PAUSE)
        };
        tokio::select! {
            () = store.wake.notified() => {}
            () = tokio::time::sleep(pause) => {}
        }
    }
}

/// The mark of an object that somebody attends to it. It ends with the attempt, also by a panic.
struct Attending<'s> {
    store: &'s Store,
    key: &'s Key,
    is_done: bool,
}

impl Drop for Attending<'_> {
    fn drop(&mut self) {
        let now = Timestamp::now();
        self.store.mirror().attended(self.key, self.is_done, now);
        self.store.wake.notify_one();
    }
}

/// Does what is due about one object.
async fn attend(store: &Store, key: &Key) -> Result<()> {
    let call = Store::own_call();
    let ask = Ask {
        call: &call,
        verb: Verb::Work,
    };
    loop {
        let next = store.mirror().undelivered(key);
        let Some(message) = next else { break };
        match message.message() {
            Ok(read) if is_outdated(key, &read, Timestamp::now()) => {}
            Ok(read) => deliver(store, ask, read).await?,
            Err(error) => tracing::warn!(object = key.1, "a message cannot be read: {error}"),
        }
        store.mirror().deliver(key, &message.key);
    }
    let (head, _) = store.mirror().head(key);
    let Some(head) = head.filter(|head| head.closed.is_none()) else {
        return Ok(());
    };
    if head.is_over() {
        return store.end(ask, key).await;
    }
    let now = Timestamp::now();
    let alarm = head
        .envelope
        .alarm
        .filter(|due| *due <= now.as_millisecond());
    if let Some(armed) = alarm.and_then(|due| Timestamp::from_millisecond(due).ok()) {
        let before = head.envelope.n;
        let request = match key.0 {
            ObjectKind::Execution => encode(&object::alarm(armed, now))?,
            ObjectKind::Definition => encode(&definition_object::alarm(armed, now))?,
        };
        Box::pin(store.send(ask, key.0, &head.envelope.id, &request)).await?;
        let (head, _) = store.mirror().head(key);
        if head.is_some_and(|head| head.envelope.n == before) {
            let message = "the object refuses its alarm";
            return Err(Error::new(ErrorKind::FailedPrecondition, ask.verb, message));
        }
    }
    Ok(())
}

/// Whether a start by a schedule is so old that it may have been carried out and be deleted by now.
fn is_outdated(sender: &Key, message: &Message, now: Timestamp) -> bool {
    match message {
        Message::Execution(_, request) => {
            sender.0 == ObjectKind::Definition && now.duration_since(request.at) > OLDEST_START
        }
        Message::Definition(..) => false,
    }
}

/// Delivers a message. What the object answers is its own matter; a message that arrives twice has no further
/// effect.
async fn deliver(store: &Store, ask: Ask<'_>, message: Message) -> Result<()> {
    match message {
        Message::Execution(id, request) => deliver_one(store, ask, &id, *request).await,
        Message::Definition(name, request) => {
            let key = (ObjectKind::Definition, name::base(&name));
            let current = match store.read(ask, &key).await? {
                Some(head) => store.value(ask, &key, &head, CURRENT).await?,
                None => None,
            };
            let mut read = |_: &str| Ok(current.clone().map(String::into_bytes));
            let turn = definition_object::start_child(&name, &encode(&request)?, &mut read);
            for message in turn.map(|turn| turn.messages).unwrap_or_default() {
                // A definition sends to executions only.
                if let Message::Execution(id, request) = message {
                    deliver_one(store, ask, &id, *request).await?;
                }
            }
            Ok(())
        }
    }
}

async fn deliver_one(store: &Store, ask: Ask<'_>, id: &str, request: ObjectRequest) -> Result<()> {
    let (mut id, mut request): (Arc<str>, _) = (id.into(), request);
    // A failure in place of a message that is too large has none in its place.
    loop {
        request.at = request.at.max(Timestamp::now());
        let text = encode(&request)?;
        let answer = Box::pin(store.send(ask, ObjectKind::Execution, &id, &text)).await?;
        let Some(refusal) = too_large(&answer) else {
            return Ok(());
        };
        let why = refusal.message;
        let Some(Message::Execution(parent, failure)) =
            oversize::instead_of_request(&request, &why)
        else {
            tracing::error!(execution = %id, "a message is too large and is not delivered: {why}");
            return Ok(());
        };
        tracing::warn!(execution = %id, %parent, "a message is too large; the step of the parent fails: {why}");
        (id, request) = (parent, *failure);
    }
}

/// The refusal of a request that is too large to be stored.
fn too_large(answer: &[u8]) -> Option<Refusal> {
    match serde_json::from_slice(answer) {
        Ok(ObjectAnswer::Refused(refusal)) if refusal.reason == oversize::TOO_LARGE => {
            Some(refusal)
        }
        _ => None,
    }
}

fn encode(request: &impl serde::Serialize) -> Result<Vec<u8>> {
    let text = serde_json::to_vec(request);
    text.map_err(|error| Error::new(ErrorKind::Internal, Verb::Work, error.to_string()))
}

/// Reads the open executions again and again.
async fn sweep_all(store: &Arc<Store>) {
    loop {
        if let Err(error) = sweep(store).await {
            tracing::debug!("the open executions cannot be read: {error}");
        }
        store.mirror().trim(MOST_CLOSED);
        tokio::time::sleep(SWEEP).await;
    }
}

async fn sweep(store: &Arc<Store>) -> Result<()> {
    let call = stateway_provider_api::Call::within(Duration::from_mins(10));
    let ask = Ask {
        call: &call,
        verb: Verb::Work,
    };
    let mut lists = Vec::new();
    for kind in [ObjectKind::Definition, ObjectKind::Execution] {
        let asked = Instant::now();
        let listing = list(store, ask, kind, Some("RUNNING"), MOST_PAGES);
        let (wanted, listed) = Box::pin(listing).await?;
        lists.push((kind, asked, wanted, listed));
    }
    store.known.send_replace(true);
    let mut open = Vec::new();
    for (kind, asked, wanted, listed) in lists {
        let unlisted = store.mirror().unlisted(kind, &listed, asked);
        read_all(store, ask, wanted.into_iter().chain(unlisted).collect()).await;
        open.extend(listed.into_iter().map(|base| (kind, base)));
    }
    store.swept.send_replace(true);
    for key in open {
        // One that cannot be continued is tried again in the next round.
        if let Err(error) = store.keep_alive(ask, &key).await {
            tracing::warn!(
                object = key.1,
                "cannot continue in another execution: {error}"
            );
        }
    }
    // Half of what is refilled meanwhile, and never the last half of the bucket.
    let spare = store.client.turns(Api::GetExecutionHistory, RESERVE).await;
    let refilled = store.client.rate(Api::GetExecutionHistory).await * SWEEP.as_secs_f64();
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a rate is small and positive"
    )]
    let most = spare.min((refilled * RESERVE) as usize);
    let now = Instant::now();
    // Many definitions leave most of it to executions.
    let few = (STALE_DEFINITION, most.div_ceil(4));
    let mut stale = store.mirror().stale(ObjectKind::Definition, few, now);
    let left = most - stale.len();
    let executions = store
        .mirror()
        .stale(ObjectKind::Execution, (STALE, left), now);
    stale.extend(executions);
    read_all(store, ask, stale).await;
    Ok(())
}

/// Reads objects. One that cannot be read is read again in the next round.
async fn read_all(store: &Store, ask: Ask<'_>, keys: Vec<Key>) {
    for keys in keys.chunks(MOST_READS) {
        let reads = keys.iter().map(|key| store.read(ask, key));
        for (read, key) in join_all(reads).await.into_iter().zip(keys) {
            if let Err(error) = read {
                tracing::debug!(object = key.1, "cannot be read: {error}");
            }
        }
    }
}

/// Lists executions, and returns the objects that have to be read, and the names of all that are listed.
async fn list(
    store: &Store,
    ask: Ask<'_>,
    kind: ObjectKind,
    status: Option<&str>,
    most_pages: usize,
) -> Result<(Vec<Key>, BTreeSet<String>)> {
    let machine = store.machines(ask).await?.of(kind).to_owned();
    let asked = Instant::now();
    let (mut token, mut wanted, mut listed) = (None, Vec::new(), BTreeSet::new());
    for _ in 0..most_pages {
        let query = ExecutionsQuery {
            machine: &machine,
            status,
            size: PAGE,
            token: token.as_deref(),
            turn_taken: false,
        };
        let page = store.client.executions(ask, query).await?;
        for told in page.rows {
            let Some(arn) = ExecutionArn::parse(&told.arn) else {
                continue;
            };
            let (base, generation) = name::split(arn.name);
            let row = Row {
                base: base.to_owned(),
                generation,
                is_open: told.status == "RUNNING",
                has_succeeded: told.status == "SUCCEEDED",
                started: told.started,
            };
            listed.insert(row.base.clone());
            if store.mirror().note_row(kind, row, asked) {
                wanted.push((kind, base.to_owned()));
            }
        }
        token = page.next;
        if token.is_none() {
            break;
        }
    }
    store.mirror().drop_unlisted(kind, asked, status.is_some());
    Ok((wanted, listed))
}

/// Lists the newest executions, open and finished ones, unless that was done a moment ago.
pub(crate) async fn list_all(store: &Store, ask: Ask<'_>) -> Result<()> {
    let listed = *store.listed.lock().unwrap_or_else(PoisonError::into_inner);
    if listed.is_some_and(|listed| listed.elapsed() < SWEEP) {
        return Ok(());
    }
    Box::pin(list(store, ask, ObjectKind::Execution, None, MOST_LISTED)).await?;
    *store.listed.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use stateway_hosted::object::Turn;

    use super::super::config::HostConfig;
    use super::super::envelope::{Envelope, Place};
    use super::super::mirror::Head;
    use super::*;

    #[tokio::test]
    async fn an_object_is_attended_to_again_after_a_panic() {
        let store = Arc::new(Store::new(&HostConfig::default(), None));
        let key = (ObjectKind::Execution, "order-1".to_owned());
        let now = Timestamp::now();
        let turn = Turn {
            alarm: Some(now),
            ..Turn::default()
        };
        let place = Place {
            id: "order-1",
            by: "a.1".to_owned(),
            next: "order-1_g2".to_owned(),
            fires: None,
            delivered: &BTreeSet::new(),
        };
        let head = Head {
            arn: "arn".to_owned(),
            generation: 1,
            envelope: Envelope::after(None, &turn, place),
            token: None,
            closed: None,
            last_event: 6,
            view: None,
            is_derived: false,
        };
        store.mirror().note(&key, head, true, (Instant::now(), now));
        assert_eq!(store.mirror().due(now, 1), std::slice::from_ref(&key));
        let (attended, attended_key) = (Arc::clone(&store), key.clone());
        let panicked = tokio::spawn(async move {
            let _attending = Attending {
                store: &attended,
                key: &attended_key,
                is_done: false,
            };
            panic!("a defect");
        });
        assert!(panicked.await.is_err());
        let later = Timestamp::now() + Duration::from_secs(60);
        assert_eq!(store.mirror().due(later, 1), [key]);
    }
}
