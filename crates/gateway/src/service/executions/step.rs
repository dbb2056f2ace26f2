//! One step: what it was given and answered, and every attempt. Only the built-in engine keeps that.

use std::sync::Arc;

use serde_json::Value;
use stateway_engine::{AttemptOutcome, AttemptRecord};
use stateway_machine::{Data, PolicyDecision};
use stateway_model::{ExecutionId, ExecutionName, Payload};
use stateway_proto::v1;
use stateway_proto::v1::step_attempt::Outcome;
use stateway_provider_api::{Call, View};
use tonic::{Code, Status};

use super::Executions;
use crate::convert;
use crate::status::Refusal;

/// What a provider of another kind does not offer.
const STEP_DETAIL: &str = "the details of a step";
/// The most bytes of an input or an output.
const MOST_PAYLOAD_BYTES: usize = 256 * 1024;

impl Executions {
    pub(super) async fn step(
        &self,
        call: Call,
        request: v1::GetStepRequest,
    ) -> Result<v1::StepDetail, Status> {
        let (execution, step) = parse(&request.name)?;
        let chosen = self.directory.of(&execution.provider, STEP_DETAIL)?;
        let can = self.upstream(&execution.provider)?.capabilities;
        let asked = chosen
            .engine
            .step(execution.id.as_str().into(), Arc::clone(&step));
        let record = chosen.answer(&call, asked).await?;
        let shown = self.read(&call, &execution, View::Basic).await?;
        let found = shown.steps.into_iter().find(|one| *one.name == *step);
        let found = found.ok_or_else(|| no_step(&execution, &step))?;
        let payload = |data: Option<Data>| {
            data.filter(|_| can.payloads)
                .and_then(|data| bounded(&data))
        };
        let (input, input_truncated) = payload(record.input).unzip();
        let (output, output_truncated) = payload(record.output).unzip();
        let attempts = record.attempts.into_iter();
        Ok(v1::StepDetail {
            name: request.name,
            step: Some(convert::step(found)),
            input,
            input_truncated: input_truncated.unwrap_or_default(),
            output,
            output_truncated: output_truncated.unwrap_or_default(),
            attempts: attempts.map(|one| attempt(&execution, one)).collect(),
            attempts_truncated: record.truncated,
            not_retried: record.not_retried.unwrap_or_default(),
        })
    }
}

/// The execution and the step of `providers/{provider}/executions/{execution}/steps/{step}`.
fn parse(name: &str) -> Result<(ExecutionName, Arc<str>), Status> {
    let wrong = || {
        let pattern = "providers/{provider}/executions/{execution}/steps/{step}";
        Status::from(Refusal::invalid(
            "name",
            format!("`name` is not of the form `{pattern}`"),
        ))
    };
    let (execution, step) = name.rsplit_once("/steps/").ok_or_else(wrong)?;
    if step.is_empty() || step.contains('/') {
        return Err(wrong());
    }
    let execution = execution.parse().map_err(|_| wrong())?;
    Ok((execution, step.into()))
}

fn no_step(execution: &ExecutionName, step: &str) -> Status {
    let message = format!("execution `{}` shows no step `{step}`", execution.id);
    Refusal::new(Code::NotFound, "STEP_NOT_FOUND", message)
        .with("provider", execution.provider.to_string())
        .into()
}

/// A payload within its bound, and whether it was cut; `null` is none.
fn bounded(data: &Data) -> Option<(v1::Payload, bool)> {
    if **data == Value::Null {
        return None;
    }
    let (payload, cut) = Payload::json(data.to_string()).cut(MOST_PAYLOAD_BYTES);
    Some((convert::payload_into(payload), cut))
}

/// One attempt as clients see it.
pub(crate) fn attempt(execution: &ExecutionName, from: AttemptRecord) -> v1::StepAttempt {
    let child = from.child.and_then(|id| ExecutionId::new(&*id).ok());
    let child = child.map(|id| ExecutionName::new(execution.provider.clone(), id));
    v1::StepAttempt {
        attempt: from.attempt,
        branch: from.branch.to_string(),
        compensation: from.compensation,
        worker: from.worker.to_string(),
        hand_outs: from.hand_outs,
        start_time: from.started.map(convert::timestamp),
        assign_time: from.assigned.map(convert::timestamp),
        end_time: from.ended.map(convert::timestamp),
        outcome: outcome(from.outcome).into(),
        error: from.error.map(convert::error),
        usage: Some(from.usage)
            .filter(|usage| !usage.is_zero())
            .map(convert::usage),
        child: child.map(|name| name.to_string()).unwrap_or_default(),
        policy_decision: from
            .policy
            .as_ref()
            .map_or("", |(_, made)| word(made))
            .into(),
        policy_rule: from
            .policy
            .map_or_else(String::new, |(rule, _)| rule.to_string()),
    }
}

const fn word(decision: &PolicyDecision) -> &'static str {
    match decision {
        PolicyDecision::Allow => "allow",
        PolicyDecision::Deny { .. } => "deny",
        PolicyDecision::RequireApproval { .. } => "require_approval",
    }
}

const fn outcome(from: AttemptOutcome) -> Outcome {
    match from {
        AttemptOutcome::Open => Outcome::Open,
        AttemptOutcome::Succeeded => Outcome::Succeeded,
        AttemptOutcome::Failed => Outcome::Failed,
        AttemptOutcome::Cancelled => Outcome::Cancelled,
        AttemptOutcome::Unknown => Outcome::Unknown,
        AttemptOutcome::Abandoned => Outcome::Abandoned,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_an_execution_and_a_step() {
        let (execution, step) = parse("providers/p/executions/Order%2F17/steps/charge").unwrap();
        assert_eq!((execution.id.as_str(), &*step), ("Order/17", "charge"));
        for wrong in [
            "",
            "providers/p/executions/a",
            "providers/p/executions/a/steps/",
            "providers/p/executions/a/steps/b/c",
            "a/steps/b",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_payload_beyond_the_bound_is_cut_and_says_so() {
        let long = Data::new(Value::from("x".repeat(MOST_PAYLOAD_BYTES)));
        let (payload, cut) = bounded(&long).unwrap();
        assert_eq!((payload.data.len(), cut), (MOST_PAYLOAD_BYTES, true));
        assert!(bounded(&Data::default()).is_none());
    }
}
