//! Two engines on one store, a server that goes away, and answers that are lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde_json::json;
use stateway_engine::{
    ApplyDefinition, Config, Engine, EngineError, ErrorKind, ListQuery, Password, PostgresConfig,
    RequestDigest, Start, View,
};
use stateway_model::SubState;
use stateway_postgres_peer::{
    NEWER_VARIABLE, PostgresPeer, Protection, VARIABLE, free_port, programs,
};

use crate::lab::PATIENCE;
use crate::place;
use crate::proxy::Proxy;

const GATE: &str = "name: gate\nsteps: [{name: a, signal: go}]";

pub(crate) fn server() -> PostgresPeer {
    PostgresPeer::start(&programs(VARIABLE).unwrap())
}

pub(crate) fn with_lease(mut config: Config, lease: Duration) -> Config {
    let postgres = config.postgres.take().unwrap().with_lease(lease);
    config.postgres = Some(postgres.unwrap());
    config
}

pub(crate) fn start_as(id: &str) -> Start {
    static REQUESTS: AtomicU32 = AtomicU32::new(0);
    let request = REQUESTS.fetch_add(1, Ordering::Relaxed);
    Start {
        definition: "gate".into(),
        id: Some(id.into()),
        input: Arc::new(json!(null)),
        labels: Default::default(),
        not_before: None,
        actor: "ada".into(),
        request: RequestDigest::new("test", "").key(format!("shared-{request}")),
    }
}

pub(crate) async fn applied(engine: &Engine) {
    let apply = ApplyDefinition {
        source: GATE.to_owned(),
        source_name: "gate.yaml".to_owned(),
        request: None,
    };
    engine.apply(apply).await.unwrap();
}

/// Starts an execution as soon as the engine can.
pub(crate) async fn started_in_time(engine: &Engine, id: &str) -> View {
    let start = start_as(id);
    let work = async {
        loop {
            match engine.start(start.clone()).await {
                Ok(view) => return view,
                Err(error) => assert_eq!(error.kind, ErrorKind::Unavailable, "{error:?}"),
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, work).await.unwrap()
}

pub(crate) async fn ids(engine: &Engine) -> Vec<Arc<str>> {
    let query = ListQuery {
        limit: 100,
        ..ListQuery::default()
    };
    let page = engine.list(query).await.unwrap();
    page.items.into_iter().map(|view| view.id).collect()
}

fn refused(error: &EngineError, reason: &str) {
    assert_eq!(
        (error.kind, error.reason),
        (ErrorKind::Unavailable, reason),
        "{error:?}"
    );
    assert!(error.retry_after.is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_engine_stands_by_and_takes_over_when_the_first_one_stops() {
    let config = place::config(std::path::Path::new(""));
    let first = Engine::open(&config).unwrap();
    applied(&first).await;
    first.start(start_as("kept")).await.unwrap();
    let second = Engine::open(&config).unwrap();
    refused(
        &second.start(start_as("lost")).await.unwrap_err(),
        "STORE_STANDBY",
    );
    refused(
        &second.get("kept".into()).await.unwrap_err(),
        "STORE_STANDBY",
    );
    refused(
        &second.list(ListQuery::default()).await.unwrap_err(),
        "STORE_STANDBY",
    );
    // The first one still works.
    first.start(start_as("more")).await.unwrap();
    let begin = std::time::Instant::now();
    drop(first);
    started_in_time(&second, "after").await;
    // The store was released: nobody waited for the end of the lease.
    assert!(
        begin.elapsed() < Duration::from_secs(8),
        "{:?}",
        begin.elapsed()
    );
    assert_eq!(
        ids(&second).await,
        ["after".into(), "more".into(), "kept".into()]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_is_cut_off_past_its_lease_writes_nothing_and_shows_nothing_old() {
    let server = server();
    let proxy = Proxy::to(server.port());
    let lease = Duration::from_secs(1);
    let first = with_lease(place::at(&server.url_at(proxy.port), "cut_off"), lease);
    let first = Engine::open(&first).unwrap();
    applied(&first).await;
    first.start(start_as("kept")).await.unwrap();
    let second = Engine::open(&with_lease(place::on(&server, "cut_off"), lease)).unwrap();
    proxy.hold();
    // It is sent before the other engine takes over, and arrives afterwards.
    let late = tokio::spawn({
        let first = first.clone();
        async move { first.start(start_as("late")).await }
    });
    started_in_time(&second, "new").await;
    proxy.pass();
    let late = tokio::time::timeout(PATIENCE, late).await.unwrap().unwrap();
    assert_eq!(late.unwrap_err().kind, ErrorKind::Unavailable);
    let stands_by = async {
        loop {
            match first.get("kept".into()).await {
                Err(error) if error.reason == "STORE_STANDBY" => return,
                _ => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    };
    tokio::time::timeout(PATIENCE, stands_by).await.unwrap();
    assert_eq!(ids(&second).await, ["new".into(), "kept".into()]);
    // And back.
    drop(second);
    started_in_time(&first, "again").await;
    assert_eq!(
        ids(&first).await,
        ["again".into(), "new".into(), "kept".into()]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_whose_answer_is_lost_is_settled_and_happens_once() {
    let server = server();
    let proxy = Proxy::to(server.port());
    let engine = Engine::open(&place::at(&server.url_at(proxy.port), "swallowed")).unwrap();
    applied(&engine).await;
    for number in 0..5 {
        proxy.swallow_next_commit();
        engine.start(start_as(&format!("e{number}"))).await.unwrap();
        assert!(proxy.has_swallowed());
    }
    assert_eq!(ids(&engine).await.len(), 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_may_be_stored_is_never_reported_as_left_to_another_engine() {
    let server = server();
    let proxy = Proxy::to(server.port());
    let lease = Duration::from_secs(1);
    let first = with_lease(place::at(&server.url_at(proxy.port), "open"), lease);
    let first = Engine::open(&first).unwrap();
    applied(&first).await;
    let second = Engine::open(&with_lease(place::on(&server, "open"), lease)).unwrap();
    // The commit reaches the server; its answer and the reconnection wait for the take-over.
    proxy.swallow_next_commit_and_hold();
    let unknown = tokio::spawn({
        let first = first.clone();
        async move { first.start(start_as("stored")).await }
    });
    started_in_time(&second, "new").await;
    proxy.pass();
    let unknown = tokio::time::timeout(PATIENCE, unknown).await.unwrap();
    refused(&unknown.unwrap().unwrap_err(), "STORE_UNREACHABLE");
    assert_eq!(ids(&second).await, ["new".into(), "stored".into()]);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_server_every_call_says_so_and_everything_continues_afterwards() {
    let server = server();
    let engine = Engine::open(&place::on(&server, "away")).unwrap();
    applied(&engine).await;
    engine.start(start_as("kept")).await.unwrap();
    server.stop();
    refused(
        &engine.start(start_as("lost")).await.unwrap_err(),
        "STORE_UNREACHABLE",
    );
    refused(
        &engine.list(ListQuery::default()).await.unwrap_err(),
        "STORE_UNREACHABLE",
    );
    server.run();
    started_in_time(&engine, "more").await;
    assert_eq!(ids(&engine).await, ["more".into(), "kept".into()]);
    let kept = engine.get("kept".into()).await.unwrap();
    assert_eq!(kept.sub_state, SubState::Waiting);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_starts_before_its_server_waits_for_it() {
    let url = format!("postgres://stateway@127.0.0.1:{}/postgres", free_port());
    let engine = Engine::open(&place::at(&url, "early")).unwrap();
    refused(
        &engine.start(start_as("lost")).await.unwrap_err(),
        "STORE_UNREACHABLE",
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_work_is_refused_at_the_start() {
    let server = server();
    let url = server.url();
    let (address, _) = url.rsplit_once('/').unwrap();
    let unknown = format!("{address}/nowhere");
    let refused = Engine::open(&place::at(&unknown, "wrong")).unwrap_err();
    assert_eq!(refused.reason, "STORE_NOT_OPENED", "{refused:?}");
    let mut config = place::on(&server, "wrong");
    let postgres = PostgresConfig::new(&server.url()).unwrap();
    let missing = Password::File("/nowhere/password".into());
    config.postgres = Some(postgres.with_password(missing));
    let refused = Engine::open(&config).unwrap_err();
    assert_eq!(refused.reason, "STORE_NOT_OPENED");
    assert!(refused.message.contains("/nowhere/password"), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_newer_server_works_too() {
    let server = PostgresPeer::start(&programs(NEWER_VARIABLE).unwrap());
    let engine = Engine::open(&place::on(&server, "newer")).unwrap();
    applied(&engine).await;
    engine.start(start_as("one")).await.unwrap();
    assert_eq!(ids(&engine).await, ["one".into()]);
}

fn opened(
    url: &str,
    change: impl FnOnce(PostgresConfig) -> PostgresConfig,
) -> Result<Engine, EngineError> {
    let mut config = Config::new("unused");
    config.postgres = Some(change(PostgresConfig::new(url).unwrap()));
    Engine::open(&config)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_password_is_read_from_its_file_for_each_connection_and_never_shown() {
    let protection = Protection {
        password: Some("a secret of the database".to_owned()),
        ..Protection::default()
    };
    let server = PostgresPeer::start_protected(&programs(VARIABLE).unwrap(), &protection);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("password");
    let with_file = |config: PostgresConfig| config.with_password(Password::File(file.clone()));
    std::fs::write(&file, "another secret\n").unwrap();
    let refused = opened(&server.url(), with_file).unwrap_err();
    assert_eq!(refused.reason, "STORE_NOT_OPENED", "{refused:?}");
    assert!(!format!("{refused:?}").contains("another secret"));
    let refused = opened(&server.url(), |config| config).unwrap_err();
    assert!(!refused.message.is_empty());
    std::fs::write(&file, "a secret of the database\n").unwrap();
    let engine = opened(&server.url(), with_file).unwrap();
    applied(&engine).await;
    engine.start(start_as("one")).await.unwrap();
    assert_eq!(ids(&engine).await, ["one".into()]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_is_encrypted_and_the_certificate_of_the_server_is_checked() {
    let certified = || rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let (own, other) = (certified(), certified());
    let protection = Protection {
        certificate: Some((own.cert.pem(), own.signing_key.serialize_pem())),
        ..Protection::default()
    };
    let server = PostgresPeer::start_protected(&programs(VARIABLE).unwrap(), &protection);
    let folder = tempfile::tempdir().unwrap();
    let trusted = |name: &str, pem: String| {
        let file = folder.path().join(name);
        std::fs::write(&file, pem).unwrap();
        move |mut config: PostgresConfig| {
            config.ca_file = Some(file);
            config
        }
    };
    let required = format!(
        "postgres://stateway@localhost:{}/postgres?sslmode=require",
        server.port()
    );
    let engine = opened(&required, trusted("own.pem", own.cert.pem())).unwrap();
    applied(&engine).await;
    engine.start(start_as("one")).await.unwrap();
    drop(engine);
    // Nothing is sent to a server that nobody vouches for, or whose certificate has another name.
    let by_address = required.replace("localhost", "127.0.0.1");
    for engine in [
        opened(&required, trusted("other.pem", other.cert.pem())),
        opened(&by_address, trusted("again.pem", own.cert.pem())),
    ] {
        let refused = engine.unwrap_err();
        assert_eq!(refused.reason, "STORE_NOT_OPENED", "{refused:?}");
        assert!(refused.message.contains("certificate"), "{refused:?}");
    }
}

/// The tables as version 1 created them.
const FIRST_TABLES: &str = include_str!("../../src/store/postgres/migration/001_first.sql");

/// A connection that uses the tables of one schema.
async fn sql(server: &PostgresPeer, schema: &str) -> tokio_postgres::Client {
    let url = server.url();
    let connecting = tokio_postgres::connect(&url, tokio_postgres::NoTls);
    let (client, connection) = connecting.await.unwrap();
    tokio::spawn(async move { drop(connection.await) });
    let prepare = format!("CREATE SCHEMA IF NOT EXISTS {schema}; SET search_path = {schema}");
    client.batch_execute(&prepare).await.unwrap();
    client
}

async fn version(client: &tokio_postgres::Client) -> i64 {
    let found = client
        .query_one("SELECT max(version) FROM schema_version", &[])
        .await;
    found.unwrap().get(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_of_the_version_before_are_migrated_and_used() {
    let server = server();
    let client = sql(&server, "before").await;
    let create = format!(
        "BEGIN; CREATE TABLE schema_version (version bigint PRIMARY KEY); {FIRST_TABLES} \
         INSERT INTO schema_version VALUES (1); \
         UPDATE shards SET epoch = 7, since = 5, turn = 3, position = 40, number = 20; COMMIT;"
    );
    client.batch_execute(&create).await.unwrap();
    let engine = Engine::open(&place::on(&server, "before")).unwrap();
    assert_eq!(version(&client).await, 2);
    applied(&engine).await;
    let started = engine.start(start_as("one")).await.unwrap();
    assert!(started.number > 20, "{started:?}");
    assert_eq!(ids(&engine).await, ["one".into()]);
    drop(engine);
    let row = client
        .query_one("SELECT epoch, turn, address FROM shards", &[])
        .await
        .unwrap();
    assert!(row.get::<_, i64>(0) > 7 && row.get::<_, i64>(1) > 3);
    assert_eq!(row.get::<_, &str>(2), "");
}

#[tokio::test(flavor = "multi_thread")]
async fn newer_tables_are_refused_only_if_this_version_must_not_write_to_them() {
    let server = server();
    let config = place::on(&server, "newer");
    let engine = Engine::open(&config).unwrap();
    applied(&engine).await;
    engine.start(start_as("one")).await.unwrap();
    drop(engine);
    let client = sql(&server, "newer").await;
    let migrate = "INSERT INTO schema_version (version, writable_from) VALUES (3, 2)";
    client.batch_execute(migrate).await.unwrap();
    let engine = Engine::open(&config).unwrap();
    engine.start(start_as("two")).await.unwrap();
    assert_eq!(ids(&engine).await, ["two".into(), "one".into()]);
    assert_eq!(version(&client).await, 3);
    drop(engine);
    let migrate = "INSERT INTO schema_version (version, writable_from) VALUES (4, 4)";
    client.batch_execute(migrate).await.unwrap();
    let refused = Engine::open(&config).unwrap_err();
    assert_eq!(refused.reason, "STORE_TOO_NEW", "{refused:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_stands_by_learns_where_the_owner_is_reached() {
    let server = server();
    let reached_at = |address: &str| {
        let mut config = place::on(&server, "reached");
        let postgres = config.postgres.take().unwrap().with_reached_at(address);
        config.postgres = Some(postgres.unwrap());
        config
    };
    let active = |engine: &Engine| engine.active().borrow().as_deref().map(str::to_owned);
    let eventually = async |engine: &Engine, address: Option<&str>| {
        let mut active = engine.active();
        let changed = active.wait_for(|active| active.as_deref() == address);
        drop(
            tokio::time::timeout(PATIENCE, changed)
                .await
                .unwrap()
                .unwrap(),
        );
    };
    let first = Engine::open(&reached_at("http://127.0.0.1:1")).unwrap();
    let second = Engine::open(&reached_at("http://127.0.0.1:2")).unwrap();
    let silent = Engine::open(&place::on(&server, "reached")).unwrap();
    assert_eq!(active(&first), None);
    assert_eq!(active(&second).as_deref(), Some("http://127.0.0.1:1"));
    assert_eq!(active(&silent).as_deref(), Some("http://127.0.0.1:1"));
    drop(first);
    drop(silent);
    eventually(&second, None).await;
    applied(&second).await;
    let third = Engine::open(&reached_at("http://127.0.0.1:3")).unwrap();
    assert_eq!(active(&third).as_deref(), Some("http://127.0.0.1:2"));
    // A gateway of version 1 becomes the owner, and leaves the address as it is.
    let client = sql(&server, "reached").await;
    let take = "UPDATE shards SET epoch = epoch + 1, since = epoch + 1, owner = 'another', \
                lease_until = clock_timestamp() + interval '1 hour'";
    client.batch_execute(take).await.unwrap();
    eventually(&third, None).await;
    refused(
        &third.start(start_as("lost")).await.unwrap_err(),
        "STORE_STANDBY",
    );
}
