//! Services whose backing is not in this build. They say so; none pretends.

use futures::stream::BoxStream;
use stateway_proto::v1;
use tonic::{Request, Response, Status, Streaming};

use crate::status::Refusal;

/// Stands in for every service that has nothing behind it.
pub(crate) struct Unbacked;

fn refused<T>(what: &str) -> Result<T, Status> {
    Err(Refusal::unsupported(what).into())
}

/// A method that only refuses.
macro_rules! refusing {
    ($( $method:ident($request:ty) -> $answer:ty, $what:literal; )+) => {
        $(
            fn $method<'life0, 'async_trait>(
                &'life0 self,
                _: Request<$request>,
            ) -> std::pin::Pin<Box<
                dyn Future<Output = Result<Response<$answer>, Status>> + Send + 'async_trait,
            >>
            where
                'life0: 'async_trait,
                Self: 'async_trait,
            {
                Box::pin(std::future::ready(refused($what)))
            }
        )+
    };
}

impl v1::definitions_server::Definitions for Unbacked {
    refusing! {
        apply_definition(v1::ApplyDefinitionRequest) -> v1::Definition, "portable definitions";
        get_definition(v1::GetDefinitionRequest) -> v1::Definition, "portable definitions";
        list_definitions(v1::ListDefinitionsRequest) -> v1::ListDefinitionsResponse,
            "portable definitions";
        validate_definition(v1::ValidateDefinitionRequest) -> v1::ValidateDefinitionResponse,
            "portable definitions";
    }
}

impl v1::approvals_server::Approvals for Unbacked {
    refusing! {
        list_approvals(v1::ListApprovalsRequest) -> v1::ListApprovalsResponse, "approvals";
        get_approval(v1::GetApprovalRequest) -> v1::Approval, "approvals";
        decide_approval(v1::DecideApprovalRequest) -> v1::Approval, "approvals";
        list_escalations(v1::ListEscalationsRequest) -> v1::ListEscalationsResponse, "escalations";
        resolve_escalation(v1::ResolveEscalationRequest) -> v1::Escalation, "escalations";
    }
}

impl v1::workers_server::Workers for Unbacked {
    type WorkStream = BoxStream<'static, Result<v1::WorkResponse, Status>>;

    refusing! {
        work(Streaming<v1::WorkRequest>) -> Self::WorkStream, "tasks for workers";
    }
}

impl v1::recovery_server::Recovery for Unbacked {
    refusing! {
        verify_execution(v1::VerifyExecutionRequest) -> v1::VerifyExecutionResponse, "recovery";
        recover_execution(v1::RecoverExecutionRequest) -> v1::RecoverExecutionResponse, "recovery";
        replay_execution(v1::ReplayExecutionRequest) -> v1::ReplayExecutionResponse, "replay";
        list_branches(v1::ListBranchesRequest) -> v1::ListBranchesResponse, "branches";
    }
}
