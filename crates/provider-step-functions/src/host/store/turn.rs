//! Writes turns: a request is carried out on the newest turn, and the next turn is written with its token.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use stateway_hosted::definition_object::CURRENT;
use stateway_hosted::message::{ObjectAnswer, Refusal};
use stateway_hosted::object::{STATE, Turn, VIEW, Write};
use stateway_hosted::provider::ObjectKind;
use stateway_provider_api::{Error, ErrorKind, Result};

use super::read::Found;
use super::{Store, is_used, view};
use crate::client::{Ask, StartQuery};
use crate::host::envelope::{Envelope, MOST_BYTES, Place, fires};
use crate::host::machine;
use crate::host::mirror::{Head, Key, Row, why};
use crate::host::name;

/// How often a request is carried out again because another gateway was faster.
const MOST_TRIES: usize = 20;

/// How long the creation of an object waits for the first list of open executions.
const LISTED_IN_TIME: Duration = Duration::from_secs(5);

/// What became of a write.
pub(super) enum Written {
    Done,
    /// Another gateway wrote first; the newest turn was read.
    Lost,
}

impl Store {
    /// Sends a request to an object and returns its answer.
    pub(crate) async fn send(
        &self,
        ask: Ask<'_>,
        kind: ObjectKind,
        id: &str,
        request: &[u8],
    ) -> Result<Vec<u8>> {
        let key = (kind, name::base(id));
        let turns = self.mirror().turn(&key);
        let deadline = tokio::time::Instant::from_std(ask.call.deadline);
        let Ok(Ok(_turn)) = tokio::time::timeout_at(deadline, turns.acquire()).await else {
            let message = "other requests to the execution took too long";
            return Err(Error::new(ErrorKind::Timeout, ask.verb, message));
        };
        let fires = fires(request);
        let (arrived, mut is_checked) = (Instant::now(), false);
        for _ in 0..MOST_TRIES {
            let (head, read) = self.mirror().head(&key);
            let turn = self
                .handle(ask, &key, head.as_deref(), (id, request))
                .await?;
            // The alarm of an object is removed by the turn that answers it, also by an empty one.
            let is_alarm = head
                .as_ref()
                .is_some_and(|head| head.closed.is_none() && head.envelope.is_fired(fires));
            if !is_alarm && changes_nothing(head.as_deref(), &turn) {
                // The refusal of a request may follow from an old turn.
                if read.is_some_and(|read| read >= arrived) {
                    return Ok(turn.answer);
                }
                self.read(ask, &key).await?;
                continue;
            }
            if head.is_none() && !is_checked {
                is_checked = true;
                if self.find_listed(ask, &key).await? {
                    continue;
                }
            }
            let envelope = self.envelope(&key, head.as_deref(), (id, fires), &turn);
            let text = envelope.encode();
            if text.len() > MOST_BYTES {
                return Ok(too_large(text.len()));
            }
            let write = self.write(ask, &key, head.as_deref(), envelope, &text);
            match Box::pin(write).await? {
                Written::Done => return Ok(turn.answer),
                Written::Lost if self.mirror().head(&key).0 == head => {
                    // The history does not show yet what the other gateway wrote.
                    self.learn_settle(false);
                    self.settled(ask).await?;
                    self.read(ask, &key).await?;
                }
                Written::Lost => {}
            }
        }
        let message = "other requests changed the execution repeatedly";
        Err(Error::new(ErrorKind::Conflict, ask.verb, message)
            .with_reason("TOO_MANY_WRITERS")
            .with_retry_after(Duration::from_secs(1)))
    }

    /// Whether an object that is to be created exists: AWS deletes the first generation of an object, so its name is
    /// free, while a later one is open.
    async fn find_listed(&self, ask: Ask<'_>, key: &Key) -> Result<bool> {
        let mut known = self.known.subscribe();
        // A gateway that cannot list executions can still start them.
        let _ = tokio::time::timeout(LISTED_IN_TIME, known.wait_for(|known| *known)).await;
        let is_listed = self.mirror().is_listed(key);
        Ok(is_listed && self.read(ask, key).await?.is_some())
    }

    pub(super) fn envelope(
        &self,
        key: &Key,
        head: Option<&Head>,
        (id, fires): (&str, Option<Timestamp>),
        turn: &Turn,
    ) -> Envelope {
        let generation = head.map_or(1, |head| head.generation + u32::from(head.closed.is_some()));
        let write = self.writes.fetch_add(1, Ordering::Relaxed);
        let place = Place {
            id,
            by: format!("{}.{write}", self.writer),
            next: name::of_generation(&key.1, generation + 1),
            fires,
            delivered: &self.mirror().delivered(key),
        };
        let before = head.map(|head| &head.envelope);
        let mut envelope = Envelope::after(before, turn, place);
        if let Some(derived) = head.filter(|head| head.is_derived) {
            let mut w = derived.envelope.w.clone();
            w.append(&mut envelope.w);
            envelope.w = w;
        }
        // A refused alarm writes nothing: the readers of the newest turn find the values of the turn before.
        if let Some(before) = head.filter(|_| turn.writes.is_empty()) {
            let mut kept = before.envelope.w.clone();
            kept.retain(|key, _| [STATE, VIEW, CURRENT].contains(&key.as_str()));
            envelope.w = kept;
        } else if key.0 == ObjectKind::Definition {
            return envelope.of_definition();
        }
        if key.0 == ObjectKind::Definition {
            return envelope;
        }
        match view(&envelope).filter(|seen| seen.view.state.is_terminal()) {
            Some(seen) => {
                let (error, cause) = why(&seen);
                envelope.failed(&error, &cause)
            }
            None => envelope,
        }
    }

    pub(super) async fn write(
        &self,
        ask: Ask<'_>,
        key: &Key,
        head: Option<&Head>,
        envelope: Envelope,
        text: &str,
    ) -> Result<Written> {
        match head {
            None => self.start(ask, key, 1, envelope, text).await,
            Some(head) if head.closed.as_ref().is_some_and(|closed| closed.continued) => {
                // The machine has started the next generation, and its history is not readable yet.
                self.settled(ask).await?;
                self.find(ask, key).await?;
                Ok(Written::Lost)
            }
            Some(head) if head.closed.is_some() => {
                self.start(ask, key, head.generation + 1, envelope, text)
                    .await
            }
            Some(head) => self.advance(ask, key, head, &envelope, text).await,
        }
    }

    /// Starts an execution: the first turn of an object or of its next generation.
    pub(super) async fn start(
        &self,
        ask: Ask<'_>,
        key: &Key,
        generation: u32,
        envelope: Envelope,
        text: &str,
    ) -> Result<Written> {
        let machines = self.machines(ask).await?;
        let name = name::of_generation(&key.1, generation);
        let start = StartQuery {
            machine: machines.of(key.0),
            name: &name,
            input: text,
            trace_header: None,
        };
        match self.client.start(ask, start).await {
            Ok(_) => {}
            Err(error) if error.native_code == "ExecutionAlreadyExists" => {
                let found = self.find(ask, key).await?;
                return Ok(written(&found, &envelope).unwrap_or(Written::Lost));
            }
            Err(error) => return Err(error),
        }
        let head = Head {
            arn: self.arn(ask, key, generation).await?,
            generation,
            view: view(&envelope),
            envelope,
            token: None,
            closed: None,
            last_event: 0,
            is_derived: false,
        };
        let now = Timestamp::now();
        let row = Row {
            base: key.1.clone(),
            generation,
            is_open: true,
            has_succeeded: false,
            started: Some(now),
        };
        let mut mirror = self.mirror();
        mirror.note(key, head, true, (Instant::now(), now));
        // The list of executions may not have it for a moment.
        mirror.note_row(key.0, row, Instant::now());
        drop(mirror);
        self.wake.notify_one();
        Ok(Written::Done)
    }

    /// Completes the task of the gate, and reads from the history that this turn is the one that counts.
    pub(super) async fn advance(
        &self,
        ask: Ask<'_>,
        key: &Key,
        head: &Head,
        envelope: &Envelope,
        text: &str,
    ) -> Result<Written> {
        let Some(token) = self.token(ask, key, head).await? else {
            return Ok(Written::Lost);
        };
        if self.is_long(key, head) {
            self.leave(ask, key, head, &token).await?;
            return Ok(Written::Lost);
        }
        self.complete(ask, key, (&token, envelope), text).await
    }

    pub(super) async fn complete(
        &self,
        ask: Ask<'_>,
        key: &Key,
        (token, envelope): (&str, &Envelope),
        text: &str,
    ) -> Result<Written> {
        match self.client.succeed_task(ask, token, text).await {
            Ok(()) => {}
            Err(error) if is_used(&error) => {
                let found = self.find(ask, key).await?;
                return Ok(self
                    .confirmed(key, &found, envelope)
                    .unwrap_or(Written::Lost));
            }
            // It may have arrived.
            Err(error) if error.kind.is_retryable() => {
                let found = self.find(ask, key).await?;
                return self.confirmed(key, &found, envelope).ok_or(error);
            }
            Err(error) => return Err(error),
        }
        loop {
            self.settled(ask).await?;
            let found = self.find(ask, key).await?;
            let has_token = found
                .head
                .as_ref()
                .is_none_or(|head| head.token.is_some() || head.closed.is_some());
            if let Some(done) = self.confirmed(key, &found, envelope) {
                self.learn_settle(has_token);
                return Ok(done);
            }
            self.learn_settle(false);
            if let Some(head) = &found.head
                && head.envelope.n > envelope.n
            {
                // Others were faster than one page of events.
                let values = self.values(ask, key, head).await?;
                let writer = values.writers.get(&envelope.n);
                return Ok(if writer == Some(&envelope.by) {
                    Written::Done
                } else {
                    Written::Lost
                });
            }
        }
    }

    pub(super) fn confirmed(
        &self,
        key: &Key,
        found: &Found,
        envelope: &Envelope,
    ) -> Option<Written> {
        let done = written(found, envelope)?;
        if let (Written::Done, Some(head)) = (&done, &found.head)
            && head.envelope.by == envelope.by
        {
            self.mirror().note_own(key, Timestamp::now());
            self.wake.notify_one();
        }
        Some(done)
    }

    /// Ends the execution in Step Functions, as its object has ended.
    pub(crate) async fn end(&self, ask: Ask<'_>, key: &Key) -> Result<()> {
        let (head, _) = self.mirror().head(key);
        let Some(head) = head.filter(|head| head.closed.is_none()) else {
            return Ok(());
        };
        if !head.is_over() {
            return Ok(());
        }
        // By the token, not by StopExecution: if the object was reopened meanwhile, the token is void.
        let Some(token) = self.token(ask, key, &head).await? else {
            return Ok(());
        };
        let error = if head.has_succeeded() {
            machine::SUCCEEDED
        } else {
            machine::FAILED
        };
        let ended = self
            .client
            .fail_task(ask, &token, (error, "the execution is over"))
            .await;
        match ended {
            Ok(()) => {}
            Err(error) if is_used(&error) => {}
            Err(error) => return Err(error),
        }
        loop {
            self.settled(ask).await?;
            let now = self.read(ask, key).await?;
            if now.is_none_or(|now| now.closed.is_some() || now.envelope.n > head.envelope.n) {
                return Ok(());
            }
        }
    }
}

/// Whether a turn writes nothing that is not stored.
fn changes_nothing(head: Option<&Head>, turn: &Turn) -> bool {
    turn.messages.is_empty()
        && turn.writes.iter().all(|write| match write {
            Write::Set { key, value } => head.is_some_and(|head| {
                head.envelope
                    .w
                    .get(key)
                    .is_some_and(|known| known.as_bytes() == value)
            }),
            Write::ClearAll => true,
        })
}

/// Whether what was read has this turn; none if it has neither it nor another one of its number.
fn written(found: &Found, envelope: &Envelope) -> Option<Written> {
    let (_, by) = found.turns.iter().find(|(n, _)| *n == envelope.n)?;
    Some(if *by == envelope.by {
        Written::Done
    } else {
        Written::Lost
    })
}

fn too_large(bytes: usize) -> Vec<u8> {
    let refusal = Refusal {
        kind: ErrorKind::FailedPrecondition.as_str().to_owned(),
        reason: "EXECUTION_TOO_LARGE".to_owned(),
        message: format!(
            "the execution would store {bytes} bytes in one turn; Step Functions takes {MOST_BYTES}"
        ),
        hint: "Store large data elsewhere and pass a reference.".to_owned(),
    };
    let answer = serde_json::to_vec(&ObjectAnswer::Refused(refusal));
    answer.expect("an answer has only text keys, so it is always JSON")
}
