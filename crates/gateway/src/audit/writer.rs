//! The thread that writes the log. Records that wait at the same time are written and synced together.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use jiff::Timestamp;
use metrics::{counter, gauge, histogram};
use stateway_audit::{MAX_LINE, Record, SUPPRESSED};
use tokio::sync::{mpsc, oneshot, watch};

use super::files::LogFiles;

/// The most records in one write.
const BATCH: usize = 1024;

/// Why a record was not written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NotWritten(pub(super) String);

pub(super) type Written = Result<(), NotWritten>;

/// What the thread is asked for.
pub(super) enum Ask {
    /// Write a record.
    Record(Box<Entry>),
    /// Reserve space for everything that is admitted, and one more.
    Reserve(oneshot::Sender<Written>),
}

pub(super) struct Entry {
    pub(super) record: Record,
    /// None if no caller waits.
    pub(super) answer: Option<oneshot::Sender<Written>>,
    pub(super) admission: Option<Admission>,
}

/// What the thread and its callers share.
#[derive(Debug)]
pub(super) struct Shared {
    room: Mutex<LogSpace>,
    /// Why the last write failed; empty if it did not.
    failure: Mutex<String>,
    is_failing: AtomicBool,
    /// Records that could not be written since the last one that was.
    lost: AtomicU64,
}

#[derive(Debug, Default)]
struct LogSpace {
    free: u64,
    admitted: u64,
}

/// The promise that there is space for one record.
#[derive(Debug)]
pub(super) struct Admission(Arc<Shared>);

impl Drop for Admission {
    fn drop(&mut self) {
        self.0.room().admitted -= 1;
    }
}

impl Shared {
    pub(super) fn new() -> Arc<Self> {
        gauge!("stateway_audit_failing").set(0.0);
        Arc::new(Self {
            room: Mutex::default(),
            failure: Mutex::default(),
            is_failing: AtomicBool::new(false),
            lost: AtomicU64::new(0),
        })
    }

    /// Takes space for one record, if it is reserved already.
    pub(super) fn admit(self: &Arc<Self>) -> Option<Admission> {
        let mut room = self.room();
        let needed = (room.admitted + 1) * MAX_LINE as u64;
        if needed > room.free || self.is_failing() {
            return None;
        }
        room.admitted += 1;
        Some(Admission(self.clone()))
    }

    pub(super) fn is_failing(&self) -> bool {
        self.is_failing.load(Ordering::Acquire)
    }

    /// Why records cannot be written.
    pub(super) fn failure(&self) -> Option<String> {
        let why = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        self.is_failing().then(|| why.clone())
    }

    fn room(&self) -> MutexGuard<'_, LogSpace> {
        self.room.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn failed(&self, why: &str) {
        if !self.is_failing() {
            tracing::error!("audit records cannot be written: {why}");
        }
        why.clone_into(&mut self.failure.lock().unwrap_or_else(PoisonError::into_inner));
        self.is_failing.store(true, Ordering::Release);
        gauge!("stateway_audit_failing").set(1.0);
    }

    fn succeeded(&self) {
        if self.is_failing.swap(false, Ordering::AcqRel) {
            tracing::info!("audit records are written again");
            gauge!("stateway_audit_failing").set(0.0);
        }
    }
}

/// Runs until every sender is gone.
pub(super) fn run(
    mut files: LogFiles,
    shared: &Shared,
    mut asked: mpsc::UnboundedReceiver<Ask>,
    committed: &watch::Sender<u64>,
) {
    let mut batch = Vec::with_capacity(BATCH);
    while let Some(first) = asked.blocking_recv() {
        batch.push(first);
        while batch.len() < BATCH
            && let Ok(next) = asked.try_recv()
        {
            batch.push(next);
        }
        work(&mut files, shared, &mut batch);
        committed.send_replace(files.seq());
    }
}

fn work(files: &mut LogFiles, shared: &Shared, batch: &mut Vec<Ask>) {
    let (mut entries, mut reserves) = (Vec::new(), Vec::new());
    for ask in batch.drain(..) {
        match ask {
            Ask::Record(entry) => entries.push(*entry),
            Ask::Reserve(answer) => reserves.push(answer),
        }
    }
    if !entries.is_empty() {
        write(files, shared, entries);
    }
    if !reserves.is_empty() {
        let wanted = shared.room().admitted + reserves.len() as u64;
        let reserved = proved(files, shared).and_then(|()| files.reserve(wanted * MAX_LINE as u64));
        let reserved = reserved.map_err(|error| NotWritten(error.to_string()));
        match &reserved {
            Ok(()) => shared.succeeded(),
            Err(NotWritten(why)) => shared.failed(why),
        }
        shared.room().free = files.free();
        for answer in reserves {
            // A caller that is gone needs no answer.
            let _ = answer.send(reserved.clone());
        }
    }
}

/// After a write that failed, space alone proves nothing: the record about the records that are missing must
/// be written first.
fn proved(files: &mut LogFiles, shared: &Shared) -> std::io::Result<()> {
    let lost = shared.lost.load(Ordering::Relaxed);
    if lost == 0 {
        return Ok(());
    }
    files.append(&[missing(lost)])?;
    counter!("stateway_audit_records_total", "outcome" => "written").increment(1);
    shared.lost.fetch_sub(lost, Ordering::Relaxed);
    Ok(())
}

/// The record about records that could not be written.
fn missing(count: u64) -> Record {
    Record {
        time: Timestamp::now(),
        verb: SUPPRESSED.into(),
        outcome: "OK".into(),
        note: "records that could not be written before this one".into(),
        count,
        ..Record::default()
    }
}

fn write(files: &mut LogFiles, shared: &Shared, entries: Vec<Entry>) {
    let mut records = Vec::with_capacity(entries.len() + 1);
    let lost = shared.lost.load(Ordering::Relaxed);
    if lost > 0 {
        records.push(missing(lost));
    }
    let mut answers = Vec::with_capacity(entries.len());
    // Admissions end after the room is known again.
    let mut admissions = Vec::new();
    for entry in entries {
        records.push(entry.record);
        answers.extend(entry.answer);
        admissions.extend(entry.admission);
    }
    let began = Instant::now();
    let count = records.len() as u64;
    let written = files.append(&records);
    histogram!("stateway_audit_write_seconds").record(began.elapsed());
    let written = match written {
        Ok(()) => {
            counter!("stateway_audit_records_total", "outcome" => "written").increment(count);
            shared.lost.fetch_sub(lost, Ordering::Relaxed);
            shared.succeeded();
            Ok(())
        }
        Err(error) => {
            let failed = count - u64::from(lost > 0);
            counter!("stateway_audit_records_total", "outcome" => "failed").increment(failed);
            shared.lost.fetch_add(failed, Ordering::Relaxed);
            let why = error.to_string();
            shared.failed(&why);
            Err(NotWritten(why))
        }
    };
    shared.room().free = files.free();
    drop(admissions);
    for answer in answers {
        // A caller that is gone needs no answer.
        let _ = answer.send(written.clone());
    }
}
