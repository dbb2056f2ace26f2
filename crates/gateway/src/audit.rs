//! The audit log: one record per mutation and per refusal, written and synced before the caller hears of it.
//!
//! `stateway-audit` has the form of a record and the hash chain; this is the shell around it. `Auditor` is
//! asked at two places: around every method of the API ([`Auditor::around`]) and where a request is refused
//! before it reaches one ([`Auditor::refused`]). A thread writes the files ([`writer`]), so that records that
//! wait at the same time share one sync.
//!
//! A mutation is admitted only if there is space on the disk for its record. So a disk that is full refuses
//! mutations before they happen.

mod disk;
mod files;
mod log;
mod note;
mod refusals;
mod settings;
mod target;
mod webhook;
mod writer;

use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use axum::http::{Request, Response};
use jiff::Timestamp;
use metrics::counter;
use stateway_audit::{ChainKey, Record, SUPPRESSED};
use stateway_identity::Identity;
use thiserror::Error;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;
use tonic::body::Body;
use tonic::{Code, Status};

use files::LogFiles;
pub use log::{AuditLine, AuditLog, LineEnd};
pub(crate) use note::Note;
use refusals::Refusals;
pub use settings::{AuditSettings, AuditWebhook, OnFailure};
pub(crate) use target::Target;
use webhook::Webhook;
use writer::{Admission, Ask, Entry, NotWritten, Shared, Written};

use crate::descriptor::API;
use crate::front::{Peer, VisitorAddress, outcome_of};
use crate::status::{Refusal, code_name};

/// How long a record may take to be written. A disk that hangs is a disk that fails.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long a caller should pause while records cannot be written.
const PAUSE: Duration = Duration::from_secs(5);

/// The package whose methods are recorded.
const PACKAGE: &str = "/stateway.v1.";

/// The verb of a record about a path that is not one of the API.
const PAGE: &str = "page";
/// The verb of a record about a method that does not exist. Its name is a text of the caller.
const UNKNOWN: &str = "unknown";

/// An audit log that cannot be used.
#[derive(Debug, Error)]
pub enum AuditError {
    /// The log itself.
    #[error("`audit.file` ({}) cannot be used: {why}", file.display())]
    File {
        /// Which file.
        file: std::path::PathBuf,
        /// Why.
        why: String,
    },
    /// A file with a secret.
    #[error("`audit.{key}` ({}) cannot be used: {why}", file.display())]
    Secret {
        /// The key in the configuration.
        key: &'static str,
        /// Which file.
        file: std::path::PathBuf,
        /// Why. Never the secret.
        why: String,
    },
    /// The address of the receiver.
    #[error("`audit.webhook.url` cannot be used: {0}")]
    Url(String),
}

/// Writes the audit log.
pub(crate) struct Auditor {
    asks: Mutex<Option<mpsc::UnboundedSender<Ask>>>,
    shared: Arc<Shared>,
    on_failure: OnFailure,
    refusals: Refusals,
    thread: Mutex<Option<JoinHandle<()>>>,
    webhook: Mutex<Option<Webhook>>,
}

impl std::fmt::Debug for Auditor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Auditor").finish_non_exhaustive()
    }
}

impl Auditor {
    /// Opens the log and starts its thread.
    pub(crate) fn open(settings: &AuditSettings) -> Result<Arc<Self>, AuditError> {
        let key = match &settings.key_file {
            None => ChainKey::default(),
            Some(file) => secret("key_file", file, |text| {
                ChainKey::new(text).map_err(|error| error.to_string())
            })?,
        };
        let files = LogFiles::open(settings, key.clone());
        let files = files.map_err(|error| AuditError::File {
            file: settings.file.clone(),
            why: error.to_string(),
        })?;
        let (committed, seen) = watch::channel(files.seq());
        let webhook = match &settings.webhook {
            None => None,
            Some(webhook) => {
                let mut webhook = Webhook::new(webhook, &settings.file, key, seen)?;
                webhook.check_position(files.seq());
                Some(webhook)
            }
        };
        Ok(Self::over(files, settings, committed, webhook))
    }

    /// Every reason why the log could not be opened. Changes nothing.
    pub(crate) fn check(settings: &AuditSettings) -> Vec<AuditError> {
        let mut found = Vec::new();
        let key = match &settings.key_file {
            None => Ok(ChainKey::default()),
            Some(file) => secret("key_file", file, |text| {
                ChainKey::new(text).map_err(|error| error.to_string())
            }),
        };
        let key = key.map_err(|error| found.push(error)).ok();
        if let Some(webhook) = &settings.webhook {
            let (_, seen) = watch::channel(0);
            let key = key.clone().unwrap_or_default();
            found.extend(Webhook::new(webhook, &settings.file, key, seen).err());
        }
        if let Err(error) = files::check(&settings.file, key.as_ref()) {
            found.push(AuditError::File {
                file: settings.file.clone(),
                why: error.to_string(),
            });
        }
        found
    }

    fn over(
        files: LogFiles,
        settings: &AuditSettings,
        committed: watch::Sender<u64>,
        webhook: Option<Webhook>,
    ) -> Arc<Self> {
        let (asks, asked) = mpsc::unbounded_channel();
        let shared = Shared::new();
        let of_thread = shared.clone();
        let thread = std::thread::Builder::new().name("audit".to_owned());
        let thread = thread.spawn(move || writer::run(files, &of_thread, asked, &committed));
        Arc::new(Self {
            asks: Mutex::new(Some(asks)),
            shared,
            on_failure: settings.on_failure,
            refusals: Refusals::new(settings.max_refusals),
            thread: Mutex::new(thread.ok()),
            webhook: Mutex::new(webhook),
        })
    }

    /// Sends records to the receiver until the gateway stops, if there is one.
    pub(crate) async fn deliver(self: Arc<Self>, stop: CancellationToken) {
        let webhook = lock(&self.webhook).take();
        if let Some(webhook) = webhook {
            webhook.run(stop).await;
        }
    }

    /// Writes everything that was recorded. Nothing is recorded after it.
    pub(crate) async fn close(&self) {
        if let Some(record) = self.refusals.rest() {
            self.submit(record, None, None);
        }
        drop(lock(&self.asks).take());
        let thread = lock(&self.thread).take();
        // Only a process that ends gives up such a task.
        let _ = tokio::task::spawn_blocking(move || thread.map(JoinHandle::join)).await;
    }

    /// Why records cannot be written, and what that means; none if they can.
    pub(crate) fn trouble(&self) -> Option<(&'static str, String)> {
        let why = self.shared.failure()?;
        let effect = match self.on_failure {
            OnFailure::Refuse => "audit records cannot be written: mutations are refused",
            OnFailure::Continue => "audit records cannot be written: mutations have no record",
        };
        Some((effect, why))
    }

    /// Serves a call, and records it if it is a mutation or was refused.
    pub(crate) async fn around<F>(
        self: Arc<Self>,
        mut request: Request<Body>,
        serve: impl FnOnce(Request<Body>) -> F,
    ) -> Response<Body>
    where
        F: Future<Output = Response<Body>>,
    {
        let path = request.uri().path();
        if !path.starts_with(PACKAGE) {
            return serve(request).await;
        }
        let is_mutation = method_of(path).is_none_or(target::is_mutation);
        let admission = if is_mutation {
            match self.admit().await {
                Ok(admission) => admission,
                Err(refused) => return refused.into_http(),
            }
        } else {
            None
        };
        let note = Arc::new(Note::default());
        let mut open = OpenRecord {
            record: Some(self.beginning(&request)),
            note: note.clone(),
            admission,
            is_mutation,
            auditor: &self,
        };
        request.extensions_mut().insert(note.clone());
        let mut served = pin!(serve(request));
        let response = tokio::select! {
            biased;
            response = served.as_mut() => response,
            // The answer to a start that waits may be an hour away.
            () = note.effect() => {
                if let Err(status) = open.close(Code::Ok, String::new()).await {
                    return status.into_http();
                }
                return served.await;
            }
        };
        let (code, reason) = outcome_of(response.headers());
        match open.close(code, reason).await {
            Ok(()) => response,
            Err(status) => status.into_http(),
        }
    }

    /// Records a request that was refused before it reached a method.
    pub(crate) fn refused<'a>(
        &'a self,
        request: &Request<Body>,
        code: Code,
        reason: &str,
    ) -> impl Future<Output = ()> + Send + use<'a> {
        let mut record = self.beginning(request);
        code_name(code).clone_into(&mut record.outcome);
        reason.clone_into(&mut record.reason);
        self.record_refusal(record)
    }

    /// The record of a stream, used if the gateway ends the stream.
    pub(crate) fn stream_refusal(self: Arc<Self>, request: &Request<Body>) -> StreamRefusal {
        StreamRefusal {
            record: self.beginning(request),
            auditor: self,
        }
    }

    /// What is known of a request before it is served.
    fn beginning(&self, request: &Request<Body>) -> Record {
        let path = request.uri().path();
        let (verb, object) = match method_of(path) {
            Some(method) => (method, ""),
            None if path.starts_with(PACKAGE) => (UNKNOWN, path),
            None => (PAGE, path),
        };
        let mut record = Record {
            verb: verb.to_owned(),
            object: object.to_owned(),
            ..Record::default()
        };
        let visitor = request.extensions().get::<VisitorAddress>();
        let peer = Peer::of(request.extensions()).map(|Peer(address)| address);
        if let Some(address) = peer.or(visitor.map(|VisitorAddress(address)| *address)) {
            record.address = address.to_string();
        }
        if let Some(identity) = request.extensions().get::<Arc<Identity>>() {
            identity.method.as_str().clone_into(&mut record.proof);
            record.actor = identity.subject.to_string();
            record.roles = identity.roles.iter().map(ToString::to_string).collect();
            record.tenant = identity.tenant.as_deref().unwrap_or_default().to_owned();
        }
        record
    }

    /// Space for the record of one mutation. None if mutations need no record now.
    async fn admit(&self) -> Result<Option<Admission>, Status> {
        // Another mutation may take the space that this one has reserved.
        for _ in 0..3 {
            if let Some(admission) = self.shared.admit() {
                return Ok(Some(admission));
            }
            let (answer, reserved) = oneshot::channel();
            self.ask(Ask::Reserve(answer));
            if let Err(NotWritten(why)) = answered(reserved).await {
                return match self.on_failure {
                    OnFailure::Refuse => Err(unavailable(&why)),
                    OnFailure::Continue => Ok(None),
                };
            }
        }
        match self.on_failure {
            OnFailure::Refuse => Err(unavailable("there is no space for another record")),
            OnFailure::Continue => Ok(None),
        }
    }

    async fn record_refusal(&self, mut record: Record) {
        record.time = Timestamp::now();
        if self.admits_refusal(record.time) {
            // A refusal changes nothing. If its record cannot be written, the refusal still applies and is counted.
            let _ = self.write(record, None).await;
        }
    }

    /// Whether a refusal gets a record of its own.
    fn admits_refusal(&self, time: Timestamp) -> bool {
        let Some(suppressed) = self.refusals.admit(time) else {
            counter!("stateway_audit_records_total", "outcome" => "suppressed").increment(1);
            return false;
        };
        if let Some(summary) = suppressed {
            self.submit(summary, None, None);
        }
        true
    }

    /// Writes a record; returns when it is synced.
    async fn write(&self, record: Record, admission: Option<Admission>) -> Written {
        let (answer, written) = oneshot::channel();
        self.submit(record, Some(answer), admission);
        answered(written).await
    }

    fn submit(
        &self,
        record: Record,
        answer: Option<oneshot::Sender<Written>>,
        admission: Option<Admission>,
    ) {
        self.ask(Ask::Record(Box::new(Entry {
            record: record.bounded(),
            answer,
            admission,
        })));
    }

    fn ask(&self, ask: Ask) {
        // The sender of the answer is dropped with the question, which ends the wait for the answer.
        if let Some(asks) = &*lock(&self.asks) {
            let _ = asks.send(ask);
        }
    }
}

/// The record of a stream whose caller may not have it any more.
#[derive(Clone)]
pub(crate) struct StreamRefusal {
    auditor: Arc<Auditor>,
    record: Record,
}

impl StreamRefusal {
    /// Writes the record. The stream does not wait for it: nothing was changed.
    pub(crate) fn write(mut self, code: Code, reason: &str) {
        self.record.time = Timestamp::now();
        code_name(code).clone_into(&mut self.record.outcome);
        reason.clone_into(&mut self.record.reason);
        if self.auditor.admits_refusal(self.record.time) {
            self.auditor.submit(self.record, None, None);
        }
    }
}

async fn answered(written: oneshot::Receiver<Written>) -> Written {
    match tokio::time::timeout(PATIENCE, written).await {
        Ok(Ok(written)) => written,
        Ok(Err(_)) => Err(NotWritten("the log is closed".to_owned())),
        Err(_) => Err(NotWritten(format!(
            "the disk took longer than {PATIENCE:?}"
        ))),
    }
}

/// One call that is under way. A client that gives up drops the call in the middle of its work: then the
/// record says so, because the change may take effect.
struct OpenRecord<'a> {
    record: Option<Record>,
    note: Arc<Note>,
    admission: Option<Admission>,
    is_mutation: bool,
    auditor: &'a Auditor,
}

impl OpenRecord<'_> {
    /// Writes the record, if the call needs one.
    async fn close(&mut self, code: Code, reason: String) -> Result<(), Status> {
        let known = self.note.known();
        let is_refusal = is_refusal(code, &known, self.is_mutation);
        let Some(record) = self.record.take() else {
            return Ok(());
        };
        let record = finished(record, known, code, reason);
        if is_refusal {
            self.auditor.record_refusal(record).await;
            return Ok(());
        }
        if !self.is_mutation {
            return Ok(());
        }
        let written = self.auditor.write(record, self.admission.take()).await;
        match (written, self.auditor.on_failure) {
            (Ok(()), _) | (Err(_), OnFailure::Continue) => Ok(()),
            // Nothing happened, so that the caller can hear why.
            (Err(_), OnFailure::Refuse) if code != Code::Ok => Ok(()),
            (Err(NotWritten(why)), OnFailure::Refuse) => Err(without_record(&why)),
        }
    }
}

impl Drop for OpenRecord<'_> {
    fn drop(&mut self) {
        if let Some(record) = self.record.take()
            && self.is_mutation
        {
            let known = self.note.known();
            let has_begun = known.is_asked;
            let record = finished(record, known, Code::Cancelled, "CANCELLED".to_owned());
            // Incomplete requests change nothing. Their records are limited, so that they do not fill the log.
            if !has_begun && !self.auditor.admits_refusal(record.time) {
                return;
            }
            self.auditor.submit(record, None, self.admission.take());
        }
    }
}

/// Whether a call was refused, so that nothing was changed. The records of such calls are limited. A mutation
/// that is not implemented is one of them: it needs no permission.
fn is_refusal(code: Code, known: &note::CallFacts, is_mutation: bool) -> bool {
    match code {
        Code::Unauthenticated | Code::PermissionDenied => true,
        Code::Unimplemented => is_mutation,
        Code::NotFound => known.is_refused,
        // A mutation that failed in another way may have changed something, and a read was not refused.
        _ => false,
    }
}

fn finished(mut record: Record, known: note::CallFacts, code: Code, reason: String) -> Record {
    record.time = Timestamp::now();
    code_name(code).clone_into(&mut record.outcome);
    record.reason = reason;
    if !known.object.is_empty() {
        record.object = known.object;
    }
    record.execution_id = known.execution_id;
    record.result = known.result;
    record.request_id = known.request_id;
    known.permission.clone_into(&mut record.permission);
    record.rule = known.rule.as_deref().unwrap_or_default().to_owned();
    if record.proof.is_empty() {
        // No method of authentication is configured, so that headers are believed.
        let actor = known.actor.as_deref().unwrap_or_default();
        let is_named = !actor.is_empty() && actor != stateway_provider_api::ANONYMOUS;
        record.proof = if is_named { "claimed" } else { "none" }.to_owned();
        actor.clone_into(&mut record.actor);
        let roles = known.roles.unwrap_or_default();
        record.roles = roles.iter().map(ToString::to_string).collect();
    }
    record
}

/// The method that a path names, if it is one of the API.
fn method_of(path: &str) -> Option<&str> {
    let (_service, method) = path.strip_prefix(PACKAGE)?.split_once('/')?;
    API.has_method(method).then_some(method)
}

/// Reads a secret of a file.
pub(super) fn secret<T>(
    key: &'static str,
    file: &std::path::Path,
    parse: impl FnOnce(&str) -> Result<T, String>,
) -> Result<T, AuditError> {
    let read = std::fs::read_to_string(file).map_err(|error| error.to_string());
    let read = read.map(stateway_identity::Secret::new);
    read.and_then(|secret| parse(secret.expose()))
        .map_err(|why| AuditError::Secret {
            key,
            file: file.to_owned(),
            why,
        })
}

fn unavailable(why: &str) -> Status {
    counter!("stateway_audit_refused_mutations_total").increment(1);
    let message = format!("changes are refused because the audit log cannot be written: {why}");
    Refusal::new(Code::Unavailable, "AUDIT_UNAVAILABLE", message)
        .hint(
            "Nothing was changed. Make space on the disk of `audit.file`; the gateway then accepts changes \
             again without a restart. `audit.on_failure = \"continue\"` accepts changes without records.",
        )
        .retry_after(PAUSE)
        .into()
}

fn without_record(why: &str) -> Status {
    let message = format!("the change was made, but its audit record cannot be written: {why}");
    Refusal::new(Code::Internal, "AUDIT_RECORD_NOT_WRITTEN", message)
        .hint("Read the resource before you repeat the call.")
        .into()
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The record that counts refusals without records of their own.
fn suppressed(time: Timestamp, count: u64) -> Record {
    Record {
        time,
        verb: SUPPRESSED.into(),
        outcome: "OK".into(),
        note: "refusals beyond `audit.max_refusals` per second have no records of their own".into(),
        count,
        ..Record::default()
    }
}

#[cfg(test)]
mod tests;
