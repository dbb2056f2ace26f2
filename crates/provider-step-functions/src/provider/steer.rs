//! The writes: start, stop and redrive.

use stateway_model::ExecutionId;
use stateway_provider_api::{
    CancelMode, CancelRequest, Error, ErrorKind, NativeState, Observation, ObservedDefinition,
    Result, RetryFromRequest, StartRequest, Verb, View,
};

use super::StepFunctionsProvider;
use crate::arn::{ExecutionArn, ExecutionKind, execution_of, machine_name};
use crate::client::{Ask, StartQuery};
use crate::error::{finished, no_definition};
use crate::request::{check_start, execution_name, json_text, mark};
use crate::response::{RUNNING, Started, basics, observation};

pub(super) const fn cancel_verb(mode: CancelMode) -> Verb {
    match mode {
        CancelMode::Graceful => Verb::Cancel,
        CancelMode::Kill => Verb::Kill,
    }
}

impl StepFunctionsProvider {
    pub(super) async fn start_execution(
        &self,
        ask: Ask<'_>,
        request: &StartRequest,
    ) -> Result<Observation> {
        check_start(request, &self.can)?;
        if request.portable {
            return Err(no_definition(&request.definition));
        }
        let (name, mark) = (execution_name(request)?, mark(request));
        let input = json_text(request.input.as_ref(), Verb::Start)?;
        let machine = self.machine_arn(ask, &request.definition).await?;
        let query = StartQuery {
            machine: &machine,
            name: &name,
            input: &input,
            mark: mark.as_deref(),
        };
        match self.look.client.start(ask, query).await {
            Ok(started) if mark.is_none() || is_express(&started.arn) => {
                shown_at_start(&started, &machine)
            }
            // The service takes the same name and input for the same start, whoever asks.
            Ok(started) => match self.settle(ask, request, (&started.arn, &input)).await {
                Err(error) if error.kind == ErrorKind::NotFound => {
                    shown_at_start(&started, &machine)
                }
                settled => settled,
            },
            Err(error) if error.native_code == "ExecutionAlreadyExists" => {
                let arn = execution_of(&machine, &name).ok_or(error)?;
                self.settle(ask, request, (&arn, &input)).await
            }
            Err(error) if error.kind == ErrorKind::NotFound => {
                Err(no_definition(&request.definition))
            }
            Err(error) => Err(error),
        }
    }

    /// Whether what has this name was started by the same request with the same body.
    async fn settle(
        &self,
        ask: Ask<'_>,
        request: &StartRequest,
        (arn, input): (&str, &str),
    ) -> Result<Observation> {
        let told = self.look.client.describe(ask, arn).await?;
        let exists = |message: String| Error::new(ErrorKind::AlreadyExists, Verb::Start, message);
        let same_input = told.input.as_deref().unwrap_or("{}") == input;
        let mark = mark(request);
        if mark.is_some() && told.trace_header != mark {
            return Err(exists(format!("execution `{arn}` exists"))
                .with_reason("EXECUTION_ALREADY_EXISTS")
                .with_native_code("ExecutionAlreadyExists"));
        }
        if !same_input {
            return Err(
                exists("the request id was used with another body".to_owned())
                    .with_reason("REQUEST_ID_REUSED")
                    .with_native_code("ExecutionAlreadyExists")
                    .with_hint("Use a new request id for every new request."),
            );
        }
        self.look.get(ask, arn, View::Basic).await
    }

    /// The ARN of a state machine, version or alias that is named in a start.
    pub(super) async fn machine_arn(&self, ask: Ask<'_>, definition: &str) -> Result<String> {
        if machine_name(definition).is_some() {
            return Ok(definition.to_owned());
        }
        for afresh in [false, true] {
            let machines = self.machines.all(ask, afresh).await?;
            if let Some(found) = machines
                .into_iter()
                .find(|machine| machine.name == definition)
            {
                return Ok(found.arn);
            }
        }
        Err(no_definition(definition))
    }

    pub(super) async fn stop(
        &self,
        ask: Ask<'_>,
        arn: &str,
        request: &CancelRequest,
    ) -> Result<Observation> {
        let before = basics(&self.look.client.describe(ask, arn).await?);
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
        self.look.book.forget(arn);
        let stopped = self
            .look
            .client
            .stop(ask, arn, (error, &request.cause))
            .await;
        stopped?;
        let mut after = basics(&self.look.client.describe(ask, arn).await?);
        match after.status.as_str() {
            "SUCCEEDED" | "FAILED" | "TIMED_OUT" => return Err(finished(ask.verb, &after.status)),
            // The description may lag behind the stop that was just acknowledged.
            RUNNING => "ABORTED".clone_into(&mut after.status),
            _ => {}
        }
        observation(&after, ask.verb)
    }

    pub(super) async fn redrive(
        &self,
        ask: Ask<'_>,
        arn: &str,
        request: &RetryFromRequest,
    ) -> Result<Observation> {
        let before = basics(&self.look.client.describe(ask, arn).await?);
        if !request.step.is_empty() {
            self.check_step(ask, arn, &request.step).await?;
        }
        let cannot = |message: &str| Error::new(ErrorKind::Unsupported, ask.verb, message);
        if request.input.is_some() {
            return Err(cannot("a redrive goes on with the input there was")
                .with_hint("Start a new execution with the other input."));
        }
        request.ensure_plain()?;
        self.look.book.forget(arn);
        let token = request.request_id.as_str();
        self.look.client.redrive(ask, arn, token).await?;
        let mut after = basics(&self.look.client.describe(ask, arn).await?);
        if after.status == before.status {
            // The description may lag behind the redrive that was just acknowledged.
            RUNNING.clone_into(&mut after.status);
            after.redrive_status = None;
            (after.stopped, after.failure) = (None, None);
        }
        observation(&after, ask.verb)
    }

    /// A redrive begins where the execution failed, and nowhere else.
    async fn check_step(&self, ask: Ask<'_>, arn: &str, step: &str) -> Result<()> {
        let told = basics(&self.look.client.describe(ask, arn).await?);
        let definition = self.look.definition(ask, &told).await?;
        let state = step.rsplit('.').next().unwrap_or(step);
        let state = state.split('[').next().unwrap_or(state);
        if definition.state(state).is_none() {
            let message = format!("no step `{step}` in the definition");
            return Err(
                Error::new(ErrorKind::NotFound, ask.verb, message).with_reason("STEP_NOT_FOUND")
            );
        }
        let fold = self.look.fold(ask, arn, &definition, false).await?;
        let open = crate::steps(&fold, &definition, jiff::Timestamp::now());
        let begins_there = open.iter().any(|open| {
            let state = open.name.rsplit('.').next().unwrap_or(&open.name);
            open.name == step || state == step
        });
        if begins_there {
            return Ok(());
        }
        let failed: Vec<_> = open.iter().map(|step| step.name.as_str()).collect();
        let message = format!("a redrive goes on where it failed: {}", failed.join(", "));
        Err(Error::new(ErrorKind::Unsupported, ask.verb, message).with_hint("Leave the step out."))
    }
}

fn is_express(arn: &str) -> bool {
    ExecutionArn::parse(arn).is_some_and(|arn| arn.kind == ExecutionKind::Express)
}

/// What a start shows at once. The description may lag behind the start.
fn shown_at_start(started: &Started, machine: &str) -> Result<Observation> {
    let id = ExecutionId::new(&started.arn).map_err(|error| {
        Error::new(
            ErrorKind::Malformed,
            Verb::Start,
            "the execution's ARN cannot be a name",
        )
        .with_source(error)
    })?;
    let mut native = NativeState::new(RUNNING);
    if is_express(&started.arn) {
        native = native.with("history", "none");
    }
    let mut seen = Observation::new(id, native);
    seen.definition = machine_name(machine).map(|name| ObservedDefinition::Native(name.to_owned()));
    let version = crate::arn::version(machine).filter(|version| version.parse::<u64>().is_ok());
    seen.revision = version.unwrap_or_default().to_owned();
    seen.create_time = started.at;
    seen.start_time = started.at;
    seen.update_time = started.at;
    Ok(seen)
}
