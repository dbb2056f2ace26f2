//! One step: what it was given and answered, and every attempt, where the engine keeps a log.

use stateway_model::{ExecutionName, Payload};
use stateway_proto::v1;
use stateway_proto::v1::read_payload_request::Source;
use stateway_proto::v1::step_attempt::{Outcome, PolicyDecision};
use stateway_provider_api::{StepAttempt, StepAttemptOutcome, Verb, View};
use tonic::{Code, Status};

use super::Executions;
use crate::access::ApiCall;
use crate::branch::branch_name;
use crate::convert;
use crate::status::Refusal;
use crate::upstream::Topic;

/// The most bytes of an input or an output.
const MOST_PAYLOAD_BYTES: usize = 256 * 1024;

impl Executions {
    pub(super) async fn step(
        &self,
        call: ApiCall,
        request: v1::GetStepRequest,
    ) -> Result<v1::StepDetail, Status> {
        let (execution, step) = parse(&request.name)?;
        let upstream = self
            .directory
            .of(&call.access, &execution.provider, Topic::EVENT_LOG)?;
        let reads_payloads = self.authorize_read(&call, &execution).await?;
        let guarded = upstream.within(&call);
        let history =
            guarded.event_log(Verb::Step, |log, call| log.step(call, &execution.id, &step));
        let mut history = history.await?;
        let has_payloads = history.input.is_some() || history.output.is_some();
        if !reads_payloads {
            (history.input, history.output) = (None, None);
        }
        let shown = self.read(&call, &execution, View::Basic).await?;
        let found = shown.steps.into_iter().find(|one| one.name == step);
        let found = found.ok_or_else(|| no_step(&execution, &step))?;
        let (input, input_truncated) = history.input.map(bounded).unzip();
        let (output, output_truncated) = history.output.map(bounded).unzip();
        let attempts = history.attempts.into_iter();
        Ok(v1::StepDetail {
            name: request.name,
            step: Some(convert::step(found)),
            input,
            input_truncated: input_truncated.unwrap_or_default(),
            output,
            output_truncated: output_truncated.unwrap_or_default(),
            attempts: attempts.map(|one| attempt(&execution, one)).collect(),
            attempts_truncated: history.truncated,
            not_retried: history.not_retried,
            payloads_redacted: has_payloads && !reads_payloads,
        })
    }
}

impl Executions {
    /// The whole input or output of a step; none where there is none.
    pub(super) async fn step_payload(
        &self,
        call: &ApiCall,
        execution: &ExecutionName,
        step: &str,
        source: Source,
    ) -> Result<Option<Payload>, Status> {
        let upstream = self
            .directory
            .of(&call.access, &execution.provider, Topic::EVENT_LOG)?;
        let guarded = upstream.within(call);
        let history =
            guarded.event_log(Verb::Step, |log, call| log.step(call, &execution.id, step));
        let history = history.await?;
        Ok(if source == Source::Input {
            history.input
        } else {
            history.output
        })
    }
}

/// The execution and the step of `providers/{provider}/executions/{execution}/steps/{step}`.
pub(super) fn parse(name: &str) -> Result<(ExecutionName, String), Status> {
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
    let message = format!("execution `{}` has no step `{step}`", execution.id);
    Refusal::new(Code::NotFound, "STEP_NOT_FOUND", message)
        .with("provider", execution.provider.to_string())
        .into()
}

/// A payload within its bound, and whether it was cut.
fn bounded(payload: Payload) -> (v1::Payload, bool) {
    let (payload, cut) = payload.cut(MOST_PAYLOAD_BYTES);
    (convert::payload_into(payload), cut)
}

/// One attempt as clients see it.
pub(crate) fn attempt(execution: &ExecutionName, from: StepAttempt) -> v1::StepAttempt {
    let child = from
        .child
        .map(|id| ExecutionName::new(execution.provider.clone(), id));
    v1::StepAttempt {
        attempt: convert::int32(from.attempt),
        branch: branch_name(execution, from.branch),
        compensation: from.compensation,
        worker: from.worker,
        hand_out_count: convert::int32(from.hand_outs),
        start_time: from.start_time.map(convert::timestamp),
        assign_time: from.assign_time.map(convert::timestamp),
        end_time: from.end_time.map(convert::timestamp),
        outcome: outcome(from.outcome).into(),
        error: from.error.map(convert::error),
        usage: Some(from.usage)
            .filter(|usage| !usage.is_zero())
            .map(convert::usage),
        child: child.map(|name| name.to_string()).unwrap_or_default(),
        policy_decision: policy_decision(&from.policy_decision).into(),
        policy_rule: from.policy_rule,
    }
}

/// Converts the name of a policy decision, as providers report it.
fn policy_decision(word: &str) -> PolicyDecision {
    match word {
        "allow" => PolicyDecision::Allow,
        "deny" => PolicyDecision::Deny,
        "require_approval" => PolicyDecision::RequireApproval,
        _ => PolicyDecision::Unspecified,
    }
}

const fn outcome(from: StepAttemptOutcome) -> Outcome {
    match from {
        StepAttemptOutcome::Open => Outcome::Open,
        StepAttemptOutcome::Succeeded => Outcome::Succeeded,
        StepAttemptOutcome::Failed => Outcome::Failed,
        StepAttemptOutcome::Cancelled => Outcome::Cancelled,
        StepAttemptOutcome::Unknown => Outcome::Unknown,
        StepAttemptOutcome::Abandoned => Outcome::Abandoned,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_an_execution_and_a_step() {
        let (execution, step) = parse("providers/p/executions/Order%2F17/steps/charge").unwrap();
        assert_eq!(
            (execution.id.as_str(), step.as_str()),
            ("Order/17", "charge")
        );
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
        let long = Payload::json(format!("\"{}\"", "x".repeat(MOST_PAYLOAD_BYTES)));
        let (payload, cut) = bounded(long);
        assert_eq!((payload.data.len(), cut), (MOST_PAYLOAD_BYTES, true));
    }
}
