//! Around every method: its deadline, its correlation id, its figures and its log line.

use std::any::Any;
use std::collections::HashMap;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use axum::http::{Extensions, HeaderName};
use futures::Stream;
use metrics::{Counter, Histogram, counter, histogram};
use stateway_access::Decision;
use stateway_identity::{Identity, ProofError};
use stateway_proto::v1;
use stateway_provider_api::Call;
use tonic::metadata::{AsciiMetadataValue, MetadataMap};
use tonic::{Code, Request, Response, Status};
use tracing::Instrument;

use super::oversize;
use crate::access::{self, Access, AccessControl, ApiCall, permission_of};
use crate::audit::{Note, Target};
use crate::authentication::Unauthenticated;
use crate::caller::{self, Caller};
use crate::deadline::{self, Budget};
use crate::descriptor::API;
use crate::status::{Refusal, code_name};

/// The header that carries the correlation id, in both directions.
const REQUEST_ID: &str = "x-request-id";
const REQUEST_ID_HEADER: HeaderName = HeaderName::from_static(REQUEST_ID);
const LONGEST_REQUEST_ID: usize = 128;
/// The longest correlation id that the gateway makes.
const LONGEST_OWN_ID: usize = 8 + 1 + 16;

/// What every method is wrapped in.
pub(crate) struct Shell {
    limits: ShellLimits,
    /// None if callers prove nothing: everything is allowed then.
    access: Option<Arc<AccessControl>>,
    meters: HashMap<&'static str, MethodMeter>,
    process: u32,
    calls: AtomicU64,
}

/// Limits of every call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ShellLimits {
    /// For calls without a deadline.
    pub(crate) default_deadline: Duration,
    /// No call may ask for more.
    pub(crate) max_deadline: Duration,
    /// The largest message.
    pub(crate) max_message_bytes: usize,
}

struct MethodMeter {
    ok: Counter,
    seconds: Histogram,
}

impl Shell {
    pub(crate) fn new(limits: ShellLimits, access: Option<Arc<AccessControl>>) -> Self {
        // Every method of the API, so that its figures exist from the start and cost no look-up later.
        let meter = |method: &'static str| {
            let ok = counter!("stateway_requests_total", "method" => method, "code" => "OK");
            let seconds = histogram!("stateway_request_seconds", "method" => method);
            (method, MethodMeter { ok, seconds })
        };
        let process = uuid::Uuid::new_v4().as_fields().0;
        Self {
            limits,
            access,
            meters: API.methods().map(meter).collect(),
            process,
            calls: AtomicU64::new(0),
        }
    }

    /// Does a method's work within its deadline, and counts and logs it. The answer fits into one
    /// message or is refused.
    pub(crate) async fn run<M, R, F>(
        &self,
        method: &'static str,
        request: Request<M>,
        work: impl FnOnce(ApiCall, M) -> F,
    ) -> Result<Response<R>, Status>
    where
        M: Target,
        R: prost::Message + 'static,
        F: Future<Output = Result<R, Status>> + Send,
    {
        let most = self.limits.max_message_bytes;
        let answered = self.open(method, request, |call, message| {
            let work = work(call, message);
            // In a box, because it passes through several futures and some answers are large.
            async move { oversize::fitting(method, most, Box::new(work.await?)) }
        });
        answered
            .await
            .map(|response| response.map(|answer| *answer))
    }

    /// Opens a stream within the deadline of its call, and counts and logs the opening. Each message
    /// goes through [`Shell::stream`].
    pub(crate) async fn open<M, R, F>(
        &self,
        method: &'static str,
        request: Request<M>,
        work: impl FnOnce(ApiCall, M) -> F,
    ) -> Result<Response<R>, Status>
    where
        M: Target,
        R: Any,
        F: Future<Output = Result<R, Status>> + Send,
    {
        let began = Instant::now();
        let (metadata, extensions, message) = request.into_parts();
        let limits = &self.limits;
        let budget = Budget::of(&metadata, limits.default_deadline, limits.max_deadline);
        let sent = sent_id(&metadata);
        let correlation = sent.clone().unwrap_or_else(|| self.next_id());
        let permission = permission_of(method);
        let note = Note::of(&extensions);
        if let Some(note) = &note {
            note.asked(&correlation, &message.target());
            note.chose(message.execution_id());
            if let Some(permission) = permission.filter(|_| self.access.is_some()) {
                note.needs(permission);
            }
        }
        let provider = self.access.as_ref().and_then(|_| message.provider());
        let span = tracing::info_span!("rpc", method, request_id = %correlation);
        let account = Account {
            shell: self,
            method,
            began,
            span: &span,
            is_closed: false,
        };
        let asked = caller::of(&extensions, &metadata).and_then(|Caller { actor, roles }| {
            if let Some(note) = &note {
                note.named(&actor, &roles);
            }
            let call = Call {
                deadline: began + budget.work,
                correlation_id: correlation.clone(),
                actor,
                roles,
            };
            Ok(ApiCall::new(call, self.access(&extensions)?))
        });
        // The decisions about the call, for the audit log.
        let access = asked.as_ref().ok().map(|call| call.access.clone());
        let entered = asked.and_then(|call| call.enter(method, permission).map(|()| call));
        let outcome = match entered {
            Ok(call) => {
                let work = pin!(work(call, message).instrument(span.clone()));
                let worked = deadline::until(began + budget.all, work).await;
                worked.unwrap_or_else(|_| Err(out_of_time(method)))
            }
            Err(refused) => Err(refused),
        };
        account.close(&outcome);
        let failed = outcome.as_ref().err().map(Status::code);
        let decision = access.and_then(|it| it.decision(failed, permission, provider.as_deref()));
        let is_denied = decision.as_ref().is_some_and(|it| !it.allowed);
        if let Some(decision) = decision.as_ref().filter(|_| is_denied) {
            count_denial(method, decision);
        }
        if let Some(note) = &note {
            if let Some(decision) = &decision {
                note.decided(decision);
            }
            if let Ok(answer) = &outcome {
                note.answered(answer);
            }
        }
        if is_denied && failed == Some(Code::NotFound) {
            access::not_found_pause(began.elapsed()).await;
        }
        match outcome {
            Ok(answer) => {
                let mut response = Response::new(answer);
                // A client that sent no id needs ours only if the call failed.
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

    /// What the sender of a request may do.
    fn access(&self, extensions: &Extensions) -> Result<Access, Status> {
        let Some(control) = &self.access else {
            return Ok(Access::Open);
        };
        match extensions.get::<Arc<Identity>>() {
            Some(identity) => Ok(Access::ruled(control, identity)),
            None => Err(Unauthenticated::from(ProofError::Missing).status()),
        }
    }

    /// An execution that replaces the answer of a call, if it fits into one message.
    pub(crate) fn fitting_execution(
        &self,
        method: &str,
        execution: v1::Execution,
    ) -> Result<v1::Execution, Status> {
        oversize::fitting_execution(method, self.limits.max_message_bytes, execution)
    }

    /// The messages of a stream; it ends with an error at the first one that does not fit.
    pub(crate) fn stream<M: prost::Message, S: Stream<Item = Result<M, Status>>>(
        &self,
        method: &'static str,
        messages: S,
    ) -> impl Stream<Item = Result<M, Status>> + use<M, S> {
        oversize::fitting_stream(method, self.limits.max_message_bytes, messages)
    }

    /// A new correlation id: unique to this process by a random part, within it by a count.
    fn next_id(&self) -> Arc<str> {
        let number = self.calls.fetch_add(1, Ordering::Relaxed);
        let mut text = [0; LONGEST_OWN_ID];
        let mut at = LONGEST_OWN_ID;
        let mut write = |digit: u8| {
            at -= 1;
            text[at] = digit;
        };
        // From the end: the count without leading zeros, a dash, all digits of the process.
        let digits = u64::BITS - number.leading_zeros();
        for shift in (0..digits.max(1)).step_by(4) {
            write(hex_digit(number >> shift));
        }
        write(b'-');
        for shift in (0..u32::BITS).step_by(4) {
            write(hex_digit(u64::from(self.process) >> shift));
        }
        str::from_utf8(&text[at..]).unwrap_or_default().into()
    }
}

/// The last hexadecimal digit of a number.
fn hex_digit(number: u64) -> u8 {
    b"0123456789abcdef"[(number & 0xf) as usize]
}

/// One call that is under way. A client that gives up drops the call in the middle of its work: then
/// it is counted and logged as cancelled.
struct Account<'s> {
    shell: &'s Shell,
    method: &'static str,
    began: Instant,
    span: &'s tracing::Span,
    is_closed: bool,
}

impl Account<'_> {
    fn close<R>(mut self, outcome: &Result<R, Status>) {
        self.is_closed = true;
        let refusal = outcome.as_ref().err();
        self.note(refusal.map(|status| (status.code(), status.message())));
    }

    fn note(&self, refusal: Option<(Code, &str)>) {
        let (method, took) = (self.method, self.began.elapsed());
        let meter = self.shell.meters.get(method);
        debug_assert!(meter.is_some(), "`{method}` is not a method of the API");
        if let Some(meter) = meter {
            meter.seconds.record(took);
            if refusal.is_none() {
                meter.ok.increment(1);
            }
        }
        let Some((code, message)) = refusal else {
            return;
        };
        let (name, took_ms) = (code_name(code), took.as_millis());
        counter!("stateway_requests_total", "method" => method, "code" => name).increment(1);
        let _entered = self.span.enter();
        if code == Code::Internal {
            tracing::error!(code = name, took_ms, "call failed: {message}");
        } else {
            tracing::debug!(code = name, took_ms, "call refused: {message}");
        }
    }
}

impl Drop for Account<'_> {
    fn drop(&mut self) {
        if !self.is_closed {
            self.note(Some((Code::Cancelled, "the client cancelled the call")));
        }
    }
}

/// Counts a call that the access rules have denied.
fn count_denial(method: &'static str, decision: &Decision) {
    let permission = decision.permission.as_str();
    counter!("stateway_access_denials_total", "method" => method, "permission" => permission)
        .increment(1);
}

fn out_of_time(method: &str) -> Status {
    let message = format!("{method} took longer than its deadline");
    Refusal::new(Code::DeadlineExceeded, "DEADLINE_EXCEEDED", message)
        .hint("Use a longer deadline. A change may have taken effect: read the resource before you repeat the call.")
        .into()
}

/// The client's own correlation id, if it sent a usable one.
fn sent_id(metadata: &MetadataMap) -> Option<Arc<str>> {
    let sent = metadata.as_ref().get(REQUEST_ID_HEADER)?.to_str().ok()?;
    let usable = (1..=LONGEST_REQUEST_ID).contains(&sent.len())
        && sent.bytes().all(|byte| byte.is_ascii_graphic());
    usable.then(|| sent.into())
}

fn echo(metadata: &mut MetadataMap, id: &str) {
    if let Ok(id) = AsciiMetadataValue::try_from(id) {
        metadata.insert(REQUEST_ID, id);
    }
}

#[cfg(test)]
mod tests {
    use metrics_exporter_prometheus::PrometheusBuilder;

    use super::*;

    const LIMITS: ShellLimits = ShellLimits {
        default_deadline: Duration::from_secs(30),
        max_deadline: Duration::from_secs(60),
        max_message_bytes: 1_000,
    };

    /// The lines of the metrics page after some calls.
    fn figures(calls: impl AsyncFnOnce(Shell)) -> String {
        let recorder = PrometheusBuilder::new().build_recorder();
        let page = recorder.handle();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        metrics::with_local_recorder(&recorder, || {
            runtime.block_on(calls(Shell::new(LIMITS, None)));
        });
        page.render()
    }

    #[test]
    fn every_method_of_the_api_has_its_figures_from_the_start() {
        let page = figures(async |_| ());
        for method in API.methods() {
            let line = format!("stateway_requests_total{{method=\"{method}\",code=\"OK\"}} 0");
            assert!(page.contains(&line), "{line}");
        }
    }

    #[test]
    fn a_correlation_id_is_the_process_and_a_count() {
        figures(async |mut shell| {
            shell.process = 0x0000_beef;
            assert_eq!(&*shell.next_id(), "0000beef-0");
            assert_eq!(&*shell.next_id(), "0000beef-1");
            shell.calls = AtomicU64::new(0x1f0);
            assert_eq!(&*shell.next_id(), "0000beef-1f0");
            shell.calls = AtomicU64::new(u64::MAX);
            assert_eq!(&*shell.next_id(), "0000beef-ffffffffffffffff");
        });
    }

    #[test]
    fn a_call_that_its_client_gives_up_is_counted() {
        let page = figures(async |shell| {
            let never = |_, ()| std::future::pending::<Result<(), Status>>();
            let call = shell.run("GetExecution", Request::new(()), never);
            let given_up = tokio::time::timeout(Duration::from_secs(1), call).await;
            assert!(given_up.is_err());
        });
        let line = "stateway_requests_total{method=\"GetExecution\",code=\"CANCELLED\"} 1";
        assert!(page.contains(line), "{page}");
        assert!(page.contains("stateway_request_seconds_count{method=\"GetExecution\"} 1"));
    }

    #[test]
    fn a_call_beyond_its_deadline_ends_and_is_counted() {
        let page = figures(async |shell| {
            let mut request = Request::new(());
            let timeout = "2S".parse().unwrap();
            request.metadata_mut().insert("grpc-timeout", timeout);
            let never = |_, ()| std::future::pending::<Result<(), Status>>();
            let began = tokio::time::Instant::now();
            let late = shell.run("GetExecution", request, never).await.unwrap_err();
            assert_eq!(late.code(), Code::DeadlineExceeded);
            assert_eq!(began.elapsed().as_secs(), 2);
        });
        let line = "stateway_requests_total{method=\"GetExecution\",code=\"DEADLINE_EXCEEDED\"} 1";
        assert!(page.contains(line), "{page}");
    }
}
