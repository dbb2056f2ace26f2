//! Looking after a store: purge what is over, copy what is there.

use std::time::Duration;

use serde_json::json;
use stateway_machine::ExecutionState;
use stateway_proto::v1;
use stateway_proto::v1::purge_executions_request::Age;
use tonic::Code;

use crate::support::{BuiltInRig, Puppet, TestGateway, reason_of};

const NAP: &str = "name: nap\nsteps:\n  - name: rest\n    sleep: 1ms\n";
const LONG: &str = "name: long\nsteps:\n  - name: rest\n    sleep: 1h\n";

fn purge(age: Option<Age>, validate_only: bool) -> v1::PurgeExecutionsRequest {
    v1::PurgeExecutionsRequest {
        provider: "providers/b".into(),
        age,
        validate_only,
    }
}

fn backup(file: &str) -> v1::BackupRequest {
    v1::BackupRequest {
        provider: String::new(),
        file: file.into(),
    }
}

#[tokio::test]
async fn what_is_over_is_counted_and_then_removed_and_nothing_else() {
    let rig = BuiltInRig::start().await;
    rig.apply(NAP).await;
    rig.apply(LONG).await;
    for id in ["a", "b", "c"] {
        rig.begin("nap", id, "ada", json!({})).await;
    }
    rig.begin("long", "open", "ada", json!({})).await;
    for id in ["a", "b", "c"] {
        rig.until(id, |view| view.state == ExecutionState::Completed)
            .await;
    }
    tokio::time::sleep(Duration::from_millis(5)).await;
    let mut client = rig.admin().await;
    let all = || Some(Age::OlderThan(prost_types::Duration::default()));
    let young = Some(Age::OlderThan(prost_types::Duration {
        seconds: 3600,
        nanos: 0,
    }));
    for (age, validate_only, expected) in [
        (young, false, 0),
        (all(), true, 3),
        (all(), false, 3),
        (all(), false, 0),
    ] {
        let answer = client.purge_executions(purge(age, validate_only)).await;
        let answer = answer.unwrap().into_inner();
        assert_eq!((answer.purged, answer.more), (expected, false));
    }
    assert!(rig.engine.get("a".into()).await.is_err());
    assert!(rig.engine.get("open".into()).await.is_ok());
}

#[tokio::test]
async fn a_purge_must_say_what_is_meant() {
    let rig = BuiltInRig::start().await;
    let mut client = rig.admin().await;
    let negative = Age::OlderThan(prost_types::Duration {
        seconds: -1,
        nanos: 0,
    });
    let endless = Age::OlderThan(prost_types::Duration {
        seconds: i64::MAX,
        nanos: 0,
    });
    for age in [None, Some(negative), Some(endless)] {
        let status = client.purge_executions(purge(age, true)).await;
        assert_eq!(status.unwrap_err().code(), Code::InvalidArgument);
    }
}

#[tokio::test]
async fn a_backup_is_a_new_file_in_its_directory_and_nowhere_else() {
    let rig = BuiltInRig::start().await;
    rig.apply(NAP).await;
    let mut client = rig.admin().await;
    let written = client
        .backup(backup("monday.db"))
        .await
        .unwrap()
        .into_inner();
    let path = rig.directory.path().join("backups/monday.db");
    assert_eq!(written.path, path.display().to_string());
    assert_eq!(written.bytes, std::fs::metadata(&path).unwrap().len());
    let status = client.backup(backup("monday.db")).await.unwrap_err();
    assert_eq!(status.code(), Code::AlreadyExists);
    for wrong in ["", "../x", "a/b", ".hidden", "..", "a b"] {
        let status = client.backup(backup(wrong)).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument, "{wrong}");
    }
    // The copy opens and has what the store had.
    let copy = stateway_engine::Engine::open(&stateway_engine::Config::new(path)).unwrap();
    assert!(copy.definition("nap".into(), None).await.is_ok());
}

#[cfg(unix)]
#[tokio::test]
async fn a_backup_follows_no_link_out_of_its_directory() {
    let rig = BuiltInRig::start().await;
    let outside = rig.directory.path().join("outside.db");
    let link = rig.directory.path().join("backups/monday.db");
    std::os::unix::fs::symlink(&outside, &link).unwrap();
    let mut client = rig.admin().await;
    let status = client.backup(backup("monday.db")).await.unwrap_err();
    assert_eq!(status.code(), Code::AlreadyExists);
    assert!(!outside.exists());
    // The engine itself does not follow it either.
    let refused = rig.engine.backup(link.clone()).await.unwrap_err();
    assert_eq!(refused.reason, "BACKUP_NOT_WRITTEN");
    assert!(!outside.exists() && link.is_symlink());
}

#[tokio::test]
async fn only_a_store_of_ours_is_looked_after() {
    let gateway = TestGateway::new()
        .with_puppet("p", &Puppet::new())
        .start()
        .await;
    let mut client = v1::admin_client::AdminClient::new(gateway.channel().await);
    let request = v1::BackupRequest {
        provider: "providers/p".into(),
        file: "x".into(),
    };
    let status = client.backup(request).await.unwrap_err();
    assert_eq!(reason_of(&status), "CAPABILITY_NOT_SUPPORTED");
}
