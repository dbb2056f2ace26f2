//! The whole log of an execution, from the events that its object stored.

use std::sync::Arc;

use stateway_machine::{Event, Fact};
use stateway_model::{ErrorKind, ExecutionId};
use stateway_provider_api::{Call, Error, Result, Verb};
use stateway_replay::recording::{
    BranchOrigin, MOST_RECORDED_EVENTS, Recording, Row, Source, count,
};
use stateway_replay::{Numbering, lineage};

use super::{HostPort, HostedProvider, ObjectKind, stored};
use crate::message::StoredView;
use crate::object::{EVENTS, VIEW, place_of_key};

/// How many commands are read at a time.
const KEYS_PER_READ: usize = 1_000;

/// An execution and its log. The view was read first, so the log is never older than the view.
pub(super) struct StoredLog {
    pub(super) seen: StoredView,
    /// Without the chain of hashes and without definitions.
    recording: Recording,
}

impl StoredLog {
    /// Every event with its branch, in the order of branch and sequence.
    pub(super) fn events(&self, verb: Verb) -> Result<Vec<(u32, Event)>> {
        let mut events = Vec::new();
        for row in &self.recording.rows {
            let found = row
                .decode()
                .map_err(|error| damaged(verb, &error.to_string()))?;
            events.extend(found.into_iter().map(|event| (row.branch, event)));
        }
        Ok(events)
    }

    /// The events that lead to where a branch is, each with the branch that it was written on.
    pub(super) fn along(&self, verb: Verb, branch: u32) -> Result<Vec<(u32, Event)>> {
        let unknown = branch != 0 && !self.branches().iter().any(|it| it.branch == branch);
        if unknown {
            let message = format!("there is no branch {branch}");
            return Err(Error::new(ErrorKind::NotFound, verb, message)
                .with_reason("BRANCH_NOT_FOUND")
                .by_engine());
        }
        let parent = |branch| {
            let grown = self.branches().iter().find(|it| it.branch == branch)?;
            Some((grown.parent, grown.cutoff))
        };
        let segments = lineage(branch, parent).map_err(|branch| {
            damaged(verb, &format!("the parent of branch {branch} is not older"))
        })?;
        let mut events = self.events(verb)?;
        events.retain(|(on, event)| {
            let mut segments = segments.iter();
            segments.any(|part| part.branch == *on && event.sequence <= part.up_to)
        });
        events.sort_by_key(|(_, event)| event.sequence);
        Ok(events)
    }

    /// One sequence of numbers for the events of all branches.
    pub(super) fn numbering(&self, verb: Verb) -> Result<Numbering> {
        let mut counts: Vec<(u32, u32, u64, u64)> = Vec::new();
        for (on, _) in self.events(verb)? {
            match counts.last_mut() {
                Some((branch, .., events)) if *branch == on => *events += 1,
                _ => {
                    let grown = self.branches().iter().find(|it| it.branch == on);
                    let (parent, cutoff) = grown.map_or((0, 0), |it| (it.parent, it.cutoff));
                    counts.push((on, parent, cutoff, 1));
                }
            }
        }
        Ok(Numbering::of(counts))
    }

    /// Where branches grew from others.
    pub(super) fn branches(&self) -> &[BranchOrigin] {
        &self.recording.branches
    }

    /// The branch that is current.
    pub(super) fn branch(&self) -> u32 {
        self.recording.branch
    }
}

impl<P: HostPort> HostedProvider<P> {
    /// The log of an execution.
    pub(super) async fn log(&self, call: &Call, verb: Verb, id: &ExecutionId) -> Result<StoredLog> {
        let object = (ObjectKind::Execution, &[id.as_str()][..]);
        let found = self.host.port.values(call, verb, object, VIEW).await?;
        let found = found
            .first()
            .ok_or_else(|| Error::not_found(verb, id).by_engine())?;
        let seen = stored(verb, found)?;
        let (mut rows, mut events) = (Vec::new(), 0);
        let mut from = String::new();
        loop {
            let object = (ObjectKind::Execution, id.as_str());
            let keys = (EVENTS, from.as_str(), KEYS_PER_READ);
            let page = self.host.port.values_from(call, verb, object, keys).await?;
            let is_last = page.len() < KEYS_PER_READ;
            for found in page {
                let Some((branch, first)) = place_of_key(&found.key) else {
                    continue;
                };
                events += count(&found.value);
                // Less than every later key.
                from = format!("{}~", found.key);
                rows.push(Row {
                    branch,
                    first,
                    hash: stateway_replay::BEGINNING,
                    lines: found.value,
                    line: 0,
                });
            }
            if events > MOST_RECORDED_EVENTS {
                let message =
                    format!("execution `{id}` has more than {MOST_RECORDED_EVENTS} events");
                return Err(Error::new(ErrorKind::FailedPrecondition, verb, message)
                    .with_reason("HISTORY_TOO_LONG")
                    .with_hint("{ListEvents} reads it a page at a time."));
            }
            if is_last {
                break;
            }
        }
        let recording = Recording {
            execution: Arc::clone(&seen.view.id),
            definition: Arc::clone(&seen.view.definition),
            labels: (*seen.view.labels).clone(),
            branch: rows.iter().map(|row| row.branch).max().unwrap_or_default(),
            redacted: false,
            definitions: Vec::new(),
            branches: grown(verb, &rows)?,
            rows,
        };
        Ok(StoredLog { seen, recording })
    }

    /// The log with the definition that it began with and a chain of hashes. The chain is computed here:
    /// the engine guards its own data.
    pub(super) async fn recording(
        &self,
        call: &Call,
        verb: Verb,
        id: &ExecutionId,
    ) -> Result<Recording> {
        let log = self.log(call, verb, id).await?;
        let mut recording = log.recording;
        let first = recording.rows.first().map(Row::decode).transpose();
        let first = first.map_err(|error| damaged(verb, &error.to_string()))?;
        let first = first.and_then(|events| events.into_iter().next());
        let Some(Fact::ExecutionCreated { revision, .. }) = first.map(|first| first.fact) else {
            let why = "the log does not begin with its first event";
            return Err(damaged(verb, why));
        };
        let name = &recording.definition;
        let source = self.source_of(call, verb, name, &revision).await?;
        recording.definitions.push(Source {
            name: name.to_string(),
            revision: revision.to_string(),
            source,
        });
        recording
            .relink()
            .map_err(|error| damaged(verb, &error.to_string()))?;
        Ok(recording)
    }
}

/// Where branches grew from others, by the first event of each.
fn grown(verb: Verb, rows: &[Row]) -> Result<Vec<BranchOrigin>> {
    let mut found: Vec<BranchOrigin> = Vec::new();
    for row in rows.iter().filter(|row| row.branch != 0) {
        if found.iter().any(|known| known.branch == row.branch) {
            continue;
        }
        let events = row
            .decode()
            .map_err(|error| damaged(verb, &error.to_string()))?;
        if let Some(Fact::BranchOpened {
            branch,
            parent,
            cutoff,
            ..
        }) = events.first().map(|first| &first.fact)
        {
            found.push(BranchOrigin {
                branch: *branch,
                parent: *parent,
                cutoff: *cutoff,
            });
        }
    }
    Ok(found)
}

/// The error of a log that contradicts itself.
pub(super) fn damaged(verb: Verb, why: &str) -> Error {
    Error::new(ErrorKind::DataLoss, verb, why).with_reason("LOG_UNREADABLE")
}
