//! What this gateway knows of the objects. No IO.
//!
//! Step Functions is the truth: a gateway that knows too little, or something old, reads the history of the
//! execution, and a write that follows from an old turn is refused by the service.

mod logs;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use stateway_hosted::message::StoredView;
use stateway_hosted::provider::ObjectKind;
use stateway_model::{Reason, SubState};
use tokio::sync::Semaphore;

use super::envelope::{Envelope, Outgoing};
use super::gate::{Closed, Values};
use logs::Logs;

/// How much later than their writer other gateways attend to a turn.
const OTHERS_LATER: SignedDuration = SignedDuration::from_secs(3);
/// After this long something that could not be done is tried again.
const AGAIN: SignedDuration = SignedDuration::from_secs(1);

/// An object: its kind, and the name of its first generation.
pub(crate) type Key = (ObjectKind, String);

/// The newest turn of an object.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Head {
    pub(crate) arn: String,
    pub(crate) generation: u32,
    pub(crate) envelope: Envelope,
    /// The token with which the next turn is written, if it is known.
    pub(crate) token: Option<String>,
    pub(crate) closed: Option<Closed>,
    pub(crate) last_event: u64,
    /// The view of an execution.
    pub(crate) view: Option<StoredView>,
    /// The execution was ended from outside, and this turn shows what follows from it. It is not stored.
    pub(crate) is_derived: bool,
}

impl Head {
    /// Whether the execution is over.
    pub(crate) fn is_over(&self) -> bool {
        self.view
            .as_ref()
            .is_some_and(|seen| seen.view.state.is_terminal())
    }

    /// Whether the execution has succeeded.
    pub(crate) fn has_succeeded(&self) -> bool {
        let seen = self.view.as_ref();
        seen.is_some_and(|seen| seen.view.sub_state == SubState::Succeeded)
    }
}

/// The error and the cause of an execution that has not succeeded.
pub(crate) fn why(seen: &StoredView) -> (String, String) {
    let reason = seen.view.reason.map_or("FAILED", Reason::as_str).to_owned();
    let error = seen.view.last_error.as_ref();
    let cause = match (error, seen.view.cancellation.as_ref()) {
        (Some(error), _) => error.message.clone(),
        (None, Some(_)) => format!("{} by a request", seen.view.state.as_str()),
        (None, None) => seen.view.state.as_str().to_owned(),
    };
    (reason, cause)
}

/// A row of a list of executions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) base: String,
    pub(crate) generation: u32,
    pub(crate) is_open: bool,
    pub(crate) has_succeeded: bool,
    pub(crate) started: Option<Timestamp>,
}

#[derive(Default)]
struct Object {
    /// As the list of executions shows it.
    row: Option<Row>,
    /// When a list of executions showed it last.
    listed: Option<Instant>,
    head: Option<Arc<Head>>,
    /// When the head, or that there is none, was read.
    read: Option<Instant>,
    /// The execution is no object of a host.
    is_foreign: bool,
    delivered: BTreeSet<String>,
    turn: Option<Arc<Semaphore>>,
    scheduled: Option<i64>,
    is_attended: bool,
    is_own: bool,
}

impl Object {
    /// Whether nothing is to be done about it, and nobody uses it: it may be forgotten.
    fn is_idle(&self) -> bool {
        let has_turn = self.turn.as_ref();
        self.scheduled.is_none()
            && !self.is_attended
            && has_turn.is_none_or(|turn| Arc::strong_count(turn) == 1)
    }
}

/// The objects that this gateway knows.
#[derive(Default)]
pub(crate) struct Mirror {
    objects: BTreeMap<Key, Object>,
    /// When something is to be done about which object, in milliseconds.
    schedule: BTreeSet<(i64, Key)>,
    logs: Logs,
}

impl Mirror {
    /// The newest turn that is known, and when it was read. No turn and no time: nothing is known.
    pub(crate) fn head(&self, key: &Key) -> (Option<Arc<Head>>, Option<Instant>) {
        let object = self.objects.get(key);
        object.map_or((None, None), |object| (object.head.clone(), object.read))
    }

    /// The newest generation that is known.
    pub(crate) fn generation(&self, key: &Key) -> u32 {
        let object = self.objects.get(key);
        let head = object
            .and_then(|it| it.head.as_ref())
            .map(|it| it.generation);
        let row = object
            .and_then(|it| it.row.as_ref())
            .map(|it| it.generation);
        head.max(row).unwrap_or(1)
    }

    /// Whether a list of executions has shown the object.
    pub(crate) fn is_listed(&self, key: &Key) -> bool {
        self.objects.get(key).is_some_and(|it| it.row.is_some())
    }

    /// When a generation was started, if it is the newest one of a list.
    pub(crate) fn started(&self, key: &Key, generation: u32) -> Option<Timestamp> {
        let row = self.objects.get(key)?.row.as_ref();
        row.filter(|row| row.generation == generation)?.started
    }

    /// The turns of an object on this gateway, one after another.
    pub(crate) fn turn(&mut self, key: &Key) -> Arc<Semaphore> {
        let object = self.objects.entry(key.clone()).or_default();
        let turn = object
            .turn
            .get_or_insert_with(|| Arc::new(Semaphore::new(1)));
        Arc::clone(turn)
    }

    /// Takes note of a turn that was read, or that this gateway wrote.
    pub(crate) fn note(
        &mut self,
        key: &Key,
        head: Head,
        is_own: bool,
        now: (Instant, Timestamp),
    ) -> Arc<Head> {
        let object = self.objects.entry(key.clone()).or_default();
        object.read = Some(now.0);
        let place = |head: &Head| (head.generation, head.envelope.n, head.last_event);
        if let Some(known) = &object.head
            && (place(known) > place(&head) || **known == head)
        {
            return Arc::clone(known);
        }
        let is_same = object
            .head
            .as_ref()
            .is_some_and(|it| it.envelope.by == head.envelope.by);
        object.is_own = is_own || (is_same && object.is_own);
        let delivered = std::mem::take(&mut object.delivered);
        let carried = |key: &String| head.envelope.out.iter().any(|it| it.key == *key);
        object.delivered = delivered.into_iter().filter(carried).collect();
        let head = Arc::new(head);
        object.head = Some(Arc::clone(&head));
        self.reschedule(key, now.1, None);
        head
    }

    /// The newest turn of the object was written by this gateway.
    pub(crate) fn note_own(&mut self, key: &Key, now: Timestamp) {
        if let Some(object) = self.objects.get_mut(key) {
            object.is_own = true;
        }
        self.reschedule(key, now, None);
    }

    /// Forgets objects about which nothing is known, and the turns of finished executions that were read the
    /// longest ago. An object about which something is to be done stays.
    pub(crate) fn trim(&mut self, most: usize) {
        self.objects
            .retain(|_, object| object.head.is_some() || object.row.is_some() || !object.is_idle());
        let closed = self.objects.iter().filter(|(_, object)| {
            let head = object.head.as_ref();
            object.is_idle() && head.is_some_and(|head| head.closed.is_some())
        });
        let mut closed: Vec<_> = closed
            .map(|(key, object)| (object.read, key.clone()))
            .collect();
        let many = closed.len().saturating_sub(most);
        closed.sort();
        for (_, key) in closed.into_iter().take(many) {
            self.logs.remove(&key);
            let Some(object) = self.objects.get_mut(&key) else {
                continue;
            };
            if object.row.as_ref().is_some_and(|row| !row.is_open) {
                // Lists still show it.
                (object.head, object.read) = (None, None);
            } else {
                self.objects.remove(&key);
            }
        }
    }

    /// Forgets the rows of open, or else of finished executions that a list of them does not have any more.
    pub(crate) fn drop_unlisted(&mut self, kind: ObjectKind, asked: Instant, are_open: bool) {
        self.objects.retain(|(of, _), object| {
            let is_listed = object.listed.is_some_and(|listed| listed >= asked);
            let row = object.row.as_ref();
            let is_of_list = row.is_some_and(|row| row.is_open == are_open);
            *of != kind || is_listed || !is_of_list || object.head.is_some() || !object.is_idle()
        });
    }

    /// Takes note that there is no such object.
    pub(crate) fn note_absent(&mut self, key: &Key, now: Instant) {
        let object = self.objects.entry(key.clone()).or_default();
        (object.head, object.read) = (None, Some(now));
    }

    /// Takes note that an execution is no object.
    pub(crate) fn note_foreign(&mut self, key: &Key, now: Instant) {
        self.note_absent(key, now);
        self.objects.entry(key.clone()).or_default().is_foreign = true;
    }

    /// Takes note of a row. Returns whether the object has to be read.
    pub(crate) fn note_row(&mut self, kind: ObjectKind, row: Row, now: Instant) -> bool {
        let object = self.objects.entry((kind, row.base.clone())).or_default();
        object.listed = Some(now);
        if object
            .row
            .as_ref()
            .is_some_and(|known| known.generation > row.generation)
        {
            return false;
        }
        let head = object.head.as_ref();
        let is_known = head.is_some_and(|head| {
            head.generation > row.generation
                || (head.generation == row.generation && (row.is_open || head.closed.is_some()))
        });
        let is_wanted = !is_known && !object.is_foreign;
        object.row = Some(row);
        is_wanted
    }

    /// Open objects that the list of open executions does not have, although they were read before it was asked for.
    pub(crate) fn unlisted(
        &self,
        kind: ObjectKind,
        listed: &BTreeSet<String>,
        asked: Instant,
    ) -> Vec<Key> {
        let open = self.objects.iter().filter(|((of, base), object)| {
            let is_open = object
                .head
                .as_ref()
                .is_some_and(|head| head.closed.is_none());
            let is_older = object.read.is_some_and(|read| read < asked);
            *of == kind && is_open && is_older && !listed.contains(base)
        });
        open.map(|(key, _)| key.clone()).collect()
    }

    /// Open objects of a kind that were not read for a while, the oldest first.
    pub(crate) fn stale(
        &self,
        kind: ObjectKind,
        (age, most): (Duration, usize),
        now: Instant,
    ) -> Vec<Key> {
        let open = self.objects.iter().filter(|((of, _), object)| {
            let is_open = object
                .head
                .as_ref()
                .is_some_and(|head| head.closed.is_none());
            *of == kind && is_open
        });
        let mut open: Vec<_> = open
            .filter_map(|(key, object)| Some((object.read?, key)))
            .filter(|(read, _)| now.duration_since(*read) > age)
            .collect();
        open.sort();
        open.into_iter()
            .take(most)
            .map(|(_, key)| key.clone())
            .collect()
    }

    /// The heads of a kind.
    pub(crate) fn heads(&self, kind: ObjectKind) -> Vec<Arc<Head>> {
        let objects = self.objects.iter().filter(|((of, _), _)| *of == kind);
        objects
            .filter_map(|(_, object)| object.head.clone())
            .collect()
    }

    /// The rows of executions with what is known of each, the newest start first.
    pub(crate) fn rows(&self) -> Vec<(Key, Row, Option<Arc<Head>>)> {
        let executions = self
            .objects
            .iter()
            .filter(|((kind, _), object)| *kind == ObjectKind::Execution && !object.is_foreign);
        let mut rows: Vec<_> = executions
            .filter_map(|(key, object)| {
                Some((key.clone(), object.row.clone()?, object.head.clone()))
            })
            .collect();
        rows.sort_by(|one, other| (other.1.started, &other.0).cmp(&(one.1.started, &one.0)));
        rows
    }

    /// The objects about which something is to be done now.
    pub(crate) fn due(&mut self, now: Timestamp, most: usize) -> Vec<Key> {
        let until = now.as_millisecond();
        let mut due = Vec::new();
        while due.len() < most {
            let Some(entry) = self.schedule.first().filter(|(at, _)| *at <= until) else {
                break;
            };
            let entry = entry.clone();
            self.schedule.remove(&entry);
            let (_, key) = entry;
            let Some(object) = self.objects.get_mut(&key) else {
                continue;
            };
            object.scheduled = None;
            if !object.is_attended {
                object.is_attended = true;
                due.push(key);
            }
        }
        due
    }

    /// The time at which something is to be done next.
    pub(crate) fn next_due(&self) -> Option<Timestamp> {
        let (at, _) = self.schedule.first()?;
        Timestamp::from_millisecond(*at).ok()
    }

    /// What was due was done, or has to be tried again.
    pub(crate) fn attended(&mut self, key: &Key, is_done: bool, now: Timestamp) {
        if let Some(object) = self.objects.get_mut(key) {
            object.is_attended = false;
        }
        let again = now.checked_add(AGAIN).ok().filter(|_| !is_done);
        self.reschedule(key, now, again);
    }

    /// The messages of an object that this gateway delivered.
    pub(crate) fn delivered(&self, key: &Key) -> BTreeSet<String> {
        let object = self.objects.get(key);
        object
            .map(|object| object.delivered.clone())
            .unwrap_or_default()
    }

    /// The first message of an object that is not known to be delivered.
    pub(crate) fn undelivered(&self, key: &Key) -> Option<Outgoing> {
        let object = self.objects.get(key)?;
        let mut out = object.head.as_ref()?.envelope.out.iter();
        out.find(|it| !object.delivered.contains(&it.key)).cloned()
    }

    /// A message was delivered.
    pub(crate) fn deliver(&mut self, key: &Key, message: &str) {
        if let Some(object) = self.objects.get_mut(key) {
            object.delivered.insert(message.to_owned());
        }
    }

    /// All values of an object, if they are known up to this turn.
    pub(crate) fn log(&self, key: &Key, n: u64) -> Option<Arc<Values>> {
        self.logs.get(key, n)
    }

    pub(crate) fn note_log(&mut self, key: &Key, log: Arc<Values>) {
        self.logs.insert(key, log);
    }

    /// Notes when something is to be done about an object, `not_before` a time.
    fn reschedule(&mut self, key: &Key, now: Timestamp, not_before: Option<Timestamp>) {
        let Some(object) = self.objects.get_mut(key) else {
            return;
        };
        if let Some(at) = object.scheduled.take() {
            self.schedule.remove(&(at, key.clone()));
        }
        let Some(at) = due(object, now) else { return };
        let at = at.max(not_before.unwrap_or(at)).as_millisecond();
        object.scheduled = Some(at);
        self.schedule.insert((at, key.clone()));
    }
}

/// When something is to be done about an object. Gateways that did not write the turn come later, so that they do
/// nothing while the writer lives.
fn due(object: &Object, now: Timestamp) -> Option<Timestamp> {
    let head = object.head.as_ref()?;
    let has_messages = head
        .envelope
        .out
        .iter()
        .any(|it| !object.delivered.contains(&it.key));
    let is_open = head.closed.is_none();
    let due = if has_messages || (is_open && head.is_over()) {
        now
    } else {
        let alarm = head.envelope.alarm.filter(|_| is_open)?;
        Timestamp::from_millisecond(alarm).ok()?
    };
    if object.is_own {
        Some(due)
    } else {
        Some(due.max(now).checked_add(OTHERS_LATER).unwrap_or(due))
    }
}

#[cfg(test)]
mod tests {
    use stateway_hosted::object::Turn;

    use super::super::envelope::Place;
    use super::*;

    fn key() -> Key {
        (ObjectKind::Execution, "order-1".to_owned())
    }

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millisecond(millis).unwrap()
    }

    fn head(before: Option<&Head>, alarm: Option<i64>, messages: usize) -> Head {
        let message = || {
            let request = stateway_hosted::object::killed(at(0), "parent", "");
            stateway_hosted::object::Message::Execution("child".into(), Box::new(request))
        };
        let turn = Turn {
            alarm: alarm.map(at),
            messages: (0..messages).map(|_| message()).collect(),
            ..Turn::default()
        };
        let n = before.map_or(0, |before| before.envelope.n);
        let place = Place {
            id: "order-1",
            by: format!("a.{n}"),
            next: "order-1_g2".to_owned(),
            fires: None,
            delivered: &BTreeSet::new(),
        };
        Head {
            arn: "arn".to_owned(),
            generation: 1,
            envelope: Envelope::after(before.map(|it| &it.envelope), &turn, place),
            token: None,
            closed: None,
            last_event: 6 * (n + 1),
            view: None,
            is_derived: false,
        }
    }

    #[test]
    fn an_alarm_is_due_at_its_time_and_later_for_other_gateways() {
        for (is_own, due) in [(true, 5_000), (false, 8_000)] {
            let mut mirror = Mirror::default();
            let now = (Instant::now(), at(1_000));
            mirror.note(&key(), head(None, Some(5_000), 0), is_own, now);
            assert_eq!(mirror.next_due(), Some(at(due)), "{is_own}");
            assert!(mirror.due(at(due - 1), 10).is_empty());
            assert_eq!(mirror.due(at(due), 10), [key()]);
            // While one task handles the execution, it is not due for another one.
            assert!(mirror.due(at(due + 100_000), 10).is_empty());
            mirror.attended(&key(), false, at(due));
            assert!(
                mirror
                    .next_due()
                    .is_some_and(|next| next >= at(due + 1_000))
            );
        }
    }

    #[test]
    fn an_older_turn_that_is_read_late_changes_nothing() {
        let mut mirror = Mirror::default();
        let first = head(None, None, 0);
        let second = head(Some(&first), None, 0);
        let now = (Instant::now(), at(0));
        mirror.note(&key(), second.clone(), true, now);
        mirror.note(&key(), first, false, now);
        assert_eq!(*mirror.head(&key()).0.unwrap(), second);
        assert!(mirror.next_due().is_none());
    }

    #[test]
    fn messages_are_delivered_in_order_and_once() {
        let mut mirror = Mirror::default();
        let now = (Instant::now(), at(0));
        let first = head(None, None, 2);
        mirror.note(&key(), first.clone(), true, now);
        assert_eq!(mirror.next_due(), Some(at(0)));
        let message = mirror.undelivered(&key()).unwrap();
        assert_eq!(message.key, "1.0");
        mirror.deliver(&key(), &message.key);
        assert_eq!(mirror.undelivered(&key()).unwrap().key, "1.1");
        mirror.deliver(&key(), "1.1");
        assert_eq!(mirror.undelivered(&key()), None);
        // The next turn still carries them for other gateways; this one knows better.
        mirror.note(&key(), head(Some(&first), None, 1), true, now);
        assert_eq!(mirror.undelivered(&key()).unwrap().key, "2.0");
    }

    /// The same as [`Mirror::due`], in a thread: a loop without an end fails the test.
    fn due_in_time(mut mirror: Mirror, now: Timestamp) -> (Mirror, Vec<Key>) {
        let (send, receive) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let due = mirror.due(now, 10);
            let _ = send.send((mirror, due));
        });
        receive.recv_timeout(Duration::from_secs(10)).unwrap()
    }

    fn closed(head: Head) -> Head {
        let closed = Closed {
            continued: false,
            at: None,
            why: String::new(),
        };
        Head {
            closed: Some(closed),
            ..head
        }
    }

    #[test]
    fn an_object_with_something_to_do_is_not_forgotten() {
        let mut mirror = Mirror::default();
        let now = (Instant::now(), at(0));
        mirror.note(&key(), closed(head(None, None, 1)), true, now);
        mirror.trim(0);
        let (mut mirror, due) = due_in_time(mirror, at(1_000));
        assert_eq!(due, [key()]);
        // While somebody attends to it, it stays too.
        mirror.trim(0);
        let message = mirror.undelivered(&key()).unwrap();
        mirror.deliver(&key(), &message.key);
        mirror.attended(&key(), true, at(1_000));
        mirror.trim(0);
        assert!(mirror.objects.is_empty());
        assert!(mirror.schedule.is_empty());
    }

    #[test]
    fn ids_of_which_nothing_is_known_are_forgotten() {
        let mut mirror = Mirror::default();
        for nth in 0..100 {
            let key = (ObjectKind::Execution, format!("random-{nth}"));
            drop(mirror.turn(&key));
            mirror.note_absent(&key, Instant::now());
        }
        // A request to an object keeps its turn.
        let turn = mirror.turn(&key());
        mirror.trim(10);
        assert_eq!(mirror.objects.keys().collect::<Vec<_>>(), [&key()]);
        drop(turn);
        mirror.trim(10);
        assert!(mirror.objects.is_empty());
    }

    #[test]
    fn rows_that_no_list_has_any_more_are_forgotten() {
        let mut mirror = Mirror::default();
        let kind = ObjectKind::Execution;
        let row = |base: &str, is_open| Row {
            base: base.to_owned(),
            generation: 1,
            is_open,
            has_succeeded: !is_open,
            started: None,
        };
        let bases = |mirror: &Mirror| -> Vec<String> {
            mirror
                .objects
                .keys()
                .map(|(_, base)| base.clone())
                .collect()
        };
        let (first, second) = (Instant::now(), Instant::now() + Duration::from_secs(1));
        mirror.note_row(kind, row("ended", false), first);
        mirror.note_row(kind, row("foreign", true), first);
        mirror.note_row(kind, row("order-1", false), first);
        let head = closed(head(None, None, 0));
        mirror.note(&key(), head, false, (first, at(0)));
        mirror.note_row(kind, row("listed", true), second);
        // The list of open executions says nothing about finished ones.
        mirror.drop_unlisted(kind, second, true);
        assert_eq!(bases(&mirror), ["ended", "listed", "order-1"]);
        // The newest turn of a finished execution is forgotten, and its row is still listed.
        mirror.trim(0);
        assert_eq!(mirror.head(&key()), (None, None));
        assert_eq!(bases(&mirror), ["ended", "listed", "order-1"]);
        mirror.drop_unlisted(kind, second, false);
        assert_eq!(bases(&mirror), ["listed"]);
    }

    #[test]
    fn an_object_is_read_when_a_list_shows_something_new() {
        let mut mirror = Mirror::default();
        let row = |generation, is_open| Row {
            base: "order-1".to_owned(),
            generation,
            is_open,
            has_succeeded: false,
            started: None,
        };
        let (kind, now) = (ObjectKind::Execution, Instant::now());
        assert!(mirror.note_row(kind, row(1, true), now));
        mirror.note(&key(), head(None, None, 0), false, (Instant::now(), at(0)));
        assert!(!mirror.note_row(kind, row(1, true), now));
        assert!(mirror.note_row(kind, row(1, false), now));
        assert!(mirror.note_row(kind, row(2, true), now));
        assert!(!mirror.note_row(kind, row(1, false), now));
        assert_eq!(mirror.generation(&key()), 2);
        mirror.note_foreign(&key(), Instant::now());
        assert!(!mirror.note_row(kind, row(2, true), now));
    }
}
