//! The object of one portable definition, as a pure function.
//!
//! | key | value | read by |
//! |---|---|---|
//! | `c` | the current revision with its source, every revision with its time, the trigger, remembered request ids | the object, and providers by queries |
//! | `r/{revision}` | the source of a revision | providers, by queries |
//!
//! A definition with a schedule has an alarm, as an execution has: the request [`alarm`] is sent to the object
//! at that time. The object then sends the start to an execution whose id is the time of the schedule.

mod trigger;

use std::collections::VecDeque;
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use stateway_definition::{Revision, parse};
use stateway_machine::Failure;
use stateway_model::{ErrorCategory, ErrorKind, Usage};

use crate::message::{ChildRequest, ObjectRequest, Refusal, StartWork, VERSION, Work};
use crate::object::{ALARM_AGAIN, Message, Missing, Read, Turn, Write};
use crate::portability;
pub(crate) use trigger::SCHEDULE;
pub use trigger::{DisabledMark, StoredTrigger};

/// The current revision and the list of all.
pub const CURRENT: &str = "c";
/// The prefix of the keys of sources.
pub const REVISIONS: &str = "r/";
/// The most request ids that are remembered.
const MOST_REQUESTS: usize = 256;

/// One request to the object of a definition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DefinitionRequest {
    /// [`VERSION`].
    pub v: u32,
    /// The idempotency key.
    pub id: Arc<str>,
    /// The digest of the request.
    pub body: Arc<str>,
    /// The time of the sender.
    #[serde(with = "jiff::fmt::serde::timestamp::millisecond::required")]
    pub at: Timestamp,
    /// What is wanted.
    pub work: DefinitionWork,
}

/// What is wanted of a definition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum DefinitionWork {
    /// Make this source the current revision.
    Apply {
        /// YAML or JSON.
        source: Arc<str>,
        /// Names the source in diagnostics.
        source_name: Arc<str>,
        /// Whether the schedule starts nothing, because the gateway cannot run the definition.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        never_scheduled: bool,
    },
    /// Have no current revision any more.
    Delete,
    /// Disable or enable the trigger.
    Switch {
        /// Whether it starts executions from now on.
        enabled: bool,
        /// Who asks for it.
        by: Arc<str>,
        /// Why; may be empty.
        comment: Arc<str>,
    },
    /// Whether new executions start on this provider by default.
    SetHome {
        /// Whether they do.
        home: bool,
    },
    /// Start what is due by the schedule. Only the alarm sends it, and it is not remembered.
    Alarm {
        /// The time for which the alarm was armed.
        #[serde(with = "jiff::fmt::serde::timestamp::millisecond::required")]
        armed: Timestamp,
    },
}

/// The answer of the object of a definition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DefinitionAnswer {
    /// Carried out.
    Done {
        /// Whether anything is different now.
        changed: bool,
        /// The definition now.
        kept: StoredDefinition,
    },
    /// Refused; nothing has changed.
    Refused(Refusal),
}

/// What is stored of a definition.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoredDefinition {
    /// The version of this value.
    pub v: u32,
    /// The current revision; none when the definition is deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current: Option<Arc<str>>,
    /// The source of the current revision.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub source: Arc<str>,
    /// Every revision with the milliseconds of its first application, oldest first.
    pub revisions: Vec<(Arc<str>, i64)>,
    /// The trigger; none when the current revision has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trigger: Option<StoredTrigger>,
    /// Whether new executions start on this provider by default.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub home: bool,
    #[serde(default, skip_serializing_if = "VecDeque::is_empty")]
    requests: VecDeque<(Arc<str>, Arc<str>)>,
}

impl StoredDefinition {
    /// When a revision was first applied.
    #[must_use]
    pub fn created(&self, revision: &str) -> Option<Timestamp> {
        let (_, millis) = self.revisions.iter().find(|(it, _)| **it == *revision)?;
        Timestamp::from_millisecond(*millis).ok()
    }
}

/// Carries out a request on the definition with this name.
///
/// # Errors
/// The key of a value that is needed first.
pub fn handle(name: &str, request: &[u8], read: &mut Read<'_>) -> Result<Turn, Missing> {
    let stored = read(CURRENT)?;
    let decoded = decode(request);
    // An alarm fires once, so an alarm that is refused asks for another one, like that of an execution.
    let again = match &decoded {
        Ok(DefinitionRequest {
            work: DefinitionWork::Alarm { .. },
            at,
            ..
        }) => at.checked_add(ALARM_AGAIN).ok(),
        _ => None,
    };
    let turn = decoded.and_then(|request| {
        let kept = match stored {
            None => StoredDefinition {
                v: VERSION,
                ..StoredDefinition::default()
            },
            Some(stored) => serde_json::from_slice(&stored).map_err(|error| {
                let message = format!("the stored definition cannot be read: {error}");
                Refusal::new(ErrorKind::DataLoss, "STATE_UNREADABLE", message)
            })?,
        };
        work(name, &request, kept)
    });
    Ok(turn.unwrap_or_else(|refusal| Turn {
        answer: json(&DefinitionAnswer::Refused(refusal)),
        alarm: again,
        ..Turn::default()
    }))
}

/// The request that an alarm sends, for the time for which it was armed and the time at which it fires.
#[must_use]
pub fn alarm(armed: Timestamp, now: Timestamp) -> DefinitionRequest {
    DefinitionRequest {
        v: VERSION,
        id: "timer".into(),
        body: "".into(),
        at: now,
        work: DefinitionWork::Alarm { armed },
    }
}

/// Starts a child by the definition with this name: sends the start with the source to the child, or to the
/// parent that the child cannot be started. Writes nothing.
///
/// # Errors
/// The key of a value that is needed first.
pub fn start_child(name: &str, request: &[u8], read: &mut Read<'_>) -> Result<Turn, Missing> {
    let stored = read(CURRENT)?;
    let Ok(request) = serde_json::from_slice::<ChildRequest>(request) else {
        // Only an execution sends this, so its parent is not known.
        return Ok(Turn::default());
    };
    let Some(child) = request.start.child.clone() else {
        return Ok(Turn::default());
    };
    let (to, cause, body, work) = match source_for_child(name, stored.as_deref()) {
        Ok(source) => {
            let start = StartWork {
                source,
                ..request.start
            };
            let cause = Arc::clone(&child.of.parent);
            let body = Some(Arc::clone(&request.id));
            (request.id, cause, body, Work::Start(Box::new(start)))
        }
        Err(why) => {
            let finish = Work::FinishChild {
                outcome: Err(Failure::reported(ErrorCategory::External, why)),
                usage: Usage::default(),
                child: child.of.clone(),
            };
            (child.of.parent, "child".into(), None, finish)
        }
    };
    let message = ObjectRequest {
        v: VERSION,
        id: cause,
        at: request.at,
        body,
        work,
        claim: None,
    };
    Ok(Turn {
        messages: vec![Message::Execution(to, Box::new(message))],
        ..Turn::default()
    })
}

/// The source of the current revision, or why no child can be started by it.
fn source_for_child(name: &str, stored: Option<&[u8]>) -> Result<Arc<str>, String> {
    let kept: Option<StoredDefinition> = match stored {
        None => None,
        Some(stored) => {
            let read = serde_json::from_slice(stored);
            read.map_err(|error| format!("the stored definition cannot be read: {error}"))?
        }
    };
    let Some(kept) = kept.as_ref().filter(|kept| kept.current.is_some()) else {
        return Err(missing(name, kept.is_some()).message);
    };
    let parsed = parse(&kept.source, name).map_err(|why| why.to_string())?;
    match portability::impossible(&parsed.definition)
        .into_iter()
        .next()
    {
        Some(reason) => Err(format!("definition `{name}`: {reason}")),
        None => Ok(Arc::clone(&kept.source)),
    }
}

fn decode(request: &[u8]) -> Result<DefinitionRequest, Refusal> {
    let read: Result<DefinitionRequest, _> = serde_json::from_slice(request);
    match read {
        Ok(request) if request.v == VERSION => Ok(request),
        Ok(request) => Err(Refusal::new(
            ErrorKind::FailedPrecondition,
            "HOST_VERSION",
            format!(
                "request version {} is unknown; this host reads version {VERSION}",
                request.v
            ),
        )),
        Err(error) => Err(Refusal::new(
            ErrorKind::InvalidArgument,
            "INVALID_REQUEST",
            format!("not a request: {error}"),
        )),
    }
}

fn work(
    name: &str,
    request: &DefinitionRequest,
    mut kept: StoredDefinition,
) -> Result<Turn, Refusal> {
    if let DefinitionWork::Alarm { armed } = request.work {
        let start = kept.fire(name, armed, request.at);
        let alarm = kept.arm();
        return Ok(Turn {
            messages: start.into_iter().collect(),
            alarm,
            ..done(kept, false, Vec::new())
        });
    }
    if let Some((_, body)) = kept.requests.iter().find(|(id, _)| *id == request.id) {
        if *body != request.body {
            return Err(Refusal::new(
                ErrorKind::AlreadyExists,
                "REQUEST_ID_REUSED",
                "the request id was used for another request",
            ));
        }
        return Ok(done(kept, false, Vec::new()));
    }
    let at = request.at.as_millisecond();
    let mut writes = Vec::new();
    let changed = match &request.work {
        DefinitionWork::Apply {
            source,
            source_name,
            never_scheduled,
        } => {
            let source = (source, source_name);
            let changed = apply(name, source, request.at, &mut kept, &mut writes)?;
            // Earlier builds stored no trigger, and other settings can let the schedule start executions.
            let trigger = kept.trigger.as_ref();
            let is_other = trigger.is_none_or(|it| it.never != *never_scheduled);
            if changed || is_other {
                kept.set_trigger(at, *never_scheduled);
            }
            changed
        }
        DefinitionWork::Delete => {
            if kept.current.is_none() {
                return Err(missing(name, !kept.revisions.is_empty()));
            }
            (kept.current, kept.source) = (None, "".into());
            (kept.trigger, kept.home) = (None, false);
            true
        }
        DefinitionWork::Switch {
            enabled,
            by,
            comment,
        } => {
            if kept.current.is_none() {
                return Err(missing(name, !kept.revisions.is_empty()));
            }
            kept.switch(name, *enabled, (by, comment, at))?
        }
        DefinitionWork::SetHome { home } => {
            if kept.current.is_none() {
                return Err(missing(name, !kept.revisions.is_empty()));
            }
            std::mem::replace(&mut kept.home, *home) != *home
        }
        DefinitionWork::Alarm { .. } => false,
    };
    if kept.requests.len() >= MOST_REQUESTS {
        kept.requests.pop_front();
    }
    kept.requests
        .push_back((Arc::clone(&request.id), Arc::clone(&request.body)));
    let alarm = kept.arm();
    Ok(Turn {
        alarm,
        ..done(kept, changed, writes)
    })
}

fn apply(
    name: &str,
    (source, source_name): (&Arc<str>, &Arc<str>),
    at: Timestamp,
    kept: &mut StoredDefinition,
    writes: &mut Vec<Write>,
) -> Result<bool, Refusal> {
    let invalid =
        |message: String| Refusal::new(ErrorKind::InvalidArgument, "INVALID_DEFINITION", message);
    let parsed = parse(source, source_name).map_err(|why| invalid(why.to_string()))?;
    if parsed.definition.name.as_deref() != Some(name) {
        return Err(invalid(format!("the definition is not named `{name}`")));
    }
    let revision = Revision::of(&parsed.definition).shared();
    if kept.current.as_ref() == Some(&revision) {
        return Ok(false);
    }
    if kept.created(&revision).is_none() {
        kept.revisions
            .push((Arc::clone(&revision), at.as_millisecond()));
        writes.push(Write::Set {
            key: format!("{REVISIONS}{revision}"),
            value: source.as_bytes().to_vec(),
        });
    }
    kept.current = Some(revision);
    kept.source = Arc::clone(source);
    Ok(true)
}

/// The refusal for a definition that has no current revision.
#[must_use]
pub fn missing(name: &str, deleted: bool) -> Refusal {
    let message = if deleted {
        format!("the definition `{name}` was deleted")
    } else {
        format!("there is no definition `{name}`")
    };
    Refusal::new(ErrorKind::NotFound, "DEFINITION_NOT_FOUND", message)
        .hint("{ListDefinitions} shows every definition.")
}

fn done(kept: StoredDefinition, changed: bool, mut writes: Vec<Write>) -> Turn {
    writes.push(Write::Set {
        key: CURRENT.to_owned(),
        value: json(&kept),
    });
    Turn {
        writes,
        answer: json(&DefinitionAnswer::Done { changed, kept }),
        ..Turn::default()
    }
}

fn json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("it has only text keys, so it is always JSON")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    type Values = BTreeMap<String, Vec<u8>>;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn turn(stored: &mut Values, request: &DefinitionRequest) -> Turn {
        let request = serde_json::to_vec(request).unwrap();
        let mut read = |key: &str| Ok(stored.get(key).cloned());
        let turn = handle("a", &request, &mut read).unwrap();
        for write in &turn.writes {
            if let Write::Set { key, value } = write {
                stored.insert(key.clone(), value.clone());
            }
        }
        turn
    }

    fn request(id: &str, at: Timestamp, work: DefinitionWork) -> DefinitionRequest {
        DefinitionRequest {
            v: VERSION,
            id: id.into(),
            body: format!("{work:?}").into(),
            at,
            work,
        }
    }

    fn send(stored: &mut Values, id: &str, work: DefinitionWork) -> DefinitionAnswer {
        let at = Timestamp::from_millisecond(1_700_000_000_000).unwrap();
        let turn = turn(stored, &request(id, at, work));
        serde_json::from_slice(&turn.answer).unwrap()
    }

    fn apply(step: &str) -> DefinitionWork {
        applied(format!("name: a\nsteps: [{{name: {step}}}]"))
    }

    fn applied(source: impl Into<Arc<str>>) -> DefinitionWork {
        DefinitionWork::Apply {
            source: source.into(),
            source_name: "a.yaml".into(),
            never_scheduled: false,
        }
    }

    fn hourly(step: &str) -> DefinitionWork {
        applied(format!(
            "name: a\ntrigger: {{schedule: '0 * * * *'}}\nsteps: [{{name: {step}}}]"
        ))
    }

    #[test]
    fn an_alarm_that_is_refused_asks_for_another_one() {
        let mut stored = Values::new();
        // As a newer version might write it.
        stored.insert(CURRENT.to_owned(), b"{\"v\":99}".to_vec());
        let (due, now) = (at("2026-01-01T10:00:00Z"), at("2026-01-01T10:00:01Z"));
        let fired = turn(&mut stored, &alarm(due, now));
        assert_eq!(fired.alarm, Some(at("2026-01-01T10:01:01Z")));
        assert!(fired.writes.is_empty());
        // Somebody waits for the answer of any other request.
        let asked = turn(&mut stored, &request("r1", now, switch(true)));
        assert_eq!(asked.alarm, None);
    }

    fn switch(enabled: bool) -> DefinitionWork {
        DefinitionWork::Switch {
            enabled,
            by: "olga".into(),
            comment: "maintenance".into(),
        }
    }

    /// The ids of the executions that a turn starts.
    fn started(turn: &Turn) -> Vec<String> {
        let messages = turn.messages.iter();
        messages
            .map(|message| match message {
                Message::Execution(id, request) => {
                    assert!(matches!(request.work, Work::Start(_)));
                    id.to_string()
                }
                Message::Definition(..) => panic!("a definition sends nothing to a definition"),
            })
            .collect()
    }

    #[test]
    fn a_schedule_starts_one_execution_for_each_time_and_arms_the_next_alarm() {
        let mut stored = BTreeMap::new();
        let first = turn(
            &mut stored,
            &request("r1", at("2026-01-01T09:30:00Z"), hourly("one")),
        );
        assert_eq!(first.alarm, Some(at("2026-01-01T10:00:00Z")));
        let ten = at("2026-01-01T10:00:00Z");
        let fired = turn(&mut stored, &alarm(ten, at("2026-01-01T10:00:00.2Z")));
        assert_eq!(started(&fired), ["a~20260101T100000Z"]);
        assert_eq!(fired.alarm, Some(at("2026-01-01T11:00:00Z")));
        // An alarm that comes twice finds nothing due.
        let again = turn(&mut stored, &alarm(ten, at("2026-01-01T10:00:01Z")));
        assert_eq!((started(&again), again.alarm), (Vec::new(), None));
        // Times that passed while no host ran start one execution, the newest.
        let eleven = at("2026-01-01T11:00:00Z");
        let late = turn(&mut stored, &alarm(eleven, at("2026-01-01T14:20:00Z")));
        assert_eq!(started(&late), ["a~20260101T140000Z"]);
        assert_eq!(late.alarm, Some(at("2026-01-01T15:00:00Z")));
    }

    #[test]
    fn another_revision_and_a_disabled_trigger_change_what_the_schedule_starts() {
        let mut stored = BTreeMap::new();
        let apply_one = request("r1", at("2026-01-01T09:30:00Z"), hourly("one"));
        turn(&mut stored, &apply_one);
        let off = turn(
            &mut stored,
            &request("r2", at("2026-01-01T09:40:00Z"), switch(false)),
        );
        assert_eq!(off.alarm, None);
        let ten = at("2026-01-01T10:00:00Z");
        let fired = turn(&mut stored, &alarm(ten, ten));
        assert_eq!((started(&fired), fired.alarm), (Vec::new(), None));
        // A new revision does not enable it.
        let revised = request("r3", at("2026-01-01T10:30:00Z"), hourly("two"));
        assert_eq!(turn(&mut stored, &revised).alarm, None);
        // Times that passed meanwhile are skipped.
        let on = turn(
            &mut stored,
            &request("r4", at("2026-01-01T12:30:00Z"), switch(true)),
        );
        assert_eq!(on.alarm, Some(at("2026-01-01T13:00:00Z")));
        // A revision with an earlier time arms an earlier alarm; without a schedule nothing starts.
        let often =
            applied("name: a\ntrigger: {schedule: '*/5 * * * *'}\nsteps: [{name: x}]".to_owned());
        let often = turn(
            &mut stored,
            &request("r5", at("2026-01-01T12:31:00Z"), often),
        );
        assert_eq!(often.alarm, Some(at("2026-01-01T12:35:00Z")));
        turn(
            &mut stored,
            &request("r6", at("2026-01-01T12:32:00Z"), apply("three")),
        );
        let due = at("2026-01-01T12:35:00Z");
        let fired = turn(&mut stored, &alarm(due, due));
        assert_eq!((started(&fired), fired.alarm), (Vec::new(), None));
        assert_eq!(reason(send(&mut stored, "r7", switch(false))), "NO_TRIGGER");
    }

    #[test]
    fn a_deleted_definition_starts_nothing_and_comes_back_enabled() {
        let mut stored = BTreeMap::new();
        let nine = at("2026-01-01T09:30:00Z");
        turn(&mut stored, &request("r1", nine, hourly("one")));
        turn(&mut stored, &request("r2", nine, switch(false)));
        turn(&mut stored, &request("r3", nine, DefinitionWork::Delete));
        let ten = at("2026-01-01T10:00:00Z");
        assert!(started(&turn(&mut stored, &alarm(ten, ten))).is_empty());
        let again = turn(&mut stored, &request("r4", ten, hourly("one")));
        assert_eq!(again.alarm, Some(at("2026-01-01T11:00:00Z")));
    }

    #[test]
    fn a_definition_that_the_gateway_cannot_run_is_not_scheduled() {
        let mut stored = BTreeMap::new();
        let DefinitionWork::Apply {
            source,
            source_name,
            ..
        } = hourly("one")
        else {
            unreachable!("it is an application")
        };
        let never = DefinitionWork::Apply {
            source,
            source_name,
            never_scheduled: true,
        };
        let nine = at("2026-01-01T09:30:00Z");
        assert_eq!(turn(&mut stored, &request("r1", nine, never)).alarm, None);
        // Applied again when the gateway can run it, the same revision is scheduled.
        let again = turn(&mut stored, &request("r2", nine, hourly("one")));
        assert_eq!(again.alarm, Some(at("2026-01-01T10:00:00Z")));
    }

    fn changed(answer: &DefinitionAnswer) -> bool {
        matches!(answer, DefinitionAnswer::Done { changed: true, .. })
    }

    fn reason(answer: DefinitionAnswer) -> String {
        match answer {
            DefinitionAnswer::Refused(refusal) => refusal.reason,
            DefinitionAnswer::Done { .. } => panic!("it was carried out"),
        }
    }

    #[test]
    fn a_repeated_request_does_not_bring_an_old_revision_back() {
        let mut stored = BTreeMap::new();
        assert!(changed(&send(&mut stored, "r1", apply("one"))));
        assert!(changed(&send(&mut stored, "r2", apply("two"))));
        assert!(!changed(&send(&mut stored, "r1", apply("one"))));
        let DefinitionAnswer::Done { kept, .. } = send(&mut stored, "r3", apply("two")) else {
            panic!("it was refused");
        };
        assert!(kept.source.contains("two"));
        assert_eq!(kept.revisions.len(), 2);
        assert_eq!(
            reason(send(&mut stored, "r1", apply("three"))),
            "REQUEST_ID_REUSED"
        );
    }

    #[test]
    fn a_deleted_definition_can_be_applied_again() {
        let mut stored = BTreeMap::new();
        assert_eq!(
            reason(send(&mut stored, "r0", DefinitionWork::Delete)),
            "DEFINITION_NOT_FOUND"
        );
        send(&mut stored, "r1", apply("one"));
        assert!(changed(&send(&mut stored, "r2", DefinitionWork::Delete)));
        assert!(changed(&send(&mut stored, "r3", apply("one"))));
        // The two revisions are one: their content is the same.
        assert_eq!(
            stored
                .keys()
                .filter(|key| key.starts_with(REVISIONS))
                .count(),
            1
        );
    }

    #[test]
    fn a_source_of_another_name_is_refused() {
        let mut stored = BTreeMap::new();
        let work = DefinitionWork::Apply {
            source: "name: b\nsteps: [{name: x}]".into(),
            source_name: "b.yaml".into(),
            never_scheduled: false,
        };
        assert_eq!(reason(send(&mut stored, "r1", work)), "INVALID_DEFINITION");
        assert!(stored.is_empty());
    }
}
