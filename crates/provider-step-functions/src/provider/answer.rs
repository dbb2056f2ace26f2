//! The answer to a task that waits for one: by its token, or as a task of an activity that people
//! answer here. It ends well with a body, or in failure with an error and a cause.

use serde::Deserialize;
use serde_json::Value;
use stateway_provider_api::{Error, ErrorKind, Observation, Result, SignalRequest, Verb, View};

use super::StepFunctionsProvider;
use crate::client::{Ask, HistoryQuery};
use crate::error::{finished, invalid};
use crate::inbox::{Address, is_over};
use crate::request::{LARGEST_PAGE, json_text, not_awaited};
use crate::response::{RUNNING, basics};
use crate::steps::{Asks, Awaited, awaited};
use crate::{Definition, Fold};

/// How many pages are read to find what a token was sent with.
const MOST_TOKEN_PAGES: usize = 25;
/// Behind a step's name in a signal: the task is to fail.
const FAIL: &str = ":fail";
/// The error of a task that fails by a signal which names none.
const DENIED: &str = "Stateway.Denied";
/// The longest error the service takes.
const LONGEST_ERROR: usize = 256;
/// The longest cause the service takes.
const LONGEST_CAUSE: usize = 32_768;

/// How a task ends.
pub(super) enum Reply {
    Success(String),
    Failure { error: String, cause: String },
}

/// The body of a signal that lets a task fail.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct Denial {
    error: Option<String>,
    cause: Option<String>,
}

impl StepFunctionsProvider {
    pub(super) async fn answer(
        &self,
        ask: Ask<'_>,
        arn: &str,
        request: &SignalRequest,
    ) -> Result<Observation> {
        let told = basics(&self.look.client.describe(ask, arn).await?);
        if told.status != RUNNING {
            return Err(finished(ask.verb, &told.status));
        }
        let definition = self.look.definition(ask, &told).await?;
        let fold = self.look.fold(ask, arn, &definition, false).await?;
        if let Some(ending) = fold.ending() {
            return Err(finished(ask.verb, ending.status()));
        }
        let (step, reply) = self.addressee(ask, &fold, &definition, request)?;
        match &step.asks {
            Asks::Token { event, path } => {
                let token = self.token(ask, arn, (*event, path)).await?;
                self.reply(ask, arn, &token, &reply).await?;
            }
            Asks::Worker { .. } => self.answer_task(ask, arn, &step, &reply).await?,
        }
        self.look.get(ask, arn, View::Basic).await
    }

    /// The one step that a signal names, and what it is told.
    fn addressee(
        &self,
        ask: Ask<'_>,
        fold: &Fold,
        definition: &Definition,
        request: &SignalRequest,
    ) -> Result<(Awaited, Reply)> {
        let open = awaited(fold, definition, jiff::Timestamp::now());
        let named = |name: &str| -> Vec<Awaited> {
            let same = |step: &&Awaited| step.step == name || step.state == name;
            open.iter().filter(same).cloned().collect()
        };
        let signal = request.signal.as_str();
        // A state may be called like this itself.
        let (mut found, fails) = match (named(signal), signal.strip_suffix(FAIL)) {
            (found, Some(step)) if found.is_empty() => (named(step), true),
            (found, _) => (found, false),
        };
        let reply = match fails {
            true => denial(request)?,
            false => Reply::Success(json_text(request.payload.as_ref(), ask.verb)?),
        };
        if found.len() != 1 {
            let steps: Vec<_> = found.into_iter().map(|step| step.step).collect();
            return Err(not_awaited(signal, &steps));
        }
        let step = found.remove(0);
        if let Asks::Worker { activity, .. } = &step.asks {
            self.check_activity(ask.verb, &step, activity, definition)?;
            let twin = |other: &&Awaited| other.is_alike(&step, definition);
            if open.iter().filter(twin).count() > 1 || fold.is_partial() {
                return Err(alike(ask.verb, &step.step));
            }
        }
        Ok((step, reply))
    }

    fn check_activity(
        &self,
        verb: Verb,
        step: &Awaited,
        activity: &str,
        definition: &Definition,
    ) -> Result<()> {
        if !self.config.activities.iter().any(|own| own == activity) {
            return Err(for_a_worker(verb, &step.step).with_hint(
                "If people answer it, name its activity in `activities` of the provider; else use a task token.",
            ));
        }
        let state = definition.state(&step.state);
        match state.is_some_and(|state| state.address.is_some()) {
            true => Ok(()),
            false => Err(for_a_worker(verb, &step.step).with_hint(
                "Let the state pass `stateway` with its execution and name on in its parameters: see the provider's page.",
            )),
        }
    }

    /// Answers a task of an activity: one that is here, or else one that has to be taken first.
    async fn answer_task(
        &self,
        ask: Ask<'_>,
        arn: &str,
        step: &Awaited,
        reply: &Reply,
    ) -> Result<()> {
        let Asks::Worker {
            activity,
            index,
            taken,
        } = &step.asks
        else {
            return Ok(());
        };
        let wanted = Address {
            execution: arn.to_owned(),
            state: step.state.clone(),
            index: *index,
        };
        if let Some(token) = self.inbox.held(activity, &wanted) {
            let told = self
                .reply_to_task(ask, arn, (activity, &token), reply)
                .await;
            // What is here may be an earlier attempt's, while a newer one waits to be taken.
            let is_stale = !taken && told.as_ref().is_err_and(is_over);
            if !is_stale {
                return told;
            }
        }
        if *taken {
            return Err(taken_by_another(ask.verb, &step.step));
        }
        let token = self.inbox.fetch(ask, activity, &wanted).await?;
        self.reply_to_task(ask, arn, (activity, &token), reply)
            .await
    }

    /// Answers a task that is here, and keeps it only if it may still be answered.
    async fn reply_to_task(
        &self,
        ask: Ask<'_>,
        arn: &str,
        (activity, token): (&str, &str),
        reply: &Reply,
    ) -> Result<()> {
        let told = self.reply(ask, arn, token, reply).await;
        if told.as_ref().map_or_else(is_over, |()| true) {
            self.inbox.forget(activity, token);
        }
        told
    }

    async fn reply(&self, ask: Ask<'_>, arn: &str, token: &str, reply: &Reply) -> Result<()> {
        self.look.book.forget(arn);
        let client = &self.look.client;
        match reply {
            Reply::Success(output) => client.succeed_task(ask, token, output).await,
            Reply::Failure { error, cause } => client.fail_task(ask, token, (error, cause)).await,
        }
    }

    /// The token that a step waits for: its history tells what it was sent with.
    async fn token(
        &self,
        ask: Ask<'_>,
        arn: &str,
        (event, path): (u64, &[String]),
    ) -> Result<String> {
        let mut token = None;
        for _ in 0..MOST_TOKEN_PAGES {
            let query = HistoryQuery {
                arn,
                size: LARGEST_PAGE,
                newest_first: true,
                with_data: true,
                token: token.as_deref(),
                turn_taken: false,
            };
            let page = self.look.client.history(ask, query).await?;
            if let Some(event) = page.rows.iter().find(|told| told.id == event) {
                let parameters = event.detail.parameters.as_deref().unwrap_or_default();
                return find_token(parameters, path).ok_or_else(|| untold(ask.verb));
            }
            token = page.next;
            if token.is_none() {
                break;
            }
        }
        Err(untold(ask.verb))
    }
}

fn denial(request: &SignalRequest) -> Result<Reply> {
    let text = json_text(request.payload.as_ref(), Verb::Signal)?;
    let hint = "Send {\"error\": \"…\", \"cause\": \"…\"}; both may be left out.";
    let denial: Denial = serde_json::from_str(&text).map_err(|_| {
        let message = "the body of a failure has an `error` and a `cause`, both texts";
        invalid(Verb::Signal, message).with_hint(hint)
    })?;
    let error = denial.error.unwrap_or_else(|| DENIED.to_owned());
    let cause = denial.cause.unwrap_or_default();
    for (name, text, most) in [
        ("error", &error, LONGEST_ERROR),
        ("cause", &cause, LONGEST_CAUSE),
    ] {
        if text.chars().count() > most {
            let message = format!("`{name}` has more than {most} characters");
            return Err(invalid(Verb::Signal, message).with_hint(hint));
        }
    }
    Ok(Reply::Failure { error, cause })
}

/// `GetActivityTask` gives the next task of whichever execution: whoever takes a task to answer one
/// execution may have taken another's.
fn for_a_worker(verb: Verb, step: &str) -> Error {
    let message = format!("`{step}` waits for a worker of its activity");
    Error::new(ErrorKind::Unsupported, verb, message).with_reason("ACTIVITY_NOT_ADDRESSABLE")
}

fn alike(verb: Verb, step: &str) -> Error {
    let message = format!("the tasks of `{step}` and of its siblings cannot be told apart");
    Error::new(ErrorKind::FailedPrecondition, verb, message)
        .with_reason("ACTIVITY_NOT_ADDRESSABLE")
        .with_hint(
            "Let the state pass `index` on in `stateway`: \"index.$\": \"$$.Map.Item.Index\".",
        )
}

fn taken_by_another(verb: Verb, step: &str) -> Error {
    let message = format!("another worker has taken the task of `{step}`");
    Error::new(ErrorKind::FailedPrecondition, verb, message)
        .with_reason("TASK_TAKEN")
        .with_hint(
            "If that was a gateway which is gone, the task is handed out again after its HeartbeatSeconds, where the state retries.",
        )
}

fn untold(verb: Verb) -> Error {
    let message = "the history does not tell the task's token";
    Error::new(ErrorKind::FailedPrecondition, verb, message)
        .with_hint("Whoever was sent the token has to answer it.")
}

/// The text at the path. A message body may itself be a JSON text.
fn find_token(parameters: &str, path: &[String]) -> Option<String> {
    let mut at: Value = serde_json::from_str(parameters).ok()?;
    for key in path {
        if let Value::String(text) = &at {
            at = serde_json::from_str(text).ok()?;
        }
        at = at.get_mut(key)?.take();
    }
    at.as_str().map(str::to_owned)
}
