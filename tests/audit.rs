//! What is recorded: every mutation over the API, from pages and by workers, and nothing that is only read.

use std::collections::BTreeMap;
use std::path::Path;

use stateway_audit::{ChainKey, Record, parse};
use stateway_client::v1;
use stateway_gateway::{AuditLog, AuditSettings};
use stateway_visitor::Visitor;

use crate::security::wire::{Ask, every_method, framed};
use crate::support::{BuiltInRig, by};

const HELLO: &str = "name: hello\nsteps: [{name: a, signal: go}]";

async fn rig(folder: &Path) -> BuiltInRig {
    let audit = AuditSettings::new(folder.join("audit.jsonl"));
    BuiltInRig::start_beside(|mut gateway| {
        gateway.settings.audit = Some(audit);
        gateway
    })
    .await
}

/// The records so far. The gateway still runs: each was written before its answer.
fn records(folder: &Path) -> Vec<Record> {
    let log = AuditLog::new(folder.join("audit.jsonl"), ChainKey::default());
    let report = log.verify(Vec::new()).expect("the log can be read");
    assert!(report.is_intact(), "{report:?}");
    let mut found = Vec::new();
    log.each(|line| {
        let line = parse(&ChainKey::default(), line.text).expect("a record");
        found.push(line.record);
    })
    .expect("the log can be read");
    found
}

#[tokio::test]
async fn every_method_that_changes_something_has_a_record_and_no_other_has() {
    let folder = tempfile::tempdir().unwrap();
    let rig = rig(folder.path()).await;
    let mut called = 0;
    for path in every_method() {
        if path.starts_with("/stateway.v1.") {
            let headers = [("content-type", "application/grpc"), ("grpc-timeout", "3S")];
            let message = framed(&[]);
            let ask = Ask::new("POST", &path, &headers).body(&message);
            ask.http2(rig.gateway.address).await;
            called += 1;
        }
    }
    let mut verbs: BTreeMap<String, usize> = BTreeMap::new();
    for record in records(folder.path()).into_iter().skip(1) {
        *verbs.entry(record.verb).or_default() += 1;
    }
    assert!(called > 45, "{called}");
    assert_eq!(verbs.len(), 21, "{verbs:?}");
    assert!(verbs.values().all(|count| *count == 1), "{verbs:?}");
    for verb in ["StartExecution", "StreamTasks", "MigrateDefinition"] {
        assert!(verbs.contains_key(verb), "{verb}");
    }
}

#[tokio::test]
async fn a_start_over_the_api_and_from_a_page_says_who_what_and_from_where() {
    let folder = tempfile::tempdir().unwrap();
    let rig = rig(folder.path()).await;
    rig.apply(HELLO).await;
    let mut client = rig.gateway.executions().await;
    let mut start = by(
        "ada",
        "ops",
        v1::StartExecutionRequest {
            definition: "definitions/hello".into(),
            execution_id: "x1".into(),
            input: Some(v1::Payload {
                data: "{\"card\": \"sentinel-payload\"}".into(),
                content_type: "application/json".into(),
            }),
            ..v1::StartExecutionRequest::default()
        },
    );
    start
        .metadata_mut()
        .insert("x-request-id", "r-17".parse().unwrap());
    client.start_execution(start).await.expect("it starts");
    let mut visit = Visitor::by(&rig.gateway, "eve", "").await;
    let page = visit.get("/definitions/hello").await;
    let fields = [("input", "{}"), ("id", "x2"), ("labels", "")];
    visit
        .send(&page, "/definitions/hello/start", &fields)
        .await
        .is(303);

    let starts: Vec<_> = records(folder.path())
        .into_iter()
        .filter(|record| record.verb == "StartExecution")
        .collect();
    let [by_api, by_page] = &starts[..] else {
        panic!("{starts:?}");
    };
    assert_eq!((&*by_api.actor, &*by_api.proof), ("ada", "claimed"));
    assert_eq!(by_api.roles, ["ops"]);
    assert_eq!(by_api.object, "definitions/hello");
    assert_eq!(by_api.result, "providers/b/executions/x1");
    assert_eq!((&*by_api.outcome, &*by_api.request_id), ("OK", "r-17"));
    assert!(by_api.address.starts_with("127.0.0.1:"), "{by_api:?}");
    assert_eq!(
        (&*by_page.actor, &*by_page.result),
        ("eve", "providers/b/executions/x2")
    );
    assert!(by_page.address.starts_with("127.0.0.1:"), "{by_page:?}");
    assert!(!by_page.request_id.is_empty(), "{by_page:?}");

    let text = std::fs::read_to_string(folder.path().join("audit.jsonl")).unwrap();
    assert!(!text.contains("sentinel-payload"));
}

#[tokio::test]
async fn a_worker_that_connects_is_recorded_with_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let rig = rig(folder.path()).await;
    let offer = v1::Offer {
        worker_id: "w1".into(),
        roles: vec!["shop".into()],
        capacity: 1,
        ..v1::Offer::default()
    };
    let _worker = rig.work_as("robot", offer).await.expect("it connects");
    let records = records(folder.path());
    let last = records.last().expect("a record");
    assert_eq!((&*last.verb, &*last.actor), ("StreamTasks", "robot"));
    assert_eq!(last.result, "providers/b/workers/w1");
}
