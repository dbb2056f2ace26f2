//! The engine's log of events: branches, steps, export, replay, projections.

use std::sync::Arc;

use async_trait::async_trait;
use stateway_engine::recording::{Recording, RecordingError};
use stateway_engine::{BranchRecord, EventRecord, MOST_PAGE_BYTES, detailed, summary};
use stateway_machine::Data;
use stateway_model::{ExecutionId, Payload};
use stateway_provider_api::{
    Branch, BranchChoice, BranchEvent, BranchEventsPage, BranchEventsRequest, Call, Error,
    ErrorKind, EventLog, EventOrder, Projection, ReplayRequest, Replayed, Result, StepHistory,
    Verb, View,
};

use super::projection;
use crate::BuiltinProvider;
use crate::log::unreadable;
use crate::provider::payload_bytes;
use stateway_hosted::inbox::step_attempt;
use stateway_hosted::payload;
use stateway_hosted::replay::{ReplayAsk, replay_recording};

#[async_trait]
impl EventLog for BuiltinProvider {
    async fn branches(
        &self,
        call: &Call,
        id: &ExecutionId,
        after: Option<u32>,
        limit: usize,
    ) -> Result<Vec<Branch>> {
        let found = self.engine.branches(id.as_str().into(), after, limit);
        let found = self.line.carry(call, Verb::Branches, found).await?;
        Ok(found.into_iter().map(branch).collect())
    }

    async fn branch_events(
        &self,
        call: &Call,
        request: BranchEventsRequest,
    ) -> Result<BranchEventsPage> {
        let id: Arc<str> = request.id.as_str().into();
        // One more than wanted shows whether there is more.
        let limit = request.page_size + 1;
        let verb = Verb::BranchEvents;
        let newest_first = request.order == EventOrder::NewestFirst;
        let (lineage, mut found) = match (request.branch, request.cursor) {
            (BranchChoice::Every, last) => {
                let found = if newest_first {
                    let found = self.engine.chronicle_back(id, last, limit);
                    self.line.carry(call, verb, found).await?
                } else {
                    let found = self.engine.chronicle(id, last.unwrap_or_default(), limit);
                    self.line.carry(call, verb, found).await?
                };
                (None, found)
            }
            (choice, last) => {
                let (branch, sequence) = match (choice, last) {
                    // The branch that was current on the first page is read to its end.
                    (_, Some((branch, sequence))) => (Some(branch), Some(sequence)),
                    (BranchChoice::Number(branch), None) => (Some(branch), None),
                    (BranchChoice::Current | BranchChoice::Every, None) => (None, None),
                };
                let (branch, found) = if newest_first {
                    let found = self.engine.lineage_back(id, branch, sequence, limit);
                    self.line.carry(call, verb, found).await?
                } else {
                    let sequence = sequence.unwrap_or_default();
                    let found = self.engine.lineage(id, branch, sequence, limit);
                    self.line.carry(call, verb, found).await?
                };
                (Some(branch), found)
            }
        };
        let mut more = found.len() > request.page_size;
        found.truncate(request.page_size);
        let full = request.view == View::Full;
        let (mut page, mut bytes) = (BranchEventsPage::default(), 0);
        let mut last = None;
        for record in &found {
            let shown = event(record, full);
            bytes += payload_bytes(&shown.event);
            if bytes > MOST_PAGE_BYTES && !page.events.is_empty() {
                more = true;
                break;
            }
            last = Some((lineage.unwrap_or(record.branch), record.event.sequence));
            page.events.push(shown);
        }
        page.next = last.filter(|_| more);
        Ok(page)
    }

    async fn step(&self, call: &Call, id: &ExecutionId, step: &str) -> Result<StepHistory> {
        let record = self.engine.step(id.as_str().into(), step.into());
        let record = self.line.carry(call, Verb::Step, record).await?;
        let shown = |data: Option<Data>| -> Option<Payload> { data.as_ref().and_then(payload) };
        Ok(StepHistory {
            input: shown(record.input),
            output: shown(record.output),
            not_retried: record.not_retried.unwrap_or_default(),
            attempts: record.attempts.into_iter().map(step_attempt).collect(),
            truncated: record.truncated,
        })
    }

    async fn export(&self, call: &Call, id: &ExecutionId, redact: bool) -> Result<Vec<u8>> {
        let recording = self.recording(call, Verb::Export, id).await?;
        let recording = if redact {
            let redacted = recording.redact();
            redacted.map_err(|error| unreadable(Verb::Export, &error.to_string()))?
        } else {
            recording
        };
        Ok(recording.write())
    }

    async fn replay(&self, call: &Call, request: ReplayRequest) -> Result<Replayed> {
        let before = self.recording(call, Verb::Replay, &request.id).await?;
        let ask = self.replay_ask(call, &request, &before).await?;
        let answer = tokio::task::spawn_blocking({
            let before = before.clone();
            move || replay_recording(&before, &ask)
        });
        let answer = answer.await.map_err(|_| {
            let message = "the replay ended unexpectedly";
            Error::new(ErrorKind::Internal, Verb::Replay, message).with_reason("REPLAY_FAILED")
        })?;
        let mut answer = answer.map_err(|error| refused(&before, &error))?;
        // What has happened meanwhile is no part of what was replayed.
        let after = self.recording(call, Verb::Replay, &request.id).await?;
        answer.source_hash_after = after.up_to(&before).fingerprint();
        Ok(answer)
    }

    async fn project(&self, call: &Call, id: &ExecutionId, vocabulary: &str) -> Result<Projection> {
        projection::of(self, call, id, vocabulary).await
    }
}

impl BuiltinProvider {
    /// An execution's whole log.
    pub(super) async fn recording(
        &self,
        call: &Call,
        verb: Verb,
        id: &ExecutionId,
    ) -> Result<Recording> {
        let recording = self.engine.recording(id.as_str().into());
        self.line.carry(call, verb, recording).await
    }

    async fn replay_ask(
        &self,
        call: &Call,
        request: &ReplayRequest,
        recording: &Recording,
    ) -> Result<ReplayAsk> {
        let (until, plan) = self.replay_plan(call, &request.under, recording).await?;
        Ok(ReplayAsk {
            branch: request.branch,
            until,
            plan,
        })
    }
}

/// An event or a branch that does not exist is the caller's mistake; a log that contradicts itself is not.
fn refused(recording: &Recording, error: &RecordingError) -> Error {
    if recording.check().is_err() || recording.definitions.is_empty() {
        return unreadable(Verb::Replay, &error.to_string());
    }
    Error::new(ErrorKind::Expired, Verb::Replay, error.to_string())
        .with_reason("NOT_IN_HISTORY")
        .with_hint("{ListEvents} and {ListBranches} show the events and branches.")
}

fn event(record: &EventRecord, full: bool) -> BranchEvent {
    let event = &record.event;
    let shown = if full {
        detailed(event.sequence, event, event.cause)
    } else {
        summary(event.sequence, event)
    };
    BranchEvent {
        branch: record.branch,
        event: shown,
    }
}

fn branch(from: BranchRecord) -> Branch {
    Branch {
        branch: from.branch,
        parent: from.parent,
        cutoff: from.cutoff,
        current: from.current,
        cause: from.cause,
        created_by: from.by.to_string(),
        create_time: from.created,
        usage: from.usage,
    }
}
