//! A recording without what must not leave the house: payloads, messages and names of people. What
//! happened when, to which step and how often, stays.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value};
use stateway_machine::{
    Data, Event, EventHeader, Fact, Failure, PauseCause, PolicyDecision, TurnCause, encode_after,
};

use super::{Recording, Result};
use crate::{BEGINNING, Hash, link};

impl Recording {
    /// The recording with every value replaced by its kind and length, and every name by a number. The
    /// chain of hashes is computed again, so that a later change of the file is noticed. The recording
    /// is marked as redacted, because its chain differs from the chain of the store.
    ///
    /// # Errors
    /// The log is not what was written.
    pub fn redact(&self) -> Result<Self> {
        self.check()?;
        let mut people = People::default();
        let mut redacted = self.clone();
        redacted.redacted = true;
        for value in redacted.labels.values_mut() {
            *value = length(value).to_string();
        }
        for row in &mut redacted.rows {
            let events = row.decode()?;
            row.lines.clear();
            let mut before = None;
            for mut event in events {
                redact(&mut event, &mut people);
                encode_after(before.as_ref(), &event, &mut row.lines);
                row.lines.push(b'\n');
                before = Some(EventHeader::from(&event));
            }
        }
        redacted.relink()?;
        Ok(redacted)
    }

    /// Computes the chain of hashes again. Rows are in the order they were written, so that the row before one is
    /// always linked already.
    ///
    /// # Errors
    /// The branches do not hang together.
    pub fn relink(&mut self) -> Result<()> {
        for at in 0..self.rows.len() {
            let (branch, first) = (self.rows[at].branch, self.rows[at].first);
            let lineage = self.lineage(branch)?;
            let before = lineage.iter().rfind(|(row, _)| row.first < first);
            let before: Hash = before.map_or(BEGINNING, |(row, _)| row.hash);
            self.rows[at].hash = link(&before, &self.rows[at].lines);
        }
        Ok(())
    }
}

/// Names and what stands for them.
#[derive(Default)]
struct People {
    known: BTreeMap<Arc<str>, Arc<str>>,
}

impl People {
    fn hide(&mut self, name: &mut Arc<str>) {
        if name.is_empty() {
            return;
        }
        let next = self.known.len() + 1;
        let known = self.known.entry(Arc::clone(name));
        *name = Arc::clone(known.or_insert_with(|| format!("someone-{next}").into()));
    }
}

fn redact(event: &mut Event, people: &mut People) {
    // Ids of requests and workers are chosen by those who send them.
    people.hide(&mut event.causation);
    people.hide(&mut event.actor);
    match &mut event.fact {
        Fact::ExecutionCreated {
            initiator,
            input,
            redone_by,
            ..
        } => {
            people.hide(initiator);
            redone_by.iter_mut().for_each(|person| people.hide(person));
            hide(input);
        }
        Fact::StepCompleted { output, .. } | Fact::ExecutionCompleted { output } => hide(output),
        Fact::SignalReceived { id, payload, .. } => {
            people.hide(id);
            hide(payload);
        }
        Fact::SignalDelivered { id, .. } => people.hide(id),
        Fact::TaskAssigned {
            worker, identity, ..
        } => {
            people.hide(worker);
            people.hide(identity);
        }
        Fact::AttemptFailed { failure, .. } | Fact::StepCompensationFailed { failure, .. } => {
            unsay_failure(failure);
        }
        Fact::ProgressReported { detail, .. } => unsay(detail),
        Fact::CorrectionRequested { feedback, .. } => unsay(feedback),
        Fact::ApprovalGranted { by, comment, .. }
        | Fact::ApprovalRejected { by, comment, .. }
        | Fact::EscalationResolved { by, comment, .. }
        | Fact::ExecutionCancelled { by, comment, .. }
        | Fact::ExecutionPaused {
            cause: PauseCause::ByHand { by, comment },
        }
        | Fact::CompensationStarted {
            cause: TurnCause::Cancelled { by, comment, .. },
            ..
        }
        | Fact::CancellationStarted { by, comment, .. } => {
            people.hide(by);
            unsay(comment);
        }
        Fact::ExecutionQueued { by }
        | Fact::ExecutionResumed { by }
        | Fact::ExecutionReopened { by, .. }
        | Fact::ExecutionRecovered { by, .. } => people.hide(by),
        Fact::PolicyDecided {
            decision: PolicyDecision::Deny { message },
            ..
        } => unsay(message),
        Fact::BranchOpened { by, redo, .. } | Fact::ExecutionForked { by, redo, .. } => {
            people.hide(by);
            if let Some(redo) = redo {
                redo.input.as_mut().map(hide).unwrap_or_default();
                unsay(&mut redo.feedback);
            }
        }
        _ => {}
    }
}

fn hide(data: &mut Data) {
    *data = Data::new(without(data));
}

/// The shape of a value: its keys and lengths, without its content.
fn without(value: &Value) -> Value {
    match value {
        Value::Null => Value::Null,
        Value::Bool(_) => Value::from("<boolean>"),
        Value::Number(_) => Value::from("<number>"),
        Value::String(text) => Value::from(&*length(text)),
        Value::Array(items) => items.iter().map(without).collect(),
        Value::Object(fields) => {
            let fields = fields.iter();
            let fields: Map<_, _> = fields
                .map(|(key, value)| (key.clone(), without(value)))
                .collect();
            Value::Object(fields)
        }
    }
}

fn unsay_failure(failure: &mut Failure) {
    unsay(&mut failure.message);
}

fn unsay(text: &mut Arc<str>) {
    if !text.is_empty() {
        *text = length(text);
    }
}

fn length(text: &str) -> Arc<str> {
    format!("<{} characters>", text.chars().count()).into()
}
