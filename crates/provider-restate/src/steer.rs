//! Ending, holding, letting go, trying again: the admin API's verbs.
//!
//! Restate accepts some of them without doing anything yet, or ever. So what is asked is checked
//! against the row first, and what is answered is the row afterwards.

use std::time::{Duration, Instant};

use serde::Deserialize;
use stateway_model::ExecutionId;
use stateway_provider_api::{
    Call, Error, ErrorKind, NativeState, Observation, Result, RetryFromRequest, RetryNowRequest,
    Verb,
};

use crate::RestateProvider;
use crate::error::{Api, already_finished, malformed, no_row, precondition, refusal};
use crate::id::InvocationId;
use crate::journal;
use crate::recall::Restart;
use crate::row::{Entry, Invocation};
use crate::sql;

/// How long an answer waits for what was accepted to show.
const SETTLE: Duration = Duration::from_secs(1);
/// How often it looks.
const LOOK: Duration = Duration::from_millis(25);

impl RestateProvider {
    /// Cancels or kills.
    pub(crate) async fn end(
        &self,
        call: &Call,
        verb: Verb,
        id: &ExecutionId,
    ) -> Result<Observation> {
        let invocation =
            InvocationId::of(id).ok_or_else(|| Error::not_found(verb, id).without_engine())?;
        let (action, word) = match verb {
            Verb::Kill => ("kill", "killed"),
            _ => ("cancel", "cancelled"),
        };
        let about = (invocation.as_str(), action);
        let answer = self.reader.client.patch(call, verb, about, &[]).await;
        self.reader.stir(&invocation);
        let answer = answer?;
        let row = match answer.status {
            200..=299 => self.reader.row(call, verb, &invocation).await?,
            409 => return self.ended_before(call, verb, id).await,
            404 => {
                let last_seen = self.reader.last_status(&invocation);
                return Err(no_row(verb, id, last_seen.as_deref()));
            }
            _ => return Err(refusal(verb, Api::Admin, &answer)),
        };
        match row {
            // Still open after a cancel is an answer too: it cleans up, or cannot be reached yet.
            Some(row) => self.reader.observation(call, verb, row).await,
            // What had not begun is forgotten at once. This is what a server that keeps such
            // invocations shows of them.
            None => Ok(Observation::new(
                id.clone(),
                NativeState::new("completed")
                    .with("completion_result", "failure")
                    .with("failure_kind", word),
            )),
        }
    }

    /// Ending what was ended like this is a success.
    async fn ended_before(&self, call: &Call, verb: Verb, id: &ExecutionId) -> Result<Observation> {
        let (_, row) = self.find(call, verb, id).await?;
        let seen = self.reader.observation(call, verb, row).await?;
        let kind = seen.native.qualifiers.get("failure_kind");
        match kind.map(String::as_str) {
            Some("cancelled" | "killed") => Ok(seen),
            _ => Err(already_finished(verb)),
        }
    }

    /// Pauses.
    pub(crate) async fn hold(&self, call: &Call, id: &ExecutionId) -> Result<Observation> {
        let verb = Verb::Pause;
        let (invocation, row) = self.find(call, verb, id).await?;
        let server = self.reader.server(call, verb).await?;
        match row.status.as_str() {
            "completed" => return Err(already_finished(verb)),
            "paused" => return self.reader.observation(call, verb, row).await,
            // The server would say yes and do nothing.
            "suspended" if !server.vqueues => {
                return Err(
                    precondition(verb, "a suspended invocation cannot be paused").with_hint(
                        "The invocation does not run. Pause it when it continues, or cancel it.",
                    ),
                );
            }
            _ => {}
        }
        self.patch(call, verb, &invocation, "pause").await?;
        self.settled(call, verb, id, |row| row.status == "paused")
            .await
    }

    /// Resumes what is paused.
    pub(crate) async fn let_go(&self, call: &Call, id: &ExecutionId) -> Result<Observation> {
        let verb = Verb::Resume;
        let (invocation, row) = self.find(call, verb, id).await?;
        match row.status.as_str() {
            "paused" => {}
            "completed" => return Err(already_finished(verb)),
            "backing-off" => {
                return Err(precondition(verb, "the invocation is not paused")
                    .with_hint("The engine retries automatically; RetryNow retries immediately."));
            }
            status => {
                let message = format!("the invocation is {status}, not paused");
                return Err(precondition(verb, message));
            }
        }
        self.patch(call, verb, &invocation, "resume").await?;
        self.settled(call, verb, id, |row| row.status != "paused")
            .await
    }

    /// Makes the next attempt now.
    pub(crate) async fn bring_forward(
        &self,
        call: &Call,
        request: &RetryNowRequest,
    ) -> Result<Observation> {
        let verb = Verb::RetryNow;
        let (invocation, row) = self.find(call, verb, &request.id).await?;
        if row.is_completed() {
            return Err(already_finished(verb));
        }
        let (status, count) = (row.status.clone(), row.retry_count);
        let seen = self.reader.observation(call, verb, row).await?;
        let queued = seen.native.qualifiers.get("vqueue_status");
        if status != "backing-off" && queued.is_none_or(|status| status != "backing-off") {
            return Err(precondition(verb, "the invocation is not backing off"));
        }
        let failed = seen.retry.and_then(|retry| retry.last_error);
        let failed = failed.map(|error| error.step).unwrap_or_default();
        if !request.step.is_empty() && request.step != failed {
            return Err(no_step(verb, &request.step));
        }
        self.patch(call, verb, &invocation, "resume").await?;
        let moved = |row: &Invocation| row.status != status || row.retry_count != count;
        self.settled(call, verb, &request.id, moved).await
    }

    /// Restarts what has finished as a new invocation, keeping what was done before the step.
    pub(crate) async fn do_again(
        &self,
        call: &Call,
        request: &RetryFromRequest,
    ) -> Result<Observation> {
        #[derive(Deserialize)]
        struct Restarted {
            new_invocation_id: String,
        }
        let verb = Verb::RetryFrom;
        if request.input.is_some() {
            return Err(Error::unsupported(verb)
                .with_hint("Restate restarts with the input it was started with; send none."));
        }
        request.ensure_plain()?;
        if let Some(id) = self.restarted_before(request)? {
            let (_, row) = self.find(call, verb, &id).await?;
            return self.reader.observation(call, verb, row).await;
        }
        let (invocation, row) = self.find(call, verb, &request.id).await?;
        if !row.is_completed() {
            return Err(precondition(verb, "the invocation has not finished")
                .with_reason("NOT_FINISHED")
                .with_hint("Cancel or kill it first."));
        }
        let client = &self.reader.client;
        let server = self.reader.server(call, verb).await?;
        let query = sql::journal(&server.schema, &invocation);
        let entries: Vec<Entry> = client.query(call, verb, &query).await?;
        let kept = match request.step.as_str() {
            "" => journal::keep_before_failure(&entries),
            step => journal::keep_before(step, &entries).ok_or_else(|| no_step(verb, step))?,
        };
        if let Some(id) = self.restarted_already(call, &invocation, kept).await? {
            self.note_restart(request, &id);
            let (_, row) = self.find(call, verb, &id).await?;
            return self.reader.observation(call, verb, row).await;
        }
        let from = match kept {
            0 => Vec::new(),
            kept => vec![("from", kept.to_string())],
        };
        let about = (invocation.as_str(), "restart-as-new");
        let answer = client.patch(call, verb, about, &from).await?;
        match answer.status {
            200..=299 => {}
            410 => {
                return Err(precondition(verb, "its journal is gone")
                    .with_reason("HISTORY_FORGOTTEN")
                    .with_native_code("410"));
            }
            422 => {
                return Err(precondition(verb, answer.message()).with_native_code("422"));
            }
            _ => return Err(refusal(verb, Api::Admin, &answer)),
        }
        let restarted: Restarted = answer.json(verb, Api::Admin)?;
        let id = ExecutionId::new(restarted.new_invocation_id);
        let id = id.map_err(|why| malformed(verb, Api::Admin, why))?;
        self.note_restart(request, &id);
        let (_, row) = self.find(call, verb, &id).await?;
        self.reader.observation(call, verb, row).await
    }

    /// What this request came to when it was made before.
    fn restarted_before(&self, request: &RetryFromRequest) -> Result<Option<ExecutionId>> {
        match self.reader.recall.restart(&request.request_id) {
            None => Ok(None),
            Some(before) if before.of == request.id && before.step == request.step => {
                Ok(Some(before.new))
            }
            Some(_) => {
                let message = "the request id was used with another body";
                let kind = ErrorKind::AlreadyExists;
                Err(Error::new(kind, Verb::RetryFrom, message).with_reason("REQUEST_ID_REUSED"))
            }
        }
    }

    fn note_restart(&self, request: &RetryFromRequest, new: &ExecutionId) {
        let restart = Restart {
            of: request.id.clone(),
            step: request.step.clone(),
            new: new.clone(),
        };
        let recall = &self.reader.recall;
        recall.note_restart(request.request_id.clone(), restart);
    }

    /// A restart of this invocation that kept as much and is open still: whoever asks for another
    /// one beside it has not heard of it.
    async fn restarted_already(
        &self,
        call: &Call,
        invocation: &InvocationId,
        kept: u32,
    ) -> Result<Option<ExecutionId>> {
        let verb = Verb::RetryFrom;
        let server = self.reader.server(call, verb).await?;
        let Some(query) = sql::restarted(&server.schema, invocation) else {
            return Ok(None);
        };
        let client = &self.reader.client;
        let open: Vec<Invocation> = client.query(call, verb, &query).await?;
        let ids: Vec<_> = open
            .iter()
            .filter_map(|row| InvocationId::parse(&row.id))
            .collect();
        if ids.is_empty() {
            return Ok(None);
        }
        let entries: Vec<Entry> = client.query(call, verb, &sql::written(&ids)).await?;
        let same = open.iter().find(|row| journal::kept(row, &entries) == kept);
        Ok(same.and_then(|row| ExecutionId::new(&row.id).ok()))
    }

    /// Makes Restate forget a finished invocation.
    pub(crate) async fn remove(&self, call: &Call, id: &ExecutionId) -> Result<()> {
        let verb = Verb::Purge;
        let (invocation, row) = self.find(call, verb, id).await?;
        if !row.is_completed() {
            return Err(precondition(verb, "the invocation has not finished")
                .with_reason("NOT_FINISHED")
                .with_hint("Cancel or kill it first."));
        }
        self.patch(call, verb, &invocation, "purge").await
    }

    async fn patch(
        &self,
        call: &Call,
        verb: Verb,
        invocation: &InvocationId,
        action: &str,
    ) -> Result<()> {
        let about = (invocation.as_str(), action);
        let answer = self.reader.client.patch(call, verb, about, &[]).await;
        self.reader.stir(invocation);
        let answer = answer?;
        match answer.is_success() {
            true => Ok(()),
            false => Err(refusal(verb, Api::Admin, &answer)),
        }
    }

    /// The row as soon as it shows what was accepted, or as it is when that takes too long: what
    /// was accepted may happen much later, at the handler's next boundary.
    async fn settled(
        &self,
        call: &Call,
        verb: Verb,
        id: &ExecutionId,
        shows: impl Fn(&Invocation) -> bool,
    ) -> Result<Observation> {
        let until = Instant::now() + SETTLE.min(call.remaining() / 2);
        loop {
            let (_, row) = self.find(call, verb, id).await?;
            if shows(&row) || Instant::now() >= until {
                return self.reader.observation(call, verb, row).await;
            }
            tokio::time::sleep(LOOK).await;
        }
    }
}

fn no_step(verb: Verb, step: &str) -> Error {
    Error::new(ErrorKind::NotFound, verb, format!("no step `{step}`")).with_reason("STEP_NOT_FOUND")
}
