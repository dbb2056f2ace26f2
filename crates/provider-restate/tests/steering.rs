//! What the contract kit cannot know: Restate's own ways, each against a stand-in for the server.

#![allow(clippy::needless_pass_by_value, clippy::unwrap_used)]

use crate::fake;

use std::time::Duration;

use jiff::Timestamp;
use serde_json::json;
use stateway_model::{ExecutionId, Payload, Reason, SubState, WaitKind};
use stateway_provider_api::table::compiled_in;
use stateway_provider_api::{
    Call, CancelMode, CancelRequest, CompensationChoice, Error, ErrorKind, Mapper, Observation,
    PauseRequest, Provider, PurgeRequest, RequestId, RetryFromRequest, RetryNowRequest,
    SignalRequest, StartDefinition, StartRequest, View,
};
use stateway_provider_restate::{Config, RestateProvider};

use fake::{Fake, Invocation, entry};

fn call() -> Call {
    Call::within(Duration::from_secs(5))
}

fn request_id() -> RequestId {
    "r-1".parse().unwrap()
}

fn on(config: &Config) -> RestateProvider {
    RestateProvider::new(
        "restate".parse().unwrap(),
        config,
        compiled_in("restate").unwrap(),
    )
    .unwrap()
}

fn execution(id: &str) -> ExecutionId {
    ExecutionId::new(id).unwrap()
}

fn status(status: &str) -> Invocation {
    Invocation {
        row: json!({"status": status}),
        ..Invocation::default()
    }
}

fn shown(seen: Observation) -> (SubState, Option<Reason>) {
    let table = compiled_in("restate").unwrap();
    let mapper = Mapper::new("restate".parse().unwrap());
    let shown = mapper.execution(&table, seen, Timestamp::now());
    (shown.sub_state, shown.reason)
}

fn cancel(id: &str) -> CancelRequest {
    CancelRequest {
        id: execution(id),
        mode: CancelMode::Graceful,
        compensation: CompensationChoice::AsDefined,
        comment: String::new(),
        request_id: request_id(),
    }
}

fn signal(id: &str, signal: &str) -> SignalRequest {
    SignalRequest {
        id: execution(id),
        signal: signal.to_owned(),
        payload: Some(Payload::json(r#""yes""#)),
        request_id: request_id(),
    }
}

fn start(definition: &str) -> StartRequest {
    StartRequest {
        definition: StartDefinition::native(definition),
        options: Default::default(),
        execution_id: None,
        input: Some(Payload::json("1")),
        labels: Default::default(),
        delay: None,
        request_id: request_id(),
    }
}

fn kind_and_reason(error: Error) -> (ErrorKind, String) {
    (error.kind, error.reason().to_owned())
}

/// Lets time pass between two looks of a watch.
async fn pass(time: Duration) {
    tokio::time::pause();
    tokio::time::advance(time).await;
    tokio::time::resume();
}

/// What a look of a watch asks: queries of the whole in-memory table, and of rows.
async fn look(fake: &Fake, provider: &RestateProvider, ids: &[ExecutionId]) -> (usize, usize) {
    let before = fake.queries().await.len();
    let seen = provider.observe(&call(), ids).await;
    assert!(seen.iter().all(Result::is_ok));
    let asked = fake.queries().await.split_off(before);
    let of = |table: &str| asked.iter().filter(|it| it.contains(table)).count();
    let (beats, rows) = (of("FROM sys_invocation_state "), of("FROM sys_invocation "));
    assert!(beats + rows == asked.len() || before == 0, "{asked:#?}");
    (beats, rows)
}

/// Running and suspended ones in turn; the latter need a second query, once.
fn put_mixed(fake: &Fake, count: usize) -> Vec<ExecutionId> {
    let of = |number: usize| match number % 2 {
        0 => status("running"),
        _ => status("suspended"),
    };
    let put = |number| execution(&fake.put(of(number)));
    (0..count).map(put).collect()
}

#[tokio::test]
async fn watching_costs_at_most_one_query_for_each_hundred_and_look() {
    let fake = Fake::new().await;
    let ids = put_mixed(&fake, 250);
    let provider = on(&fake.config());
    // Of what was never seen, and of what has just been seen for the first time, every row is read.
    assert_eq!(look(&fake, &provider, &ids).await, (0, 3));
    pass(Duration::from_secs(20)).await;
    assert_eq!(look(&fake, &provider, &ids).await, (0, 3));
    // From then on the in-memory table tells whether there is anything to read.
    for _ in 0..4 {
        pass(Duration::from_secs(1)).await;
        assert_eq!(look(&fake, &provider, &ids).await, (1, 0));
    }
    // What it cannot tell is read every five seconds.
    pass(Duration::from_secs(1)).await;
    assert_eq!(look(&fake, &provider, &ids).await, (0, 3));
}

#[tokio::test]
async fn only_what_has_moved_is_read_again() {
    let fake = Fake::new().await;
    let ids = put_mixed(&fake, 100);
    let provider = on(&fake.config());
    look(&fake, &provider, &ids).await;
    pass(Duration::from_secs(20)).await;
    look(&fake, &provider, &ids).await;
    // One ends, one wakes up, one fails.
    for (id, column, value) in [
        (&ids[0], "status", "completed"),
        (&ids[1], "status", "running"),
        (&ids[2], "last_failure", "[500] boom"),
    ] {
        let mut world = fake.world.lock().unwrap();
        let it = world.invocations.get_mut(id.as_str()).unwrap();
        it.set(column, json!(value));
    }
    pass(Duration::from_secs(1)).await;
    let before = fake.queries().await.len();
    let seen = provider.observe(&call(), &ids).await;
    let native: Vec<&str> = seen[..4]
        .iter()
        .map(|it| it.as_ref().unwrap().native.state.as_str())
        .collect();
    assert_eq!(native, ["completed", "running", "running", "suspended"]);
    let asked = fake.queries().await.split_off(before);
    assert_eq!(asked.len(), 2, "{asked:#?}");
    assert_eq!(asked[1].matches("inv_").count(), 3, "{}", asked[1]);
}

#[tokio::test]
async fn what_was_asked_of_an_invocation_is_seen_at_once() {
    let fake = Fake::new().await;
    let id = execution(&fake.put(status("scheduled")));
    let provider = on(&fake.config());
    for _ in 0..2 {
        look(&fake, &provider, std::slice::from_ref(&id)).await;
        pass(Duration::from_secs(3)).await;
    }
    provider.cancel(&call(), cancel(id.as_str())).await.unwrap();
    let gone = provider.observe(&call(), &[id]).await.remove(0);
    assert_eq!(gone.unwrap_err().kind, ErrorKind::NotFound);
}

#[tokio::test]
async fn an_open_invocation_is_read_by_one_query() {
    let fake = Fake::new().await;
    let mut failing = status("backing-off");
    failing.row["retry_count"] = json!(2);
    let ids = [
        status("running"),
        failing,
        status("scheduled"),
        status("pending"),
    ];
    let ids = ids.map(|it| execution(&fake.put(it)));
    let provider = on(&fake.config());
    provider.get(&call(), &ids[1], View::Basic).await.unwrap();
    for id in &ids {
        let before = fake.requests().await.len();
        provider.get(&call(), id, View::Basic).await.unwrap();
        assert_eq!(fake.requests().await.len() - before, 1);
    }
    // What a suspended one waits for is asked for once.
    let suspended = execution(&fake.put(status("suspended")));
    provider
        .get(&call(), &suspended, View::Basic)
        .await
        .unwrap();
    let before = fake.requests().await.len();
    provider
        .get(&call(), &suspended, View::Basic)
        .await
        .unwrap();
    assert_eq!(fake.requests().await.len() - before, 1);
}

#[tokio::test]
async fn what_is_understood_is_read_again_when_the_row_changes() {
    let fake = Fake::new().await;
    let mut paused = status("paused");
    let event = |body: serde_json::Value, at: &str| {
        json!({"event_type": "Paused", "event_json": body.to_string(), "appended_at": at,
               "after_journal_entry_index": 0})
    };
    let failed = json!({"ty": "Paused", "last_failure": {"error_message": "boom"}});
    paused.events = vec![event(failed, "2026-11-15T23:00:00Z")];
    let id = fake.put(paused);
    let provider = on(&fake.config());
    let get = async || {
        provider
            .get(&call(), &execution(&id), View::Basic)
            .await
            .unwrap()
    };
    let exhausted = (SubState::Error, Some(Reason::RetriesExhausted));
    assert_eq!(shown(get().await), exhausted);
    {
        let mut world = fake.world.lock().unwrap();
        let it = world.invocations.get_mut(&id).unwrap();
        it.events
            .push(event(json!({"ty": "Paused"}), "2026-11-15T23:00:01Z"));
        it.set("status", json!("paused"));
    }
    assert_eq!(
        shown(get().await),
        (SubState::Waiting, Some(Reason::Paused))
    );
}

#[tokio::test]
async fn cancelling_what_has_not_begun_is_a_cancellation_and_then_it_is_gone() {
    let fake = Fake::new().await;
    let id = fake.put(status("scheduled"));
    let provider = on(&fake.config());
    provider
        .get(&call(), &execution(&id), View::Basic)
        .await
        .unwrap();
    let ended = provider.cancel(&call(), cancel(&id)).await.unwrap();
    assert_eq!(shown(ended), (SubState::Failed, Some(Reason::Cancelled)));
    let gone = provider.get(&call(), &execution(&id), View::Basic).await;
    let gone = gone.unwrap_err();
    assert!(
        gone.message.contains("its last known status is scheduled"),
        "{gone}"
    );
    assert_eq!(
        kind_and_reason(gone),
        (ErrorKind::NotFound, "EXECUTION_FORGOTTEN".to_owned())
    );
    let never = provider
        .get(&call(), &execution(&fake::id(99)), View::Basic)
        .await;
    assert_eq!(
        kind_and_reason(never.unwrap_err()),
        (ErrorKind::NotFound, "EXECUTION_NOT_FOUND".to_owned())
    );
}

#[tokio::test]
async fn a_paused_invocation_that_is_cancelled_is_still_shown_as_paused() {
    let fake = Fake::new().await;
    let id = fake.put(status("paused"));
    let seen = on(&fake.config())
        .cancel(&call(), cancel(&id))
        .await
        .unwrap();
    assert_eq!(seen.native.state, "paused");
}

#[tokio::test]
async fn a_pause_that_the_server_would_ignore_is_refused() {
    let fake = Fake::new().await;
    fake.world.lock().unwrap().vqueues = false;
    let id = fake.put(status("suspended"));
    let request = PauseRequest {
        id: execution(&id),
        comment: String::new(),
        request_id: request_id(),
    };
    let refused = on(&fake.config())
        .pause(&call(), request)
        .await
        .unwrap_err();
    assert_eq!(refused.kind, ErrorKind::FailedPrecondition);
}

#[tokio::test]
async fn an_awakeable_is_answered_by_the_name_that_the_wait_shows() {
    let fake = Fake::new().await;
    let mut suspended = status("suspended");
    suspended.row["suspended_waiting_for_signals"] = json!([1, 17]);
    let id = fake.put(suspended);
    let provider = on(&fake.config());
    let seen = provider
        .get(&call(), &execution(&id), View::Basic)
        .await
        .unwrap();
    let awakeable = seen.waits[0].name.clone();
    provider
        .signal(&call(), signal(&id, &awakeable))
        .await
        .unwrap();
    let reject = format!("{awakeable}/reject");
    provider
        .signal(&call(), signal(&id, &reject))
        .await
        .unwrap();
    let answered = fake.world.lock().unwrap().answered.clone();
    let expected = [
        format!("{awakeable} resolve"),
        format!("{awakeable} reject"),
    ];
    assert_eq!(answered, expected);

    let other = fake.put(status("suspended"));
    let refused = provider.signal(&call(), signal(&other, &awakeable)).await;
    assert_eq!(refused.unwrap_err().kind, ErrorKind::InvalidArgument);
}

#[tokio::test]
async fn a_promise_is_resolved_by_the_handler_that_is_bound_to_it() {
    let fake = Fake::new().await;
    let mut config = fake.config();
    let bound = ("Order/approval".to_owned(), "approve".to_owned());
    config.signals.extend([bound]);
    let provider = on(&config);
    let order = provider
        .start(&call(), start("Order/o-1/run"))
        .await
        .unwrap();
    let id = order.id.as_str();
    provider
        .signal(&call(), signal(id, "approval"))
        .await
        .unwrap();
    let sent = fake.requests().await;
    let path = "/restate/send/Order/o-1/approve";
    assert!(
        sent.iter()
            .any(|it| it.url.path() == path && it.body == br#""yes""#)
    );
    let unbound = provider.signal(&call(), signal(id, "refund")).await;
    assert_eq!(
        kind_and_reason(unbound.unwrap_err()),
        (ErrorKind::FailedPrecondition, "SIGNAL_NOT_FOUND".to_owned())
    );
}

#[tokio::test]
async fn a_workflow_is_started_by_its_key_and_repeating_it_is_the_same_workflow() {
    let fake = Fake::new().await;
    let provider = on(&fake.config());
    let first = provider.start(&call(), start("Order/run")).await.unwrap();
    let again = provider.start(&call(), start("Order/run")).await.unwrap();
    assert_eq!(first.id, again.id);
    assert_eq!(first.labels.get("key").map(String::as_str), Some("r-1"));
    let sent = fake.requests().await;
    assert!(
        sent.iter()
            .all(|it| !it.headers.contains_key("idempotency-key"))
    );
    let other = StartRequest {
        request_id: "r-2".parse().unwrap(),
        ..start("Order/r-1/run")
    };
    let taken = provider.start(&call(), other).await.unwrap_err();
    assert_eq!(
        kind_and_reason(taken),
        (
            ErrorKind::AlreadyExists,
            "EXECUTION_ALREADY_EXISTS".to_owned()
        )
    );
}

#[tokio::test]
async fn a_key_with_a_slash_stays_one_key() {
    let fake = Fake::new().await;
    let provider = on(&fake.config());
    provider
        .start(&call(), start("Cell/a/b/add"))
        .await
        .unwrap();
    let sent = fake.requests().await;
    let path = "/restate/send/Cell/a%2Fb/add";
    assert!(sent.iter().any(|it| it.url.path() == path));
}

#[tokio::test]
async fn a_step_is_done_again_with_what_was_done_before_it() {
    let fake = Fake::new().await;
    let run = |index: u32, name: &str, completion: u32| {
        let brief = json!({"Command": {"Run": {"completion_id": completion, "name": name}}});
        entry(index, "Command: Run", name, brief)
    };
    let failed = json!({"Notification": {"ty": {"Completion": "Run"}, "id": {"CompletionId": 2},
                        "result": "Failure"}});
    let id = fake.put(Invocation {
        row: json!({"status": "completed", "completion_result": "failure"}),
        journal: vec![
            entry(0, "Command: Input", "", json!({"Command": {"Input": {}}})),
            run(1, "first", 1),
            entry(2, "Notification: Run", "", json!({})),
            run(3, "second", 2),
            entry(4, "Notification: Run", "", failed),
        ],
        ..Invocation::default()
    });
    let provider = on(&fake.config());
    for (step, from) in [("", "from=2"), ("second", "from=2"), ("first", "from=0")] {
        let request = RetryFromRequest {
            id: execution(&id),
            step: step.to_owned(),
            input: None,
            feedback: String::new(),
            from_start: false,
            request_id: format!("r-{step}").parse().unwrap(),
            execution_id: None,
        };
        let again = provider.retry_from(&call(), request).await.unwrap();
        let mut world = fake.world.lock().unwrap();
        let it = world.invocations.get_mut(again.id.as_str()).unwrap();
        assert_eq!(it.row["asked"], json!(from), "{step}");
        it.set("status", json!("completed"));
    }
}

fn again(id: &str, request: &str) -> RetryFromRequest {
    RetryFromRequest {
        id: execution(id),
        step: String::new(),
        input: None,
        feedback: String::new(),
        from_start: false,
        request_id: request.parse().unwrap(),
        execution_id: None,
    }
}

#[tokio::test]
async fn a_repeated_restart_is_the_same_restart() {
    let fake = Fake::new().await;
    let id = fake.put(Invocation {
        row: json!({"status": "completed", "completion_result": "failure"}),
        journal: vec![entry(
            0,
            "Command: Input",
            "",
            json!({"Command": {"Input": {}}}),
        )],
        ..Invocation::default()
    });
    let provider = on(&fake.config());
    let first = provider
        .retry_from(&call(), again(&id, "r-1"))
        .await
        .unwrap();
    let same = provider
        .retry_from(&call(), again(&id, "r-1"))
        .await
        .unwrap();
    assert_eq!(same.id, first.id);
    // A gateway that knows nothing of it finds the new invocation as long as it is open.
    let other = on(&fake.config());
    let found = other.retry_from(&call(), again(&id, "r-1")).await.unwrap();
    assert_eq!(found.id, first.id);
    {
        let mut world = fake.world.lock().unwrap();
        let it = world.invocations.get_mut(first.id.as_str()).unwrap();
        it.set("status", json!("completed"));
        it.set("completion_result", json!("failure"));
    }
    // Once that has ended too, the same request is still the same, and another one is another.
    let same = provider
        .retry_from(&call(), again(&id, "r-1"))
        .await
        .unwrap();
    assert_eq!(same.id, first.id);
    let second = provider
        .retry_from(&call(), again(&id, "r-2"))
        .await
        .unwrap();
    assert_ne!(second.id, first.id);
    let mut reused = again(second.id.as_str(), "r-2");
    let refused = provider
        .retry_from(&call(), reused.clone())
        .await
        .unwrap_err();
    assert_eq!(
        kind_and_reason(refused),
        (ErrorKind::AlreadyExists, "REQUEST_ID_REUSED".to_owned())
    );
    reused.request_id = "r-3".parse().unwrap();
    let open = provider.retry_from(&call(), reused).await.unwrap_err();
    assert_eq!(open.kind, ErrorKind::FailedPrecondition);
}

#[tokio::test]
async fn only_the_step_that_failed_can_be_tried_now() {
    let fake = Fake::new().await;
    let mut failing = status("backing-off");
    failing.row["retry_count"] = json!(2);
    failing.row["last_failure"] = json!("[500] boom");
    failing.row["last_failure_related_command_name"] = json!("charge");
    let id = fake.put(failing);
    let provider = on(&fake.config());
    let retry = |step: &str| RetryNowRequest {
        id: execution(&id),
        step: step.to_owned(),
        request_id: request_id(),
    };
    let other = provider.retry_now(&call(), retry("ship")).await;
    assert_eq!(
        kind_and_reason(other.unwrap_err()),
        (ErrorKind::NotFound, "STEP_NOT_FOUND".to_owned())
    );
    let seen = provider.retry_now(&call(), retry("charge")).await.unwrap();
    assert_eq!(seen.native.state, "running");
}

#[tokio::test]
async fn a_server_that_starts_is_unavailable_and_not_healthy() {
    let fake = Fake::new().await;
    fake.world.lock().unwrap().starting = true;
    let provider = on(&fake.config());
    let health = provider.health(&call()).await.unwrap_err();
    assert_eq!(health.kind, ErrorKind::Unavailable);
    let got = provider
        .get(&call(), &execution(&fake::id(1)), View::Basic)
        .await;
    assert!(got.unwrap_err().kind.is_retryable());
    fake.world.lock().unwrap().starting = false;
    assert_eq!(
        provider.health(&call()).await.unwrap().engine_version,
        "1.7.12"
    );
}

#[tokio::test]
async fn an_older_server_is_used_by_what_it_has() {
    let fake = Fake::new().await;
    {
        let mut world = fake.world.lock().unwrap();
        world.version = "1.4.4".to_owned();
        world.vqueues = false;
        for column in ["event_json", "after_journal_entry_index"] {
            world.missing.insert(format!("sys_journal_events.{column}"));
        }
        world
            .missing
            .insert("sys_invocation.last_failure_related_command_name".to_owned());
        world
            .missing
            .insert("sys_journal.entry_lite_json".to_owned());
    }
    let provider = on(&fake.config());
    provider.start(&call(), start("Lab/long")).await.unwrap();
    let id = fake.put(status("paused"));
    let seen = provider
        .get(&call(), &execution(&id), View::Basic)
        .await
        .unwrap();
    assert_eq!(shown(seen), (SubState::Error, Some(Reason::Paused)));
    let sent = fake.requests().await;
    assert!(sent.iter().any(|it| it.url.path() == "/Lab/long/send"));
    for query in fake.queries().await {
        assert!(!query.contains("related_command_name"), "{query}");
        assert!(!query.contains("FROM sys_journal_events"), "{query}");
    }
}

#[tokio::test]
async fn a_server_that_is_too_old_is_refused_with_what_to_do() {
    let fake = Fake::new().await;
    fake.world.lock().unwrap().version = "1.3.2".to_owned();
    let refused = on(&fake.config()).health(&call()).await.unwrap_err();
    assert_eq!(
        kind_and_reason(refused),
        (
            ErrorKind::FailedPrecondition,
            "PROVIDER_VERSION_NOT_SUPPORTED".to_owned()
        )
    );
}

#[tokio::test]
async fn tokens_go_to_their_own_api_and_into_no_error() {
    let fake = Fake::new().await;
    let folder = tempfile::tempdir().unwrap();
    let token = |name: &str, text: &str| {
        let file = folder.path().join(name);
        std::fs::write(&file, text).unwrap();
        Some(file)
    };
    let mut config = fake.config();
    config.admin.bearer_file = token("admin", "admin-secret\n");
    config.ingress.bearer_file = token("ingress", "ingress-secret");
    let provider = on(&config);
    provider.start(&call(), start("Lab/long")).await.unwrap();
    for request in fake.requests().await {
        let expected = if request.url.path().starts_with("/restate/") {
            "Bearer ingress-secret"
        } else {
            "Bearer admin-secret"
        };
        assert_eq!(request.headers["authorization"], expected);
    }
    drop(fake);
    let gone = on(&Config::at("http://127.0.0.1:1", "http://127.0.0.1:1"));
    let error = gone.health(&call()).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unavailable);
    assert!(!format!("{error:?}").contains("secret"));
}

#[test]
fn a_configuration_that_cannot_be_used_is_refused_at_start() {
    let refused = |change: fn(&mut Config)| {
        let mut config = Config::default();
        change(&mut config);
        let made = RestateProvider::new(
            "restate".parse().unwrap(),
            &config,
            compiled_in("restate").unwrap(),
        );
        made.err().unwrap().to_string()
    };
    let url = refused(|it| it.admin.url = "localhost:9070".into());
    assert_eq!(
        url,
        "`admin.url`: `localhost:9070` is not an http or https address"
    );
    let missing = refused(|it| it.ingress.identity_file = Some("/nowhere/key.pem".into()));
    assert!(
        missing.starts_with("`ingress`: /nowhere/key.pem: "),
        "{missing}"
    );
    let token = refused(|it| it.admin.bearer_env = Some("STATEWAY_NO_SUCH_VARIABLE".into()));
    assert!(
        token.contains("the variable STATEWAY_NO_SUCH_VARIABLE"),
        "{token}"
    );
}

#[tokio::test]
async fn a_finished_invocation_can_be_purged_and_an_open_one_cannot() {
    let fake = Fake::new().await;
    let provider = on(&fake.config());
    let purge = |id: &str| PurgeRequest {
        id: execution(id),
        request_id: request_id(),
    };
    let open = fake.put(status("running"));
    let refused = provider.purge(&call(), purge(&open)).await.unwrap_err();
    assert_eq!(
        kind_and_reason(refused),
        (ErrorKind::FailedPrecondition, "NOT_FINISHED".to_owned())
    );
    let done = fake.put(Invocation {
        row: json!({"status": "completed", "completion_result": "success"}),
        ..Invocation::default()
    });
    provider.purge(&call(), purge(&done)).await.unwrap();
    let gone = provider.get(&call(), &execution(&done), View::Basic).await;
    assert_eq!(gone.unwrap_err().kind, ErrorKind::NotFound);
}

#[tokio::test]
async fn input_and_output_are_shown_as_they_were() {
    let fake = Fake::new().await;
    let provider = on(&fake.config());
    let started = provider.start(&call(), start("Lab/long")).await.unwrap();
    {
        let mut world = fake.world.lock().unwrap();
        let it = world.invocations.get_mut(started.id.as_str()).unwrap();
        it.set("status", json!("completed"));
        it.set("completion_result", json!("success"));
        it.output = Some(json!({"total": 7}));
    }
    let full = provider
        .get(&call(), &started.id, View::Full)
        .await
        .unwrap();
    assert_eq!(full.input, Some(Payload::json("1")));
    assert_eq!(full.output, Some(Payload::json(r#"{"total":7}"#)));
}

/// Name, native word, result, what it waits for.
type Told = (String, String, Option<String>, Option<WaitKind>);

#[tokio::test]
async fn the_full_view_tells_the_steps_of_the_journal_and_they_decide_nothing() {
    let fake = Fake::new().await;
    let command = |index: u32, kind: &str, name: &str, body: serde_json::Value| {
        let brief = json!({"Command": {kind: body}});
        entry(index, &format!("Command: {kind}"), name, brief)
    };
    let told = |index: u32, id: u32, result: &str| {
        let brief = json!({"Notification": {"ty": {"Completion": "x"}, "id": {"CompletionId": id},
                           "result": result}});
        entry(index, "Notification: x", "", brief)
    };
    let target = json!({"Service": {"name": "Lab", "handler": "sleep"}});
    let mut it = status("suspended");
    it.row["suspended_waiting_for_signals"] = json!([1, 17]);
    it.row["suspended_waiting_for_completions"] = json!([5]);
    it.journal = vec![
        command(0, "Input", "", json!({})),
        command(
            1,
            "Run",
            "charge",
            json!({"completion_id": 1, "name": "charge"}),
        ),
        told(2, 1, "Success"),
        command(
            3,
            "Run",
            "charge",
            json!({"completion_id": 2, "name": "charge"}),
        ),
        told(4, 2, "Failure"),
        command(5, "SetState", "", json!({"key": "k"})),
        command(
            6,
            "OneWayCall",
            "",
            json!({"invocation_id_completion_id": 3, "invocation_target": target}),
        ),
        told(7, 3, "InvocationId"),
        command(
            8,
            "Call",
            "",
            json!({"invocation_id": fake::id(9), "invocation_target": target,
                "invocation_id_completion_id": 4, "result_completion_id": 5}),
        ),
        told(9, 4, "InvocationId"),
        command(
            10,
            "Sleep",
            "",
            json!({"wake_up_time": 1_794_785_728_776_i64, "completion_id": 6}),
        ),
        command(
            11,
            "GetPromise",
            "",
            json!({"key": "approval", "completion_id": 7}),
        ),
    ];
    let id = execution(&fake.put(it));
    let provider = on(&fake.config());
    let basic = provider.get(&call(), &id, View::Basic).await.unwrap();
    assert!(basic.steps.is_empty());
    let before = fake.requests().await.len();
    let full = provider.get(&call(), &id, View::Full).await.unwrap();
    // The row, and the journal that is read for the input anyway.
    assert_eq!(fake.requests().await.len() - before, 2);
    let seen: Vec<Told> = full
        .steps
        .iter()
        .map(|step| {
            let result = step.native.qualifiers.get("result").cloned();
            let waits = step.waits.first().map(|wait| wait.kind);
            (step.name.clone(), step.native.state.clone(), result, waits)
        })
        .collect();
    let step = |name: &str, native: &str, result: Option<&str>, waits| {
        (
            name.to_owned(),
            native.to_owned(),
            result.map(str::to_owned),
            waits,
        )
    };
    let awakeable = full.waits[0].name.clone();
    assert_eq!(
        seen,
        [
            step("charge", "Run", Some("success"), None),
            step("charge#2", "Run", Some("failure"), None),
            step("Lab/sleep", "OneWayCall", Some("success"), None),
            step("Lab/sleep#2", "Call", None, Some(WaitKind::Child)),
            step("sleep", "Sleep", None, Some(WaitKind::Timer)),
            step("approval", "GetPromise", None, Some(WaitKind::Signal)),
            step(&awakeable, "Awakeable", None, Some(WaitKind::Callback)),
        ]
    );
    let table = compiled_in("restate").unwrap();
    let mapper = Mapper::new("restate".parse().unwrap());
    let [basic, full] = [basic, full].map(|it| mapper.execution(&table, it, Timestamp::UNIX_EPOCH));
    assert_eq!(basic.etag(), full.etag());
    assert_eq!((basic.sub_state, basic.waits), (full.sub_state, full.waits));
}

#[tokio::test]
async fn the_step_that_fails_has_the_attempts() {
    let fake = Fake::new().await;
    let mut failing = status("backing-off");
    failing.row["retry_count"] = json!(2);
    failing.row["next_retry_at"] = json!("2099-01-01T00:00:00Z");
    failing.row["last_failure"] = json!("[500] boom");
    failing.row["last_failure_related_command_name"] = json!("charge");
    let run = json!({"Command": {"Run": {"completion_id": 1, "name": "charge"}}});
    failing.journal = vec![entry(1, "Command: Run", "charge", run)];
    let id = execution(&fake.put(failing));
    let seen = on(&fake.config())
        .get(&call(), &id, View::Full)
        .await
        .unwrap();
    let table = compiled_in("restate").unwrap();
    let mapper = Mapper::new("restate".parse().unwrap());
    let shown = mapper.execution(&table, seen, Timestamp::now());
    assert_eq!(shown.steps[0].sub_state, SubState::BackingOff);
    assert_eq!(shown.steps[0].retry, shown.retry);
    assert_eq!(shown.steps[0].last_error.as_ref().unwrap().message, "boom");
}
