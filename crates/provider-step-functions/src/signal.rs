//! The answer to a task that waits for one: by its token, or as a task of an activity that people
//! answer here. It ends well with a body, or in failure with an error and a cause.

use serde::Deserialize;
use serde_json::Value;
use stateway_provider_api::{Error, ErrorKind, Observation, Result, SignalRequest, Verb, View};

use crate::StepFunctionsProvider;
use crate::client::{Ask, HistoryQuery};
use crate::error::finished;
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
enum Reply {
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

pub(crate) async fn signal(
    provider: &StepFunctionsProvider,
    ask: Ask<'_>,
    arn: &str,
    request: &SignalRequest,
) -> Result<Observation> {
    let told = basics(&provider.reader.client.describe(ask, arn).await?);
    if told.status != RUNNING {
        return Err(finished(ask.verb, &told.status));
    }
    let definition = provider.reader.definition(ask, &told).await?;
    let fold = provider.reader.fold(ask, arn, &definition, false).await?;
    if let Some(ending) = fold.ending() {
        return Err(finished(ask.verb, ending.status()));
    }
    let (step, reply) = addressee(provider, ask, &fold, &definition, request)?;
    match &step.asks {
        Asks::Token { event, path } => {
            let token = token_of(provider, ask, arn, (*event, path)).await?;
            send_reply(provider, ask, arn, &token, &reply).await?;
        }
        Asks::Worker { .. } => answer_task(provider, ask, arn, &step, &reply).await?,
    }
    provider.reader.get(ask, arn, View::Basic).await
}

/// The one step that a signal names, and the answer for it.
fn addressee(
    provider: &StepFunctionsProvider,
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
    // The name of a state may itself end with the suffix.
    let (mut found, fails) = match (named(signal), signal.strip_suffix(FAIL)) {
        (found, Some(step)) if found.is_empty() => (named(step), true),
        (found, _) => (found, false),
    };
    let reply = if fails {
        denial(request)?
    } else {
        Reply::Success(json_text(request.payload.as_ref(), ask.verb)?)
    };
    if found.len() != 1 {
        let steps: Vec<_> = found.into_iter().map(|step| step.step).collect();
        return Err(not_awaited(signal, &steps));
    }
    let step = found.remove(0);
    if let Asks::Worker { activity, .. } = &step.asks {
        check_activity(provider, ask.verb, &step, activity, definition)?;
        let twin = |other: &&Awaited| other.is_alike(&step, definition);
        if open.iter().filter(twin).count() > 1 || fold.is_partial() {
            return Err(alike(ask.verb, &step.step));
        }
    }
    Ok((step, reply))
}

fn check_activity(
    provider: &StepFunctionsProvider,
    verb: Verb,
    step: &Awaited,
    activity: &str,
    definition: &Definition,
) -> Result<()> {
    if !provider.config.activities.iter().any(|own| own == activity) {
        return Err(for_a_worker(verb, &step.step).with_hint(
            "If people answer this step, add its activity to `activities` of the provider. If not, use a task token.",
        ));
    }
    let state = definition.state(&step.state);
    if state.is_some_and(|state| state.address.is_some()) {
        Ok(())
    } else {
        Err(for_a_worker(verb, &step.step).with_hint(
            "Add `stateway` with the execution and the name to the parameters of the state (docs/providers/step-functions.md).",
        ))
    }
}

/// Answers a task of an activity: one that is here, or else one that has to be taken first.
async fn answer_task(
    provider: &StepFunctionsProvider,
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
    if let Some(token) = provider.inbox.held(activity, &wanted) {
        let told = reply_to_task(provider, ask, arn, (activity, &token), reply).await;
        // What is here may be an earlier attempt's, while a newer one waits to be taken.
        let is_stale = !taken && told.as_ref().is_err_and(is_over);
        if !is_stale {
            return told;
        }
    }
    if *taken {
        return Err(taken_by_another(ask.verb, &step.step));
    }
    let token = provider.inbox.fetch(ask, activity, &wanted).await?;
    reply_to_task(provider, ask, arn, (activity, &token), reply).await
}

/// Answers a task that is here, and keeps it only if it may still be answered.
async fn reply_to_task(
    provider: &StepFunctionsProvider,
    ask: Ask<'_>,
    arn: &str,
    (activity, token): (&str, &str),
    reply: &Reply,
) -> Result<()> {
    let told = send_reply(provider, ask, arn, token, reply).await;
    if told.as_ref().map_or_else(is_over, |()| true) {
        provider.inbox.forget(activity, token);
    }
    told
}

async fn send_reply(
    provider: &StepFunctionsProvider,
    ask: Ask<'_>,
    arn: &str,
    token: &str,
    reply: &Reply,
) -> Result<()> {
    provider.reader.cache.forget(arn);
    let client = &provider.reader.client;
    match reply {
        Reply::Success(output) => client.succeed_task(ask, token, output).await,
        Reply::Failure { error, cause } => client.fail_task(ask, token, (error, cause)).await,
    }
}

/// The token that a step waits for: the history shows with which input it was sent.
async fn token_of(
    provider: &StepFunctionsProvider,
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
        let page = provider.reader.client.history(ask, query).await?;
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

fn denial(request: &SignalRequest) -> Result<Reply> {
    let text = json_text(request.payload.as_ref(), Verb::Signal)?;
    let hint = "Send {\"error\": \"…\", \"cause\": \"…\"}; both may be left out.";
    let denial: Denial = serde_json::from_str(&text).map_err(|_| {
        let message = "the body of a failure has an `error` and a `cause`, both texts";
        Error::invalid(Verb::Signal, message).with_hint(hint)
    })?;
    let error = denial.error.unwrap_or_else(|| DENIED.to_owned());
    let cause = denial.cause.unwrap_or_default();
    for (name, text, most) in [
        ("error", &error, LONGEST_ERROR),
        ("cause", &cause, LONGEST_CAUSE),
    ] {
        if text.chars().count() > most {
            let message = format!("`{name}` has more than {most} characters");
            return Err(Error::invalid(Verb::Signal, message).with_hint(hint));
        }
    }
    Ok(Reply::Failure { error, cause })
}

/// `GetActivityTask` gives the next task of any execution: a caller that takes a task to answer one
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
            "Add `index` to `stateway` in the parameters of the state: \"index.$\": \"$$.Map.Item.Index\".",
        )
}

fn taken_by_another(verb: Verb, step: &str) -> Error {
    let message = format!("another worker has taken the task of `{step}`");
    Error::new(ErrorKind::FailedPrecondition, verb, message)
        .with_reason("TASK_TAKEN")
        .with_hint(
            "If a gateway took the task and has ended, the activity hands out the task again after HeartbeatSeconds, provided that the state retries.",
        )
}

fn untold(verb: Verb) -> Error {
    let message = "the history does not contain the task token";
    Error::new(ErrorKind::FailedPrecondition, verb, message)
        .with_hint("The service that received the token has to answer it.")
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
