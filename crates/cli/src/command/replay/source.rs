//! Where a replay takes its history from: a gateway, or a file.

use std::path::Path;

use stateway_client::{Call, v1};
use stateway_engine::recording::{MOST_FILE_BYTES, Recording, RecordingError, plan_of};
use stateway_gateway::replay;
use stateway_model::{Execution, ExecutionId, ExecutionName, ProviderId};
use stateway_provider_api::table::compiled_in;
use stateway_provider_api::{Mapper, Observation};
use stateway_provider_builtin::{ReplayAsk, replay_recording, replay_steps};
use v1::replay_execution_request::Variant;

use crate::context::Context;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::resource;

/// The provider in names of executions that come from a file.
const NO_PROVIDER: &str = "file";

/// Where a history comes from.
pub(super) enum Source {
    Gateway(ExecutionName),
    File {
        name: ExecutionName,
        recording: Box<Recording>,
    },
}

/// An event and the execution after it.
pub(super) type Step = (v1::Event, v1::Execution);

impl Source {
    pub(super) fn gateway(name: &str) -> Result<Self, Failure> {
        let full = resource::execution(name)?;
        let name = full
            .parse()
            .map_err(|error| Failure::usage(format!("{error}")))?;
        Ok(Self::Gateway(name))
    }

    /// Reads and checks a file.
    pub(super) fn file(path: &Path) -> Result<Self, Failure> {
        let shown = path.display();
        let unread = |error| Failure::usage(format!("cannot read {shown}: {error}"));
        let size = std::fs::metadata(path).map_err(unread)?.len();
        if size > MOST_FILE_BYTES as u64 {
            let message = format!("{shown} has {size} bytes, more than {MOST_FILE_BYTES}");
            return Err(Failure::usage(message));
        }
        let bytes = std::fs::read(path).map_err(unread)?;
        let recording = Recording::read(&bytes).map_err(|error| {
            Failure::usage(format!("{shown}: {error}"))
                .hint("Use an unchanged file of `stateway history export`.")
        })?;
        let provider: ProviderId = NO_PROVIDER.parse().expect("a plain word is an id");
        let id = ExecutionId::new(&*recording.execution)
            .map_err(|error| Failure::usage(format!("{shown}: line 1: {error}")))?;
        Ok(Self::File {
            name: ExecutionName::new(provider, id),
            recording: Box::new(recording),
        })
    }

    pub(super) async fn replay(
        &self,
        context: &Context,
        along: Option<u32>,
        mut request: v1::ReplayExecutionRequest,
    ) -> Result<v1::ReplayExecutionResponse, Failure> {
        match self {
            Self::Gateway(name) => {
                request.name = name.to_string();
                request.branch = along.map_or_else(String::new, |number| {
                    resource::branch(&request.name, &number.to_string())
                });
                let call = context.call(Call::from_message(request));
                Ok(context.client.replay(call).await?)
            }
            Self::File { name, recording } => {
                let (until, source) = match &request.variant {
                    None => (0, None),
                    Some(Variant::AtSequence(at)) => (u64::try_from(*at).unwrap_or(0), None),
                    Some(Variant::Revision(wanted)) => (0, Some(of_revision(recording, wanted)?)),
                    Some(Variant::Source(source)) => (0, Some((source.as_str(), "the definition"))),
                };
                let plan = source.map(|(source, name)| plan_of(source, name));
                let plan = plan.transpose().map_err(|error| refused(&error))?;
                let ask = ReplayAsk {
                    branch: along,
                    until,
                    plan,
                };
                let replayed = replay_recording(recording, &ask);
                let replayed = replayed.map_err(|error| refused(&error))?;
                Ok(replay::response(name, shown_by(&name.provider), replayed))
            }
        }
    }

    pub(super) async fn steps(
        &self,
        context: &Context,
        along: Option<u32>,
    ) -> Result<Vec<Step>, Failure> {
        match self {
            Self::File { name, recording } => steps(recording, name, along),
            Self::Gateway(name) => {
                let call = Call::from_message(v1::ExportHistoryRequest {
                    name: name.to_string(),
                    redact: false,
                });
                let file = context.client.export_history(context.call(call)).await?;
                let recording = Recording::read(&file).map_err(|error| refused(&error))?;
                steps(&recording, name, along)
            }
        }
    }
}

/// Every event along a branch with the execution after it.
fn steps(
    recording: &Recording,
    name: &ExecutionName,
    branch: Option<u32>,
) -> Result<Vec<Step>, Failure> {
    let steps = replay_steps(recording, branch);
    let steps = steps.map_err(|error| refused(&error))?;
    let show = shown_by(&name.provider);
    let shown = steps
        .into_iter()
        .map(|step| replay::step(name, &show, (step.branch, step.event), step.execution));
    Ok(shown.collect())
}

/// A recording is classified by the table of the built-in engine that wrote it.
fn shown_by(provider: &ProviderId) -> impl Fn(Observation) -> Execution {
    let table = compiled_in("builtin").expect("the table of the built-in engine is compiled in");
    let mapper = Mapper::new(provider.clone());
    move |seen| mapper.execution(&table, seen, jiff::Timestamp::now())
}

fn refused(error: &RecordingError) -> Failure {
    Failure::new(Exit::Refused, error.to_string())
}

/// The source and name of a revision: a file has only the definitions it was written by.
fn of_revision<'r>(recording: &'r Recording, wanted: &str) -> Result<(&'r str, &'r str), Failure> {
    let mut known = recording.definitions.iter();
    match known.find(|known| known.revision.starts_with(wanted)) {
        Some(found) => Ok((&found.source, &found.name)),
        None => Err(Failure::new(
            Exit::NotFound,
            format!("the file has no revision `{wanted}`"),
        )
        .hint("Use --definition with the file of the definition.")),
    }
}
