//! One invocation: the body of Restate's request in, the body of the response out. No IO, no clock.

use std::collections::BTreeMap;

use bytes::{Bytes, BytesMut};
use jiff::Timestamp;
use prost::Message;
use stateway_hosted::message::{DEFINITION_OBJECT, EXECUTION_OBJECT, ObjectRequest, Work};
use stateway_hosted::object::{self, Message as ObjectMessage, Missing, Turn, Write};
use stateway_hosted::{Plans, definition_object};

use crate::frame::{Frame, frames};
use crate::protocol::{
    CLEAR_ALL_STATE, ClearAllState, END, ERROR, End, Failure, GET_LAZY_STATE,
    GET_LAZY_STATE_COMPLETION, GetLazyState, GetLazyStateCompletion, INPUT, Input,
    JOURNAL_MISMATCH, ONE_WAY_CALL, OUTPUT, OneWayCall, Output, PROTOCOL_VIOLATION, SET_STATE,
    START, SUSPENSION, SetState, Start, Suspension, Value,
};

/// The key of the time at which an alarm fired.
const ALARM_TIME: &str = "a";

/// A handler of this host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Handler {
    /// A request to an execution.
    Command,
    /// The alarm of an execution.
    Alarm,
    /// A message of another object to an execution.
    Deliver,
    /// A request to a definition.
    Definition,
    /// The alarm of a definition with a schedule.
    DefinitionAlarm,
    /// The order to start a child by a definition.
    StartChild,
}

impl Handler {
    /// The handler of a service, by names.
    #[must_use]
    pub(crate) fn find(service: &str, handler: &str) -> Option<Self> {
        match (service, handler) {
            (EXECUTION_OBJECT, "command") => Some(Self::Command),
            (EXECUTION_OBJECT, "alarm") => Some(Self::Alarm),
            (EXECUTION_OBJECT, "deliver") => Some(Self::Deliver),
            (DEFINITION_OBJECT, "command") => Some(Self::Definition),
            (DEFINITION_OBJECT, "alarm") => Some(Self::DefinitionAlarm),
            (DEFINITION_OBJECT, "start_child") => Some(Self::StartChild),
            _ => None,
        }
    }

    /// The name of the objects that it is a handler of.
    const fn service(self) -> &'static str {
        match self {
            Self::Command | Self::Alarm | Self::Deliver => EXECUTION_OBJECT,
            Self::Definition | Self::DefinitionAlarm | Self::StartChild => DEFINITION_OBJECT,
        }
    }
}

/// Carries out an invocation. `now` is used only by an alarm that fires for the first time.
#[must_use]
pub(crate) fn respond(handler: Handler, body: Bytes, now: Timestamp, plans: &Plans) -> Bytes {
    let mut response = BytesMut::new();
    let answer = match Invocation::read(body) {
        Ok(invocation) => invocation.answer(handler, now, plans),
        Err(why) => vec![failure(PROTOCOL_VIOLATION, why)],
    };
    answer.iter().for_each(|frame| frame.write(&mut response));
    response.freeze()
}

/// What Restate sent.
struct Invocation {
    key: String,
    state: BTreeMap<Bytes, Bytes>,
    partial_state: bool,
    input: Bytes,
    /// The commands after the input that Restate has stored.
    stored: Vec<Frame>,
    completions: BTreeMap<u32, Option<Bytes>>,
}

/// What is to be done about an invocation.
enum Decided {
    Turn(Turn, Option<Frame>),
    Missing(String),
}

impl Invocation {
    fn read(body: Bytes) -> Result<Self, &'static str> {
        let all = frames(body).ok_or("the request ends in the middle of a message")?;
        let mut all = all.into_iter();
        let start = all.next().filter(|frame| frame.ty == START);
        let start = start.and_then(|frame| Start::decode(frame.body).ok());
        let start = start.ok_or("the request has no start message")?;
        let known: Vec<_> = all.collect();
        if known.len() < start.known_entries as usize {
            return Err("the request has fewer entries than it says");
        }
        let mut known = known.into_iter();
        let input = known.next().filter(|frame| frame.ty == INPUT);
        let input = input.and_then(|frame| Input::decode(frame.body).ok());
        let input = input.ok_or("the request has no input")?;
        let mut invocation = Self {
            key: start.key,
            state: start
                .state_map
                .into_iter()
                .map(|entry| (entry.key, entry.value))
                .collect(),
            partial_state: start.partial_state,
            input: input.value.unwrap_or_default().content,
            stored: Vec::new(),
            completions: BTreeMap::new(),
        };
        for frame in known {
            if frame.ty == GET_LAZY_STATE_COMPLETION {
                let read = GetLazyStateCompletion::decode(frame.body);
                let read = read.map_err(|_| "a completion cannot be read")?;
                let value = read.value.map(|value| value.content);
                invocation.completions.insert(read.completion_id, value);
            } else if frame.is_command() {
                invocation.stored.push(frame);
            }
        }
        Ok(invocation)
    }

    fn answer(&self, handler: Handler, now: Timestamp, plans: &Plans) -> Vec<Frame> {
        match self.decide(handler, now, plans) {
            Ok(Decided::Turn(turn, mark)) => self.commands(handler.service(), turn, mark),
            Ok(Decided::Missing(key)) => self.suspend(&key),
            Err(why) => vec![failure(PROTOCOL_VIOLATION, why)],
        }
    }

    fn decide(
        &self,
        handler: Handler,
        now: Timestamp,
        plans: &Plans,
    ) -> Result<Decided, &'static str> {
        let mut read = |key: &str| self.value(key);
        let (decided, mark) = match handler {
            Handler::Definition => (
                definition_object::handle(&self.key, &self.input, &mut read),
                None,
            ),
            Handler::StartChild => (
                definition_object::start_child(&self.key, &self.input, &mut read),
                None,
            ),
            Handler::Command => (
                object::handle(&self.key, &self.input, &mut read, plans),
                None,
            ),
            Handler::Deliver => {
                let message = serde_json::from_slice(&self.input);
                let mut message: ObjectRequest =
                    message.map_err(|_| "a message of another object cannot be read")?;
                let is_start = matches!(message.work, Work::Start(_));
                let mark = self.mark(now, is_start || self.exists(object::STATE));
                // A message may wait for a host; its time is the time of its delivery.
                if let Some((fired, _)) = &mark {
                    message.at = message.at.max(*fired);
                }
                let request = serde_json::to_vec(&message);
                let request = request.map_err(|_| "a message cannot be written")?;
                let mark = mark.map(|(_, mark)| mark);
                (object::handle(&self.key, &request, &mut read, plans), mark)
            }
            Handler::Alarm => {
                let (armed, fired, mark) = self.alarm(now, object::STATE)?;
                let request = serde_json::to_vec(&object::alarm(armed, fired));
                let request = request.map_err(|_| "an alarm cannot be written")?;
                (object::handle(&self.key, &request, &mut read, plans), mark)
            }
            Handler::DefinitionAlarm => {
                let (armed, fired, mark) = self.alarm(now, definition_object::CURRENT)?;
                let request = serde_json::to_vec(&definition_object::alarm(armed, fired));
                let request = request.map_err(|_| "an alarm cannot be written")?;
                let decided = definition_object::handle(&self.key, &request, &mut read);
                (decided, mark)
            }
        };
        Ok(match decided {
            Ok(turn) => Decided::Turn(turn, mark),
            Err(Missing(key)) => Decided::Missing(key),
        })
    }

    /// The time for which an alarm was armed, the time at which it fires, and the command that stores the
    /// latter. An object without a value under this key does not exist any more.
    fn alarm(
        &self,
        now: Timestamp,
        key: &str,
    ) -> Result<(Timestamp, Timestamp, Option<Frame>), &'static str> {
        let armed = std::str::from_utf8(&self.input).ok();
        let armed = armed.and_then(|text| text.parse().ok());
        let armed = armed.and_then(|millis| Timestamp::from_millisecond(millis).ok());
        let armed = armed.ok_or("the input of an alarm is not a time")?;
        let mark = self.mark(now, self.exists(key));
        let fired = mark.as_ref().map_or(armed, |(fired, _)| *fired);
        Ok((armed, fired, mark.map(|(_, mark)| mark)))
    }

    /// Whether the object has a value under this key, as far as is known.
    fn exists(&self, key: &str) -> bool {
        !matches!(self.value(key), Ok(None))
    }

    /// The time of an invocation that no gateway sent, and the command that stores it. It is the first
    /// command of the journal, so the invocation has the same time when it is made again. Of an object
    /// that does not exist nothing is to be written, unless the invocation starts it.
    fn mark(&self, now: Timestamp, exists: bool) -> Option<(Timestamp, Frame)> {
        if !exists {
            return None;
        }
        let fired = self.fired().unwrap_or(now);
        let millis = fired.as_millisecond();
        let fired = Timestamp::from_millisecond(millis).unwrap_or(fired);
        let mark = SetState::new(ALARM_TIME, millis.to_string().into_bytes());
        Some((fired, Frame::of(SET_STATE, &mark)))
    }

    /// The time at which this alarm fired, if it did before.
    fn fired(&self) -> Option<Timestamp> {
        let set = self.stored.iter().find(|frame| frame.ty == SET_STATE)?;
        let set = SetState::decode(set.body.clone()).ok()?;
        let value = Some(set)
            .filter(|set| set.key == ALARM_TIME.as_bytes())?
            .value?;
        let millis = std::str::from_utf8(&value.content).ok()?.parse().ok()?;
        Timestamp::from_millisecond(millis).ok()
    }

    /// A stored value, as far as Restate has sent it.
    fn value(&self, key: &str) -> Result<Option<Vec<u8>>, Missing> {
        if let Some(value) = self.state.get(key.as_bytes()) {
            return Ok(Some(value.to_vec()));
        }
        if !self.partial_state {
            return Ok(None);
        }
        match self.requested(key).and_then(|id| self.completions.get(&id)) {
            Some(value) => Ok(value.as_ref().map(|value| value.to_vec())),
            None => Err(Missing(key.to_owned())),
        }
    }

    /// A completion id that no stored command has. Hosts request different values, because one may have the
    /// definition in memory and another not, so ids are not counted from the requests alone.
    fn next_completion(&self) -> u32 {
        let calls = self.stored.iter().filter(|frame| frame.ty == ONE_WAY_CALL);
        let calls = calls.filter_map(|frame| OneWayCall::decode(frame.body.clone()).ok());
        let calls = calls.map(|call| call.invocation_id_notification_idx);
        let requests = self.requests().map(|request| request.result_completion_id);
        1 + calls.chain(requests).max().unwrap_or_default()
    }

    /// The commands of the journal that request values.
    fn requests(&self) -> impl Iterator<Item = GetLazyState> {
        let requests = self
            .stored
            .iter()
            .filter(|frame| frame.ty == GET_LAZY_STATE);
        requests.filter_map(|frame| GetLazyState::decode(frame.body.clone()).ok())
    }

    /// The completion that brings a value which was requested.
    fn requested(&self, key: &str) -> Option<u32> {
        let mut requests = self.requests();
        let request = requests.find(|request| request.key == key.as_bytes())?;
        Some(request.result_completion_id)
    }

    /// Waits for a value, and requests it unless that was done before.
    fn suspend(&self, key: &str) -> Vec<Frame> {
        let mut answer = Vec::new();
        let id = self.requested(key).unwrap_or_else(|| {
            let id = self.next_completion();
            let request = GetLazyState {
                key: Bytes::copy_from_slice(key.as_bytes()),
                result_completion_id: id,
            };
            answer.push(Frame::of(GET_LAZY_STATE, &request));
            id
        });
        let suspension = Suspension {
            waiting_completions: vec![id],
        };
        answer.push(Frame::of(SUSPENSION, &suspension));
        answer
    }

    /// The commands that Restate does not have yet, or the refusal of a journal that does not fit.
    fn commands(&self, service: &str, turn: Turn, mark: Option<Frame>) -> Vec<Frame> {
        let mut commands: Vec<Frame> = mark.into_iter().collect();
        commands.extend(turn.writes.into_iter().map(|write| match write {
            Write::Set { key, value } => Frame::of(SET_STATE, &SetState::new(&key, value)),
            Write::ClearAll => Frame::of(CLEAR_ALL_STATE, &ClearAllState {}),
        }));
        let mut calls: Vec<OneWayCall> = turn.messages.iter().filter_map(one_way).collect();
        if let Some(due) = turn.alarm {
            let millis = due.as_millisecond();
            calls.push(OneWayCall {
                service_name: service.to_owned(),
                handler_name: "alarm".to_owned(),
                parameter: millis.to_string().into(),
                invoke_time: u64::try_from(millis).unwrap_or_default(),
                key: self.key.clone(),
                invocation_id_notification_idx: 0,
            });
        }
        for (id, call) in (self.next_completion()..).zip(&mut calls) {
            call.invocation_id_notification_idx = id;
            commands.push(Frame::of(ONE_WAY_CALL, call));
        }
        let output = Output {
            value: Some(Value {
                content: turn.answer.into(),
            }),
        };
        commands.push(Frame::of(OUTPUT, &output));
        let stored = self.stored.iter().filter(|it| it.ty != GET_LAZY_STATE);
        let stored: Vec<_> = stored.collect();
        let fits = stored.len() <= commands.len()
            && stored
                .iter()
                .zip(&commands)
                .all(|(stored, computed)| is_same(stored, computed));
        if !fits {
            let why = "the stored journal does not fit the commands of this build";
            return vec![failure(JOURNAL_MISMATCH, why)];
        }
        let mut answer: Vec<_> = commands.drain(stored.len()..).collect();
        answer.push(Frame::of(END, &End {}));
        answer
    }
}

/// A message to another object, as a call without a response. None if the message cannot be written as JSON.
fn one_way(message: &ObjectMessage) -> Option<OneWayCall> {
    let (service, handler, key, parameter) = match message {
        ObjectMessage::Execution(id, request) => {
            let parameter = serde_json::to_vec(request).ok()?;
            (EXECUTION_OBJECT, "deliver", id, parameter)
        }
        ObjectMessage::Definition(name, request) => {
            let parameter = serde_json::to_vec(request).ok()?;
            (DEFINITION_OBJECT, "start_child", name, parameter)
        }
    };
    Some(OneWayCall {
        service_name: service.to_owned(),
        handler_name: handler.to_owned(),
        parameter: parameter.into(),
        invoke_time: 0,
        key: key.to_string(),
        invocation_id_notification_idx: 0,
    })
}

/// Whether a stored command is the computed one. Restate may add fields to what it stores.
fn is_same(stored: &Frame, computed: &Frame) -> bool {
    if stored.ty != computed.ty {
        return false;
    }
    match stored.ty {
        SET_STATE => {
            let decode = |frame: &Frame| SetState::decode(frame.body.clone()).ok();
            decode(stored) == decode(computed)
        }
        ONE_WAY_CALL => {
            let decode = |frame: &Frame| {
                // The id is free to choose and may differ.
                let call = OneWayCall::decode(frame.body.clone()).ok()?;
                let invocation_id_notification_idx = 0;
                Some(OneWayCall {
                    invocation_id_notification_idx,
                    ..call
                })
            };
            decode(stored) == decode(computed)
        }
        _ => true,
    }
}

fn failure(code: u32, message: &str) -> Frame {
    let failure = Failure {
        code,
        message: message.to_owned(),
    };
    Frame::of(ERROR, &failure)
}

#[cfg(test)]
mod tests;
