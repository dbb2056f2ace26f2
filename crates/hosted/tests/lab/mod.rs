//! Objects in memory: what an engine would store, with a clock that is moved manually.

#![allow(clippy::unwrap_used, dead_code)]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use stateway_hosted::message::{ObjectAnswer, Refusal, StoredView};
use stateway_hosted::object::{self, Message, Turn, VIEW, Write};
use stateway_hosted::provider::{HostPort, ObjectKind, StoredValue, ViewQuery};
use stateway_hosted::{Plans, definition_object};
use stateway_provider_api::{Call, Error, ErrorKind, Health, Result, Verb};

type Values = BTreeMap<String, Vec<u8>>;

/// An engine in memory.
#[derive(Clone, Default)]
pub(crate) struct Lab {
    inner: Arc<Mutex<Inner>>,
}

struct Inner {
    executions: BTreeMap<String, Values>,
    definitions: BTreeMap<String, Values>,
    /// The alarms that were armed: when, and for which object.
    alarms: Vec<(Timestamp, bool, String)>,
    plans: Plans,
    now: Timestamp,
    /// Messages between objects that are not delivered yet, and whether they wait.
    messages: Vec<Message>,
    is_held: bool,
    /// Whether requests to executions fail, and how many came since.
    failing: Option<usize>,
    /// The most bytes of a request to an execution.
    most_bytes: Option<usize>,
}

impl Default for Inner {
    fn default() -> Self {
        Self {
            executions: BTreeMap::new(),
            definitions: BTreeMap::new(),
            alarms: Vec::new(),
            plans: Plans::default(),
            now: Timestamp::constant(1_800_000_000, 0),
            messages: Vec::new(),
            is_held: false,
            failing: None,
            most_bytes: None,
        }
    }
}

impl Inner {
    fn apply(&mut self, kind: ObjectKind, key: &str, turn: Turn) -> Vec<u8> {
        let objects = match kind {
            ObjectKind::Execution => &mut self.executions,
            ObjectKind::Definition => &mut self.definitions,
        };
        for write in turn.writes {
            match write {
                Write::Set { key: name, value } => {
                    let values = objects.entry(key.to_owned()).or_default();
                    values.insert(name, value);
                }
                Write::ClearAll => drop(objects.remove(key)),
            }
        }
        let is_execution = kind == ObjectKind::Execution;
        self.alarms
            .extend(turn.alarm.map(|due| (due, is_execution, key.to_owned())));
        self.messages.extend(turn.messages);
        turn.answer
    }

    /// Delivers the messages between objects, and those that they lead to.
    fn deliver(&mut self) {
        while !self.is_held && !self.messages.is_empty() {
            let message = self.messages.remove(0);
            self.deliver_one(message);
        }
    }

    fn deliver_one(&mut self, message: Message) {
        match message {
            Message::Execution(id, mut request) => {
                request.at = request.at.max(self.now);
                let request = serde_json::to_vec(&request).unwrap();
                self.send_one(ObjectKind::Execution, &id, &request);
            }
            Message::Definition(name, request) => {
                let request = serde_json::to_vec(&request).unwrap();
                let stored = self.definitions.get(&*name).cloned().unwrap_or_default();
                let mut read = |key: &str| Ok(stored.get(key).cloned());
                let turn = definition_object::start_child(&name, &request, &mut read).unwrap();
                self.apply(ObjectKind::Definition, &name, turn);
            }
        }
    }

    fn send(&mut self, kind: ObjectKind, key: &str, request: &[u8]) -> Vec<u8> {
        let answer = self.send_one(kind, key, request);
        self.deliver();
        answer
    }

    fn send_one(&mut self, kind: ObjectKind, key: &str, request: &[u8]) -> Vec<u8> {
        let objects = match kind {
            ObjectKind::Execution => &self.executions,
            ObjectKind::Definition => &self.definitions,
        };
        let stored = objects.get(key).cloned().unwrap_or_default();
        let mut read = |name: &str| Ok(stored.get(name).cloned());
        let turn = match kind {
            ObjectKind::Execution => object::handle(key, request, &mut read, &self.plans),
            ObjectKind::Definition => definition_object::handle(key, request, &mut read),
        };
        self.apply(kind, key, turn.unwrap())
    }
}

impl Lab {
    /// A laboratory whose clock begins at this time.
    pub(crate) fn at(now: Timestamp) -> Self {
        let lab = Self::default();
        lab.inner.lock().unwrap().now = now;
        lab
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.inner.lock().unwrap().now
    }

    /// The alarms that are armed, the first one first.
    pub(crate) fn alarms(&self) -> Vec<Timestamp> {
        let inner = self.inner.lock().unwrap();
        let mut due: Vec<_> = inner.alarms.iter().map(|(due, ..)| *due).collect();
        due.sort();
        due
    }

    /// Moves the time on and fires the alarms that come due, each at its time.
    pub(crate) fn pass(&self, time: SignedDuration) {
        let mut inner = self.inner.lock().unwrap();
        let end = inner.now + time;
        loop {
            inner.alarms.sort();
            let first = inner.alarms.first().cloned();
            let Some((due, is_execution, key)) = first.filter(|(due, ..)| *due <= end) else {
                break;
            };
            inner.alarms.remove(0);
            inner.now = inner.now.max(due);
            if is_execution {
                let request = serde_json::to_vec(&object::alarm(due, inner.now)).unwrap();
                inner.send(ObjectKind::Execution, &key, &request);
            } else {
                let alarm = definition_object::alarm(due, inner.now);
                let request = serde_json::to_vec(&alarm).unwrap();
                inner.send(ObjectKind::Definition, &key, &request);
            }
        }
        inner.now = end;
    }

    pub(crate) fn send_raw(&self, key: &str, request: &[u8]) -> Vec<u8> {
        let mut inner = self.inner.lock().unwrap();
        inner.send(ObjectKind::Execution, key, request)
    }

    /// Lets requests to executions fail from now on, or no longer. Returns how many failed before.
    pub(crate) fn fail(&self, is_failing: bool) -> usize {
        let mut inner = self.inner.lock().unwrap();
        let before = inner.failing.take();
        inner.failing = is_failing.then_some(0);
        before.unwrap_or_default()
    }

    /// Refuses requests to executions that have more bytes than that.
    pub(crate) fn limit_requests(&self, most_bytes: usize) {
        self.inner.lock().unwrap().most_bytes = Some(most_bytes);
    }

    /// Keeps the messages between objects back from now on, or delivers them, the last one first when
    /// `reversed`.
    pub(crate) fn hold_messages(&self, is_held: bool, reversed: bool) {
        let mut inner = self.inner.lock().unwrap();
        inner.is_held = is_held;
        if reversed {
            inner.messages.reverse();
        }
        inner.deliver();
    }

    /// Drops the alarms that are armed, as an engine does that consumed them without effect.
    pub(crate) fn lose_alarms(&self) {
        self.inner.lock().unwrap().alarms.clear();
    }

    /// Replaces a stored value. Returns what was there.
    pub(crate) fn replace(&self, object: &str, key: &str, value: Vec<u8>) -> Vec<u8> {
        let mut inner = self.inner.lock().unwrap();
        let values = inner.executions.get_mut(object).unwrap();
        values.insert(key.to_owned(), value).unwrap()
    }

    /// How many executions there are.
    pub(crate) fn executions(&self) -> usize {
        self.inner.lock().unwrap().executions.len()
    }

    pub(crate) fn stored(&self, key: &str) -> Values {
        let inner = self.inner.lock().unwrap();
        inner.executions.get(key).cloned().unwrap_or_default()
    }

    pub(crate) fn view(&self, key: &str) -> StoredView {
        serde_json::from_slice(&self.stored(key)[VIEW]).unwrap()
    }
}

fn value(object: &str, key: &str, value: &[u8]) -> StoredValue {
    StoredValue {
        object: object.to_owned(),
        key: key.to_owned(),
        value: value.to_vec(),
    }
}

#[async_trait]
impl HostPort for Lab {
    fn has_schedules(&self) -> bool {
        true
    }

    async fn health(&self, _: &Call) -> Result<Health> {
        Ok(Health {
            engine_version: "lab".to_owned(),
            detail: String::new(),
        })
    }

    async fn send(
        &self,
        _: &Call,
        verb: Verb,
        (kind, key): (ObjectKind, &str),
        request: Vec<u8>,
    ) -> Result<Vec<u8>> {
        let mut inner = self.inner.lock().unwrap();
        if let Some(failed) = &mut inner.failing
            && kind == ObjectKind::Execution
        {
            *failed += 1;
            let message = "connection refused";
            return Err(Error::new(ErrorKind::Unavailable, verb, message));
        }
        if kind == ObjectKind::Execution && inner.most_bytes.is_some_and(|it| request.len() > it) {
            let refusal = Refusal {
                kind: ErrorKind::FailedPrecondition.as_str().to_owned(),
                reason: "EXECUTION_TOO_LARGE".to_owned(),
                message: "the execution is too large".to_owned(),
                hint: String::new(),
            };
            return Ok(serde_json::to_vec(&ObjectAnswer::Refused(refusal)).unwrap());
        }
        Ok(inner.send(kind, key, &request))
    }

    async fn values(
        &self,
        _: &Call,
        _: Verb,
        (kind, objects): (ObjectKind, &[&str]),
        key: &str,
    ) -> Result<Vec<StoredValue>> {
        let inner = self.inner.lock().unwrap();
        let all = match kind {
            ObjectKind::Execution => &inner.executions,
            ObjectKind::Definition => &inner.definitions,
        };
        let found = objects.iter().filter_map(|object| {
            let stored = all.get(*object)?.get(key)?;
            Some(value(object, key, stored))
        });
        Ok(found.collect())
    }

    async fn values_from(
        &self,
        _: &Call,
        _: Verb,
        (_, object): (ObjectKind, &str),
        (prefix, from, limit): (&str, &str, usize),
    ) -> Result<Vec<StoredValue>> {
        let stored = self.stored(object);
        let found = stored
            .iter()
            .filter(|(key, _)| key.starts_with(prefix) && key.as_str() >= from);
        Ok(found
            .take(limit)
            .map(|(key, stored)| value(object, key, stored))
            .collect())
    }

    async fn views(&self, _: &Call, _: Verb, query: &ViewQuery) -> Result<Vec<StoredValue>> {
        let inner = self.inner.lock().unwrap();
        let mut found: Vec<_> = inner
            .executions
            .iter()
            .filter_map(|(id, values)| {
                let stored = values.get(VIEW)?;
                // As an engine does it: by fields of the JSON, not by the type.
                let seen: serde_json::Value = serde_json::from_slice(stored).unwrap();
                let place = (seen["n"].as_i64().unwrap(), id.clone());
                Some((place, seen, value(id, VIEW, stored)))
            })
            .collect();
        found.sort_by(|one, other| other.0.cmp(&one.0));
        let found = found.into_iter().filter(|(place, seen, _)| {
            query.before.as_ref().is_none_or(|before| place < before)
                && (!query.open_only || seen["o"] != 0)
                && (!query.awaits_person
                    || seen.to_string().contains("{\"approval\":{")
                    || seen.to_string().contains("{\"person\":{"))
                && query
                    .forked_from
                    .as_ref()
                    .is_none_or(|from| seen["view"]["forked_from"] == **from)
                && query
                    .definition
                    .as_ref()
                    .is_none_or(|name| seen["view"]["definition"] == **name)
        });
        Ok(found.take(query.limit).map(|(_, _, it)| it).collect())
    }

    async fn counts(&self, _: &Call) -> Result<Vec<(String, u64)>> {
        let inner = self.inner.lock().unwrap();
        let mut counts = BTreeMap::new();
        for stored in inner.executions.values().filter_map(|it| it.get(VIEW)) {
            let seen: serde_json::Value = serde_json::from_slice(stored).unwrap();
            let word = seen["s"].as_str().unwrap_or_default().to_owned();
            *counts.entry(word).or_default() += 1;
        }
        Ok(counts.into_iter().collect())
    }

    async fn definitions(
        &self,
        _: &Call,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<StoredValue>> {
        let inner = self.inner.lock().unwrap();
        let found = inner.definitions.iter();
        let found = found.filter(|(name, _)| after.is_none_or(|after| name.as_str() > after));
        Ok(found
            .take(limit)
            .filter_map(|(name, values)| {
                let key = definition_object::CURRENT;
                Some(value(name, key, values.get(key)?))
            })
            .collect())
    }
}
