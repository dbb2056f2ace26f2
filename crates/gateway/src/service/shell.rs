//! Around every method: its deadline, its correlation id, its figures and its log line.

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use metrics::{Counter, Histogram, counter, histogram};
use stateway_provider_api::Call;
use tonic::metadata::{AsciiMetadataValue, MetadataMap};
use tonic::{Code, Request, Response, Status};
use tracing::Instrument;

use crate::caller::{self, Caller};
use crate::deadline;

/// The header that carries the correlation id, in both directions.
const REQUEST_ID: &str = "x-request-id";
const LONGEST_REQUEST_ID: usize = 128;

/// What every method is wrapped in.
pub(crate) struct Shell {
    default_deadline: Duration,
    longest_deadline: Duration,
    meters: HashMap<&'static str, MethodMeter>,
    process: u32,
    calls: AtomicU64,
}

struct MethodMeter {
    ok: Counter,
    seconds: Histogram,
}

/// Every method, so that its figures exist from the start and cost no look-up later.
const METHODS: &[&str] = &[
    "StartExecution",
    "GetExecution",
    "ListExecutions",
    "WatchExecutions",
    "WaitExecution",
    "ListEvents",
    "ExplainState",
    "SignalExecution",
    "CancelExecution",
    "PauseExecution",
    "ResumeExecution",
    "RetryNow",
    "RetryFrom",
    "ProjectExecution",
    "ApplyDefinition",
    "GetDefinition",
    "ListDefinitions",
    "ValidateDefinition",
    "ListApprovals",
    "GetApproval",
    "DecideApproval",
    "ListEscalations",
    "GetEscalation",
    "ResolveEscalation",
    "Work",
    "ListWorkers",
    "GetQueue",
    "PurgeExecutions",
    "Backup",
    "PublishEvent",
    "PurgeExecution",
    "VerifyExecution",
    "VerifyExecutions",
    "RecoverExecution",
    "ReplayExecution",
    "ListBranches",
    "ExportHistory",
    "ListProviders",
    "GetProvider",
];

impl Shell {
    pub(crate) fn new(default_deadline: Duration, longest_deadline: Duration) -> Self {
        let meter = |method: &&'static str| {
            let ok = counter!("stateway_requests_total", "method" => *method, "code" => "OK");
            let seconds = histogram!("stateway_request_seconds", "method" => *method);
            (*method, MethodMeter { ok, seconds })
        };
        let meters = METHODS.iter().map(meter).collect();
        let process = uuid::Uuid::new_v4().as_fields().0;
        Self {
            default_deadline,
            longest_deadline,
            meters,
            process,
            calls: AtomicU64::new(0),
        }
    }

    /// Does a method's work within its deadline, and counts and logs it.
    pub(crate) async fn run<M, R, F>(
        &self,
        method: &'static str,
        request: Request<M>,
        work: impl FnOnce(Call, M) -> F,
    ) -> Result<Response<R>, Status>
    where
        F: Future<Output = Result<R, Status>> + Send,
    {
        let began = Instant::now();
        let (metadata, _, message) = request.into_parts();
        let budget = deadline::budget(&metadata, self.default_deadline, self.longest_deadline);
        let sent = sent_id(&metadata);
        let correlation = sent.clone().unwrap_or_else(|| self.next_id());
        let span = tracing::info_span!("rpc", method, request_id = %correlation);
        let outcome = match caller::of(&metadata) {
            Ok(Caller { actor, roles }) => {
                let call = Call {
                    deadline: began + budget,
                    correlation_id: correlation.clone(),
                    actor,
                    roles,
                };
                work(call, message).instrument(span.clone()).await
            }
            Err(refused) => Err(refused.into()),
        };
        self.account(method, &outcome, began.elapsed(), &span);
        match outcome {
            Ok(answer) => {
                let mut response = Response::new(answer);
                // Without an id of its own the client has no use for ours, unless it failed.
                if let Some(sent) = sent {
                    echo(response.metadata_mut(), &sent);
                }
                Ok(response)
            }
            Err(mut status) => {
                echo(status.metadata_mut(), &correlation);
                Err(status)
            }
        }
    }

    /// A new correlation id: unique to this process by a random part, within it by a count.
    fn next_id(&self) -> Arc<str> {
        let number = self.calls.fetch_add(1, Ordering::Relaxed);
        format!("{:08x}-{number:x}", self.process).into()
    }

    fn account<R>(
        &self,
        method: &'static str,
        outcome: &Result<R, Status>,
        took: Duration,
        span: &tracing::Span,
    ) {
        if let Some(meter) = self.meters.get(method) {
            meter.seconds.record(took);
            if outcome.is_ok() {
                meter.ok.increment(1);
            }
        }
        let Err(status) = outcome else { return };
        let code = code_name(status.code());
        counter!("stateway_requests_total", "method" => method, "code" => code).increment(1);
        let _entered = span.enter();
        let message = status.message();
        if status.code() == Code::Internal {
            tracing::error!(code, took_ms = took.as_millis(), "call failed: {message}");
        } else {
            tracing::debug!(code, took_ms = took.as_millis(), "call refused: {message}");
        }
    }
}

/// The client's own correlation id, if it sent a usable one.
fn sent_id(metadata: &MetadataMap) -> Option<Arc<str>> {
    let sent = metadata.get(REQUEST_ID)?.to_str().ok()?;
    let usable = (1..=LONGEST_REQUEST_ID).contains(&sent.len())
        && sent.bytes().all(|byte| byte.is_ascii_graphic());
    usable.then(|| sent.into())
}

fn echo(metadata: &mut MetadataMap, id: &str) {
    if let Ok(id) = AsciiMetadataValue::try_from(id) {
        metadata.insert(REQUEST_ID, id);
    }
}

/// The code as gRPC documents spell it.
const fn code_name(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "CANCELLED",
        Code::Unknown => "UNKNOWN",
        Code::InvalidArgument => "INVALID_ARGUMENT",
        Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
        Code::NotFound => "NOT_FOUND",
        Code::AlreadyExists => "ALREADY_EXISTS",
        Code::PermissionDenied => "PERMISSION_DENIED",
        Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
        Code::FailedPrecondition => "FAILED_PRECONDITION",
        Code::Aborted => "ABORTED",
        Code::OutOfRange => "OUT_OF_RANGE",
        Code::Unimplemented => "UNIMPLEMENTED",
        Code::Internal => "INTERNAL",
        Code::Unavailable => "UNAVAILABLE",
        Code::DataLoss => "DATA_LOSS",
        Code::Unauthenticated => "UNAUTHENTICATED",
    }
}
