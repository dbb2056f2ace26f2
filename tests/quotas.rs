//! What one caller may use: starts and open streams, each with a pause and with figures.

use std::time::Duration;

use jiff::Timestamp;
use stateway_access::{Place, Rules};
use stateway_client::v1;
use stateway_gateway::{Quota, RulesSource};
use stateway_identity::api_key::{KeyFile, NewKey, RANDOM_BYTES};
use tonic::{Code, Request};

use crate::support::{BuiltInRig, reason_of, retry_delay_of};

/// A gateway on loopback with API keys of two callers, and limits for each of them.
async fn rig(folder: &std::path::Path, quota: Quota) -> (BuiltInRig, [String; 2]) {
    let mut file = KeyFile::default();
    let keys = [(1, "ada"), (2, "bob")].map(|(number, subject)| {
        let new = NewKey {
            subject: subject.into(),
            roles: Vec::new(),
            tenant: None,
            expires: Some(Timestamp::now() + Duration::from_secs(3600)),
        };
        let made = file.create(new, &[number; RANDOM_BYTES], Timestamp::now());
        made.expect("a key").1.expose().to_owned()
    });
    let path = folder.join("keys.json");
    std::fs::write(&path, file.to_json()).expect("a file");
    let rig = BuiltInRig::start_beside(|mut gateway| {
        gateway.settings.authentication.api_keys = Some(path);
        let rules = "[[rules]]\nname = \"all\"\nwho = { subject = \"*\" }\nmay = \"admin\"";
        let rules = Rules::parse(rules, Place::OwnFile).expect("rules");
        gateway.settings.access.rules = RulesSource::Fixed(rules);
        gateway.settings.quotas.default = quota;
        gateway
    })
    .await;
    (rig, keys)
}

fn with<M>(key: &str, message: M) -> Request<M> {
    let mut request = Request::new(message);
    let value = format!("Bearer {key}").parse().expect("a header");
    request.metadata_mut().insert("authorization", value);
    request
}

#[tokio::test]
async fn open_streams_of_one_caller_are_limited_until_one_ends() {
    let folder = tempfile::tempdir().unwrap();
    let quota = Quota {
        max_streams: Some(2),
        ..Quota::UNLIMITED
    };
    let (rig, [ada, bob]) = rig(folder.path(), quota).await;
    let mut client = rig.gateway.executions().await;
    let mut watch = async |key: &str| {
        let request = v1::WatchExecutionsRequest {
            parent: "providers/b".into(),
            ..v1::WatchExecutionsRequest::default()
        };
        client.watch_executions(with(key, request)).await
    };
    let first = watch(&ada).await.expect("the first");
    let _second = watch(&ada).await.expect("the second");
    let refused = watch(&ada).await.expect_err("too many");
    assert_eq!(refused.code(), Code::ResourceExhausted);
    assert_eq!(reason_of(&refused), "TOO_MANY_STREAMS");
    assert!(retry_delay_of(&refused).is_some());
    watch(&bob).await.expect("the stream of another caller");
    drop(first);
    let waiting = async {
        while watch(&ada).await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let freed = tokio::time::timeout(Duration::from_secs(10), waiting);
    freed.await.expect("a stream that ended makes room");
}

#[tokio::test]
async fn starts_of_one_caller_are_limited_and_its_reads_are_not() {
    let folder = tempfile::tempdir().unwrap();
    let quota = Quota {
        starts_per_second: Some(0.5),
        ..Quota::UNLIMITED
    };
    let (rig, [ada, bob]) = rig(folder.path(), quota).await;
    let mut client = rig.gateway.executions().await;
    let start = v1::StartExecutionRequest {
        definition: "definitions/none".into(),
        ..v1::StartExecutionRequest::default()
    };
    let mut reasons = Vec::new();
    for key in [&ada, &ada, &bob] {
        let status = client.start_execution(with(key, start.clone())).await;
        let status = status.expect_err("there is no such definition");
        if status.code() == Code::ResourceExhausted {
            let pause = retry_delay_of(&status).expect("a pause");
            assert!(
                pause > Duration::from_secs(1) && pause <= Duration::from_secs(2),
                "{pause:?}"
            );
        }
        reasons.push(reason_of(&status));
    }
    assert_eq!(
        reasons,
        [
            "DEFINITION_NOT_FOUND",
            "START_RATE_EXCEEDED",
            "DEFINITION_NOT_FOUND"
        ]
    );
    for _ in 0..20 {
        let list = v1::ListExecutionsRequest {
            parent: "providers/b".into(),
            ..v1::ListExecutionsRequest::default()
        };
        client
            .list_executions(with(&ada, list))
            .await
            .expect("a list");
    }
}
