//! Everything that the page of an execution shows, read from the API by concurrent calls.

use futures::join;
use stateway_proto::v1::{
    Branch, Capabilities, Definition, Event, Execution, ExecutionView, ExplainExecutionRequest,
    ExplainExecutionResponse, GetDefinitionRequest, GetExecutionRequest, GetStepRequest,
    ListBranchesRequest, ListProvidersRequest, Provider, StepDetail,
};
use tonic::{Code, Response};

use super::chosen::Chosen;
use super::decisions::Decisions;
use super::event;
use super::family::Family;
use super::newest::{Newest, newest};
use crate::Site;
use crate::executions::ExecutionPath;
use crate::problem::Problem;
use crate::visitor::Visitor;

/// Events that the timeline is drawn from.
const EVENTS: i32 = 1_000;
/// The most branches that are shown.
const BRANCHES: i32 = 50;
/// The most providers a page looks through.
const PROVIDERS: i32 = 1_000;

/// What is known of an execution.
pub(super) struct Facts {
    pub(super) execution: Execution,
    /// The response has no input and output, because they do not fit into one message.
    pub(super) payloads_left_out: bool,
    pub(super) provider: Option<Provider>,
    /// None if the call failed.
    pub(super) explanation: Option<ExplainExecutionResponse>,
    /// Of a portable definition, which knows its steps.
    pub(super) definition: Option<Definition>,
    pub(super) events: Result<Newest, Problem>,
    pub(super) branches: Vec<Branch>,
    pub(super) family: Family,
    /// What a person has to decide.
    pub(super) decisions: Decisions,
    /// The step that was chosen.
    pub(super) step: Option<Result<StepDetail, Problem>>,
    /// The event that was chosen.
    pub(super) event: Option<Result<Event, Problem>>,
    pub(super) chosen: Chosen,
}

impl Facts {
    pub(super) async fn read(
        site: &Site,
        visitor: &Visitor,
        path: &ExecutionPath,
        chosen: &Chosen,
    ) -> Result<Self, Problem> {
        let (execution, payloads_left_out) = execution(site, visitor, path).await?;
        let name = path.name();
        let (provider, explanation, definition, events, branches, family, decisions, step, event) = join!(
            provider(site, visitor, &path.provider),
            explanation(site, visitor, path),
            definition(site, visitor, &execution),
            newest(site, visitor, &name, EVENTS),
            branches(site, visitor, path),
            Family::read(site, visitor, &execution),
            Decisions::read(site, visitor, &execution),
            step(site, visitor, path, &chosen.step),
            event::read(site, visitor, &name, chosen.event),
        );
        Ok(Self {
            execution,
            payloads_left_out,
            provider,
            explanation,
            definition,
            events,
            branches,
            family,
            decisions,
            step,
            event,
            chosen: chosen.clone(),
        })
    }

    /// Whether the engine keeps what happened to each step.
    pub(super) fn has_step_details(&self) -> bool {
        self.capabilities().event_log
    }

    /// What the provider can do; nothing when it is not known.
    pub(super) fn capabilities(&self) -> Capabilities {
        let provider = self.provider.as_ref();
        provider
            .and_then(|provider| provider.capabilities)
            .unwrap_or_default()
    }
}

/// The execution alone, in full. Without its payloads, and true, if they do not fit into one
/// message.
pub(super) async fn execution(
    site: &Site,
    visitor: &Visitor,
    path: &ExecutionPath,
) -> Result<(Execution, bool), Problem> {
    let mut api = site.api.executions();
    let mut read = async |view: ExecutionView| {
        let request = GetExecutionRequest {
            name: path.name(),
            view: view.into(),
        };
        let found = api.get_execution(visitor.request(request)).await;
        found.map(Response::into_inner)
    };
    match read(ExecutionView::Full).await {
        Ok(found) => Ok((found, false)),
        Err(status) if status.code() == Code::OutOfRange => {
            Ok((read(ExecutionView::Basic).await?, true))
        }
        Err(status) => Err(status.into()),
    }
}

/// The provider, without its table.
pub(super) async fn provider(site: &Site, visitor: &Visitor, id: &str) -> Option<Provider> {
    let request = ListProvidersRequest {
        page_size: PROVIDERS,
        page_token: String::new(),
    };
    let mut api = site.api.providers();
    let answer = api.list_providers(visitor.request(request)).await.ok()?;
    let name = format!("providers/{id}");
    let mut all = answer.into_inner().providers.into_iter();
    all.find(|provider| provider.name == name)
}

async fn explanation(
    site: &Site,
    visitor: &Visitor,
    path: &ExecutionPath,
) -> Option<ExplainExecutionResponse> {
    let request = ExplainExecutionRequest { name: path.name() };
    let mut api = site.api.executions();
    let answer = api.explain_execution(visitor.request(request)).await.ok()?;
    Some(answer.into_inner())
}

pub(super) async fn definition(
    site: &Site,
    visitor: &Visitor,
    execution: &Execution,
) -> Option<Definition> {
    if !execution.definition.starts_with("definitions/") {
        return None;
    }
    let name = match execution.revision.as_str() {
        "" => execution.definition.clone(),
        revision => format!("{}/revisions/{revision}", execution.definition),
    };
    let mut api = site.api.definitions();
    let request = visitor.request(GetDefinitionRequest { name });
    let answer = api.get_definition(request).await.ok()?;
    Some(answer.into_inner())
}

/// The step that was chosen; none when none was.
async fn step(
    site: &Site,
    visitor: &Visitor,
    path: &ExecutionPath,
    chosen: &str,
) -> Option<Result<StepDetail, Problem>> {
    if chosen.is_empty() {
        return None;
    }
    let name = format!("{}/steps/{chosen}", path.name());
    let mut api = site.api.executions();
    let answer = api.get_step(visitor.request(GetStepRequest { name })).await;
    Some(answer.map(Response::into_inner).map_err(Problem::from))
}

/// None where nothing keeps branches.
async fn branches(site: &Site, visitor: &Visitor, path: &ExecutionPath) -> Vec<Branch> {
    let request = ListBranchesRequest {
        parent: path.name(),
        page_size: BRANCHES,
        page_token: String::new(),
    };
    let mut api = site.api.recovery();
    match api.list_branches(visitor.request(request)).await {
        Ok(answer) => answer.into_inner().branches,
        Err(status) => {
            if status.code() != Code::Unimplemented {
                tracing::debug!("branches are not shown: {status}");
            }
            Vec::new()
        }
    }
}
