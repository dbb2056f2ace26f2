//! One workflow task: the object with what has come in goes in, commands and messages go out. No IO, no clock.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use bytes::Bytes;
use jiff::{SignedDuration, Timestamp};
use prost::Message as _;
use stateway_hosted::message::{ObjectAnswer, ObjectRequest, Refusal, StoredView, VERSION, Work};
use stateway_hosted::object::{self, Message, Turn, VIEW, Write, oversize};
use stateway_hosted::provider::ObjectKind;
use stateway_hosted::{Plans, definition_object};
use stateway_machine::{CancelMode, Verb};
use stateway_model::ErrorKind;
use stateway_provider_temporal::api::command::v1::Command;
use stateway_provider_temporal::api::failure::v1::Failure;
use stateway_provider_temporal::api::protocol::v1::Message as ProtocolMessage;
use stateway_provider_temporal::api::protocol::v1::message::SequencingId;
use stateway_provider_temporal::api::taskqueue::v1::TaskQueue;
use stateway_provider_temporal::api::update::v1::outcome::Value;
use stateway_provider_temporal::api::update::v1::{
    Acceptance, Outcome, Rejection, Request, Response,
};
use stateway_provider_temporal::host::{
    CLEARED, COPIED, Continued, ENDING_BYTES, Input, Left, MAX_OBJECT_BYTES, MAX_STORED_BYTES,
    MAX_VALUE_BYTES, Record, UPDATE, in_memo, payload, payloads, tags, workflow_type,
};

use crate::command;
use crate::delivery::Delivery;

/// The most bytes of an answer. A server refuses messages of 4 MiB, and events of 4 MiB that are written
/// together. Requests that are refused are a part of the answer and leave no events.
const MAX_ANSWER_BYTES: usize = 4 * 1024 * 1024 - 256 * 1024;
/// What an update, a value or a message takes beside its own bytes.
const EACH: usize = 512;
/// The part of an answer that is kept for values of the run before until all are copied.
const COPIED_AT_ONCE: usize = MAX_STORED_BYTES / 2;
/// An alarm that is too large comes again after this long.
const ALARM_AGAIN: SignedDuration = SignedDuration::from_mins(1);
/// The most messages under way. A server allows 2,000 pending activities.
const MOST_DELIVERIES: usize = 1_900;
/// The most bytes of inputs in an answer to a claim; further tasks stay open for the next claim.
const CLAIM_BYTES: usize = 512 * 1024;

/// What is the same for every task of a host.
pub(crate) struct Shared {
    pub(crate) plans: Plans,
    pub(crate) queue: TaskQueue,
}

/// What a task is about.
pub(crate) struct Task<'t> {
    /// The object.
    pub(crate) object: (ObjectKind, &'t str),
    /// The run.
    pub(crate) run: &'t str,
    /// The object up to this task.
    pub(crate) record: &'t Record,
    /// The values of the run before, if they are not all copied.
    pub(crate) earlier: Option<&'t BTreeMap<String, Bytes>>,
    /// What has come in, by event.
    pub(crate) inputs: Vec<(i64, Input)>,
    /// The updates.
    pub(crate) updates: Vec<ProtocolMessage>,
}

/// The answer to a task.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Answer {
    pub(crate) commands: Vec<Command>,
    pub(crate) messages: Vec<ProtocolMessage>,
    /// There is more to do.
    pub(crate) wants_another_task: bool,
    /// The run ends.
    pub(crate) closes: bool,
}

/// Handles a task.
pub(crate) fn handle(task: &Task<'_>, shared: &Shared) -> Answer {
    let mut work = Worked {
        task,
        shared,
        written: BTreeMap::new(),
        is_cleared: false,
        alarm: None,
        deliveries: Vec::new(),
        recorded: 0,
        rejected: 0,
        kept_free: to_copy(task),
        left: None,
        object_bytes: object_bytes(task),
        answer: Answer::default(),
    };
    for (event, input) in &task.inputs {
        if !work.input(input) {
            work.left = Some(*event);
            break;
        }
    }
    for update in &task.updates {
        work.update(update);
    }
    work.finish()
}

/// Whether a turn can be taken.
enum Fit {
    /// It can, and its messages are these.
    Now(Vec<Vec<u8>>),
    /// Another task can take it.
    Later,
    /// No task can take it.
    Never(Refusal),
}

/// A task while it is handled.
struct Worked<'t> {
    task: &'t Task<'t>,
    shared: &'t Shared,
    /// What was written in this task.
    written: BTreeMap<String, Bytes>,
    is_cleared: bool,
    alarm: Option<Timestamp>,
    /// The messages, each with its delivery as an argument.
    deliveries: Vec<Vec<u8>>,
    /// The bytes of the answer that become events, without the values.
    recorded: usize,
    /// The bytes of the answer that become no events.
    rejected: usize,
    /// The bytes that are kept for values of the run before.
    kept_free: usize,
    /// The first event that stays for another task.
    left: Option<i64>,
    /// The bytes of all values.
    object_bytes: usize,
    answer: Answer,
}

impl Worked<'_> {
    fn value(&self, key: &str) -> Option<&Bytes> {
        let before = (!self.is_cleared).then(|| {
            let record = self.task.record.values.get(key);
            record.or_else(|| self.task.earlier?.get(key))
        });
        self.written.get(key).or(before.flatten())
    }

    /// What the object does about a request.
    fn turn(&self, request: &[u8]) -> Turn {
        let (kind, key) = self.task.object;
        let mut read = |key: &str| Ok(self.value(key).map(|value| value.to_vec()));
        let turn = match kind {
            ObjectKind::Execution => object::handle(key, request, &mut read, &self.shared.plans),
            ObjectKind::Definition => definition_object::handle(key, request, &mut read),
        };
        // The task has every value of the object, so the object reports no missing value.
        turn.unwrap_or_default()
    }

    /// Passes an input without a waiting caller to the object: a start, a message or an alarm. Returns whether it was
    /// handled; otherwise another task does that.
    fn input(&mut self, input: &Input) -> bool {
        let request = match input {
            // The update that came with it does the work: a definition answers a repetition differently.
            Input::Start(_) if self.task.object.0 == ObjectKind::Definition => return true,
            Input::Start(request) => self.timed(request, None),
            Input::Message(request, at) => self.timed(request, Some(*at)),
            Input::Alarm(due, at) => self.alarm(*due, *at),
            Input::Cancel(cause, by, at) => serde_json::to_vec(&cancel(cause, by, *at)).ok(),
        };
        let Some(request) = request else {
            tracing::warn!(object = self.task.object.1, "a message cannot be read");
            return true;
        };
        match self.try_input(&request) {
            Ok(is_handled) => is_handled,
            Err(refusal) => self.too_large_input(input, &request, &refusal),
        }
    }

    /// The request of an alarm.
    fn alarm(&self, due: Timestamp, fired: Timestamp) -> Option<Vec<u8>> {
        match self.task.object.0 {
            ObjectKind::Execution => serde_json::to_vec(&object::alarm(due, fired)).ok(),
            // The timer may have fired while no host ran. Of the times that have passed until now, the newest is due.
            ObjectKind::Definition => {
                let now = self
                    .task
                    .record
                    .task_time
                    .map_or(fired, |now| now.max(fired));
                serde_json::to_vec(&definition_object::alarm(due, now)).ok()
            }
        }
    }

    /// Handles an input if a task can do that. Returns whether this task did.
    fn try_input(&mut self, request: &[u8]) -> Result<bool, Refusal> {
        let turn = with_small_messages(self.turn(request), 0);
        let answer = turn.writes.is_empty().then_some(&turn.answer);
        let answer = answer.and_then(|answer| serde_json::from_slice(answer).ok());
        if let Some(ObjectAnswer::Refused(refusal)) = answer
            && refusal.reason == oversize::TOO_LARGE
        {
            return Err(refusal);
        }
        self.try_turn(request, turn)
    }

    fn try_turn(&mut self, request: &[u8], turn: Turn) -> Result<bool, Refusal> {
        match self.fit(request, &turn, 0) {
            Fit::Now(deliveries) => self.take(turn, deliveries, 0),
            Fit::Later => return Ok(false),
            Fit::Never(refusal) => return Err(refusal),
        }
        Ok(true)
    }

    /// Handles an input that no task can take, so that nobody waits for ever. Returns whether this task did.
    fn too_large_input(&mut self, input: &Input, request: &[u8], refusal: &Refusal) -> bool {
        let (object, why) = (self.task.object.1, &refusal.message);
        if let Input::Alarm(_, at) = input {
            // Without another one no timer of the execution would ever fire again.
            tracing::warn!(object, "an alarm is tried again: {why}");
            let again = at.checked_add(ALARM_AGAIN).ok();
            self.alarm = [self.alarm, again].into_iter().flatten().min();
            return true;
        }
        let request: Option<ObjectRequest> = serde_json::from_slice(request).ok();
        let small = request.and_then(|request| oversize::instead_of_request(&request, why));
        let handled = match small {
            Some(Message::Execution(to, request)) if *to == *object => {
                let request = serde_json::to_vec(&request).unwrap_or_default();
                self.try_input(&request)
            }
            Some(message) => {
                let messages = vec![message];
                let turn = Turn {
                    messages,
                    ..Turn::default()
                };
                self.try_turn(&[], turn)
            }
            // Whoever asked for it gets the refusal as the answer of the update.
            None if matches!(input, Input::Start(_)) => Ok(true),
            None => Err(refusal.clone()),
        };
        handled.unwrap_or_else(|refusal| {
            let why = refusal.message;
            tracing::error!(object, "a message has no effect: {why}");
            true
        })
    }

    /// A request with its time. A message has the time of its delivery. An execution is created when its
    /// workflow starts: lists are ordered by that.
    fn timed(&self, request: &[u8], delivered: Option<Timestamp>) -> Option<Vec<u8>> {
        let mut request: ObjectRequest = serde_json::from_slice(request).ok()?;
        self.set_time(&mut request, delivered);
        serde_json::to_vec(&request).ok()
    }

    fn set_time(&self, request: &mut ObjectRequest, delivered: Option<Timestamp>) {
        let is_new = matches!(request.work, Work::Start(_) | Work::Fork(_))
            && self.value(object::STATE).is_none();
        let started = self.task.record.started;
        let started = started.and_then(|at| Timestamp::from_millisecond(at.as_millisecond()).ok());
        if let Some(started) = started.filter(|_| is_new && !self.task.record.is_continued) {
            request.at = started;
        } else if let Some(delivered) = delivered {
            request.at = request.at.max(delivered);
        }
    }

    /// Answers an update.
    fn update(&mut self, message: &ProtocolMessage) {
        let Some(update) = Update::read(message) else {
            // The server answers an update that is left out.
            return;
        };
        let request = match self.task.object.0 {
            ObjectKind::Execution => self.read_request(&update.argument),
            ObjectKind::Definition => None,
        };
        let request = request.unwrap_or_else(|| update.argument.clone());
        let turn = self.turn(&request);
        let own = update.argument.len() + turn.answer.len() + 2 * EACH;
        let turn = with_small_messages(turn, own);
        let changes = !turn.writes.is_empty() || turn.alarm.is_some() || !turn.messages.is_empty();
        if !changes {
            self.reject(&update, turn.answer);
            return;
        }
        // The end of a workflow discards its messages. A crowded history continues in another run as soon as they are
        // delivered.
        let waits = self.task.record.is_crowded() || turn.writes.contains(&Write::ClearAll);
        if waits && !self.is_quiet() {
            self.reject(&update, refused(busy()));
            return;
        }
        match self.fit(&request, &turn, own) {
            Fit::Now(deliveries) => {
                self.accept(&update, &turn.answer);
                self.take(turn, deliveries, own);
            }
            Fit::Later => self.reject(&update, refused(busy())),
            Fit::Never(refusal) => self.reject(&update, refused(refusal)),
        }
    }

    /// The request of an update, if it has to be changed. An execution that does not exist is created at the start of
    /// the workflow, as above. A claim gets what fits into the answer.
    fn read_request(&self, argument: &[u8]) -> Option<Bytes> {
        let mut request: ObjectRequest = serde_json::from_slice(argument).ok()?;
        let is_new = self.value(object::STATE).is_none();
        if is_new {
            self.set_time(&mut request, None);
        }
        if let Some(claim) = &mut request.claim {
            claim.most_bytes = Some(CLAIM_BYTES);
        }
        let is_same = !is_new && request.claim.is_none();
        let request = (!is_same).then(|| serde_json::to_vec(&request).ok());
        request.flatten().map(Bytes::from)
    }

    /// Whether a turn can be taken, beside so many bytes of a request and its answer.
    fn fit(&self, request: &[u8], turn: &Turn, own: usize) -> Fit {
        for write in &turn.writes {
            if let Write::Set { key, value } = write
                && value.len() > MAX_VALUE_BYTES
            {
                return Fit::Never(too_large(key, value.len(), MAX_VALUE_BYTES));
            }
        }
        let object_bytes = self.object_bytes_after(turn);
        if object_bytes > self.object_bytes.max(MAX_OBJECT_BYTES) {
            let most = if is_end(request) {
                MAX_OBJECT_BYTES + ENDING_BYTES
            } else {
                MAX_OBJECT_BYTES
            };
            if object_bytes > most {
                return Fit::Never(too_large("all keys", object_bytes, most));
            }
        }
        let messages = turn.messages.iter().cloned();
        let deliveries: Vec<_> = messages.map(|it| Delivery::of(it).encode()).collect();
        if let Some(longest) = deliveries.iter().map(Vec::len).max()
            && longest > MAX_VALUE_BYTES
        {
            return Fit::Never(too_large("a message", longest, MAX_VALUE_BYTES));
        }
        let more = own + bytes_of(&deliveries);
        if deliveries.len() > MOST_DELIVERIES {
            let refusal = too_large("messages", deliveries.len(), MOST_DELIVERIES);
            return Fit::Never(refusal);
        }
        let alone = more + Self::values_of(&BTreeMap::new(), turn);
        if alone > MAX_STORED_BYTES {
            return Fit::Never(too_large("a request", alone, MAX_STORED_BYTES));
        }
        let recorded = self.recorded + more + Self::values_of(&self.written, turn);
        let under_way = self.task.record.deliveries.len() + self.deliveries.len();
        let fits = recorded + self.kept_free <= MAX_STORED_BYTES
            && recorded + self.kept_free + self.rejected <= MAX_ANSWER_BYTES
            && under_way + deliveries.len() <= MOST_DELIVERIES;
        if fits {
            Fit::Now(deliveries)
        } else {
            Fit::Later
        }
    }

    /// The bytes of what was written and of what a turn writes.
    fn values_of(written: &BTreeMap<String, Bytes>, turn: &Turn) -> usize {
        let mut values: BTreeMap<&str, usize> = BTreeMap::new();
        let written = written.iter();
        values.extend(written.map(|(key, value)| (key.as_str(), value.len())));
        for write in &turn.writes {
            match write {
                Write::Set { key, value } => drop(values.insert(key, value.len())),
                Write::ClearAll => values.clear(),
            }
        }
        let values = values.iter();
        values.map(|(key, bytes)| key.len() + bytes + EACH).sum()
    }

    /// The bytes of all values when a turn is taken.
    fn object_bytes_after(&self, turn: &Turn) -> usize {
        let mut bytes = self.object_bytes;
        let mut is_cleared = self.is_cleared;
        for write in &turn.writes {
            match write {
                Write::ClearAll => (bytes, is_cleared) = (0, true),
                Write::Set { key, value } => {
                    let before = || {
                        let record = self.task.record.size_of(key);
                        record.or_else(|| Some(self.task.earlier?.get(key)?.len()))
                    };
                    let written = self.written.get(key).map(Bytes::len);
                    let before = written.or_else(|| before().filter(|_| !is_cleared));
                    bytes = (bytes + value.len()).saturating_sub(before.unwrap_or_default());
                }
            }
        }
        bytes
    }

    /// Whether no messages are under way.
    fn is_quiet(&self) -> bool {
        self.deliveries.is_empty() && self.task.record.deliveries.is_empty()
    }

    fn take(&mut self, turn: Turn, deliveries: Vec<Vec<u8>>, own: usize) {
        self.recorded += own + bytes_of(&deliveries);
        self.deliveries.extend(deliveries);
        self.object_bytes = self.object_bytes_after(&turn);
        for write in turn.writes {
            match write {
                Write::Set { key, value } => drop(self.written.insert(key, value.into())),
                Write::ClearAll => {
                    self.written.clear();
                    self.is_cleared = true;
                }
            }
        }
        self.alarm = turn.alarm.or(self.alarm);
    }

    fn accept(&mut self, update: &Update<'_>, answer: &[u8]) {
        let acceptance = Acceptance {
            accepted_request_message_id: update.message.id.clone(),
            accepted_request_sequencing_event_id: update.event_id,
            accepted_request: Some(update.request.clone()),
        };
        let response = Response {
            meta: update.request.meta.clone(),
            outcome: Some(Outcome {
                value: Some(Value::Success(payloads(answer.to_vec()))),
            }),
        };
        self.say(update, "accept", "Acceptance", &acceptance, true);
        self.say(update, "complete", "Response", &response, true);
    }

    /// A rejection leaves no event. It carries the answer of a request that was refused or changes nothing. If the
    /// answer to the task has no room for it, the server rejects the update, and the gateway sends it again.
    fn reject(&mut self, update: &Update<'_>, answer: Vec<u8>) {
        let argument = update.argument.len() + EACH;
        let answer = if argument + answer.len() > MAX_ANSWER_BYTES {
            refused(too_large("an answer", answer.len(), MAX_ANSWER_BYTES))
        } else {
            answer
        };
        let recorded = self.recorded + Self::values_of(&self.written, &Turn::default());
        let bytes = argument + answer.len();
        if recorded + self.kept_free + self.rejected + bytes > MAX_ANSWER_BYTES {
            return;
        }
        self.rejected += bytes;
        let rejection = Rejection {
            rejected_request_message_id: update.message.id.clone(),
            rejected_request_sequencing_event_id: update.event_id,
            rejected_request: Some(update.request.clone()),
            failure: Some(Failure {
                message: "the request changes nothing".to_owned(),
                source: "stateway".to_owned(),
                encoded_attributes: Some(payload(UPDATE, answer)),
                ..Failure::default()
            }),
        };
        self.say(update, "reject", "Rejection", &rejection, false);
    }

    fn say(
        &mut self,
        update: &Update<'_>,
        part: &str,
        name: &str,
        body: &impl prost::Message,
        is_command: bool,
    ) {
        let id = format!("{}/{part}", update.message.id);
        if is_command {
            self.answer.commands.push(command::protocol_message(&id));
        }
        self.answer.messages.push(ProtocolMessage {
            id,
            protocol_instance_id: update.message.protocol_instance_id.clone(),
            sequencing_id: None,
            body: Some(prost_types::Any {
                type_url: format!("type.googleapis.com/temporal.api.update.v1.{name}"),
                value: body.encode_to_vec(),
            }),
        });
    }

    /// The commands for everything that was written.
    fn finish(mut self) -> Answer {
        let record = self.task.record;
        if self.is_cleared {
            let cleared = command::marker(CLEARED, HashMap::new());
            self.answer.commands.push(cleared);
        }
        let bytes = self.recorded + Self::values_of(&self.written, &Turn::default());
        let (fields, mut values): (BTreeMap<_, _>, BTreeMap<_, _>) =
            std::mem::take(&mut self.written)
                .into_iter()
                .partition(|(key, _)| in_memo(key));
        let is_copied = self.copy(&mut values, bytes);
        self.answer.commands.extend(command::record(&values));
        if is_copied {
            let copied = command::marker(COPIED, HashMap::new());
            self.answer.commands.push(copied);
        }
        if let Some(from) = self.left {
            let left = Left {
                task: record.last_event,
                from,
            };
            self.answer.commands.push(command::left(left));
            // Many messages are under way: the end of each is a reason for another task.
            let under_way = record.deliveries.len() + self.deliveries.len();
            self.answer.wants_another_task |= under_way <= MOST_DELIVERIES / 2;
        }
        let is_empty = (self.is_cleared || (record.values.is_empty() && record.earlier.is_none()))
            && fields.is_empty()
            && values.is_empty()
            && self.left.is_none()
            && self.is_quiet();
        if is_empty {
            self.answer.commands.push(command::complete());
            self.answer.closes = true;
            self.answer.wants_another_task = false;
            return self.answer;
        }
        let tags = self.tags(&fields, !record.is_continued);
        let continues = record.is_full() && self.is_quiet() && record.earlier.is_none();
        if continues && self.left.is_none() {
            // The next run begins with the whole memo.
            let memo = record.values.iter();
            let memo = memo.filter(|(key, _)| in_memo(key) && !fields.contains_key(*key));
            let memo: usize = memo.map(|(_, value)| value.len()).sum();
            if bytes + memo <= MAX_STORED_BYTES {
                self.continue_as_new(fields);
                return self.answer;
            }
            self.answer.wants_another_task = true;
        }
        let deliveries = std::mem::take(&mut self.deliveries);
        if !fields.is_empty() {
            self.answer.commands.push(command::remember(&fields));
        }
        if tags != record.tags {
            self.answer.commands.push(command::tag(&tags));
        }
        self.arm();
        for (number, message) in deliveries.into_iter().enumerate() {
            let id = format!("{}-{number}", record.last_event);
            let deliver = command::deliver(id, message, &self.shared.queue);
            self.answer.commands.push(deliver);
        }
        self.answer
    }

    /// Adds values of the run before to those that are recorded, as far as they fit beside so many bytes. Returns
    /// whether these were the last ones.
    fn copy(&mut self, values: &mut BTreeMap<String, Bytes>, mut bytes: usize) -> bool {
        let record = self.task.record;
        let Some(earlier) = self.task.earlier.filter(|_| !self.is_cleared) else {
            return false;
        };
        let room = MAX_ANSWER_BYTES.saturating_sub(self.rejected);
        for (key, value) in earlier {
            let is_here = record.size_of(key).is_some() || values.contains_key(key);
            if in_memo(key) || is_here {
                continue;
            }
            bytes += key.len() + value.len() + EACH;
            if bytes > room.min(MAX_STORED_BYTES) {
                self.answer.wants_another_task = true;
                return false;
            }
            values.insert(key.clone(), value.clone());
        }
        true
    }

    /// The tags for the newest view.
    fn tags(&self, fields: &BTreeMap<String, Bytes>, is_first_run: bool) -> Vec<String> {
        let view = fields.get(VIEW);
        let view = view.and_then(|view| serde_json::from_slice::<StoredView>(view).ok());
        match view {
            Some(view) => tags(&view, is_first_run),
            None => self.task.record.tags.clone(),
        }
    }

    /// Starts the timer of the alarm. The object asks for another alarm only when it needs one.
    fn arm(&mut self) {
        let record = self.task.record;
        let wanted = self.alarm.map(|due| due.as_millisecond());
        let due = match (wanted, record.timer) {
            (None, Some(_)) => return,
            (None, None) => record.alarm,
            (Some(due), Some(armed)) if due == armed => return,
            (Some(due), armed) => {
                let cancel = armed.map(command::cancel_timer);
                self.answer.commands.extend(cancel);
                Some(due)
            }
        };
        if let Some(due) = due {
            let now = record.task_time.unwrap_or_default().as_millisecond();
            let after = u64::try_from(due.saturating_sub(now)).unwrap_or_default();
            let after = Duration::from_millis(after);
            self.answer.commands.push(command::start_timer(due, after));
        }
    }

    fn continue_as_new(&mut self, fields: BTreeMap<String, Bytes>) {
        let record = self.task.record;
        let mut memo: BTreeMap<_, _> = record.values.clone();
        memo.retain(|key, _| in_memo(key));
        memo.extend(fields);
        let alarm = self.alarm.map(|due| due.as_millisecond());
        let continued = Continued {
            from: self.task.run.to_owned(),
            alarm: alarm.or(record.alarm),
        };
        let tags = self.tags(&memo, false);
        self.answer.commands.push(command::continue_as_new(
            workflow_type(self.task.object.0),
            &self.shared.queue,
            &continued,
            (&memo, &tags),
        ));
        self.answer.closes = true;
    }
}

/// An update and its argument.
struct Update<'m> {
    message: &'m ProtocolMessage,
    event_id: i64,
    request: Request,
    argument: Bytes,
}

impl<'m> Update<'m> {
    fn read(message: &'m ProtocolMessage) -> Option<Self> {
        let event_id = match message.sequencing_id {
            Some(SequencingId::EventId(id)) => id,
            _ => 0,
        };
        let body = message.body.as_ref()?;
        let request = Request::decode(&*body.value).ok()?;
        let input = request.input.as_ref()?;
        let argument = input.args.as_ref().and_then(|args| args.payloads.first());
        // An update of another name is not a request; the object refuses it.
        let argument = argument.filter(|_| input.name == UPDATE);
        let argument = argument.map(|argument| argument.data.clone());
        Some(Self {
            message,
            event_id,
            argument: argument.unwrap_or_default(),
            request,
        })
    }
}

/// The request of somebody who cancels the workflow in Temporal.
fn cancel(cause: &str, by: &str, at: Timestamp) -> ObjectRequest {
    let cancel = Verb::Cancel {
        mode: CancelMode::Policy,
        by: by.into(),
        comment: cause.into(),
    };
    ObjectRequest {
        v: VERSION,
        id: "temporal".into(),
        at,
        body: None,
        work: Work::Verb(Box::new(cancel)),
        claim: None,
    }
}

/// The bytes of all values of the object of a task.
fn object_bytes(task: &Task<'_>) -> usize {
    let earlier = task.earlier.into_iter().flatten();
    let earlier = earlier.filter(|(key, _)| task.record.size_of(key).is_none());
    task.record.bytes + earlier.map(|(_, value)| value.len()).sum::<usize>()
}

/// The bytes that are kept free in the answer for values of the run before: half of the answer, and at least one
/// value, so that every task copies some.
fn to_copy(task: &Task<'_>) -> usize {
    let earlier = task.earlier.into_iter().flatten();
    let sizes = earlier
        .filter(|(key, _)| !in_memo(key) && task.record.size_of(key).is_none())
        .map(|(key, value)| key.len() + value.len() + EACH);
    let sizes: Vec<_> = sizes.collect();
    let first = sizes.first().copied().unwrap_or_default();
    first.max(sizes.iter().sum::<usize>().min(COPIED_AT_ONCE))
}

/// A turn with small messages instead of those that no task can send beside what else the turn needs.
fn with_small_messages(mut turn: Turn, own: usize) -> Turn {
    let bytes = |message: &Message| Delivery::of(message.clone()).encode().len() + EACH;
    let own = own + Worked::values_of(&BTreeMap::new(), &turn);
    let mut sizes: Vec<_> = turn.messages.iter().map(bytes).collect();
    // Small messages are of no use beside values that do not fit.
    let is_too_large = |sizes: &[usize]| {
        let all = own + sizes.iter().sum::<usize>();
        let has_too_long = sizes.iter().any(|bytes| *bytes > MAX_VALUE_BYTES);
        own <= MAX_STORED_BYTES && (all > MAX_STORED_BYTES || has_too_long)
    };
    while is_too_large(&sizes) {
        let longest = sizes.iter().copied().enumerate().max_by_key(|it| it.1);
        let Some((at, longest)) = longest else { break };
        let why = format!(
            "the message to it has {longest} bytes; one request changes and sends at most {MAX_STORED_BYTES}"
        );
        let Some(small) = oversize::instead(&turn.messages[at], &why) else {
            break;
        };
        sizes[at] = bytes(&small);
        turn.messages[at] = small;
    }
    turn
}

/// The bytes of messages in an answer.
fn bytes_of(deliveries: &[Vec<u8>]) -> usize {
    let deliveries = deliveries.iter();
    deliveries.map(|delivery| delivery.len() + EACH).sum()
}

/// Whether a request ends an execution, which a full one allows as well.
fn is_end(request: &[u8]) -> bool {
    let request: Option<ObjectRequest> = serde_json::from_slice(request).ok();
    request.is_some_and(|request| match request.work {
        Work::Verb(verb) => matches!(*verb, Verb::Cancel { .. }),
        Work::EndChild { .. } => true,
        Work::FinishChild { outcome, .. } => outcome.is_err(),
        _ => false,
    })
}

fn refused(refusal: Refusal) -> Vec<u8> {
    serde_json::to_vec(&ObjectAnswer::Refused(refusal)).unwrap_or_default()
}

fn too_large(what: &str, bytes: usize, most: usize) -> Refusal {
    Refusal {
        kind: ErrorKind::FailedPrecondition.as_str().to_owned(),
        reason: "EXECUTION_TOO_LARGE".to_owned(),
        message: format!(
            "the execution would store {bytes} bytes under `{what}`, more than {most}"
        ),
        hint: "Store large data elsewhere and pass a reference.".to_owned(),
    }
}

fn busy() -> Refusal {
    Refusal {
        kind: ErrorKind::Unavailable.as_str().to_owned(),
        reason: "EXECUTION_BUSY".to_owned(),
        message: "messages of the execution are under way, or other requests came at the same time and are too \
                  large together"
            .to_owned(),
        hint: "Send the request again.".to_owned(),
    }
}

#[cfg(test)]
mod tests;
