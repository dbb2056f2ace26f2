//! What goes wrong with a disk, a file or a clock: each is a clear error, and nothing that was
//! acknowledged is lost.
//!
//! Some need a process of their own, with a limit or a file system that others do not share. Those
//! are tests that are ignored and that another test runs.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use stateway_engine::{Clock, Config, Engine, EngineError, ErrorKind, View, WorkerMessage};
use stateway_model::SubState;

use crate::lab::{Lab, PATIENCE};

const CHAIN: &str = "
name: chain
steps:
  - {name: a, agent: x, timeout: 1h}
  - {name: b, agent: x, dependsOn: [a], timeout: 1h}
";

fn refused(path: &Path) -> EngineError {
    Engine::open(&Config::new(path)).unwrap_err()
}

/// Runs a test of this binary in a process of its own; `wrap` comes before it.
fn apart(test: &str, wrap: &[&str], folder: &Path) -> Output {
    let me = std::env::current_exe().unwrap();
    let mut line: Vec<_> = wrap.iter().map(std::ffi::OsString::from).collect();
    line.push(me.into());
    let mut command = Command::new(&line[0]);
    command
        .args(&line[1..])
        .args([
            "--exact",
            &format!("fault::{test}"),
            "--ignored",
            "--nocapture",
        ])
        .env("STATEWAY_TEST_FOLDER", folder);
    command.output().unwrap()
}

#[track_caller]
fn passed(output: &Output) {
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(
        output.status.success() && out.contains("1 passed"),
        "{out}\n{err}"
    );
}

fn given_folder() -> PathBuf {
    std::env::var_os("STATEWAY_TEST_FOLDER").unwrap().into()
}

/// Whether a command works on this machine.
fn works(command: &[&str]) -> bool {
    let mut run = Command::new(command[0]);
    let status = run.args(&command[1..]).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

/// An engine with an execution of which one step is done, and another that waits.
async fn half_done(lab: &Lab) -> (Arc<str>, Arc<str>) {
    lab.apply(CHAIN).await;
    lab.apply("name: gate\nsteps: [{name: a, signal: go}]")
        .await;
    let mut worker = lab.worker("w1", &["x"], 1);
    let running = lab.start("chain", json!(1)).await;
    let waiting = lab.start("gate", json!(2)).await;
    let task = worker.task().await;
    worker.done(&task, json!("kept"));
    let second = worker.task().await;
    assert_eq!(&*second.task.step, "b");
    (running.id, waiting.id)
}

/// What was acknowledged is there, and goes on to its end.
async fn nothing_is_lost(lab: &Lab, (running, waiting): &(Arc<str>, Arc<str>)) {
    let view = lab.get(running).await;
    assert_eq!(view.steps[0].sub_state, SubState::Succeeded);
    lab.worker("w1", &["x"], 4).diligent();
    let ended = lab.ended(running).await;
    assert_eq!(ended.sub_state, SubState::Succeeded);
    assert_eq!(*ended.output.unwrap(), json!({"b": {"did": "b"}}));
    let signal = stateway_engine::Steer::Signal {
        name: "go".into(),
        payload: Arc::new(json!(null)),
    };
    lab.steer(waiting, signal).await.unwrap();
    assert_eq!(lab.ended(waiting).await.sub_state, SubState::Succeeded);
}

/// Starts executions until the store says no.
async fn start_until_refused(lab: &Lab) -> (Vec<Arc<str>>, EngineError) {
    let mut acknowledged = Vec::new();
    for _ in 0..10_000 {
        match lab
            .engine
            .start(lab.start_of("chain", json!("x".repeat(20_000))))
            .await
        {
            Ok(view) => acknowledged.push(view.id),
            Err(error) => return (acknowledged, error),
        }
    }
    panic!("the store takes everything");
}

/// Asks for a start until it is taken.
async fn start_when_possible(lab: &Lab) -> View {
    let start = lab.start_of("chain", json!(3));
    let ask = async {
        loop {
            match lab.engine.start(start.clone()).await {
                Ok(view) => return view,
                Err(error) => assert_eq!(error.kind, ErrorKind::Unavailable, "{error}"),
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, ask).await.unwrap()
}

async fn full_and_free_again(lab: Lab, fill: impl FnOnce(), reason: &str, free: impl FnOnce()) {
    let known = half_done(&lab).await;
    let mut worker = lab.worker("idle", &["nothing"], 1);
    fill();
    let (acknowledged, error) = start_until_refused(&lab).await;
    assert_eq!((error.kind, error.reason), (ErrorKind::Unavailable, reason));
    assert!(
        error.hint.contains("nothing that was answered is lost"),
        "{}",
        error.hint
    );
    // Workers are told, so that they come back; reading goes on.
    match worker.message().await {
        WorkerMessage::Closed { reason: told } => assert_eq!(told, reason),
        other => panic!("{other:?}"),
    }
    assert_eq!(lab.get(&known.0).await.sub_state, SubState::Running);
    free();
    let late = start_when_possible(&lab).await;
    nothing_is_lost(&lab, &known).await;
    for id in acknowledged.iter().chain([&late.id]) {
        assert_eq!(lab.ended(id).await.sub_state, SubState::Succeeded);
    }
    let lab = lab.restart();
    let list = stateway_engine::ListQuery {
        sub_states: vec![SubState::Succeeded],
        limit: 100_000,
        ..Default::default()
    };
    let succeeded = lab.engine.list(list).await.unwrap().items.len();
    assert_eq!(succeeded, acknowledged.len() + 3);
}

#[tokio::test]
#[ignore = "needs a file system of its own; run by a_full_disk_is_waited_out"]
async fn inside_a_full_disk() {
    let folder = given_folder();
    let lab = Lab::at(&folder);
    let filler = folder.join("filler");
    let fill = || {
        use std::io::Write as _;
        let mut file = std::fs::File::create(&filler).unwrap();
        let mut block = 64 * 1024;
        while block > 0 {
            if file.write_all(&vec![0; block]).is_err() {
                block /= 2;
            }
        }
    };
    let free = || std::fs::remove_file(&filler).unwrap();
    full_and_free_again(lab, fill, "STORE_FULL", free).await;
}

#[test]
fn a_full_disk_is_waited_out() {
    let folder = tempfile::tempdir().unwrap();
    let mount = "mount -t tmpfs -o size=16m none \"$STATEWAY_TEST_FOLDER\"";
    let own = ["unshare", "--user", "--map-root-user", "--mount"];
    let possible = [&own[..], &["mount", "-t", "tmpfs", "none", "/tmp"][..]].concat();
    if !works(&possible) {
        // Where no file system can be mounted, the limit of a process has to do: the test below.
        eprintln!("no file system of its own can be had here");
        // The test command counts this.
        println!("0 passed, 0 failed, 1 skipped");
        return;
    }
    let script = format!("{mount} && exec \"$0\" \"$@\"");
    let wrap = [&own[..], &["sh", "-c", &script][..]].concat();
    passed(&apart("inside_a_full_disk", &wrap, folder.path()));
}

#[tokio::test]
#[ignore = "limits its process; run by a_file_that_may_not_grow_is_waited_out"]
async fn inside_a_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let folder = given_folder();
    let lab = Lab::at(&folder);
    let limit = |bytes| {
        let maximum = getrlimit(Resource::Fsize).maximum;
        let current = bytes;
        setrlimit(Resource::Fsize, Rlimit { current, maximum }).unwrap();
    };
    let log = folder.join("store.db-wal");
    let fill = || limit(Some(std::fs::metadata(&log).unwrap().len() + 100_000));
    full_and_free_again(lab, fill, "STORE_FAILED", || limit(None)).await;
}

#[test]
fn a_file_that_may_not_grow_is_waited_out() {
    let folder = tempfile::tempdir().unwrap();
    // A signal that is ignored stays ignored, and a write beyond the limit is an error.
    let script = "trap '' XFSZ; exec \"$0\" \"$@\"";
    passed(&apart(
        "inside_a_limit",
        &["sh", "-c", script],
        folder.path(),
    ));
}

#[test]
#[ignore = "gives up the right to write everything; run by what_cannot_be_written_is_refused"]
fn inside_without_rights() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = given_folder();
    let mode = |path: &Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    let file = folder.join("store.db");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let known = runtime.block_on(async { half_done(&Lab::at(&folder)).await });
    mode(&file, 0o444);
    let error = refused(&file);
    assert_eq!(error.reason, "STORE_READ_ONLY", "{error}");
    assert!(error.hint.contains("writable"), "{}", error.hint);
    mode(&file, 0o644);
    std::fs::remove_file(folder.join("store.db.lock")).unwrap();
    mode(&folder, 0o555);
    let error = refused(&file);
    assert_eq!(error.reason, "STORE_NOT_OPENED", "{error}");
    assert!(error.hint.contains("permissions"), "{}", error.hint);
    mode(&folder, 0o755);
    runtime.block_on(async { nothing_is_lost(&Lab::at(&folder), &known).await });
}

#[test]
fn what_cannot_be_written_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    // The superuser may write everything, but not from a namespace that does not know it.
    let wrap: &[&str] = if rustix::process::geteuid().is_root() {
        &["unshare", "--user"]
    } else {
        &["env"]
    };
    passed(&apart("inside_without_rights", wrap, folder.path()));
}

#[test]
#[ignore = "holds a file until it is killed; run by a_second_process_is_refused"]
fn inside_another_process() {
    let _engine = Engine::open(&Config::new(given_folder().join("store.db"))).unwrap();
    println!("open");
    std::thread::sleep(Duration::from_secs(60));
}

#[test]
fn a_second_process_is_refused_until_the_first_is_gone() {
    use std::io::{BufRead as _, BufReader};
    let folder = tempfile::tempdir().unwrap();
    let mut other = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "fault::inside_another_process",
            "--ignored",
            "--nocapture",
        ])
        .env("STATEWAY_TEST_FOLDER", folder.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(other.stdout.take().unwrap()).lines();
    assert!(
        lines
            .map_while(Result::ok)
            .any(|line| line.contains("open"))
    );
    let error = refused(&folder.path().join("store.db"));
    assert_eq!(error.reason, "STORE_IN_USE");
    assert!(error.message.contains(&other.id().to_string()), "{error}");
    assert!(
        error.hint.contains("Stop the other process"),
        "{}",
        error.hint
    );
    other.kill().unwrap();
    other.wait().unwrap();
    Engine::open(&Config::new(folder.path().join("store.db"))).unwrap();
}

/// The size of a page of a store.
const PAGE: usize = 1_024;

/// A text that fills many pages, also compressed: no four characters of it come again nearby.
fn long_text() -> String {
    use base64::Engine as _;
    use sha2::Digest as _;
    let hashes = (0..700_u32).flat_map(|number| sha2::Sha256::digest(number.to_le_bytes()));
    base64::engine::general_purpose::STANDARD_NO_PAD.encode(hashes.collect::<Vec<u8>>())
}

/// Changes the bytes in the middle of a long text in a file, away from where a page ends.
fn damage(path: &Path, text: &str, change: impl Fn(&mut [u8], usize)) {
    let mut bytes = std::fs::read(path).unwrap();
    let parts = text.as_bytes().chunks(64).skip(text.len() / 128);
    let place = parts
        .into_iter()
        .find_map(|part| bytes.windows(part.len()).position(|window| window == part));
    change(&mut bytes, place.expect("the text is in the file"));
    std::fs::write(path, bytes).unwrap();
}

/// One execution is damaged while nobody looks; the others go on, and it is named.
async fn one_is_damaged(change: impl Fn(&mut [u8], usize)) {
    let lab = Lab::new();
    let known = half_done(&lab).await;
    let marker = long_text();
    let victim = lab.start("chain", json!(marker)).await;
    let path = lab.config.path.clone();
    let lab = lab.restart_after(|| damage(&path, &marker, change));
    let error = lab.engine.get(victim.id.clone()).await.unwrap_err();
    assert_eq!(
        (error.kind, error.reason),
        (ErrorKind::DataLoss, "STORE_DAMAGED")
    );
    assert!(error.hint.contains("backup"), "{}", error.hint);
    let cancel = stateway_engine::Steer::Cancel {
        mode: stateway_machine::CancelMode::Kill,
        cause: "damaged".into(),
    };
    let error = lab.steer(&victim.id, cancel).await.unwrap_err();
    assert_eq!(error.reason, "STORE_DAMAGED");
    let damaged = lab.engine.survey().await.unwrap().damaged;
    let named: Vec<_> = damaged.iter().map(|damaged| &damaged.id).collect();
    assert_eq!(named, [&victim.id]);
    nothing_is_lost(&lab, &known).await;
    // New ones are taken too.
    let new = lab.start("chain", json!(9)).await;
    assert_eq!(lab.ended(&new.id).await.sub_state, SubState::Succeeded);
}

#[tokio::test]
async fn a_flipped_bit_in_an_event_is_noticed_by_the_chain_of_hashes() {
    one_is_damaged(|bytes, at| bytes[at] ^= 1).await;
}

#[tokio::test]
async fn a_lost_page_damages_only_the_execution_it_is_of() {
    one_is_damaged(|bytes, at| {
        let page = at / PAGE * PAGE;
        bytes[page..page + PAGE].fill(0);
    })
    .await;
}

#[tokio::test]
async fn a_webhook_passes_over_what_cannot_be_read() {
    use wiremock::{Mock, MockServer, ResponseTemplate, matchers::any};
    let lab = Lab::new();
    lab.apply(CHAIN).await;
    let marker = long_text();
    let first = lab.start("chain", json!(1)).await;
    let victim = lab.start("chain", json!(marker)).await;
    let last = lab.start("chain", json!(3)).await;
    let path = lab.config.path.clone();
    let lab = lab.restart_after(|| {
        damage(&path, &marker, |bytes, at| {
            let page = at / PAGE * PAGE;
            bytes[page..page + PAGE].fill(0);
        });
    });
    let server = MockServer::start().await;
    Mock::given(any())
        .respond_with(ResponseTemplate::new(200))
        .mount(&server)
        .await;
    let secret = stateway_engine::Secret::new("a secret of enough bytes").unwrap();
    let settings = stateway_engine::WebhookSettings::new("audit", server.uri(), secret);
    let webhooks = stateway_engine::Webhooks::spawn(&lab.engine, "main", &[settings]).unwrap();
    let caught_up = async {
        while webhooks.statuses()[0].behind > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, caught_up).await.unwrap();
    assert_eq!(webhooks.statuses()[0].unreadable, 1);
    let mut told: Vec<_> = server
        .received_requests()
        .await
        .unwrap()
        .iter()
        .map(|request| request.body_json::<serde_json::Value>().unwrap()["subject"].clone())
        .collect();
    told.dedup();
    assert_eq!(told, [json!(&*first.id), json!(&*last.id)]);
    assert_ne!(first.id, victim.id);
}

#[tokio::test]
async fn a_swapped_event_is_noticed() {
    // Valid JSON, the right length, another value: only the chain can tell.
    let lab = Lab::new();
    lab.apply(CHAIN).await;
    let started = lab.start("chain", json!("amount-100")).await;
    let path = lab.config.path.clone();
    let lab = lab.restart_after(|| {
        crate::lab::replace_in_log(&path, 0, ("amount-100", "amount-999"));
    });
    let error = lab.engine.get(started.id).await.unwrap_err();
    assert_eq!(error.reason, "STORE_DAMAGED");
    assert!(
        error.message.contains("was changed after it was written"),
        "{error}"
    );
}

#[tokio::test]
async fn a_file_that_is_no_store_is_refused_and_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("other.db");
    let other = rusqlite::Connection::open(&path).unwrap();
    other.execute_batch("CREATE TABLE theirs (x)").unwrap();
    drop(other);
    let foreign = std::fs::read(&path).unwrap();
    let mut newer = Vec::new();
    {
        let mine = folder.path().join("mine.db");
        drop(Engine::open(&Config::new(&mine)).unwrap());
        let file = rusqlite::Connection::open(&mine).unwrap();
        file.pragma_update(None, "user_version", 99).unwrap();
        file.pragma_update(None, "journal_mode", "delete").unwrap();
        drop(file);
        newer.extend(std::fs::read(&mine).unwrap());
    }
    let mut headless = newer.clone();
    headless[..100].fill(0xff);
    let text = b"this is not a database, but it is long enough to be taken for one".repeat(100);
    for (what, bytes, reason, word) in [
        (
            "another program's",
            &foreign,
            "STORE_NOT_OPENED",
            "another program",
        ),
        ("a newer one", &newer, "STORE_TOO_NEW", "schema version 99"),
        ("a text", &text, "STORE_DAMAGED", "not a database"),
        (
            "without a head",
            &headless,
            "STORE_DAMAGED",
            "not a database",
        ),
    ] {
        let path = folder.path().join("given.db");
        std::fs::write(&path, bytes).unwrap();
        let error = refused(&path);
        assert_eq!(error.reason, reason, "{what}: {error}");
        assert!(error.message.contains(word), "{what}: {error}");
        assert!(error.message.contains("given.db"), "{what}: {error}");
        assert!(!error.hint.is_empty());
        assert!(
            std::fs::read(&path).unwrap() == *bytes,
            "{what} was changed"
        );
    }
}

#[tokio::test]
async fn an_empty_file_becomes_a_store() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("empty.db");
    std::fs::write(&path, b"").unwrap();
    Engine::open(&Config::new(&path)).unwrap();
}

#[tokio::test]
async fn a_torn_end_of_the_log_loses_nothing_that_was_acknowledged() {
    let lab = Lab::new();
    let known = half_done(&lab).await;
    let lab = lab.crash_with(|folder| {
        // An incomplete frame without a commit, as after a power failure during a write.
        use std::io::Write as _;
        let log = folder.join("store.db-wal");
        let mut file = std::fs::OpenOptions::new().append(true).open(log).unwrap();
        file.write_all(&[0xab; 3_000]).unwrap();
    });
    nothing_is_lost(&lab, &known).await;
}

#[tokio::test]
async fn a_truncated_log_returns_to_an_earlier_consistent_state() {
    // A disk that reports data as stored loses it: the rest of the log must be consistent.
    let lab = Lab::new();
    lab.apply(CHAIN).await;
    lab.worker("w1", &["x"], 4).diligent();
    for n in 0..20 {
        let started = lab.start("chain", json!(n)).await;
        lab.ended(&started.id).await;
    }
    let whole = std::fs::metadata(lab.folder.path().join("store.db-wal"))
        .unwrap()
        .len();
    let mut lab = lab;
    for part in (1..8).rev() {
        lab = lab.crash_with(|folder| {
            let log = std::fs::OpenOptions::new()
                .write(true)
                .open(folder.join("store.db-wal"))
                .unwrap();
            log.set_len(whole * part / 8 + 777).unwrap();
        });
        let list = stateway_engine::ListQuery {
            limit: 100,
            ..Default::default()
        };
        let views = lab.engine.list(list).await.unwrap().items;
        // Those before the cut are whole and the one at the cut goes on.
        lab.worker("w1", &["x"], 4).diligent();
        for view in &views {
            assert_eq!(lab.ended(&view.id).await.sub_state, SubState::Succeeded);
        }
        let numbers: Vec<i64> = views.iter().rev().map(|view| view.number).collect();
        assert_eq!(numbers, (1..=views.len() as i64).collect::<Vec<_>>());
        assert!(lab.engine.survey().await.unwrap().damaged.is_empty());
    }
}

async fn times(lab: &Lab, id: &Arc<str>) -> Vec<jiff::Timestamp> {
    let history = lab.engine.history(id.clone(), 0, 1_000).await.unwrap();
    history.iter().map(|record| record.event.at).collect()
}

#[tokio::test]
async fn a_clock_that_jumps_loses_nothing() {
    const HOUR: i64 = 3_600_000;
    let (lab, clock) = Lab::by_hand();
    lab.apply(&CHAIN.replace("1h", "9h")).await;
    lab.apply("name: nap\nsteps: [{name: a, sleep: 2h}]").await;
    lab.apply(
        "name: retry\nsteps: [{name: a, agent: y, timeout: 9h, retryPolicy: {initialDelay: 10s}}]",
    )
    .await;
    let nap = lab.start("nap", json!(null)).await;
    let mut worker = lab.worker("w1", &["x"], 1);
    let chain = lab.start("chain", json!(null)).await;
    let a = worker.task().await;
    // Back: the log's times do not follow, the lease does not end, the answer counts.
    clock.advance(-HOUR);
    worker.done(&a, json!(1));
    let b = worker.task().await;
    let mut other = lab.worker("w2", &["y"], 1);
    let retry = lab.start("retry", json!(null)).await;
    let attempt = other.task().await;
    other.failed(&attempt, stateway_model::ErrorCategory::Transient);
    lab.until(&retry.id, |view| view.sub_state == SubState::BackingOff)
        .await;
    // Far ahead, and what was due on the way is done; then back again, over a restart.
    clock.advance(HOUR / 2);
    let attempt = other.task().await;
    assert_eq!(attempt.task.attempt, 2);
    clock.advance(3 * HOUR);
    assert_eq!(lab.ended(&nap.id).await.sub_state, SubState::Succeeded);
    drop((worker, other));
    let back = clock.clone();
    let lab = lab.restart_after(move || back.advance(-2 * HOUR));
    let worker = lab.worker("w1", &["x"], 1).remembers(&b);
    worker.done(&b, json!(2));
    let other = lab.worker("w2", &["y"], 1).remembers(&attempt);
    other.done(&attempt, json!(3));
    for id in [&nap.id, &chain.id, &retry.id] {
        let shown = lab.ended(id).await;
        assert_eq!(shown.sub_state, SubState::Succeeded, "{id}");
        let times = times(&lab, id).await;
        assert!(times.is_sorted(), "{times:?}");
    }
}

#[tokio::test]
async fn a_lease_does_not_follow_the_clock() {
    let clock = Clock::manual("2026-01-01T00:00:00Z".parse().unwrap());
    let hand = clock.clone();
    let lab = Lab::with(|config| {
        config.clock = clock;
        config.lease = Duration::from_millis(600);
    });
    lab.apply(CHAIN).await;
    let mut worker = lab.worker("w1", &["x"], 1);
    let started = lab.start("chain", json!(null)).await;
    let task = worker.task().await;
    // An hour of the clock is no time for a worker: the step's own limit is 1h, its lease 0.6 s.
    hand.advance(3_500_000);
    tokio::time::sleep(Duration::from_millis(100)).await;
    worker.done(&task, json!(1));
    let view = lab.until(&started.id, |view| view.steps.len() == 2).await;
    assert_eq!(view.steps[0].sub_state, SubState::Succeeded);
    hand.advance(-7_000_000);
    // And a clock that goes back does not make a silent one live for ever.
    let told = async {
        loop {
            if let WorkerMessage::Closed { reason } = worker.message().await {
                return reason;
            }
        }
    };
    assert_eq!(
        tokio::time::timeout(PATIENCE, told).await.unwrap(),
        "LEASE_EXPIRED"
    );
}
