//! Reads objects from the histories of their executions.

use std::sync::Arc;
use std::time::Instant;

use futures::future::BoxFuture;
use jiff::Timestamp;
use stateway_hosted::object;
use stateway_hosted::provider::ObjectKind;
use stateway_provider_api::{Error, ErrorKind, Result};

use super::{Store, view};
use crate::client::{Ask, HistoryQuery};
use crate::host::envelope::{Envelope, Place};
use crate::host::gate::{Newest, Values, is_enough, newest};
use crate::host::mirror::{Head, Key};

/// The events of the first page: the gate that waits, and the end of the turn before.
const FIRST_PAGE: u32 = 8;
/// The events of a page of a whole history, and of further pages for the newest turn. A gate that fails and is
/// retried adds events without a turn, so the newest turn may be far back.
const LOG_PAGE: u32 = 1_000;
/// How many generations that AWS has deleted are passed over to find a later one: AWS deletes a history 90 days after
/// its end. The lists of executions show later ones.
const MOST_DELETED: u32 = 3;
/// The name under which an end from outside is recorded.
const ENGINE: &str = "step-functions";

/// What was read of an object.
pub(super) struct Found {
    pub(super) head: Option<Arc<Head>>,
    /// The number and the writer of the newest turns.
    pub(super) turns: Vec<(u64, String)>,
}

impl Store {
    /// The newest turn of an object from Step Functions; none if there is no such object.
    pub(crate) async fn read(&self, ask: Ask<'_>, key: &Key) -> Result<Option<Arc<Head>>> {
        Ok(self.find(ask, key).await?.head)
    }

    /// Boxed, like the other long reads: futures of the SDK are deep.
    pub(super) fn find<'s>(&'s self, ask: Ask<'s>, key: &'s Key) -> BoxFuture<'s, Result<Found>> {
        Box::pin(self.find_newest(ask, key))
    }

    pub(super) async fn find_newest(&self, ask: Ask<'_>, key: &Key) -> Result<Found> {
        let asked = Instant::now();
        let first = self.mirror().generation(key);
        let mut generation = first;
        let mut found: Option<(u32, String, Newest)> = None;
        loop {
            let arn = self.arn(ask, key, generation).await?;
            let read = match self.newest(ask, &arn).await {
                Ok(read) => read,
                Err(error) if error.native_code == "ExecutionDoesNotExist" => {
                    if found.is_some() || generation >= first + MOST_DELETED {
                        break;
                    }
                    generation += 1;
                    continue;
                }
                Err(error) => return Err(error),
            };
            let Some(read) = read else {
                self.mirror().note_foreign(key, asked);
                return Ok(Found {
                    head: None,
                    turns: Vec::new(),
                });
            };
            // A success is final. Everything else that is over may have another generation.
            let may_continue =
                read.closed.is_some() && !read.turns.first().is_some_and(has_succeeded);
            found = Some((generation, arn, read));
            if !may_continue {
                break;
            }
            generation += 1;
        }
        let Some((generation, arn, read)) = found else {
            self.mirror().note_absent(key, asked);
            return Ok(Found {
                head: None,
                turns: Vec::new(),
            });
        };
        let turns = read
            .turns
            .iter()
            .map(|turn| (turn.n, turn.by.clone()))
            .collect();
        let Some(envelope) = read.turns.into_iter().next() else {
            let message = "the history of the execution has no turn";
            return Err(Error::new(ErrorKind::Malformed, ask.verb, message));
        };
        let mut head = Head {
            arn,
            generation,
            view: view(&envelope),
            envelope,
            token: read.token,
            closed: read.closed,
            last_event: read.last_event,
            is_derived: false,
        };
        if key.0 == ObjectKind::Execution {
            self.derive_end(ask, key, &mut head).await?;
        }
        let head = self
            .mirror()
            .note(key, head, false, (asked, Timestamp::now()));
        self.wake.notify_one();
        Ok(Found {
            head: Some(head),
            turns,
        })
    }

    /// The newest events of an execution; none if it is no object.
    pub(super) async fn newest(&self, ask: Ask<'_>, arn: &str) -> Result<Option<Newest>> {
        let (mut events, mut token, mut size) = (Vec::new(), None, FIRST_PAGE);
        // It ends: AWS ends an execution at 25,000 events.
        loop {
            let query = HistoryQuery {
                arn,
                size,
                newest_first: true,
                with_data: true,
                token: token.as_deref(),
                turn_taken: false,
            };
            let page = self.client.gate_events(ask, query).await?;
            events.extend(page.rows);
            if is_enough(&events) || page.next.is_none() {
                break;
            }
            (token, size) = (page.next, LOG_PAGE);
        }
        Ok(newest(&events)
            .map_err(|why| tracing::debug!(arn, "not an execution of Stateway: {why}"))
            .ok())
    }

    /// Shows what follows from an end that the object does not know: somebody stopped the execution.
    pub(super) async fn derive_end(&self, ask: Ask<'_>, key: &Key, head: &mut Head) -> Result<()> {
        let Some(closed) = head.closed.clone().filter(|closed| !closed.continued) else {
            return Ok(());
        };
        if head.is_over() || head.view.is_none() {
            return Ok(());
        }
        let at = closed.at.unwrap_or_else(Timestamp::now);
        let why = if closed.why.is_empty() {
            "stopped outside of Stateway"
        } else {
            &closed.why
        };
        let request = serde_json::to_vec(&object::killed(at, ENGINE, why));
        let request = request
            .map_err(|error| Error::new(ErrorKind::Internal, ask.verb, error.to_string()))?;
        let id = head.envelope.id.clone();
        let turn = self.handle(ask, key, Some(head), (&id, &request)).await?;
        let place = Place {
            id: &id,
            by: ENGINE.to_owned(),
            next: head.envelope.next.clone(),
            fires: None,
            delivered: &self.mirror().delivered(key),
        };
        let derived = Envelope::after(Some(&head.envelope), &turn, place);
        head.view = view(&derived);
        head.envelope = derived;
        head.is_derived = true;
        Ok(())
    }

    /// All values of an object up to its newest turn.
    pub(crate) fn values<'s>(
        &'s self,
        ask: Ask<'s>,
        key: &'s Key,
        head: &'s Head,
    ) -> BoxFuture<'s, Result<Arc<Values>>> {
        Box::pin(self.read_values(ask, key, head))
    }

    pub(super) async fn read_values(
        &self,
        ask: Ask<'_>,
        key: &Key,
        head: &Head,
    ) -> Result<Arc<Values>> {
        if let Some(log) = self.mirror().log(key, head.envelope.n) {
            return Ok(log);
        }
        let mut values = Values::default();
        for generation in 1..=head.generation {
            let arn = self.arn(ask, key, generation).await?;
            let mut token = None;
            loop {
                let query = HistoryQuery {
                    arn: &arn,
                    size: LOG_PAGE,
                    newest_first: false,
                    with_data: true,
                    token: token.as_deref(),
                    turn_taken: false,
                };
                let page = match self.client.gate_events(ask, query).await {
                    // Step Functions deletes the history of a generation some time after its end.
                    Err(error) if error.native_code == "ExecutionDoesNotExist" => break,
                    page => page?,
                };
                let read = values.read(&page.rows);
                read.map_err(|why| Error::new(ErrorKind::Malformed, ask.verb, why))?;
                match page.next {
                    Some(next) => token = Some(next),
                    None => break,
                }
            }
        }
        if head.envelope.n > values.n {
            // The turn that follows from an end from outside.
            values.n = head.envelope.n;
            values.values.extend(head.envelope.w.clone());
        }
        let values = Arc::new(values);
        self.mirror().note_log(key, Arc::clone(&values));
        Ok(values)
    }

    /// One value of an object.
    pub(crate) async fn value(
        &self,
        ask: Ask<'_>,
        key: &Key,
        head: &Head,
        name: &str,
    ) -> Result<Option<String>> {
        if let Some(value) = head.envelope.w.get(name) {
            return Ok(Some(value.clone()));
        }
        let values = self.values(ask, key, head).await?;
        Ok(values.values.get(name).cloned())
    }
}

fn has_succeeded(turn: &Envelope) -> bool {
    view(turn).is_some_and(|seen| seen.view.sub_state == stateway_model::SubState::Succeeded)
}
