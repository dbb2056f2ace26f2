//! The object of one execution, as a pure function.
//!
//! [`handle`] gets a request and a function that reads stored values. It returns the writes, the time of
//! the next alarm and the answer, or the key of a value that it needs and that is not there yet.

mod kept;
pub mod oversize;
mod turn;

use std::sync::Arc;

use jiff::SignedDuration;
use stateway_machine::MAX_COMMAND_BYTES;
use stateway_model::ErrorKind;

use crate::Plans;
use crate::message::{ChildRequest, ObjectAnswer, ObjectRequest, Refusal, VERSION, Work};
use kept::ObjectRecord;
use turn::Execution;

/// The state and what the object remembers.
pub const STATE: &str = "x";
/// The source of the definition.
pub const DEFINITION: &str = "d";
/// The stored view.
pub const VIEW: &str = "v";
/// The input.
pub const INPUT: &str = "i";
/// The output.
pub const OUTPUT: &str = "o";
/// The prefix of the keys of events.
pub const EVENTS: &str = "e/";
/// The parent ended the child before the child was started: `kill` or `cancel`.
pub const ENDED_EARLY: &str = "t";

/// The longest value that is written. Restate refuses messages of 32 MiB for ever, so a value stays well
/// below that.
pub const MAX_VALUE_BYTES: usize = 12 * 1024 * 1024;
/// The most bytes of inputs in one answer to a claim; further tasks stay open for the next claim. Together
/// with the view, an answer stays below the limit of Restate as well.
pub const MAX_CLAIM_BYTES: usize = 8 * 1024 * 1024;
/// The longest request: a command, its labels and a definition.
pub const MAX_REQUEST_BYTES: usize = MAX_COMMAND_BYTES + 1024 * 1024;

/// An alarm that is refused comes again after this long.
pub(crate) const ALARM_AGAIN: SignedDuration = SignedDuration::from_mins(1);

/// The key of the events of one command, by the branch and the sequence of the first one. Keys sort like
/// their events: the first branch, then the others by number.
#[must_use]
pub fn events_key(branch: u32, sequence: u64) -> String {
    match branch {
        0 => format!("{EVENTS}{sequence:010}"),
        branch => format!("{EVENTS}b{branch:05}/{sequence:010}"),
    }
}

/// The branch and the sequence of the first event behind a key; none for another key.
#[must_use]
pub fn place_of_key(key: &str) -> Option<(u32, u64)> {
    let rest = key.strip_prefix(EVENTS)?;
    match rest.strip_prefix('b') {
        None => Some((0, rest.parse().ok()?)),
        Some(rest) => {
            let (branch, sequence) = rest.split_once('/')?;
            Some((branch.parse().ok()?, sequence.parse().ok()?))
        }
    }
}

/// One write to the stored values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Write {
    /// Sets a key.
    Set {
        /// The key.
        key: String,
        /// The value.
        value: Vec<u8>,
    },
    /// Removes every key.
    ClearAll,
}

/// What an object does about a request.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Turn {
    /// The writes, in order.
    pub writes: Vec<Write>,
    /// When the alarm is to fire, unless one is armed that fires earlier: the request [`alarm`] is sent
    /// to the object at that time.
    pub alarm: Option<jiff::Timestamp>,
    /// Messages to other objects, in order. Nobody waits for their answers.
    pub messages: Vec<Message>,
    /// The answer, as JSON.
    pub answer: Vec<u8>,
}

/// A message from one object to another. The engine delivers it once, at a later time.
#[derive(Debug, Clone, PartialEq)]
pub enum Message {
    /// A request to the execution with this id. Its time is the time of its delivery.
    Execution(Arc<str>, Box<ObjectRequest>),
    /// The order to start a child, to the definition with this name.
    Definition(Arc<str>, Box<ChildRequest>),
}

/// A value that is needed and that the engine has not delivered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing(pub String);

/// Reads a stored value: `None` when there is none.
pub type Read<'r> = dyn FnMut(&str) -> Result<Option<Vec<u8>>, Missing> + 'r;

/// The request that an alarm sends, for the time for which it was armed and the time at which it fires.
#[must_use]
pub fn alarm(armed: jiff::Timestamp, now: jiff::Timestamp) -> ObjectRequest {
    ObjectRequest {
        v: VERSION,
        id: "timer".into(),
        at: now,
        body: None,
        work: Work::Alarm { armed },
        claim: None,
    }
}

/// The request by which an engine that was stopped from outside shows the end of an execution.
#[must_use]
pub fn killed(at: jiff::Timestamp, by: &str, why: &str) -> ObjectRequest {
    let kill = stateway_machine::Verb::Cancel {
        mode: stateway_machine::CancelMode::Kill,
        by: by.into(),
        comment: why.into(),
    };
    ObjectRequest {
        v: VERSION,
        id: by.into(),
        at,
        body: None,
        work: Work::Verb(Box::new(kill)),
        claim: None,
    }
}

/// Carries out a request.
///
/// # Errors
/// The key of a value that is needed first. Nothing was decided.
pub fn handle(
    object: &str,
    request: &[u8],
    read: &mut Read<'_>,
    plans: &Plans,
) -> Result<Turn, Missing> {
    let request = match decode(request) {
        Ok(request) => request,
        Err(refusal) => return Ok(refused(refusal)),
    };
    let stored = read(STATE)?;
    let turn = match (stored, request.work.clone()) {
        (None, Work::Start(start)) => {
            let ended_early = if start.child.is_some() {
                read(ENDED_EARLY)?
            } else {
                None
            };
            Execution::start(object, &request, *start, plans).and_then(|mut execution| {
                if let Some(how) = ended_early {
                    execution.end_child(&request, how == KILL)?;
                }
                execution.finish(&request)
            })
        }
        (None, Work::Fork(fork)) => Execution::fork(object, &request, *fork, plans)
            .and_then(|execution| execution.finish(&request)),
        // The message overtook the start, which finds the note.
        (None, Work::EndChild { kill }) => return Ok(ended_early(kill)),
        (None, _) => Err(Refusal::new(
            ErrorKind::NotFound,
            "EXECUTION_NOT_FOUND",
            format!("there is no execution `{object}`"),
        )),
        (Some(stored), work) => match ObjectRecord::decode(&stored) {
            Err(why) => Err(damaged(&why)),
            Ok((kept, snapshot)) => {
                let plan = match kept.plan(snapshot, plans, read)? {
                    Ok(plan) => plan,
                    Err(why) => return Ok(not_done(&request, damaged(&why))),
                };
                Execution::load(kept, plan, snapshot)
                    .map_err(|why| damaged(&why))
                    .and_then(|mut execution| {
                        execution.work(&request, work, plans)?;
                        execution.finish(&request)
                    })
            }
        },
    };
    Ok(turn.unwrap_or_else(|refusal| not_done(&request, refusal)))
}

const KILL: &[u8] = b"kill";
const CANCEL: &[u8] = b"cancel";

fn ended_early(kill: bool) -> Turn {
    let value = if kill { KILL } else { CANCEL };
    let refusal = Refusal::new(
        ErrorKind::NotFound,
        "EXECUTION_NOT_FOUND",
        "the child is ended when it is started",
    );
    Turn {
        writes: vec![Write::Set {
            key: ENDED_EARLY.to_owned(),
            value: value.to_vec(),
        }],
        ..refused(refusal)
    }
}

/// The turn of a request that is refused. An alarm fires once, so an alarm that is refused asks for another
/// one: otherwise no timer of the execution would ever fire again.
fn not_done(request: &ObjectRequest, refusal: Refusal) -> Turn {
    let is_lost = refusal.kind == ErrorKind::NotFound.as_str();
    let is_alarm = matches!(request.work, Work::Alarm { .. });
    Turn {
        alarm: if is_alarm && !is_lost {
            request.at.checked_add(ALARM_AGAIN).ok()
        } else {
            None
        },
        ..refused(refusal)
    }
}

fn decode(request: &[u8]) -> Result<ObjectRequest, Refusal> {
    #[derive(serde::Deserialize)]
    struct Versioned {
        v: u32,
    }
    if request.len() > MAX_REQUEST_BYTES {
        let message = format!(
            "a request has {} bytes, more than {MAX_REQUEST_BYTES}",
            request.len()
        );
        return Err(Refusal::new(
            ErrorKind::InvalidArgument,
            "REQUEST_TOO_LARGE",
            message,
        ));
    }
    let version = serde_json::from_slice::<Versioned>(request).ok();
    if let Some(Versioned { v }) = version.filter(|it| it.v != VERSION) {
        let message = format!("request version {v} is unknown; this host reads version {VERSION}");
        let refusal = Refusal::new(ErrorKind::FailedPrecondition, "HOST_VERSION", message);
        return Err(refusal.hint("Upgrade the older of gateway and host."));
    }
    serde_json::from_slice(request).map_err(|error| {
        let message = format!("not a request: {error}");
        Refusal::new(ErrorKind::InvalidArgument, "INVALID_REQUEST", message)
            .hint("Gateway and host may be of different versions: upgrade the older one.")
    })
}

fn damaged(why: &str) -> Refusal {
    let message = format!("the stored state of the execution cannot be read: {why}");
    Refusal::new(ErrorKind::DataLoss, "STATE_UNREADABLE", message)
        .hint("Nothing was changed. A host of another version may be able to read it.")
}

fn refused(refusal: Refusal) -> Turn {
    Turn {
        answer: encode(&ObjectAnswer::Refused(refusal)),
        ..Turn::default()
    }
}

fn encode(answer: &ObjectAnswer) -> Vec<u8> {
    serde_json::to_vec(answer).expect("an answer has only text keys, so it is always JSON")
}
