//! The SDK's answers in this adapter's terms.

use aws_sdk_sfn::operation::describe_execution::DescribeExecutionOutput;
use aws_sdk_sfn::operation::describe_state_machine_for_execution::DescribeStateMachineForExecutionOutput;
use aws_sdk_sfn::operation::start_execution::StartExecutionOutput;
use aws_sdk_sfn::primitives::DateTime;
use aws_sdk_sfn::types::{ExecutionListItem, HistoryEvent, MapRunItemCounts, StateMachineListItem};
use jiff::Timestamp;
use stateway_model::{ExecutionError, ExecutionId, Payload};
use stateway_provider_api::{Error, ErrorKind, Result};
use stateway_provider_api::{NativeState, Observation, ObservedDefinition, Verb, Version, View};

use crate::event::Detail;
use crate::fold::{Ending, Failure};
use crate::qualifier;
use crate::steps::{error, steps};
use crate::{Definition, Event, Fold, id};

/// The status of an execution that is not over.
pub(crate) const RUNNING: &str = "RUNNING";

/// A page and where the next one begins.
#[derive(Debug)]
pub(crate) struct Page<T> {
    pub(crate) rows: Vec<T>,
    pub(crate) next: Option<String>,
}

/// What is known of an execution without its history and its payloads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Basics {
    pub(crate) arn: String,
    pub(crate) machine: String,
    pub(crate) version: Option<String>,
    pub(crate) status: String,
    pub(crate) started: Option<Timestamp>,
    pub(crate) stopped: Option<Timestamp>,
    pub(crate) redrive_status: Option<String>,
    /// How often it was redriven.
    pub(crate) redrives: u64,
    pub(crate) failure: Option<Failure>,
}

/// A state machine of the account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Machine {
    pub(crate) arn: String,
    pub(crate) name: String,
    pub(crate) express: bool,
    pub(crate) created: Option<Timestamp>,
}

/// The definition that an execution runs.
#[derive(Debug, Clone)]
pub(crate) struct RunsDefinition {
    pub(crate) definition: Definition,
    pub(crate) updated: Option<Timestamp>,
}

/// How many items of a distributed Map are where.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ItemCounts {
    pub(crate) total: u64,
    pub(crate) pending: u64,
    pub(crate) running: u64,
    pub(crate) succeeded: u64,
    pub(crate) failed: u64,
    pub(crate) timed_out: u64,
    pub(crate) aborted: u64,
    pub(crate) pending_redrive: u64,
}

pub(crate) fn item_counts(told: &MapRunItemCounts) -> ItemCounts {
    let number = |count: i64| u64::try_from(count).unwrap_or_default();
    ItemCounts {
        total: number(told.total),
        pending: number(told.pending),
        running: number(told.running),
        succeeded: number(told.succeeded),
        failed: number(told.failed),
        timed_out: number(told.timed_out),
        aborted: number(told.aborted),
        pending_redrive: number(told.pending_redrive.unwrap_or_default()),
    }
}

/// A start that was accepted.
#[derive(Debug, Clone)]
pub(crate) struct Started {
    pub(crate) arn: String,
    pub(crate) at: Option<Timestamp>,
}

pub(crate) fn time(time: &DateTime) -> Option<Timestamp> {
    let nanos = i32::try_from(time.subsec_nanos()).ok()?;
    Timestamp::new(time.secs(), nanos).ok()
}

pub(crate) fn started(told: &StartExecutionOutput) -> Started {
    Started {
        arn: told.execution_arn.clone(),
        at: time(&told.start_date),
    }
}

pub(crate) fn machine(told: &StateMachineListItem) -> Machine {
    Machine {
        arn: told.state_machine_arn.clone(),
        name: told.name.clone(),
        express: told.r#type.as_str() == "EXPRESS",
        created: time(&told.creation_date),
    }
}

pub(crate) fn runs_definition(
    told: &DescribeStateMachineForExecutionOutput,
    people: &[String],
) -> RunsDefinition {
    RunsDefinition {
        definition: Definition::parse(&told.definition).with_people(people),
        updated: time(&told.update_date),
    }
}

pub(crate) fn row(told: &ExecutionListItem) -> Basics {
    Basics {
        arn: told.execution_arn.clone(),
        machine: told.state_machine_arn.clone(),
        version: told.state_machine_version_arn.clone(),
        status: told.status.as_str().to_owned(),
        started: time(&told.start_date),
        stopped: told.stop_date.as_ref().and_then(time),
        redrive_status: None,
        redrives: redrives(told.redrive_count),
        failure: None,
    }
}

fn redrives(count: Option<i32>) -> u64 {
    count
        .and_then(|count| u64::try_from(count).ok())
        .unwrap_or_default()
}

/// Orders what is seen of an execution: a redrive comes after the end, and an end after the run.
fn version(basics: &Basics) -> Version {
    let phase = match basics.status.as_str() {
        RUNNING => 0,
        // Counted as redriven once it runs again.
        "PENDING_REDRIVE" => 2,
        _ => 1,
    };
    Version::of_parts([basics.redrives, phase, 0])
}

pub(crate) fn basics(told: &DescribeExecutionOutput) -> Basics {
    let stopped = told.stop_date.as_ref().and_then(time);
    let failed = told.error.is_some() || told.cause.is_some();
    Basics {
        arn: told.execution_arn.clone(),
        machine: told.state_machine_arn.clone(),
        version: told.state_machine_version_arn.clone(),
        status: told.status.as_str().to_owned(),
        started: time(&told.start_date),
        stopped,
        redrive_status: told
            .redrive_status
            .as_ref()
            .map(|word| word.as_str().to_owned()),
        redrives: redrives(told.redrive_count),
        failure: failed.then(|| Failure {
            event: 0,
            error: told.error.clone(),
            cause: told.cause.clone(),
            at: stopped,
        }),
    }
}

/// An execution as far as it is known without its history.
pub(crate) fn observation(basics: &Basics, verb: Verb) -> Result<Observation> {
    let id = ExecutionId::new(&basics.arn).map_err(|error| {
        Error::new(
            ErrorKind::Malformed,
            verb,
            "the ARN of the execution cannot be converted to a name",
        )
        .with_source(error)
    })?;
    let mut native = NativeState::new(&basics.status);
    if let (Some(redrive), true) = (&basics.redrive_status, basics.status != RUNNING) {
        native = native.with(qualifier::REDRIVE_STATUS, redrive);
    }
    let mut seen = Observation::new(id, native);
    seen.version = Some(version(basics));
    let machine = id::machine_name(&basics.machine).map(str::to_owned);
    let machine = machine.or_else(|| {
        let parsed = id::ExecutionArn::parse(&basics.arn)?;
        Some(parsed.machine.to_owned())
    });
    seen.definition = machine.map(ObservedDefinition::Native);
    seen.revision = basics
        .version
        .as_deref()
        .and_then(id::version)
        .unwrap_or_default()
        .to_owned();
    seen.create_time = basics.started;
    seen.start_time = basics.started;
    seen.end_time = basics.stopped;
    seen.update_time = basics.stopped.or(basics.started);
    seen.last_error = basics.failure.as_ref().map(|failure| error(failure, "", 0));
    Ok(seen)
}

/// Adds what the history shows of an execution that is not over, or of its end where the history
/// knows of it before the description does.
pub(crate) fn with_history(
    mut seen: Observation,
    fold: &Fold,
    definition: &Definition,
    now: Timestamp,
) -> Observation {
    seen.steps = steps(fold, definition, now);
    seen.update_time = fold.last_at().or(seen.update_time);
    if let Some(ending) = fold.ending() {
        seen.native = NativeState::new(ending.status());
        seen.end_time = fold.last_at();
        seen.last_error = last_error(ending);
    }
    if fold.is_partial() {
        seen.native = seen.native.with(qualifier::HISTORY, "partial");
        seen.is_partial = true;
    }
    seen
}

fn last_error(ending: &Ending) -> Option<ExecutionError> {
    let told = ending.failure.error.is_some() || ending.failure.cause.is_some();
    told.then(|| error(&ending.failure, "", 0))
}

/// Adds input and output.
pub(crate) fn with_payloads(
    mut seen: Observation,
    (input, output): (&Option<String>, &Option<String>),
    view: View,
) -> Observation {
    if view == View::Full {
        let payload = |text: &String| Payload::json(text.clone());
        seen.input = input.as_ref().map(payload);
        seen.output = output.as_ref().map(payload);
    }
    seen
}

/// An event of the service as this adapter's own.
pub(crate) fn event(told: &HistoryEvent) -> Event {
    Event {
        id: u64::try_from(told.id).unwrap_or_default(),
        previous: u64::try_from(told.previous_event_id).unwrap_or_default(),
        kind: told.r#type.as_str().to_owned(),
        at: time(&told.timestamp),
        detail: detail(told),
    }
}

fn detail(told: &HistoryEvent) -> Detail {
    let mut detail = Detail::default();
    names(told, &mut detail);
    failures(told, &mut detail);
    calls(told, &mut detail);
    let run = told.map_run_started_event_details.as_ref();
    let run = run.and_then(|told| told.map_run_arn.clone());
    let again = told.map_run_redriven_event_details.as_ref();
    detail.map_run = run.or_else(|| again.and_then(|told| told.map_run_arn.clone()));
    let redriven = told.execution_redriven_event_details.as_ref();
    detail.redrive_count = redriven
        .and_then(|told| told.redrive_count)
        .and_then(|count| u32::try_from(count).ok());
    detail
}

fn names(told: &HistoryEvent, detail: &mut Detail) {
    if let Some(told) = &told.state_entered_event_details {
        detail.name = Some(told.name.clone());
    }
    if let Some(told) = &told.state_exited_event_details {
        detail.name = Some(told.name.clone());
    }
    let iteration = told
        .map_iteration_started_event_details
        .as_ref()
        .or(told.map_iteration_succeeded_event_details.as_ref())
        .or(told.map_iteration_failed_event_details.as_ref())
        .or(told.map_iteration_aborted_event_details.as_ref());
    if let Some(told) = iteration {
        detail.name.clone_from(&told.name);
        detail.index = u64::try_from(told.index).ok();
    }
}

/// Copies error and cause of every kind of failure.
macro_rules! failures {
    ($told:ident, $detail:ident, $($field:ident),+ $(,)?) => {
        $(
            if let Some(told) = &$told.$field {
                $detail.error.clone_from(&told.error);
                $detail.cause.clone_from(&told.cause);
            }
        )+
    };
}

fn failures(told: &HistoryEvent, detail: &mut Detail) {
    failures!(
        told,
        detail,
        activity_failed_event_details,
        activity_schedule_failed_event_details,
        activity_timed_out_event_details,
        task_failed_event_details,
        task_start_failed_event_details,
        task_submit_failed_event_details,
        task_timed_out_event_details,
        execution_failed_event_details,
        execution_aborted_event_details,
        execution_timed_out_event_details,
        lambda_function_failed_event_details,
        lambda_function_schedule_failed_event_details,
        lambda_function_start_failed_event_details,
        lambda_function_timed_out_event_details,
        map_run_failed_event_details,
        evaluation_failed_event_details,
    );
    if let Some(told) = &told.evaluation_failed_event_details {
        detail.name = Some(told.state.clone());
    }
}

fn calls(told: &HistoryEvent, detail: &mut Detail) {
    if let Some(told) = &told.activity_scheduled_event_details {
        detail.resource = Some(told.resource.clone());
        detail.timeout_seconds = told.timeout_in_seconds;
    }
    if let Some(told) = &told.lambda_function_scheduled_event_details {
        detail.resource = Some(told.resource.clone());
        detail.timeout_seconds = told.timeout_in_seconds;
    }
    if let Some(told) = &told.task_scheduled_event_details {
        detail.resource = Some(told.resource.clone());
        detail.resource_type = Some(told.resource_type.clone());
        detail.timeout_seconds = told.timeout_in_seconds;
        detail.parameters = Some(told.parameters.clone());
    }
}
