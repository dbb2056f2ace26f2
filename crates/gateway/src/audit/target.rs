//! What each method of the API is about, and whether it changes anything.
//!
//! A method whose request has no line here does not compile, and a method that is in neither list of the
//! test below fails it. So no method can be forgotten.

use std::borrow::Cow;

use stateway_model::DefinitionName;
use stateway_proto::v1;
use tonic::Streaming;

/// A request that names what it is about.
pub(crate) trait Target {
    /// The name of the resource, as the caller wrote it; empty if the request names none.
    fn target(&self) -> Cow<'_, str>;

    /// The id that the caller chose for a new execution; empty if it chose none.
    fn execution_id(&self) -> &str {
        ""
    }

    /// The id of the provider that the resource belongs to, as the caller wrote it; none if the request names no
    /// provider, or several.
    fn provider(&self) -> Option<Box<str>> {
        provider_in(&self.target()).map(Into::into)
    }
}

/// The provider in the name of a resource.
fn provider_in(name: &str) -> Option<&str> {
    name.strip_prefix("providers/")?.split('/').next()
}

macro_rules! targets {
    ($( $request:ident => $field:ident, )+) => {
        $( impl Target for v1::$request {
            fn target(&self) -> Cow<'_, str> {
                Cow::Borrowed(&self.$field)
            }
        } )+
    };
}

targets! {
    GetApprovalRequest => name,
    DecideApprovalRequest => name,
    GetEscalationRequest => name,
    ResolveEscalationRequest => name,
    GetDefinitionRequest => name,
    DeleteDefinitionRequest => name,
    MigrateDefinitionRequest => name,
    GetExecutionRequest => name,
    WaitExecutionRequest => name,
    GetStepRequest => name,
    ReadPayloadRequest => name,
    ExplainExecutionRequest => name,
    SignalExecutionRequest => name,
    CancelExecutionRequest => name,
    PauseExecutionRequest => name,
    ResumeExecutionRequest => name,
    RetryNowRequest => name,
    RetryFromRequest => name,
    AdoptDefinitionRequest => name,
    ProjectExecutionRequest => name,
    PurgeExecutionRequest => name,
    GetProviderRequest => name,
    VerifyExecutionRequest => name,
    RecoverExecutionRequest => name,
    ReplayExecutionRequest => name,
    ExportHistoryRequest => name,
    DisableTriggerRequest => name,
    EnableTriggerRequest => name,
    GetQueueRequest => name,
    PurgeExecutionsRequest => parent,
    ListApprovalsRequest => parent,
    WatchApprovalsRequest => parent,
    ListEscalationsRequest => parent,
    ListDefinitionsRequest => parent,
    ListExecutionsRequest => parent,
    CountExecutionsRequest => parent,
    ListEventsRequest => parent,
    VerifyExecutionsRequest => parent,
    ListBranchesRequest => parent,
    ListWorkersRequest => parent,
    BackupStoreRequest => provider,
    PublishEventRequest => event,
}

/// A watch of single executions names them instead of a parent.
impl Target for v1::WatchExecutionsRequest {
    fn target(&self) -> Cow<'_, str> {
        if self.names.is_empty() {
            Cow::Borrowed(&self.parent)
        } else {
            Cow::Owned(self.names.join(", "))
        }
    }

    fn provider(&self) -> Option<Box<str>> {
        let first = self.names.first().unwrap_or(&self.parent);
        let first = provider_in(first)?;
        let mut names = self.names.iter();
        let is_only = names.all(|name| provider_in(name) == Some(first));
        is_only.then(|| first.into())
    }
}

impl Target for v1::StartExecutionRequest {
    fn target(&self) -> Cow<'_, str> {
        Cow::Borrowed(&self.definition)
    }

    fn execution_id(&self) -> &str {
        &self.execution_id
    }
}

/// The name of a portable definition is in its source. A file name says nothing about what was changed.
impl Target for v1::ApplyDefinitionRequest {
    fn target(&self) -> Cow<'_, str> {
        if self.parent.is_empty() {
            Cow::Owned(portable_name(&self.source).unwrap_or_default())
        } else {
            Cow::Owned(format!(
                "{}/definitions/{}",
                self.parent, self.definition_id
            ))
        }
    }

    fn provider(&self) -> Option<Box<str>> {
        provider_in(&self.parent).map(Into::into)
    }
}

impl Target for v1::ValidateDefinitionRequest {
    fn target(&self) -> Cow<'_, str> {
        Cow::Owned(portable_name(&self.source).unwrap_or_default())
    }

    fn provider(&self) -> Option<Box<str>> {
        None
    }
}

/// The full name of a portable definition; none if the source has errors.
fn portable_name(source: &str) -> Option<String> {
    let parsed = stateway_definition::parse(source, "").ok()?;
    let name = parsed.definition.name.as_deref()?;
    Some(DefinitionName::portable(name).ok()?.to_string())
}

impl Target for v1::ListProvidersRequest {
    fn target(&self) -> Cow<'_, str> {
        Cow::Borrowed("")
    }
}

/// The offer of a worker comes later. The answer names the worker.
impl Target for Streaming<v1::StreamTasksRequest> {
    fn target(&self) -> Cow<'_, str> {
        Cow::Borrowed("")
    }
}

#[cfg(test)]
impl Target for () {
    fn target(&self) -> Cow<'_, str> {
        Cow::Borrowed("")
    }
}

/// How the names of methods begin that change nothing.
const READS: &[&str] = &[
    "Count", "Explain", "Export", "Get", "List", "Project", "Read", "Replay", "Validate", "Verify",
    "Wait", "Watch",
];

/// Whether a method changes anything. One that is not known to change nothing does.
pub(super) fn is_mutation(method: &str) -> bool {
    !READS.iter().any(|read| method.starts_with(read))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::descriptor::API;

    #[test]
    fn a_watch_of_executions_is_about_their_names() {
        let mut watch = v1::WatchExecutionsRequest {
            parent: "providers/b".into(),
            ..Default::default()
        };
        assert_eq!(watch.target(), "providers/b");
        watch.parent.clear();
        watch.names = ["1", "2"]
            .map(|id| format!("providers/b/executions/{id}"))
            .into();
        assert_eq!(
            watch.target(),
            "providers/b/executions/1, providers/b/executions/2"
        );
    }

    #[test]
    fn the_provider_of_a_request_is_the_only_one_that_it_names() {
        let provider = |name: &str| {
            let request = v1::GetExecutionRequest {
                name: name.into(),
                ..Default::default()
            };
            request.provider()
        };
        assert_eq!(provider("providers/b/executions/1").as_deref(), Some("b"));
        assert_eq!(provider("definitions/order"), None);
        let watch = |names: &[&str]| {
            let request = v1::WatchExecutionsRequest {
                names: names.iter().map(ToString::to_string).collect(),
                ..Default::default()
            };
            request.provider()
        };
        let (b, c) = ("providers/b/executions/1", "providers/c/executions/1");
        assert_eq!(watch(&[b, b]).as_deref(), Some("b"));
        assert_eq!(watch(&[b, c]), None);
        assert_eq!(watch(&[]), None);
    }

    #[test]
    fn every_method_is_known_as_a_mutation_or_as_a_read() {
        let mutations = [
            "AdoptDefinition",
            "ApplyDefinition",
            "BackupStore",
            "CancelExecution",
            "DecideApproval",
            "DeleteDefinition",
            "DisableTrigger",
            "EnableTrigger",
            "MigrateDefinition",
            "PauseExecution",
            "PublishEvent",
            "PurgeExecution",
            "PurgeExecutions",
            "RecoverExecution",
            "ResolveEscalation",
            "ResumeExecution",
            "RetryFrom",
            "RetryNow",
            "SignalExecution",
            "StartExecution",
            "StreamTasks",
        ];
        let reads = [
            "CountExecutions",
            "ExplainExecution",
            "ExportHistory",
            "GetApproval",
            "GetDefinition",
            "GetEscalation",
            "GetExecution",
            "GetProvider",
            "GetQueue",
            "GetStep",
            "ListApprovals",
            "ListBranches",
            "ListDefinitions",
            "ListEscalations",
            "ListEvents",
            "ListExecutions",
            "ListProviders",
            "ListWorkers",
            "ProjectExecution",
            "ReadPayload",
            "ReplayExecution",
            "ValidateDefinition",
            "VerifyExecution",
            "VerifyExecutions",
            "WaitExecution",
            "WatchApprovals",
            "WatchExecutions",
        ];
        for method in API.methods() {
            assert_eq!(is_mutation(method), mutations.contains(&method), "{method}");
            assert_eq!(!is_mutation(method), reads.contains(&method), "{method}");
        }
    }
}
