//! The verbs that change an execution: cancel, kill, retry from.

use stateway_provider_api::{
    ANONYMOUS, CancelMode, CancelRequest, Error, ErrorKind, Observation, Result, RetryFromRequest,
};

use crate::StepFunctionsProvider;
use crate::client::Ask;
use crate::error::finished;
use crate::response::{RUNNING, basics, observation};

pub(crate) async fn cancel(
    provider: &StepFunctionsProvider,
    ask: Ask<'_>,
    arn: &str,
    request: &CancelRequest,
) -> Result<Observation> {
    let before = basics(&provider.reader.client.describe(ask, arn).await?);
    match before.status.as_str() {
        // A second stop is the same as one.
        "ABORTED" => return observation(&before, ask.verb),
        "SUCCEEDED" | "FAILED" | "TIMED_OUT" => return Err(finished(ask.verb, &before.status)),
        _ => {}
    }
    let error = match request.mode {
        CancelMode::Graceful => "Stateway.Cancelled",
        CancelMode::Kill => "Stateway.Killed",
    };
    provider.reader.cache.forget(arn);
    let cause = cause(&request.comment, &ask.call.actor);
    let stopped = provider.reader.client.stop(ask, arn, (error, &cause)).await;
    stopped?;
    let mut after = basics(&provider.reader.client.describe(ask, arn).await?);
    match after.status.as_str() {
        "SUCCEEDED" | "FAILED" | "TIMED_OUT" => return Err(finished(ask.verb, &after.status)),
        // The description may lag behind the stop that was just acknowledged.
        RUNNING => "ABORTED".clone_into(&mut after.status),
        _ => {}
    }
    observation(&after, ask.verb)
}

/// The cause of a stop is the only field of the history that can name the caller.
fn cause(comment: &str, actor: &str) -> String {
    if actor == ANONYMOUS {
        comment.to_owned()
    } else if comment.is_empty() {
        format!("by {actor}")
    } else {
        format!("{comment} (by {actor})")
    }
}

pub(crate) async fn retry_from(
    provider: &StepFunctionsProvider,
    ask: Ask<'_>,
    arn: &str,
    request: &RetryFromRequest,
) -> Result<Observation> {
    let before = basics(&provider.reader.client.describe(ask, arn).await?);
    if !request.step.is_empty() {
        check_step(provider, ask, arn, &request.step).await?;
    }
    let cannot = |message: &str| Error::new(ErrorKind::Unsupported, ask.verb, message);
    if request.input.is_some() {
        return Err(cannot("a redrive continues with the recorded input")
            .with_hint("Start a new execution with the other input."));
    }
    request.ensure_plain()?;
    provider.reader.cache.forget(arn);
    let token = request.request_id.as_str();
    provider.reader.client.redrive(ask, arn, token).await?;
    let mut after = basics(&provider.reader.client.describe(ask, arn).await?);
    if after.status == before.status {
        // The description may lag behind the redrive that was just acknowledged.
        RUNNING.clone_into(&mut after.status);
        after.redrive_status = None;
        (after.stopped, after.failure) = (None, None);
    }
    observation(&after, ask.verb)
}

/// A redrive begins where the execution failed, and nowhere else.
async fn check_step(
    provider: &StepFunctionsProvider,
    ask: Ask<'_>,
    arn: &str,
    step: &str,
) -> Result<()> {
    let told = basics(&provider.reader.client.describe(ask, arn).await?);
    let definition = provider.reader.definition(ask, &told).await?;
    let state = step.rsplit('.').next().unwrap_or(step);
    let state = state.split('[').next().unwrap_or(state);
    if definition.state(state).is_none() {
        return Err(Error::no_step(ask.verb, step));
    }
    let fold = provider.reader.fold(ask, arn, &definition, false).await?;
    let open = crate::steps(&fold, &definition, jiff::Timestamp::now());
    let begins_there = open.iter().any(|open| {
        let state = open.name.rsplit('.').next().unwrap_or(&open.name);
        open.name == step || state == step
    });
    if begins_there {
        return Ok(());
    }
    let failed: Vec<_> = open.iter().map(|step| step.name.as_str()).collect();
    let message = format!(
        "a redrive continues at the steps that failed: {}",
        failed.join(", ")
    );
    Err(Error::new(ErrorKind::Unsupported, ask.verb, message).with_hint("Leave the step out."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cause_of_a_stop_names_the_caller() {
        assert_eq!(cause("too slow", ANONYMOUS), "too slow");
        assert_eq!(cause("too slow", "ada"), "too slow (by ada)");
        assert_eq!(cause("", "ada"), "by ada");
    }
}
