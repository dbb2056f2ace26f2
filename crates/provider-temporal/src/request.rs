//! What the gateway asks, in Temporal's own terms. Pure.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use stateway_provider_api::{
    Error, ErrorKind, Observation, Result, RetryEvidence, RetryPhase, StartDefinition,
    StartRequest, StepObservation, Verb,
};

use crate::api::common::v1::{Memo, Payloads, RetryPolicy, SearchAttributes, WorkflowType};
use crate::api::enums::v1::{TaskQueueKind, WorkflowIdConflictPolicy, WorkflowIdReusePolicy};
use crate::api::history::v1::WorkflowExecutionStartedEventAttributes;
use crate::api::taskqueue::v1::TaskQueue;
use crate::api::workflowservice::v1::StartWorkflowExecutionRequest;
use crate::definitions::SCHEDULE;
use crate::qualifier::KIND;
use crate::time::{duration, proto_duration};
use crate::{CAPABILITIES, Config, payload};

/// Every option of a start.
pub(crate) const OPTIONS: [&str; 8] = [
    "task_queue",
    "execution_timeout",
    "run_timeout",
    "task_timeout",
    "reuse_policy",
    "conflict_policy",
    "cron_schedule",
    "max_attempts",
];

/// A start, ready to be sent but for namespace and identity.
pub(crate) fn start(
    request: &StartRequest,
    config: &Config,
) -> Result<StartWorkflowExecutionRequest> {
    request.check_capabilities(&CAPABILITIES)?;
    request.check_options(&OPTIONS)?;
    let kind = workflow_type(request, config)?;
    let option = |name: &str| request.options.get(name).map(String::as_str);
    let queue = option("task_queue").or(config.task_queue.as_deref());
    let queue = queue.filter(|queue| !queue.is_empty()).ok_or_else(|| {
        Error::invalid(Verb::Start, "no task queue is given")
            .with_hint("Give the option `task_queue`, or configure `task_queue` for the provider.")
    })?;
    let timeout = |name: &str| option(name).map(|text| span(name, text)).transpose();
    let wanted = request.execution_id.as_ref().map(|id| id.as_str());
    let (reuse, conflict) = id_policies(option("reuse_policy"), option("conflict_policy"))?;
    let attempts = option("max_attempts").map(max_attempts).transpose()?;
    Ok(StartWorkflowExecutionRequest {
        workflow_id: wanted.unwrap_or(request.request_id.as_str()).to_owned(),
        workflow_type: Some(WorkflowType {
            name: kind.to_owned(),
        }),
        task_queue: Some(TaskQueue {
            name: queue.to_owned(),
            kind: TaskQueueKind::Normal as i32,
            normal_name: String::new(),
        }),
        input: payload::arguments(request.input.as_ref()),
        workflow_execution_timeout: timeout("execution_timeout")?,
        workflow_run_timeout: timeout("run_timeout")?,
        workflow_task_timeout: timeout("task_timeout")?,
        request_id: request.request_id.as_str().to_owned(),
        workflow_id_reuse_policy: reuse as i32,
        workflow_id_conflict_policy: conflict as i32,
        retry_policy: attempts.map(|maximum_attempts| RetryPolicy {
            maximum_attempts,
            ..RetryPolicy::default()
        }),
        cron_schedule: option("cron_schedule").unwrap_or_default().to_owned(),
        memo: memo(request, config),
        search_attributes: search_attributes(request, config),
        workflow_start_delay: request.delay.and_then(proto_duration),
        ..StartWorkflowExecutionRequest::default()
    })
}

fn workflow_type<'r>(request: &'r StartRequest, config: &Config) -> Result<&'r str> {
    let StartDefinition::Native(kind) = &request.definition else {
        let error = Error::no_definition(request.definition.id(), []);
        return Err(error.with_hint("Temporal runs its own workflow types only."));
    };
    if kind.starts_with(SCHEDULE) {
        let error = Error::no_definition(kind, []);
        return Err(error.with_hint("A schedule starts workflows itself. Start its workflow type."));
    }
    let known = &config.workflow_types;
    if kind.is_empty() || !known.is_empty() && !known.contains(kind) {
        return Err(Error::no_definition(kind, known.iter().map(String::as_str)));
    }
    Ok(kind)
}

/// Labels that are not search attributes.
fn memo(request: &StartRequest, config: &Config) -> Option<Memo> {
    let own = |name: &str| !config.search_attributes.iter().any(|known| known == name);
    let labels = request.labels.iter().filter(|(name, _)| own(name));
    let fields: BTreeMap<_, _> = labels
        .map(|(name, value)| (name.clone(), payload::memo(value)))
        .collect();
    let fields = fields.into_iter().collect();
    (!request.labels.is_empty()).then_some(Memo { fields })
}

fn search_attributes(request: &StartRequest, config: &Config) -> Option<SearchAttributes> {
    let mut fields = std::collections::HashMap::new();
    for name in &config.search_attributes {
        if let Some(value) = request.labels.get(name) {
            fields.insert(name.clone(), payload::keyword(value));
        }
    }
    (!fields.is_empty()).then_some(SearchAttributes {
        indexed_fields: fields,
    })
}

/// What happens if the id is taken, by an execution that has ended and by one that is open. The server
/// refuses to terminate an open execution whose id must not be used again.
fn id_policies(
    reuse: Option<&str>,
    conflict: Option<&str>,
) -> Result<(WorkflowIdReusePolicy, WorkflowIdConflictPolicy)> {
    use WorkflowIdConflictPolicy::TerminateExisting;
    use WorkflowIdReusePolicy::{AllowDuplicate, RejectDuplicate};
    match (reuse_policy(reuse)?, conflict_policy(conflict)?) {
        (RejectDuplicate, TerminateExisting) if reuse.is_none() => {
            Ok((AllowDuplicate, TerminateExisting))
        }
        (RejectDuplicate, TerminateExisting) => {
            let message = "`conflict_policy=terminate-existing` needs an id that may be used again";
            Err(Error::invalid(Verb::Start, message)
                .with_hint("Leave out `reuse_policy`, or use `reuse_policy=allow`."))
        }
        policies => Ok(policies),
    }
}

fn reuse_policy(word: Option<&str>) -> Result<WorkflowIdReusePolicy> {
    match word {
        // A repeated start must find the first one, also after its end.
        None | Some("reject") => Ok(WorkflowIdReusePolicy::RejectDuplicate),
        Some("allow") => Ok(WorkflowIdReusePolicy::AllowDuplicate),
        Some("allow-failed") => Ok(WorkflowIdReusePolicy::AllowDuplicateFailedOnly),
        Some(other) => Err(wrong_option(
            "reuse_policy",
            other,
            "reject, allow, allow-failed",
        )),
    }
}

fn conflict_policy(word: Option<&str>) -> Result<WorkflowIdConflictPolicy> {
    match word {
        None | Some("fail") => Ok(WorkflowIdConflictPolicy::Fail),
        Some("use-existing") => Ok(WorkflowIdConflictPolicy::UseExisting),
        Some("terminate-existing") => Ok(WorkflowIdConflictPolicy::TerminateExisting),
        Some(other) => {
            let known = "fail, use-existing, terminate-existing";
            Err(wrong_option("conflict_policy", other, known))
        }
    }
}

fn max_attempts(text: &str) -> Result<i32> {
    let number = text.parse().ok().filter(|number| *number >= 0);
    number.ok_or_else(|| wrong_option("max_attempts", text, "a number, 0 for any number"))
}

fn wrong_option(name: &str, value: &str, known: &str) -> Error {
    let message = format!("option `{name}` cannot be `{value}`");
    Error::invalid(Verb::Start, message).with_hint(format!("Use {known}."))
}

/// A span of time: `90s`, `15m`, `2h`, `500ms`, `7d`.
fn span(name: &str, text: &str) -> Result<prost_types::Duration> {
    let split = text.find(|letter: char| !letter.is_ascii_digit());
    let parts = split.map(|at| text.split_at(at));
    let found = parts.and_then(|(number, unit)| {
        let number: u64 = number.parse().ok()?;
        let millis = match unit {
            "ms" => 1,
            "s" => 1_000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            _ => return None,
        };
        let span = Duration::from_millis(number.checked_mul(millis)?);
        proto_duration(span).filter(|_| !span.is_zero())
    });
    found.ok_or_else(|| wrong_option(name, text, "a time such as 90s, 15m or 2h"))
}

/// Whether the run that a request id belongs to was started by the same request.
pub(crate) fn is_same_start(
    request: &StartWorkflowExecutionRequest,
    started: &WorkflowExecutionStartedEventAttributes,
) -> bool {
    let queue = |queue: Option<&TaskQueue>| queue.map(|queue| queue.name.clone());
    let fields = |memo: Option<&Memo>| {
        let fields = memo.map(|memo| memo.fields.clone()).unwrap_or_default();
        fields
            .into_iter()
            .map(|(name, value)| (name, value.data))
            .collect::<BTreeMap<_, _>>()
    };
    let indexed = |of: Option<&SearchAttributes>| {
        let fields = of.map(|of| of.indexed_fields.clone()).unwrap_or_default();
        fields
            .into_iter()
            .map(|(name, value)| (name, value.data))
            .collect::<BTreeMap<_, _>>()
    };
    let input = |input: Option<&Payloads>| {
        let payloads = input
            .map(|input| input.payloads.clone())
            .unwrap_or_default();
        payloads.into_iter().map(|it| it.data).collect::<Vec<_>>()
    };
    // The server shortens timeouts to its limits, and that of a run to that of the execution.
    let same_span = |wanted: Option<&prost_types::Duration>,
                     had: Option<&prost_types::Duration>| {
        duration(wanted).is_none_or(|wanted| duration(had).is_some_and(|had| had <= wanted))
    };
    let attempts = |policy: Option<&RetryPolicy>| policy.map(|policy| policy.maximum_attempts);
    let same_delay = duration(request.workflow_start_delay.as_ref())
        == duration(started.first_workflow_task_backoff.as_ref())
        || !request.cron_schedule.is_empty();
    request.workflow_type == started.workflow_type
        && queue(request.task_queue.as_ref()) == queue(started.task_queue.as_ref())
        && input(request.input.as_ref()) == input(started.input.as_ref())
        && fields(request.memo.as_ref()) == fields(started.memo.as_ref())
        && indexed(request.search_attributes.as_ref())
            == indexed(started.search_attributes.as_ref())
        && request.cron_schedule == started.cron_schedule
        && attempts(request.retry_policy.as_ref()) == attempts(started.retry_policy.as_ref())
        && same_span(
            request.workflow_execution_timeout.as_ref(),
            started.workflow_execution_timeout.as_ref(),
        )
        && same_span(
            request.workflow_run_timeout.as_ref(),
            started.workflow_run_timeout.as_ref(),
        )
        && same_span(
            request.workflow_task_timeout.as_ref(),
            started.workflow_task_timeout.as_ref(),
        )
        && same_delay
}

/// A signal of this name is an update: it is answered by the workflow.
pub(crate) fn update_name(signal: &str) -> Option<&str> {
    signal
        .strip_prefix("update:")
        .filter(|name| !name.is_empty())
}

/// What a signal says, for comparison with an earlier one.
pub(crate) fn signal_body(name: &str, arguments: Option<&Payloads>) -> u64 {
    body("signal", name, arguments)
}

/// What an update says, for comparison with an earlier one.
pub(crate) fn update_body(name: &str, arguments: Option<&Payloads>) -> u64 {
    body("update", name, arguments)
}

fn body(kind: &str, name: &str, arguments: Option<&Payloads>) -> u64 {
    let arguments = arguments.map(|it| it.payloads.as_slice());
    let arguments = arguments.unwrap_or_default().iter();
    let data: Vec<&[u8]> = arguments.map(|payload| &*payload.data).collect();
    let mut hasher = DefaultHasher::new();
    (kind, name, data).hash(&mut hasher);
    hasher.finish()
}

/// The refusal of a step that does not back off, or that the server cannot retry.
pub(crate) fn nothing_to_retry(step: &str, seen: &Observation) -> Error {
    let phase = |retry: &RetryEvidence| retry.phase == RetryPhase::BetweenAttempts;
    let is_local = |it: &StepObservation| {
        let kind = it.native.qualifiers.get(KIND.as_str());
        kind.is_some_and(|kind| kind == "local-activity") && it.retry.as_ref().is_some_and(phase)
    };
    let local = seen.steps.iter().find(|it| is_local(it));
    let message = if seen.retry.as_ref().is_some_and(phase) {
        "the workflow itself backs off, and the server cannot begin its next run earlier".to_owned()
    } else if let Some(local) = local.filter(|it| step.is_empty() || it.name == step) {
        let name = &local.name;
        format!("`{name}` is a local activity, which only its worker retries")
    } else if step.is_empty() {
        "no activity backs off".to_owned()
    } else {
        format!("step `{step}` does not back off")
    };
    Error::new(ErrorKind::FailedPrecondition, Verb::RetryNow, message)
}

#[cfg(test)]
mod tests {
    use stateway_model::{ExecutionId, Payload};

    use super::*;

    fn asked() -> StartRequest {
        StartRequest {
            input: Some(Payload::json("1")),
            labels: [("team", "billing"), ("CustomerId", "c7")]
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into(),
            ..StartRequest::new(StartDefinition::native("Order"), "r1".parse().unwrap())
        }
    }

    fn config() -> Config {
        Config {
            task_queue: Some("orders".to_owned()),
            search_attributes: vec!["CustomerId".to_owned()],
            ..Config::default()
        }
    }

    #[test]
    fn labels_become_memo_fields_or_search_attributes() {
        let start = start(&asked(), &config()).unwrap();
        let memo = start.memo.unwrap().fields;
        assert_eq!(memo.keys().collect::<Vec<_>>(), ["team"]);
        let attributes = start.search_attributes.unwrap().indexed_fields;
        assert_eq!(payload::text(&attributes["CustomerId"]), "c7");
    }

    #[test]
    fn a_start_is_idempotent_by_its_request_id_and_rejects_duplicates() {
        let sent = start(&asked(), &config()).unwrap();
        assert_eq!((&*sent.workflow_id, &*sent.request_id), ("r1", "r1"));
        assert_eq!(
            sent.workflow_id_reuse_policy(),
            WorkflowIdReusePolicy::RejectDuplicate
        );
        let wanted = StartRequest {
            execution_id: ExecutionId::new("order-7").ok(),
            ..asked()
        };
        assert_eq!(start(&wanted, &config()).unwrap().workflow_id, "order-7");
    }

    #[test]
    fn options_are_read_or_refused() {
        let with = |name: &str, value: &str| {
            let mut request = asked();
            request.options.insert(name.to_owned(), value.to_owned());
            start(&request, &config())
        };
        let timeout = with("run_timeout", "15m").unwrap().workflow_run_timeout;
        assert_eq!(timeout.unwrap().seconds, 900);
        for (name, value) in [
            ("run_timeout", "soon"),
            ("run_timeout", "0s"),
            ("reuse_policy", "maybe"),
            ("conflict_policy", "maybe"),
            ("max_attempts", "-1"),
        ] {
            let refused = with(name, value).unwrap_err();
            assert_eq!(refused.kind, ErrorKind::InvalidArgument, "{name} = {value}");
        }
        assert_eq!(
            with("no_such", "1").unwrap_err().reason(),
            "OPTION_NOT_SUPPORTED"
        );
    }

    #[test]
    fn an_open_execution_is_terminated_only_if_its_id_may_be_used_again() {
        let with = |options: &[(&str, &str)]| {
            let mut request = asked();
            for (name, value) in options {
                request.options.insert((*name).into(), (*value).into());
            }
            start(&request, &config())
        };
        let terminate = ("conflict_policy", "terminate-existing");
        let sent = with(&[terminate]).unwrap();
        let policies = (
            sent.workflow_id_reuse_policy(),
            sent.workflow_id_conflict_policy(),
        );
        let expected = (
            WorkflowIdReusePolicy::AllowDuplicate,
            WorkflowIdConflictPolicy::TerminateExisting,
        );
        assert_eq!(policies, expected);
        let refused = with(&[terminate, ("reuse_policy", "reject")]).unwrap_err();
        assert_eq!(refused.kind, ErrorKind::InvalidArgument);
        assert!(refused.hint.contains("reuse_policy=allow"));
        let sent = with(&[terminate, ("reuse_policy", "allow-failed")]).unwrap();
        let reuse = sent.workflow_id_reuse_policy();
        assert_eq!(reuse, WorkflowIdReusePolicy::AllowDuplicateFailedOnly);
    }

    #[test]
    fn a_start_needs_a_queue_and_a_known_type() {
        let refused = start(&asked(), &Config::default()).unwrap_err();
        assert_eq!(refused.kind, ErrorKind::InvalidArgument);
        let config = Config {
            workflow_types: vec!["Orders".to_owned()],
            ..config()
        };
        let refused = start(&asked(), &config).unwrap_err();
        assert_eq!(refused.reason(), "DEFINITION_NOT_FOUND");
        assert_eq!(refused.suggestion.as_deref(), Some("Orders"));
    }

    #[test]
    fn another_body_is_not_the_same_start() {
        let sent = start(&asked(), &config()).unwrap();
        let started = WorkflowExecutionStartedEventAttributes {
            workflow_type: sent.workflow_type.clone(),
            task_queue: sent.task_queue.clone(),
            input: sent.input.clone(),
            memo: sent.memo.clone(),
            search_attributes: sent.search_attributes.clone(),
            ..Default::default()
        };
        assert!(is_same_start(&sent, &started));
        let other = StartRequest {
            input: Some(Payload::json("2")),
            ..asked()
        };
        assert!(!is_same_start(&start(&other, &config()).unwrap(), &started));
    }
}
