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
    /// Nothing can be cut off.
    stuck: Arc<AtomicBool>,
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
        if self.stuck.load(Ordering::SeqCst) {
            return Err(io::ErrorKind::Other.into());
        }
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
        stuck: Arc::default(),
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

/// The kinds of problems that a verification finds.
fn kinds(report: Report) -> Vec<ProblemKind> {
    report.problems.into_iter().map(|it| it.kind).collect()
}

#[tokio::test]
async fn a_removed_start_is_found_after_a_restart() {
    let place = Place::new();
    written(&place.settings(), 4).await;
    let text = std::fs::read_to_string(place.path()).unwrap();
    let last = text.lines().last().unwrap();
    std::fs::write(place.path(), format!("{last}\n")).unwrap();
    written(&place.settings(), 1).await;
    let note = "records 1 to 4 were missing at the start of the log";
    let found = kinds(place.report());
    assert_eq!(found, [ProblemKind::FoundMissing(note.into())]);
    // The record about it can only be removed in the same way, which is found in the same way.
    let text = std::fs::read_to_string(place.path()).unwrap();
    let last = text.lines().last().unwrap();
    std::fs::write(place.path(), format!("{last}\n")).unwrap();
    written(&place.settings(), 1).await;
    let note = "records 5 to 6 were missing at the start of the log";
    let found = kinds(place.report());
    assert_eq!(found, [ProblemKind::FoundMissing(note.into())]);
}

#[tokio::test]
async fn rotated_files_that_were_removed_are_found_after_a_restart() {
    let place = Place::new();
    let mut settings = place.settings();
    (settings.max_bytes, settings.keep) = (1, 3);
    written(&settings, 400).await;
    // Files that rotation removes are no damage, also over a restart.
    written(&settings, 400).await;
    assert!(place.report().is_intact());
    for number in super::files::rotated(&place.path()).unwrap() {
        std::fs::remove_file(file::rotated(&place.path(), number)).unwrap();
    }
    written(&settings, 1).await;
    let found = kinds(place.report());
    let [ProblemKind::FoundMissing(note)] = &found[..] else {
        panic!("{found:?}");
    };
    assert!(
        note.ends_with("were missing at the start of the log"),
        "{note}"
    );
}

#[tokio::test]
async fn an_empty_file_in_place_of_the_oldest_one_hides_nothing() {
    let place = Place::new();
    let mut settings = place.settings();
    (settings.max_bytes, settings.keep) = (1, 3);
    written(&settings, 400).await;
    let oldest = super::files::rotated(&place.path()).unwrap()[0];
    let oldest = file::rotated(&place.path(), oldest);
    std::fs::write(&oldest, "").unwrap();
    written(&settings, 1).await;
    assert!(!place.report().is_intact());
    std::fs::remove_file(oldest).unwrap();
    written(&settings, 1).await;
    assert!(!place.report().is_intact());
}

/// Serves a call that is refused with this code, and with a decision of the access rules.
async fn refuse(auditor: &Arc<Auditor>, method: &str, code: Code, is_decided: bool) {
    let served = auditor.clone().around(call(method), async move |request| {
        let note = Note::of(request.extensions()).unwrap();
        note.asked("1", &"x".repeat(1024));
        if is_decided {
            note.decided(&Decision {
                allowed: false,
                rule: None,
                permission: Permission::Start,
            });
        }
        Status::from(Refusal::new(code, "REASON", "no")).into_http()
    });
    served.await;
}

#[tokio::test]
async fn refused_mutations_beyond_the_limit_are_counted() {
    for (method, code, is_decided) in [
        ("StartExecution", Code::PermissionDenied, true),
        ("CancelExecution", Code::NotFound, true),
        ("CancelExecution", Code::Unauthenticated, false),
        ("Anything", Code::Unimplemented, false),
    ] {
        let place = Place::new();
        let mut settings = place.settings();
        settings.max_refusals = 3;
        let auditor = Auditor::open(&settings).unwrap();
        let began = std::time::Instant::now();
        for _ in 0..1000 {
            refuse(&auditor, method, code, is_decided).await;
        }
        let seconds = began.elapsed().as_secs() + 2;
        auditor.close().await;
        let records = place.records();
        let own = records
            .iter()
            .filter(|it| !it.verb.starts_with("audit."))
            .count() as u64;
        assert!((1..=3 * seconds).contains(&own), "{method}: {own} records");
        let counted: u64 = records.iter().map(|it| it.count).sum();
        assert_eq!(own + counted, 1000, "{method}");
    }
}

#[tokio::test]
async fn mutations_that_fail_for_another_reason_have_a_record_each() {
    let place = Place::new();
    let mut settings = place.settings();
    settings.max_refusals = 1;
    let auditor = Auditor::open(&settings).unwrap();
    for code in [Code::NotFound, Code::InvalidArgument, Code::AlreadyExists] {
        for _ in 0..5 {
            refuse(&auditor, "StartExecution", code, false).await;
        }
    }
    // These requests may have changed something, whatever the rules allowed before.
    for code in [Code::Unavailable, Code::DeadlineExceeded, Code::Internal] {
        refuse(&auditor, "StartExecution", code, true).await;
    }
    auditor.close().await;
    let records = place.records();
    assert_eq!(records.len(), 19);
    assert!(records.iter().all(|it| it.count == 0));
}

#[tokio::test]
async fn calls_that_are_given_up_before_they_ask_for_anything_are_limited() {
    let place = Place::new();
    let mut settings = place.settings();
    settings.max_refusals = 3;
    let auditor = Auditor::open(&settings).unwrap();
    // Reserves space, so that no later call waits for it.
    let done = AtomicUsize::new(0);
    serve(&auditor, "StartExecution", &done).await.unwrap();
    let began = std::time::Instant::now();
    for _ in 0..100 {
        let serving = auditor.clone().around(call("StartExecution"), async |_| {
            std::future::pending::<Response<Body>>().await
        });
        let given_up = tokio::time::timeout(Duration::from_millis(1), serving);
        assert!(given_up.await.is_err());
    }
    let seconds = began.elapsed().as_secs() + 2;
    auditor.close().await;
    let records = place.records();
    let own = records
        .iter()
        .filter(|it| it.outcome == "CANCELLED")
        .count() as u64;
    assert!((1..=3 * seconds).contains(&own), "{own} records");
    let counted: u64 = records.iter().map(|it| it.count).sum();
    assert_eq!(own + counted, 100);
}

#[tokio::test]
async fn a_missing_newest_file_is_damage_and_not_an_unknown_log() {
    let place = Place::new();
    written(&place.settings(), 3).await;
    std::fs::remove_file(place.path()).unwrap();
    let end = ProblemKind::EndMissing { last: 0, anchor: 4 };
    assert!(kinds(place.report()).contains(&end));
    // Without any file of the log it is a wrong path.
    std::fs::remove_file(file::head(&place.path())).unwrap();
    let log = AuditLog::new(place.path(), ChainKey::default());
    let error = log.verify(Vec::new()).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::NotFound);
}

#[tokio::test]
async fn bytes_after_the_last_record_of_a_rotated_file_are_damage() {
    let place = Place::new();
    let mut settings = place.settings();
    (settings.max_bytes, settings.keep) = (1, 3);
    written(&settings, 100).await;
    let oldest = super::files::rotated(&place.path()).unwrap()[0];
    append(&file::rotated(&place.path(), oldest), b"{\"seq\":");
    let found = kinds(place.report());
    assert!(
        matches!(found[..], [ProblemKind::Malformed(_)]),
        "{found:?}"
    );
}

#[tokio::test]
async fn a_log_is_read_while_it_is_rotated() {
    let place = Place::new();
    let mut settings = place.settings();
    (settings.max_bytes, settings.keep) = (1, 2);
    let mut files = LogFiles::open(&settings, ChainKey::default()).unwrap();
    let (stop, path) = (Arc::new(AtomicBool::new(false)), place.path());
    let stopped = stop.clone();
    let reading = std::thread::spawn(move || {
        let log = AuditLog::new(path, ChainKey::default());
        let mut reads = 0;
        while !stopped.load(Ordering::SeqCst) {
            log.each(|_| ()).unwrap();
            reads += 1;
        }
        reads
    });
    let long = record(&"x".repeat(900));
    for _ in 0..300 {
        files.append(&vec![long.clone(); 20]).unwrap();
    }
    stop.store(true, Ordering::SeqCst);
    assert!(reading.join().unwrap() > 1);
}

/// The numbers of the records that a receiver gets, in their order, until it has got the last one.
async fn received(settings: &AuditSettings) -> Vec<u64> {
    use wiremock::{Mock, MockServer, ResponseTemplate, matchers::method};
    let server = MockServer::start().await;
    Mock::given(method("POST"))
        .respond_with(ResponseTemplate::new(204))
        .mount(&server)
        .await;
    let secret = settings.file.with_file_name("secret");
    std::fs::write(&secret, "sentinel-webhook-secret\n").unwrap();
    let mut settings = settings.clone();
    settings.webhook = Some(AuditWebhook {
        url: server.uri(),
        secret_file: secret,
        timeout: Duration::from_secs(5),
    });
    let auditor = Auditor::open(&settings).unwrap();
    let stop = CancellationToken::new();
    let delivering = tokio::spawn(auditor.clone().deliver(stop.clone()));
    auditor.write(record("last"), None).await.unwrap();
    let numbers = async || {
        let mut numbers = Vec::new();
        for request in server.received_requests().await.unwrap() {
            let events: Vec<serde_json::Value> = serde_json::from_slice(&request.body).unwrap();
            let numbers_of = events.iter().map(|event| event["data"]["seq"].as_u64());
            numbers.extend(numbers_of.map(Option::unwrap));
        }
        numbers
    };
    let log = AuditLog::new(&settings.file, ChainKey::default());
    let (_, last) = log.verify(Vec::new()).unwrap().range.unwrap();
    let waiting = async {
        while numbers().await.last() != Some(&last) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let all_came = tokio::time::timeout(Duration::from_secs(10), waiting).await;
    stop.cancel();
    delivering.await.unwrap();
    auditor.close().await;
    let numbers = numbers().await;
    assert!(all_came.is_ok(), "{numbers:?} of {last}");
    numbers
}

#[tokio::test]
async fn a_receiver_gets_what_is_left_after_a_record_that_cannot_be_read() {
    let place = Place::new();
    let mut settings = place.settings();
    (settings.max_bytes, settings.keep) = (1, 100);
    written(&settings, 200).await;
    let numbers = super::files::rotated(&place.path()).unwrap();
    assert!(numbers.len() >= 2, "{numbers:?}");
    let mut records = Vec::new();
    let text = std::fs::read_to_string(file::rotated(&place.path(), numbers[0])).unwrap();
    for line in text.lines() {
        records.push(parse(&ChainKey::default(), line.as_bytes()).unwrap().seq);
    }
    // The receiver has all records of the oldest file but the last one, which is damaged.
    let damaged = *records.last().unwrap();
    let kept: String = text.split_inclusive('\n').take(records.len() - 1).collect();
    std::fs::write(
        file::rotated(&place.path(), numbers[0]),
        format!("{kept}damaged\n"),
    )
    .unwrap();
    std::fs::write(file::sent(&place.path()), format!("{}\n", damaged - 1)).unwrap();
    let got = received(&settings).await;
    assert_eq!(got, (damaged + 1..=203).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_receiver_gets_what_is_left_after_a_file_that_is_gone() {
    let place = Place::new();
    let mut settings = place.settings();
    (settings.max_bytes, settings.keep) = (1, 100);
    written(&settings, 300).await;
    let numbers = super::files::rotated(&place.path()).unwrap();
    let first_of = |number| {
        let path = file::rotated(&place.path(), number);
        let first = super::files::first_of(&ChainKey::default(), &path);
        first.unwrap().unwrap()
    };
    let (gone, next) = (first_of(numbers[1]), first_of(numbers[2]));
    std::fs::remove_file(file::rotated(&place.path(), numbers[1])).unwrap();
    std::fs::write(file::sent(&place.path()), format!("{}\n", gone - 1)).unwrap();
    let got = received(&settings).await;
    assert_eq!(got, (next..=303).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_position_of_the_receiver_that_is_ahead_of_the_log_is_not_believed() {
    for position in ["18446744073709551615", "7", "6", "not a number"] {
        let place = Place::new();
        written(&place.settings(), 4).await;
        std::fs::write(file::sent(&place.path()), format!("{position}\n")).unwrap();
        // The next start writes record 6, so that no receiver has it.
        let got = received(&place.settings()).await;
        assert_eq!(got, (1..=7).collect::<Vec<_>>(), "{position}");
    }
}

#[tokio::test]
async fn a_caller_does_not_choose_the_verb_of_a_record() {
    let place = Place::new();
    let auditor = Auditor::open(&place.settings()).unwrap();
    for method in [
        "audit.opened",
        "audit.suppressed",
        "Anything",
        "GetExecution/x",
    ] {
        refuse_front(&auditor, method).await;
        let served = auditor.clone().around(call(method), async |_| {
            Status::from(Refusal::new(Code::Unimplemented, "REASON", "no")).into_http()
        });
        served.await;
    }
    auditor.close().await;
    let records = place.records();
    let verbs: Vec<_> = records
        .iter()
        .map(|it| (it.verb.as_str(), it.object.as_str()))
        .collect();
    let unknown = |path| [("unknown", path), ("unknown", path)];
    let mut expected = vec![("audit.opened", "")];
    expected.extend(unknown("/stateway.v1.Executions/audit.opened"));
    expected.extend(unknown("/stateway.v1.Executions/audit.suppressed"));
    expected.extend(unknown("/stateway.v1.Executions/Anything"));
    expected.extend(unknown("/stateway.v1.Executions/GetExecution/x"));
    assert_eq!(verbs, expected);
}

/// Records a request that is refused before it reaches a method.
async fn refuse_front(auditor: &Auditor, method: &str) {
    let refused = auditor.refused(&call(method), Code::Unauthenticated, "REASON");
    refused.await;
}

#[test]
fn a_record_never_follows_half_of_one_that_could_not_be_cut_off() {
    let place = Place::new();
    let mut files = LogFiles::open(&place.settings(), ChainKey::default()).unwrap();
    let (full, stuck) = (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
    files.set_disk(Box::new(TestDisk {
        file: std::fs::OpenOptions::new()
            .append(true)
            .open(place.path())
            .unwrap(),
        full: full.clone(),
        stuck: stuck.clone(),
        writes: Arc::default(),
        go: None,
    }));
    full.store(true, Ordering::SeqCst);
    stuck.store(true, Ordering::SeqCst);
    files.append(&[record("a")]).unwrap_err();
    full.store(false, Ordering::SeqCst);
    // There is space again, and half of the record is still there.
    files.append(&[record("b")]).unwrap_err();
    files.reserve(1).unwrap_err();
    stuck.store(false, Ordering::SeqCst);
    files.append(&[record("c")]).unwrap();
    drop(files);
    let report = place.report();
    assert!(report.is_intact() && !report.is_torn_now, "{report:?}");
    assert_eq!(place.records().len(), 2);
}

#[tokio::test]
async fn at_least_one_rotated_file_is_kept() {
    let place = Place::new();
    let mut settings = place.settings();
    (settings.max_bytes, settings.keep) = (1, 0);
    written(&settings, 100).await;
    // The process ended after it had begun a new file and before it wrote the first record there.
    let numbers = super::files::rotated(&place.path()).unwrap();
    assert_eq!(numbers.len(), 1, "{numbers:?}");
    let active = std::fs::read(place.path()).unwrap();
    let last = numbers.last().unwrap();
    let mut whole = std::fs::read(file::rotated(&place.path(), *last)).unwrap();
    whole.extend(active);
    std::fs::write(file::rotated(&place.path(), *last), whole).unwrap();
    std::fs::write(place.path(), "").unwrap();
    written(&settings, 1).await;
    let report = place.report();
    assert!(report.is_intact(), "{report:?}");
}

#[tokio::test]
async fn a_log_of_another_key_is_left_as_it_is_after_a_rotation_too() {
    let place = Place::new();
    written(&place.settings(), 4).await;
    std::fs::rename(place.path(), file::rotated(&place.path(), 1)).unwrap();
    std::fs::write(place.path(), "").unwrap();
    let key = place.path().with_file_name("other.key");
    std::fs::write(&key, "a key of at least sixteen bytes").unwrap();
    let mut settings = place.settings();
    settings.key_file = Some(key);
    let refused = Auditor::open(&settings).err().unwrap().to_string();
    assert!(refused.contains("another key"), "{refused}");
    let checked: Vec<_> = Auditor::check(&settings);
    let checked: Vec<_> = checked.iter().map(ToString::to_string).collect();
    assert_eq!(checked, [refused]);
    assert_eq!(std::fs::read_to_string(place.path()).unwrap(), "");
    written(&place.settings(), 1).await;
    assert!(place.report().is_intact());
}
