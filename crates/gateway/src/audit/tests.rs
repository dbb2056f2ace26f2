//! The log on a disk: crashes, rotation, a full disk, and records that share a sync.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};

use axum::http::{Request, Response};
use stateway_access::{Decision, Permission};
use stateway_audit::{ProblemKind, Report, file, parse};
use tempfile::TempDir;
use tonic::body::Body;
use tonic_types::StatusExt as _;

use super::disk::Disk;
use super::log::AuditLog;
use super::*;

struct Place(TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("audit.jsonl")
    }

    fn settings(&self) -> AuditSettings {
        AuditSettings::new(self.path())
    }

    fn report(&self) -> Report {
        let log = AuditLog::new(self.path(), ChainKey::default());
        log.verify(Vec::new()).unwrap()
    }

    fn records(&self) -> Vec<Record> {
        records(&self.path())
    }
}

fn records(path: &Path) -> Vec<Record> {
    let mut found = Vec::new();
    let log = AuditLog::new(path, ChainKey::default());
    log.each(|line| {
        let line = parse(&ChainKey::default(), line.text);
        found.extend(line.map(|line| line.record));
    })
    .unwrap();
    found
}

fn record(object: &str) -> Record {
    Record {
        verb: "StartExecution".into(),
        object: object.into(),
        ..Record::default()
    }
}

async fn written(settings: &AuditSettings, count: usize) {
    let auditor = Auditor::open(settings).unwrap();
    for number in 0..count {
        let written = auditor.write(record(&format!("definitions/{number}")), None);
        written.await.unwrap();
    }
    auditor.close().await;
}

fn append(path: &Path, bytes: &[u8]) {
    use std::io::Write as _;
    let mut file = std::fs::OpenOptions::new().append(true).open(path).unwrap();
    file.write_all(bytes).unwrap();
}

#[tokio::test]
async fn a_log_continues_over_restarts() {
    let place = Place::new();
    for _ in 0..3 {
        written(&place.settings(), 2).await;
    }
    let report = place.report();
    assert!(report.is_intact(), "{report:?}");
    assert_eq!((report.records, report.torn), (9, 0));
}

#[tokio::test]
async fn half_of_a_record_after_a_crash_is_cut_off_and_said() {
    let place = Place::new();
    written(&place.settings(), 3).await;
    let whole = std::fs::read(place.path()).unwrap();
    // As much of the next line as a process wrote before it was killed.
    for torn in ["{", "{\"seq\":5,\"time\":\"2026-", &"x".repeat(20_000)] {
        append(&place.path(), torn.as_bytes());
        let now = place.report();
        assert!(now.is_intact() && now.is_torn_now, "{now:?}");
        written(&place.settings(), 1).await;
        let after = place.report();
        assert!(after.is_intact() && !after.is_torn_now, "{after:?}");
    }
    let text = std::fs::read(place.path()).unwrap();
    assert!(text.starts_with(&whole));
    assert_eq!(place.report().torn, 3);
}

#[tokio::test]
async fn a_removed_end_is_found_before_and_after_a_restart() {
    let place = Place::new();
    written(&place.settings(), 3).await;
    let text = std::fs::read_to_string(place.path()).unwrap();
    let kept: String = text.split_inclusive('\n').take(2).collect();
    std::fs::write(place.path(), kept).unwrap();
    let kinds =
        |report: Report| -> Vec<_> { report.problems.into_iter().map(|it| it.kind).collect() };
    let end = ProblemKind::EndMissing { last: 2, anchor: 4 };
    assert_eq!(kinds(place.report()), [end]);
    // The next process cannot hide it: it continues with the numbers of the anchor.
    written(&place.settings(), 1).await;
    let found = kinds(place.report());
    let removed = ProblemKind::Removed { first: 3, last: 4 };
    assert!(found.contains(&removed), "{found:?}");
    assert!(
        found
            .iter()
            .any(|kind| matches!(kind, ProblemKind::FoundMissing(_))),
        "{found:?}"
    );
}

#[tokio::test]
async fn a_log_whose_anchor_was_removed_too_is_not_accepted_in_silence() {
    let place = Place::new();
    written(&place.settings(), 3).await;
    std::fs::remove_file(file::head(&place.path())).unwrap();
    assert!(!place.report().is_intact());
    written(&place.settings(), 1).await;
    assert!(!place.report().is_intact());
}

#[tokio::test]
async fn a_file_that_was_damaged_in_the_middle_is_kept_and_reported() {
    let place = Place::new();
    written(&place.settings(), 4).await;
    let text = std::fs::read_to_string(place.path()).unwrap();
    std::fs::write(place.path(), text.replace("definitions/1", "definitions/9")).unwrap();
    written(&place.settings(), 1).await;
    let kept = std::fs::read_to_string(file::rotated(&place.path(), 1)).unwrap();
    assert!(kept.contains("definitions/9"));
    let report = place.report();
    let kinds: Vec<_> = report.problems.iter().map(|it| &it.kind).collect();
    assert!(kinds.contains(&&ProblemKind::Changed), "{kinds:?}");
    assert_eq!(report.records, 6);
}

#[tokio::test]
async fn a_last_record_that_was_changed_is_kept_and_reported() {
    let place = Place::new();
    written(&place.settings(), 4).await;
    let text = std::fs::read_to_string(place.path()).unwrap();
    let (before, last) = text.trim_end().rsplit_once('\n').unwrap();
    let changed = format!("{before}\n{}\n", last.replace("definitions", "definitionz"));
    assert_ne!(changed, text);
    std::fs::write(place.path(), &changed).unwrap();
    written(&place.settings(), 1).await;
    let kept = std::fs::read_to_string(file::rotated(&place.path(), 1)).unwrap();
    assert_eq!(kept, changed);
    assert!(!place.report().is_intact());
}

#[tokio::test]
async fn a_file_that_is_removed_while_it_is_written_is_noticed() {
    let place = Place::new();
    let mut files = LogFiles::open(&place.settings(), ChainKey::default()).unwrap();
    files.append(&[Record::default()]).unwrap();
    std::fs::remove_file(place.path()).unwrap();
    assert!(files.append(&[Record::default()]).is_err());
    assert!(files.reserve(1).is_err());
    // Another file under the same name does not help.
    std::fs::write(place.path(), "").unwrap();
    let error = files.append(&[Record::default()]).unwrap_err();
    assert!(error.to_string().contains("replaced"), "{error}");
}

#[tokio::test]
async fn a_log_of_another_key_is_left_as_it_is() {
    let place = Place::new();
    written(&place.settings(), 4).await;
    let text = std::fs::read_to_string(place.path()).unwrap();
    let key = place.path().with_file_name("other.key");
    std::fs::write(&key, "a key of at least sixteen bytes").unwrap();
    let mut settings = place.settings();
    settings.key_file = Some(key);
    let refused = Auditor::open(&settings).err().unwrap().to_string();
    assert!(refused.contains("another key"), "{refused}");
    assert_eq!(std::fs::read_to_string(place.path()).unwrap(), text);
    // The key that it was written with, which is none, still opens it.
    written(&place.settings(), 1).await;
    assert!(place.report().is_intact());
}

#[tokio::test]
async fn files_are_rotated_by_size_and_the_oldest_are_removed() {
    let place = Place::new();
    let mut settings = place.settings();
    (settings.max_bytes, settings.keep) = (1, 3);
    written(&settings, 400).await;
    let numbers = super::files::rotated(&place.path()).unwrap();
    assert_eq!(numbers.len(), 3, "{numbers:?}");
    let report = place.report();
    assert!(report.is_intact(), "{report:?}");
    let (first, last) = report.range.unwrap();
    assert!(first > 1 && last == 401, "{first} {last}");
    for number in &numbers {
        let size = std::fs::metadata(file::rotated(&place.path(), *number))
            .unwrap()
            .len();
        assert!(size <= 16 * 1024, "{size}");
    }
    // The next start continues in the newest file.
    written(&settings, 1).await;
    assert!(place.report().is_intact());

    std::fs::remove_file(file::rotated(&place.path(), numbers[1])).unwrap();
    let kinds: Vec<_> = place
        .report()
        .problems
        .into_iter()
        .map(|it| it.kind)
        .collect();
    assert!(
        matches!(kinds[..], [ProblemKind::Removed { .. }]),
        "{kinds:?}"
    );
    std::fs::remove_file(file::rotated(&place.path(), numbers[0])).unwrap();
    let kinds: Vec<_> = place
        .report()
        .problems
        .into_iter()
        .map(|it| it.kind)
        .collect();
    assert!(
        matches!(kinds[..], [ProblemKind::StartMissing { .. }]),
        "{kinds:?}"
    );
}

#[tokio::test]
async fn one_process_writes_a_log() {
    let place = Place::new();
    let first = Auditor::open(&place.settings()).unwrap();
    let second = Auditor::open(&place.settings()).unwrap_err();
    assert!(second.to_string().contains("another process"), "{second}");
    first.close().await;
    written(&place.settings(), 1).await;
    assert!(place.report().is_intact());
}

/// A disk that can be full, counts its writes, and waits when a test asks it to.
struct TestDisk {
    file: std::fs::File,
    full: Arc<AtomicBool>,
    writes: Arc<AtomicUsize>,
    go: Option<Receiver<()>>,
}

impl TestDisk {
    fn check(&self) -> io::Result<()> {
        if self.full.load(Ordering::SeqCst) {
            Err(io::ErrorKind::StorageFull.into())
        } else {
            Ok(())
        }
    }
}

impl Disk for TestDisk {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        if let Some(go) = self.go.take() {
            go.recv().unwrap();
        }
        self.writes.fetch_add(1, Ordering::SeqCst);
        if let Err(full) = self.check() {
            // A disk that becomes full takes a part.
            self.file.append(&bytes[..bytes.len() / 2]).unwrap();
            return Err(full);
        }
        self.file.append(bytes)
    }

    fn truncate(&mut self, length: u64) -> io::Result<()> {
        self.file.truncate(length)
    }

    fn reserve(&mut self, length: u64, bytes: u64) -> io::Result<()> {
        self.check()?;
        self.file.reserve(length, bytes)
    }
}

struct OnTestDisk {
    auditor: Arc<Auditor>,
    full: Arc<AtomicBool>,
    writes: Arc<AtomicUsize>,
}

fn on_test_disk(settings: &AuditSettings, go: Option<Receiver<()>>) -> OnTestDisk {
    let mut files = LogFiles::open(settings, ChainKey::default()).unwrap();
    let (full, writes) = (Arc::default(), Arc::default());
    files.set_disk(Box::new(TestDisk {
        file: std::fs::OpenOptions::new()
            .append(true)
            .open(&settings.file)
            .unwrap(),
        full: Arc::clone(&full),
        writes: Arc::clone(&writes),
        go,
    }));
    let (committed, _) = watch::channel(files.seq());
    OnTestDisk {
        auditor: Auditor::over(files, settings, committed, None),
        full,
        writes,
    }
}

fn call(method: &str) -> Request<Body> {
    let mut request = Request::new(Body::empty());
    *request.uri_mut() = format!("/stateway.v1.Executions/{method}").parse().unwrap();
    request
}

/// Serves a call; the reason of its error, if it has one.
async fn serve(auditor: &Arc<Auditor>, method: &str, done: &AtomicUsize) -> Result<(), String> {
    let response = auditor
        .clone()
        .around(call(method), async |_| {
            done.fetch_add(1, Ordering::SeqCst);
            Response::new(Body::empty())
        })
        .await;
    match tonic::Status::from_header_map(response.headers()) {
        None => Ok(()),
        Some(status) => {
            let details = status.get_error_details();
            Err(details.error_info().unwrap().reason.clone())
        }
    }
}

#[tokio::test]
async fn a_full_disk_refuses_mutations_before_they_happen_until_there_is_space() {
    let place = Place::new();
    let disk = on_test_disk(&place.settings(), None);
    let done = AtomicUsize::new(0);
    disk.full.store(true, Ordering::SeqCst);
    for _ in 0..3 {
        let refused = serve(&disk.auditor, "StartExecution", &done).await;
        assert_eq!(refused, Err("AUDIT_UNAVAILABLE".into()));
    }
    assert_eq!(done.load(Ordering::SeqCst), 0);
    let (effect, _) = disk.auditor.trouble().unwrap();
    assert!(effect.contains("mutations are refused"));
    // Reads need no record.
    assert_eq!(serve(&disk.auditor, "GetExecution", &done).await, Ok(()));

    disk.full.store(false, Ordering::SeqCst);
    assert_eq!(serve(&disk.auditor, "StartExecution", &done).await, Ok(()));
    assert_eq!(disk.auditor.trouble(), None);
    disk.auditor.close().await;
    assert_eq!(place.records().len(), 2);
    assert!(place.report().is_intact());
}

#[tokio::test]
async fn what_was_admitted_has_its_space_although_the_disk_becomes_full() {
    let place = Place::new();
    let disk = on_test_disk(&place.settings(), None);
    let full = disk.full.clone();
    // The disk becomes full while the change is made, and the write itself fails.
    let response = disk
        .auditor
        .clone()
        .around(call("CancelExecution"), async |_| {
            full.store(true, Ordering::SeqCst);
            Response::new(Body::empty())
        });
    let status = tonic::Status::from_header_map(response.await.headers()).unwrap();
    let details = status.get_error_details();
    let reason = &details.error_info().unwrap().reason;
    assert_eq!(reason, "AUDIT_RECORD_NOT_WRITTEN");
    disk.full.store(false, Ordering::SeqCst);
    let done = AtomicUsize::new(0);
    serve(&disk.auditor, "StartExecution", &done).await.unwrap();
    disk.auditor.close().await;
    // Half of the record is gone, and the next one says that one is missing.
    let report = place.report();
    assert!(report.is_intact(), "{report:?}");
    let records = place.records();
    let verbs: Vec<_> = records
        .iter()
        .map(|it| (it.verb.as_str(), it.count))
        .collect();
    let expected = [
        ("audit.opened", 0),
        ("audit.suppressed", 1),
        ("StartExecution", 0),
    ];
    assert_eq!(verbs, expected);
}

#[test]
fn a_real_file_keeps_the_space_that_was_reserved() {
    let place = Place::new();
    let mut files = LogFiles::open(&place.settings(), ChainKey::default()).unwrap();
    files.reserve(1).unwrap();
    let before = files.free();
    assert!(before >= 4 * 1024 * 1024, "{before}");
    files.append(&[record("definitions/a")]).unwrap();
    assert!(files.free() < before && files.free() > before - 1024);
    // The reserved space is no part of the file.
    let length = std::fs::metadata(place.path()).unwrap().len();
    assert!(length < 2048, "{length}");
}

#[tokio::test]
async fn mutations_continue_without_records_if_that_is_configured() {
    let place = Place::new();
    let mut settings = place.settings();
    settings.on_failure = OnFailure::Continue;
    let disk = on_test_disk(&settings, None);
    let done = AtomicUsize::new(0);
    disk.full.store(true, Ordering::SeqCst);
    for _ in 0..3 {
        serve(&disk.auditor, "StartExecution", &done).await.unwrap();
    }
    assert_eq!(done.load(Ordering::SeqCst), 3);
    assert!(disk.auditor.trouble().unwrap().0.contains("have no record"));
    disk.full.store(false, Ordering::SeqCst);
    serve(&disk.auditor, "StartExecution", &done).await.unwrap();
    disk.auditor.close().await;
    let counts: Vec<_> = place.records().iter().map(|record| record.count).collect();
    assert_eq!(counts, [0, 3, 0]);
    assert!(place.report().is_intact());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_that_wait_at_the_same_time_share_one_sync() {
    let place = Place::new();
    let (go, gone) = channel();
    let disk = on_test_disk(&place.settings(), Some(gone));
    let calls: Vec<_> = (0..100)
        .map(|number| {
            let auditor = disk.auditor.clone();
            tokio::spawn(async move { auditor.write(record(&number.to_string()), None).await })
        })
        .collect();
    // The first write waits until the others are in the queue.
    tokio::time::sleep(Duration::from_millis(200)).await;
    go.send(()).unwrap();
    for call in calls {
        call.await.unwrap().unwrap();
    }
    assert!(disk.writes.load(Ordering::SeqCst) <= 3, "{:?}", disk.writes);
    disk.auditor.close().await;
    assert_eq!(place.records().len(), 101);
    assert!(place.report().is_intact());
}

#[tokio::test]
async fn the_record_of_a_mutation_is_synced_before_its_answer() {
    let place = Place::new();
    let auditor = Auditor::open(&place.settings()).unwrap();
    let done = AtomicUsize::new(0);
    serve(&auditor, "PauseExecution", &done).await.unwrap();
    // The log is still open: what the file contains now was written before the answer.
    let verbs: Vec<_> = place.records().into_iter().map(|it| it.verb).collect();
    assert_eq!(verbs, ["audit.opened", "PauseExecution"]);
    auditor.close().await;
}

#[tokio::test]
async fn a_mutation_that_its_client_gives_up_is_recorded() {
    let place = Place::new();
    let auditor = Auditor::open(&place.settings()).unwrap();
    let never = auditor.clone().around(call("CancelExecution"), async |_| {
        std::future::pending::<Response<Body>>().await
    });
    assert!(
        tokio::time::timeout(Duration::from_millis(50), never)
            .await
            .is_err()
    );
    auditor.close().await;
    let records = place.records();
    let last = records.last().unwrap();
    assert_eq!(
        (&*last.verb, &*last.outcome),
        ("CancelExecution", "CANCELLED")
    );
}

#[tokio::test]
async fn refusals_of_reads_are_recorded_and_successes_are_not() {
    let place = Place::new();
    let auditor = Auditor::open(&place.settings()).unwrap();
    for code in [
        Code::Ok,
        Code::NotFound,
        Code::PermissionDenied,
        Code::Unauthenticated,
    ] {
        let served = auditor
            .clone()
            .around(call("GetExecution"), async move |_| {
                if code == Code::Ok {
                    Response::new(Body::empty())
                } else {
                    Status::from(Refusal::new(code, "REASON", "no")).into_http()
                }
            });
        served.await;
    }
    // What may not be read is not found; the access rules say which it was.
    let hidden = auditor
        .clone()
        .around(call("GetExecution"), async |request| {
            let note = Note::of(request.extensions()).unwrap();
            note.decided(&Decision {
                allowed: false,
                rule: Some("own-tenant".into()),
                permission: Permission::Read,
            });
            Status::from(Refusal::new(Code::NotFound, "NOT_FOUND", "no")).into_http()
        });
    hidden.await;
    auditor.close().await;
    let outcomes: Vec<_> = place.records().into_iter().skip(1).collect();
    let outcomes: Vec<_> = outcomes
        .iter()
        .map(|it| (&*it.outcome, &*it.rule))
        .collect();
    let expected = [
        ("PERMISSION_DENIED", ""),
        ("UNAUTHENTICATED", ""),
        ("NOT_FOUND", "own-tenant"),
    ];
    assert_eq!(outcomes, expected);
}

#[tokio::test]
async fn a_receiver_gets_every_record_signed_and_in_order_over_rotations_and_restarts() {
    use wiremock::matchers::{header_exists, method};
    use wiremock::{Mock, MockServer, ResponseTemplate};
    let server = MockServer::start().await;
    Mock::given(method("POST"))
        .and(header_exists("webhook-signature"))
        .respond_with(ResponseTemplate::new(204))
        .mount(&server)
        .await;
    let place = Place::new();
    let secret = place.0.path().join("secret");
    std::fs::write(&secret, "sentinel-webhook-secret\n").unwrap();
    let mut settings = place.settings();
    (settings.max_bytes, settings.keep) = (1, 100);
    settings.webhook = Some(AuditWebhook {
        url: server.uri(),
        secret_file: secret,
        timeout: Duration::from_secs(5),
    });
    for _ in 0..2 {
        let auditor = Auditor::open(&settings).unwrap();
        let stop = CancellationToken::new();
        let delivering = tokio::spawn(auditor.clone().deliver(stop.clone()));
        for number in 0..120 {
            auditor
                .write(record(&number.to_string()), None)
                .await
                .unwrap();
        }
        let waiting = async {
            while std::fs::read_to_string(file::sent(&place.path()))
                .ok()
                .and_then(|text| text.trim().parse::<u64>().ok())
                .is_none_or(|sent| sent != place.report().range.unwrap().1)
            {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), waiting)
            .await
            .unwrap();
        stop.cancel();
        delivering.await.unwrap();
        auditor.close().await;
    }
    let mut numbers = Vec::new();
    for request in server.received_requests().await.unwrap() {
        let events: Vec<serde_json::Value> = serde_json::from_slice(&request.body).unwrap();
        for event in events {
            assert_eq!(event["type"], "dev.stateway.audit.v1");
            numbers.push(event["data"]["seq"].as_u64().unwrap());
        }
        let signature = request.headers["webhook-signature"].to_str().unwrap();
        assert!(signature.starts_with("v1,") && signature.len() > 40);
    }
    assert_eq!(numbers, (1..=242).collect::<Vec<_>>());
}
