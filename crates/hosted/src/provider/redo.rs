//! Running a part of an execution again.
//!
//! The gateway reads the log and finds where it is left. The object checks that nothing has happened since,
//! and continues from there: on a new branch, or as another execution, because a success is final.

use std::sync::Arc;

use stateway_definition::digest;
use stateway_machine::{
    CutOff, Event, Redo, RedoRequest, Resolver, State, Verb as Command, encode_into, fork,
    forked_events, is_forked, open_branch, replay, snapshot,
};
use stateway_model::{ErrorKind, ExecutionId};
use stateway_provider_api::{Call, Error, Observation, Result, RetryFromRequest, Verb, View};
use stateway_replay::recording::Recording;

use super::log::damaged;
use super::request::{Body, data};
use super::{HostPort, HostedProvider, refused};
use crate::message::{Done, ForkWork, ObjectRequest, RedoWork, Refusal, VERSION, Work};
use crate::observation;

const VERB: Verb = Verb::RetryFrom;
/// How often the log is read if it changes while it is read.
const MOST_TRIES: usize = 5;

/// A log up to the point of the retry, and the steps that run again.
struct RetryPoint {
    /// The state before the retry.
    state: State,
    /// The events that are kept.
    events: Vec<Event>,
    /// The state at the point of the retry.
    before: State,
    redo: Redo,
}

impl<P: HostPort> HostedProvider<P> {
    pub(super) async fn redo(&self, call: &Call, request: RetryFromRequest) -> Result<Observation> {
        let body = Body::of(call, VERB, &request.request_id)
            .text(request.id.as_str())
            .text(&request.step)
            .text(&request.feedback)
            .text(if request.from_start { "from start" } else { "" })
            .text(request.execution_id.as_ref().map_or("", |id| id.as_str()))
            .payload(request.input.as_ref())
            .finish();
        if let Some(done) = self.asked(call, &request.id, &body).await? {
            return Ok(observation(&done.seen.view, View::Basic));
        }
        let input = request.input.as_ref();
        let input = input.map(|input| data(VERB, "input", Some(input)));
        let wanted = RedoRequest {
            step: request.step.as_str().into(),
            from_start: request.from_start,
            input: input.transpose()?,
            feedback: request.feedback.as_str().into(),
        };
        let mut changed = None;
        for _ in 0..MOST_TRIES {
            let recording = self.recording(call, VERB, &request.id).await?;
            let left = self.leave(call, &recording, &wanted)?;
            let sent = if is_forked(&left.state) {
                self.fork(call, &request, &body, (&recording, left)).await
            } else {
                self.reopen(call, &request, &body, (&recording, left)).await
            };
            match sent {
                Err(error) if error.reason() == "LOG_CHANGED" => changed = Some(error),
                sent => return sent.map(|done| observation(&done.seen.view, View::Basic)),
            }
        }
        Err(changed.unwrap_or_else(|| Error::new(ErrorKind::Conflict, VERB, "the log changes")))
    }

    /// The answer to a request that the object remembers.
    async fn asked(&self, call: &Call, id: &ExecutionId, body: &Body) -> Result<Option<Done>> {
        let asked = self.request(body, Work::Asked);
        match self.send(call, VERB, id, &asked).await {
            Ok(done) => Ok(Some(done)),
            Err(error) if error.reason() == "NOT_ASKED" => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn request(&self, body: &Body, work: Work) -> ObjectRequest {
        ObjectRequest {
            v: VERSION,
            id: Arc::clone(&body.id),
            at: self.now(),
            body: Some(Arc::clone(&body.digest)),
            work,
            claim: None,
        }
    }

    /// Finds where the log is left.
    fn leave(
        &self,
        call: &Call,
        recording: &Recording,
        wanted: &RedoRequest,
    ) -> Result<RetryPoint> {
        let unreadable = |error: &dyn std::fmt::Display| damaged(VERB, &error.to_string());
        let rejected = |rejection| refused(VERB, Refusal::from(&rejection));
        let mut events = recording.log(None).map_err(|error| unreadable(&error))?;
        let plan = recording
            .plan(&events)
            .map_err(|error| unreadable(&error))?;
        let state = replay(Arc::clone(&plan), &events).map_err(|error| unreadable(&error))?;
        let resolver = Resolver {
            by: &call.actor,
            roles: &call.roles,
            operators: &self.escalation_roles,
        };
        let mut cut = CutOff::of(&state, wanted, &resolver).map_err(rejected)?;
        events.iter().for_each(|event| cut.note(event));
        let kept = events.iter().take_while(|event| cut.keeps(event)).count();
        events.truncate(kept);
        let before = replay(plan, &events).map_err(|error| unreadable(&error))?;
        let redo = cut.redo(&before, wanted).map_err(rejected)?;
        Ok(RetryPoint {
            state,
            events,
            before,
            redo,
        })
    }

    /// Continues on a new branch of the log.
    async fn reopen(
        &self,
        call: &Call,
        request: &RetryFromRequest,
        body: &Body,
        (recording, left): (&Recording, RetryPoint),
    ) -> Result<Done> {
        if request.execution_id.is_some() {
            let message = "only a succeeded execution is forked; this one keeps its name";
            return Err(Error::precondition(VERB, message)
                .with_reason("NOT_FORKED")
                .with_hint("Leave the id of the new execution out."));
        }
        let RetryPoint {
            state,
            before,
            redo,
            ..
        } = left;
        let branches = recording.branches.iter().map(|grown| grown.branch);
        let branch = branches.max().unwrap_or_default() + 1;
        let verb = open_branch(&state, &before, branch, Arc::clone(&call.actor), redo);
        let work = Work::Redo(Box::new(RedoWork {
            head: (state.branch(), state.sequence()),
            source: self.source_at(call, recording, &before).await?,
            before: text(&before)?,
            verb: Box::new(verb),
        }));
        self.send(call, VERB, &request.id, &self.request(body, work))
            .await
    }

    /// Continues as another execution with a copy of the log.
    async fn fork(
        &self,
        call: &Call,
        request: &RetryFromRequest,
        body: &Body,
        (recording, left): (&Recording, RetryPoint),
    ) -> Result<Done> {
        let id = match &request.execution_id {
            Some(id) => id.clone(),
            None => {
                let seed = format!("fork {}", request.request_id.as_str());
                let id = &digest(seed.as_bytes())[..26];
                ExecutionId::new(id).map_err(|error| Error::invalid(VERB, error.to_string()))?
            }
        };
        let name: Arc<str> = id.as_str().into();
        let events = forked_events(left.events, &name, &body.id);
        let unreadable = |error: &dyn std::fmt::Display| damaged(VERB, &error.to_string());
        let plan = recording
            .plan(&events)
            .map_err(|error| unreadable(&error))?;
        let copy = replay(plan, &events).map_err(|error| unreadable(&error))?;
        let mut log = Vec::new();
        for event in &events {
            encode_into(event, &mut log);
            log.push(b'\n');
        }
        let from = Arc::clone(&recording.execution);
        let verb: Command = fork(from, &left.before, Arc::clone(&call.actor), left.redo);
        let work = Work::Fork(Box::new(ForkWork {
            definition: Arc::clone(&recording.definition),
            source: self.source_at(call, recording, &copy).await?,
            labels: recording.labels.clone(),
            before: text(&copy)?,
            log: String::from_utf8(log).map_err(|error| unreadable(&error))?,
            verb: Box::new(verb),
        }));
        self.send(call, VERB, &id, &self.request(body, work)).await
    }

    /// The source of the revision by which a state runs.
    async fn source_at(&self, call: &Call, recording: &Recording, at: &State) -> Result<Arc<str>> {
        let (name, revision) = (&recording.definition, at.plan().revision());
        let source = self.source_of(call, VERB, name, revision).await?;
        Ok(source.into())
    }
}

fn text(state: &State) -> Result<String> {
    String::from_utf8(snapshot(state))
        .map_err(|error| Error::new(ErrorKind::Internal, VERB, error.to_string()))
}
