//! Refusals as the server words them.

use std::time::Duration;

use prost::Message;
use tonic::{Code, Status};

/// `google.rpc.Status`.
#[derive(Clone, PartialEq, Message)]
struct RpcStatus {
    #[prost(int32, tag = "1")]
    code: i32,
    #[prost(string, tag = "2")]
    message: String,
    #[prost(message, repeated, tag = "3")]
    details: Vec<prost_types::Any>,
}

/// `google.rpc.RetryInfo`.
#[derive(Clone, PartialEq, Message)]
struct RetryInfo {
    #[prost(message, optional, tag = "1")]
    retry_delay: Option<prost_types::Duration>,
}

fn with_detail(code: Code, message: &str, name: &str, detail: Vec<u8>) -> Status {
    let status = RpcStatus {
        code: code as i32,
        message: message.to_owned(),
        details: vec![prost_types::Any {
            type_url: format!("type.googleapis.com/{name}"),
            value: detail,
        }],
    };
    Status::with_details(code, message, status.encode_to_vec().into())
}

/// The limit of requests is reached, and this pause helps.
pub(crate) fn exhausted(pause: Duration) -> Status {
    let detail = RetryInfo {
        retry_delay: pause.try_into().ok(),
    };
    let mut status = with_detail(
        Code::ResourceExhausted,
        "namespace rate limit exceeded",
        "google.rpc.RetryInfo",
        detail.encode_to_vec(),
    );
    let metadata = status.metadata_mut();
    metadata.insert("x-resource-exhausted-cause", "RpsLimit".parse().unwrap());
    metadata.insert("x-resource-exhausted-scope", "Namespace".parse().unwrap());
    status
}

/// The limit of this name is reached; the server names no pause.
pub(crate) fn exhausted_by(cause: &'static str) -> Status {
    let mut status = Status::resource_exhausted("a limit is reached");
    let metadata = status.metadata_mut();
    metadata.insert("x-resource-exhausted-cause", cause.parse().unwrap());
    metadata.insert("x-resource-exhausted-scope", "Namespace".parse().unwrap());
    status
}

fn not_found(message: &str) -> Status {
    let name = "temporal.api.errordetails.v1.NotFoundFailure";
    with_detail(Code::NotFound, message, name, Vec::new())
}

pub(crate) fn unknown(id: &str) -> Status {
    not_found(&format!("workflow not found for ID: {id}"))
}

/// The same code and detail as for an unknown id: only the text differs.
pub(crate) fn completed() -> Status {
    not_found("workflow execution already completed")
}

/// The workflow id belongs to another chain of runs now.
pub(crate) fn another_chain() -> Status {
    not_found("workflow execution not found")
}

pub(crate) fn already_started(request_id: &str, run_id: &str) -> Status {
    use stateway_provider_temporal::api::errordetails::v1::WorkflowExecutionAlreadyStartedFailure;
    let detail = WorkflowExecutionAlreadyStartedFailure {
        start_request_id: request_id.to_owned(),
        run_id: run_id.to_owned(),
        first_execution_run_id: run_id.to_owned(),
    };
    with_detail(
        Code::AlreadyExists,
        "Workflow execution is already running.",
        "temporal.api.errordetails.v1.WorkflowExecutionAlreadyStartedFailure",
        detail.encode_to_vec(),
    )
}
