//! The event log of hosted executions: branches, steps, export, replay, projections. Every answer reads the
//! stored events, so it needs no host.

use std::sync::Arc;

use async_trait::async_trait;
use stateway_driver::{MOST_PAGE_BYTES, again, detailed, summary};
use stateway_machine::{Event, Fact, Plan, not_retried, step_input, step_output};
use stateway_model::{ErrorKind, ExecutionId, Usage};
use stateway_provider_api::{
    Branch, BranchChoice, BranchEvent, BranchEventsPage, BranchEventsRequest, Call, Error,
    EventLog, EventOrder, PortableDefinitions as _, Projection, ReplayRequest, ReplayUnder,
    Replayed, Result, StepHistory, Verb, View,
};
use stateway_replay::recording::{Recording, RecordingError, plan_of};
use stateway_replay::{Attempts, BranchStart};

use super::history::payload_bytes;
use super::log::{StoredLog, damaged};
use super::{HostPort, HostedProvider};
use crate::inbox::step_attempt;
use crate::replay::{ReplayAsk, projection, replay_recording, words_of};
use crate::{observation, payload};

#[async_trait]
impl<P: HostPort> EventLog for HostedProvider<P> {
    async fn branches(
        &self,
        call: &Call,
        id: &ExecutionId,
        after: Option<u32>,
        limit: usize,
    ) -> Result<Vec<Branch>> {
        let log = self.log(call, Verb::Branches, id).await?;
        let mut branches = branches(&log, Verb::Branches)?;
        branches.retain(|branch| after.is_none_or(|after| branch.branch > after));
        branches.truncate(limit);
        Ok(branches)
    }

    async fn branch_events(
        &self,
        call: &Call,
        request: BranchEventsRequest,
    ) -> Result<BranchEventsPage> {
        let verb = Verb::BranchEvents;
        let log = self.log(call, verb, &request.id).await?;
        let (lineage, mut events) = match (request.branch, request.cursor) {
            (BranchChoice::Every, _) => (None, log.events(verb)?),
            (choice, cursor) => {
                // The branch that was current on the first page is read to its end.
                let branch = match (choice, cursor) {
                    (_, Some((branch, _))) | (BranchChoice::Number(branch), None) => branch,
                    (BranchChoice::Current | BranchChoice::Every, None) => log.branch(),
                };
                (Some(branch), log.along(verb, branch)?)
            }
        };
        let newest_first = request.order == EventOrder::NewestFirst;
        if newest_first {
            events.reverse();
        }
        if let Some((branch, sequence)) = request.cursor {
            // Along one branch the cursor names the branch, not the one that the event was written on.
            let place = |(on, event): &(u32, Event)| match lineage {
                Some(_) => (branch, event.sequence),
                None => (*on, event.sequence),
            };
            let last = (branch, sequence);
            events.retain(|event| {
                if newest_first {
                    place(event) < last
                } else {
                    place(event) > last
                }
            });
        }
        let full = request.view == View::Full;
        let (mut page, mut bytes) = (BranchEventsPage::default(), 0);
        let mut last = None;
        for (on, event) in events {
            let shown = if full {
                detailed(event.sequence, &event, event.cause)
            } else {
                summary(event.sequence, &event)
            };
            bytes += payload_bytes(&shown);
            let is_full = page.events.len() >= request.page_size || bytes > MOST_PAGE_BYTES;
            if is_full && !page.events.is_empty() {
                page.next = last;
                return Ok(page);
            }
            last = Some((lineage.unwrap_or(on), event.sequence));
            page.events.push(BranchEvent {
                branch: on,
                event: shown,
            });
        }
        Ok(page)
    }

    async fn step(&self, call: &Call, id: &ExecutionId, step: &str) -> Result<StepHistory> {
        let verb = Verb::Step;
        let recording = self.recording(call, verb, id).await?;
        let state = recording.state_at(None, 0);
        let state = state.map_err(|error| damaged(verb, &error.to_string()))?;
        if state.step_state(step).is_none() {
            let message = format!("execution `{id}` has no step `{step}`");
            return Err(Error::new(ErrorKind::NotFound, verb, message)
                .with_reason("STEP_NOT_FOUND")
                .by_engine());
        }
        let branches = recording.branches.iter().map(|grown| BranchStart {
            branch: grown.branch,
            parent: grown.parent,
            cutoff: grown.cutoff,
        });
        let execution = Arc::clone(&recording.execution);
        let mut attempts = Attempts::of(execution, step.into(), branches.collect());
        for row in &recording.rows {
            let events = row
                .decode()
                .map_err(|error| damaged(verb, &error.to_string()))?;
            events
                .iter()
                .for_each(|event| attempts.take(row.branch, event));
        }
        let (attempts, truncated) = attempts.into_records();
        Ok(StepHistory {
            input: step_input(&state, step).as_ref().and_then(payload),
            output: step_output(&state, step).as_ref().and_then(payload),
            not_retried: not_retried(&state, step).unwrap_or_default(),
            attempts: attempts.into_iter().map(step_attempt).collect(),
            truncated,
        })
    }

    async fn export(&self, call: &Call, id: &ExecutionId, redact: bool) -> Result<Vec<u8>> {
        let recording = self.recording(call, Verb::Export, id).await?;
        let recording = if redact {
            let redacted = recording.redact();
            redacted.map_err(|error| damaged(Verb::Export, &error.to_string()))?
        } else {
            recording
        };
        Ok(recording.write())
    }

    async fn replay(&self, call: &Call, request: ReplayRequest) -> Result<Replayed> {
        let before = self.recording(call, Verb::Replay, &request.id).await?;
        let (until, plan) = self.replay_plan(call, &request.under, &before).await?;
        let ask = ReplayAsk {
            branch: request.branch,
            until,
            plan,
        };
        let answer = tokio::task::spawn_blocking({
            let before = before.clone();
            move || replay_recording(&before, &ask)
        });
        let answer = answer.await.map_err(|_| {
            let message = "the replay ended unexpectedly";
            Error::new(ErrorKind::Internal, Verb::Replay, message).with_reason("REPLAY_FAILED")
        })?;
        let mut answer = answer.map_err(|error| not_replayed(&before, &error))?;
        // What has happened meanwhile is no part of what was replayed.
        let after = self.recording(call, Verb::Replay, &request.id).await?;
        answer.source_hash_after = after.up_to(&before).fingerprint();
        Ok(answer)
    }

    async fn project(&self, call: &Call, id: &ExecutionId, vocabulary: &str) -> Result<Projection> {
        let verb = Verb::Project;
        let words = words_of(vocabulary)?;
        let recording = self.recording(call, verb, id).await?;
        let unreadable = |error: RecordingError| damaged(verb, &error.to_string());
        let events = recording.log(None).map_err(unreadable)?;
        let plan = recording.plan(&events).map_err(unreadable)?;
        let seen = self.view(call, verb, id).await?.view;
        let shown = observation(&seen, View::Basic);
        Ok(projection(&shown, plan, &events, words))
    }
}

impl<P: HostPort> HostedProvider<P> {
    /// The last event of a replay and the plan of its shadow.
    async fn replay_plan(
        &self,
        call: &Call,
        under: &ReplayUnder,
        recording: &Recording,
    ) -> Result<(u64, Option<Arc<Plan>>)> {
        let name = &recording.definition;
        let source = match under {
            ReplayUnder::Recorded { until } => return Ok((*until, None)),
            ReplayUnder::Source(source) => {
                let plan = plan_of(source, "source");
                let plan = plan.map_err(|error| Error::invalid(Verb::Replay, error.to_string()))?;
                return Ok((0, Some(plan)));
            }
            ReplayUnder::Latest => self.get_portable(call, name, None).await?.source,
            ReplayUnder::Revision(digits) => {
                self.get_portable(call, name, Some(digits)).await?.source
            }
        };
        let plan = plan_of(&source, name);
        let plan = plan.map_err(|error| damaged(Verb::Replay, &error.to_string()))?;
        Ok((0, Some(plan)))
    }
}

/// An event or a branch that does not exist is the caller's mistake; a log that contradicts itself is not.
fn not_replayed(recording: &Recording, error: &RecordingError) -> Error {
    if recording.check().is_err() {
        return damaged(Verb::Replay, &error.to_string());
    }
    Error::new(ErrorKind::Expired, Verb::Replay, error.to_string())
        .with_reason("NOT_IN_HISTORY")
        .with_hint("{ListEvents} and {ListBranches} show the events and branches.")
}

/// The branches of a log in the order they were opened. The first events of a branch name who opened it and why.
fn branches(log: &StoredLog, verb: Verb) -> Result<Vec<Branch>> {
    let mut found: Vec<Branch> = Vec::new();
    for (on, event) in log.events(verb)? {
        let is_new = found.last().is_none_or(|last| last.branch != on);
        if is_new {
            let grown = log.branches().iter().find(|grown| grown.branch == on);
            found.push(Branch {
                branch: on,
                parent: grown.map(|grown| grown.parent),
                cutoff: grown.map_or(0, |grown| grown.cutoff),
                current: log.branch() == on,
                cause: String::new(),
                created_by: String::new(),
                create_time: Some(event.at),
                usage: Usage::default(),
            });
        }
        let Some(branch) = found.last_mut() else {
            continue;
        };
        let (by, cause) = match &event.fact {
            Fact::ExecutionCreated { initiator, .. } => (initiator, "started".to_owned()),
            Fact::BranchOpened { by, redo, .. } => {
                let what = redo.as_deref().map(again).unwrap_or_default();
                (by, format!("retry {what}"))
            }
            Fact::ExecutionForked { from, by, redo, .. } => {
                let what = redo.as_deref().map(again).unwrap_or_default();
                (by, format!("fork of {from} {what}"))
            }
            Fact::UsageReported { usage, .. } => {
                branch.usage = branch.usage + *usage;
                continue;
            }
            _ => continue,
        };
        (branch.created_by, branch.cause) = (by.to_string(), cause);
    }
    Ok(found)
}
