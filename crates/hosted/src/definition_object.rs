//! The object of one portable definition, as a pure function.
//!
//! | key | value | read by |
//! |---|---|---|
//! | `c` | the current revision with its source, every revision with its time, remembered request ids | the object, and providers by queries |
//! | `r/{revision}` | the source of a revision | providers, by queries |

use std::collections::VecDeque;
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use stateway_definition::{Revision, parse};
use stateway_machine::Failure;
use stateway_model::{ErrorCategory, ErrorKind, Usage};

use crate::message::{ChildRequest, ObjectRequest, Refusal, StartWork, VERSION, Work};
use crate::object::{Message, Missing, Read, Turn, Write};
use crate::portability;

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
    },
    /// Have no current revision any more.
    Delete,
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
    let turn = decode(request).and_then(|request| {
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
        ..Turn::default()
    }))
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
    let mut writes = Vec::new();
    let changed = match &request.work {
        DefinitionWork::Apply {
            source,
            source_name,
        } => apply(
            name,
            (source, source_name),
            request.at,
            &mut kept,
            &mut writes,
        )?,
        DefinitionWork::Delete => {
            if kept.current.is_none() {
                return Err(missing(name, !kept.revisions.is_empty()));
            }
            (kept.current, kept.source) = (None, "".into());
            true
        }
    };
    if kept.requests.len() >= MOST_REQUESTS {
        kept.requests.pop_front();
    }
    kept.requests
        .push_back((Arc::clone(&request.id), Arc::clone(&request.body)));
    Ok(done(kept, changed, writes))
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

    fn send(
        stored: &mut BTreeMap<String, Vec<u8>>,
        id: &str,
        work: DefinitionWork,
    ) -> DefinitionAnswer {
        let request = DefinitionRequest {
            v: VERSION,
            id: id.into(),
            body: format!("{work:?}").into(),
            at: Timestamp::from_millisecond(1_700_000_000_000).unwrap(),
            work,
        };
        let request = serde_json::to_vec(&request).unwrap();
        let mut read = |key: &str| Ok(stored.get(key).cloned());
        let turn = handle("a", &request, &mut read).unwrap();
        for write in turn.writes {
            if let Write::Set { key, value } = write {
                stored.insert(key, value);
            }
        }
        serde_json::from_slice(&turn.answer).unwrap()
    }

    fn apply(step: &str) -> DefinitionWork {
        DefinitionWork::Apply {
            source: format!("name: a\nsteps: [{{name: {step}}}]").into(),
            source_name: "a.yaml".into(),
        }
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
        };
        assert_eq!(reason(send(&mut stored, "r1", work)), "INVALID_DEFINITION");
        assert!(stored.is_empty());
    }
}
