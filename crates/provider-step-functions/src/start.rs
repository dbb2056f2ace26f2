//! Starts.

use stateway_model::ExecutionId;
use stateway_provider_api::{
    Error, ErrorKind, NativeState, Observation, ObservedDefinition, Result, StartRequest, Verb,
    View,
};

use crate::client::{Ask, StartQuery};
use crate::error::no_definition;
use crate::id::{ExecutionArn, ExecutionKind, execution_of, machine_name, version};
use crate::request::{check_start, execution_name, is_marked, json_text, mark, trace_header};
use crate::response::{RUNNING, Started};
use crate::{StepFunctionsProvider, qualifier};

pub(crate) async fn start(
    provider: &StepFunctionsProvider,
    ask: Ask<'_>,
    request: &StartRequest,
) -> Result<Observation> {
    let definition = check_start(request)?;
    let (name, mark) = (execution_name(request)?, mark(request));
    let trace_header = trace_header(request, &ask.call.actor);
    let input = json_text(request.input.as_ref(), Verb::Start)?;
    let machine = machine_arn(provider, ask, definition).await?;
    let query = StartQuery {
        machine: &machine,
        name: &name,
        input: &input,
        trace_header: trace_header.as_deref(),
    };
    match provider.reader.client.start(ask, query).await {
        Ok(started) if mark.is_none() || is_express(&started.arn) => {
            shown_at_start(&started, &machine)
        }
        // The service treats the same name and input as the same start, for every caller.
        Ok(started) => match settle(provider, ask, request, (&started.arn, &input)).await {
            Err(error) if error.kind == ErrorKind::NotFound => shown_at_start(&started, &machine),
            settled => settled,
        },
        Err(error) if error.native_code == "ExecutionAlreadyExists" => {
            let arn = execution_of(&machine, &name).ok_or(error)?;
            settle(provider, ask, request, (&arn, &input)).await
        }
        Err(error) if error.kind == ErrorKind::NotFound => Err(no_definition(definition)),
        Err(error) => Err(error),
    }
}

/// Whether what has this name was started by the same request with the same body.
async fn settle(
    provider: &StepFunctionsProvider,
    ask: Ask<'_>,
    request: &StartRequest,
    (arn, input): (&str, &str),
) -> Result<Observation> {
    let told = provider.reader.client.describe(ask, arn).await?;
    let same_input = told.input.as_deref().unwrap_or("{}") == input;
    let mark = mark(request);
    if mark.is_some_and(|mark| !is_marked(told.trace_header.as_deref(), &mark)) {
        return Err(Error::execution_exists(arn).with_native_code("ExecutionAlreadyExists"));
    }
    if !same_input {
        return Err(
            Error::request_id_reused(Verb::Start).with_native_code("ExecutionAlreadyExists")
        );
    }
    provider.reader.get(ask, arn, View::Basic).await
}

/// The ARN of a state machine, version or alias that is named in a start.
pub(crate) async fn machine_arn(
    provider: &StepFunctionsProvider,
    ask: Ask<'_>,
    definition: &str,
) -> Result<String> {
    if machine_name(definition).is_some() {
        return Ok(definition.to_owned());
    }
    for afresh in [false, true] {
        let machines = provider.machines.all(ask, afresh).await?;
        if let Some(found) = machines
            .into_iter()
            .find(|machine| machine.name == definition)
        {
            return Ok(found.arn);
        }
    }
    Err(no_definition(definition))
}

fn is_express(arn: &str) -> bool {
    ExecutionArn::parse(arn).is_some_and(|arn| arn.kind == ExecutionKind::Express)
}

/// The execution as the start returns it, because the description may lag behind the start.
fn shown_at_start(started: &Started, machine: &str) -> Result<Observation> {
    let id = ExecutionId::new(&started.arn).map_err(|error| {
        Error::new(
            ErrorKind::Malformed,
            Verb::Start,
            "the ARN of the execution cannot be converted to a name",
        )
        .with_source(error)
    })?;
    let mut native = NativeState::new(RUNNING);
    if is_express(&started.arn) {
        native = native.with(qualifier::HISTORY, "none");
    }
    let mut seen = Observation::new(id, native);
    seen.definition = machine_name(machine).map(|name| ObservedDefinition::Native(name.to_owned()));
    let version = version(machine).filter(|version| version.parse::<u64>().is_ok());
    seen.revision = version.unwrap_or_default().to_owned();
    seen.create_time = started.at;
    seen.start_time = started.at;
    seen.update_time = started.at;
    Ok(seen)
}
