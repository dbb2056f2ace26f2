//! The value of the key `x`: a line of JSON, then the snapshot of the state.

use std::collections::VecDeque;
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use stateway_driver::{Parent, ViewOrigin};
use stateway_machine::{Plan, snapshot_revision};
use stateway_model::{ErrorKind, Labels};

use super::{DEFINITION, Missing, Read};
use crate::Plans;
use crate::message::{ChildStart, HandOut, Refusal};

/// The most request ids that an object remembers; the oldest is forgotten first.
const MOST_REQUESTS: usize = 256;
/// The version of the line.
const VERSION: u32 = 1;

/// What an object remembers beside the state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ObjectRecord {
    v: u32,
    /// For when the alarm is armed.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        with = "jiff::fmt::serde::timestamp::millisecond::optional"
    )]
    pub(super) armed: Option<Timestamp>,
    /// The request that started the execution, and its digest.
    pub(super) start: (Arc<str>, Arc<str>),
    /// The requests since then, with their digests, oldest first.
    #[serde(default, skip_serializing_if = "VecDeque::is_empty")]
    requests: VecDeque<(Arc<str>, Arc<str>)>,
    /// Until when tasks stay with their workers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) leases: Vec<Lease>,
    pub(super) id: Arc<str>,
    pub(super) definition: Arc<str>,
    #[serde(default, skip_serializing_if = "Labels::is_empty")]
    pub(super) labels: Labels,
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        with = "jiff::fmt::serde::timestamp::millisecond::optional"
    )]
    pub(super) not_before: Option<Timestamp>,
    /// The milliseconds of the creation.
    pub(super) created: i64,
    /// What the execution inherited, if it is a child.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) child: Option<ChildStart>,
    /// The ids of the children that were ordered and are open.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) children: Vec<Arc<str>>,
}

/// Until when a task stays with its worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Lease {
    pub(super) hand_out: HandOut,
    #[serde(with = "jiff::fmt::serde::timestamp::millisecond::required")]
    pub(super) until: Timestamp,
}

/// Whether a request came before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Repetition {
    First,
    Repeated,
}

impl ObjectRecord {
    pub(super) fn new(
        (id, definition): (Arc<str>, Arc<str>),
        start: (Arc<str>, Arc<str>),
        labels: Labels,
        (created, not_before): (Timestamp, Option<Timestamp>),
    ) -> Self {
        Self {
            v: VERSION,
            armed: None,
            start,
            requests: VecDeque::new(),
            leases: Vec::new(),
            id,
            definition,
            labels,
            not_before,
            created: created.as_millisecond(),
            child: None,
            children: Vec::new(),
        }
    }

    pub(super) fn decode(value: &[u8]) -> Result<(Self, &[u8]), String> {
        let end = value.iter().position(|byte| *byte == b'\n');
        let end = end.ok_or("it has no first line")?;
        let kept: Self =
            serde_json::from_slice(&value[..end]).map_err(|error| error.to_string())?;
        if kept.v != VERSION {
            return Err(format!("version {} is unknown", kept.v));
        }
        Ok((kept, &value[end + 1..]))
    }

    pub(super) fn encode(&self, snapshot: &[u8]) -> Vec<u8> {
        let mut value =
            serde_json::to_vec(self).expect("it has only text keys, so it is always JSON");
        value.push(b'\n');
        value.extend_from_slice(snapshot);
        value
    }

    /// The plan of the state, from memory or from the stored definition.
    pub(super) fn plan(
        &self,
        snapshot: &[u8],
        plans: &Plans,
        read: &mut Read<'_>,
    ) -> Result<Result<Arc<Plan>, String>, Missing> {
        let revision = match snapshot_revision(snapshot) {
            Ok(revision) => revision,
            Err(error) => return Ok(Err(error.to_string())),
        };
        if let Some(plan) = plans.known(&revision) {
            return Ok(Ok(plan));
        }
        let Some(source) = read(DEFINITION)? else {
            return Ok(Err("its definition is missing".to_owned()));
        };
        let source = String::from_utf8(source).map_err(|error| error.to_string());
        Ok(source.and_then(|source| plans.of_source(&source, &self.definition)))
    }

    /// Whether this request came before.
    pub(super) fn seen(&self, id: &str, body: &str) -> Result<Repetition, Refusal> {
        let mut known = self.requests.iter().chain([&self.start]);
        match known.find(|(known, _)| **known == *id) {
            None => Ok(Repetition::First),
            Some((_, known)) if **known == *body => Ok(Repetition::Repeated),
            Some(_) => Err(Refusal::new(
                ErrorKind::AlreadyExists,
                "REQUEST_ID_REUSED",
                "the request id was used for another request",
            )
            .hint("Use a new request id for a new request.")),
        }
    }

    pub(super) fn remember(&mut self, id: &Arc<str>, body: &Arc<str>) {
        if self.requests.len() >= MOST_REQUESTS {
            self.requests.pop_front();
        }
        self.requests.push_back((Arc::clone(id), Arc::clone(body)));
    }

    pub(super) fn origin(&self) -> ViewOrigin {
        ViewOrigin {
            number: self.created,
            id: Arc::clone(&self.id),
            definition: Arc::clone(&self.definition),
            labels: Arc::new(self.labels.clone()),
            parent: self.child.as_ref().map(|child| Parent {
                // A host does not number executions; the stored view has the id.
                number: 0,
                step: Arc::clone(&child.of.step),
                attempt: child.of.attempt,
                branch: child.of.branch,
            }),
            not_before: self.not_before,
        }
    }
}
