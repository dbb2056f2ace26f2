//! Looking after a store: purge what is over, copy what is there.

use std::time::Duration;

use serde_json::json;
use stateway_client::v1;
use tonic::Code;

use crate::support::{BuiltInRig, Puppet, TestGateway, reason_of};

const NAP: &str = "name: nap\nsteps:\n  - name: rest\n    sleep: 1ms\n";
const LONG: &str = "name: long\nsteps:\n  - name: rest\n    sleep: 1h\n";

fn purge(filter: &str, force: bool) -> v1::PurgeExecutionsRequest {
    v1::PurgeExecutionsRequest {
        parent: "providers/b".into(),
        filter: filter.into(),
        force,
    }
}

fn backup(file: &str) -> v1::BackupStoreRequest {
    v1::BackupStoreRequest {
        provider: "providers/-".into(),
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
        rig.until(id, |view| view.native_state == "completed").await;
    }
    tokio::time::sleep(Duration::from_millis(5)).await;
    let mut client = rig.admin().await;
    let now = jiff::Timestamp::now();
    let all = format!("end_time < {now}");
    let old = format!("end_time < {}", now - jiff::SignedDuration::from_hours(1));
    for (filter, force, expected) in [
        (&old, true, 0),
        (&all, false, 3),
        (&all, false, 3),
        (&all, true, 3),
        (&all, true, 0),
    ] {
        let answer = client.purge_executions(purge(filter, force)).await;
        let answer = answer.unwrap().into_inner();
        assert_eq!((answer.purge_count, answer.more), (expected, false));
    }
    assert!(rig.find("a").await.is_none());
    assert!(rig.find("open").await.is_some());
}

#[tokio::test]
async fn a_purge_must_say_what_is_meant() {
    let rig = BuiltInRig::start().await;
    let mut client = rig.admin().await;
    for filter in [
        "",
        "end_time > 2026-01-01T00:00:00Z",
        "end_time < yesterday",
        "end_time < 2026-01-01T00:00:00Z AND definition = nap",
    ] {
        let status = client.purge_executions(purge(filter, true)).await;
        let status = status.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument, "{filter}");
        assert_eq!(reason_of(&status), "INVALID_FILTER");
    }
    let nowhere = v1::PurgeExecutionsRequest {
        parent: String::new(),
        ..purge("end_time < 2026-01-01T00:00:00Z", true)
    };
    let status = client.purge_executions(nowhere).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
}

#[tokio::test]
async fn a_backup_is_a_new_file_in_its_directory_and_nowhere_else() {
    let rig = BuiltInRig::start().await;
    rig.apply(NAP).await;
    let mut client = rig.admin().await;
    let written = client
        .backup_store(backup("monday.db"))
        .await
        .unwrap()
        .into_inner();
    let path = rig.directory.path().join("backups/monday.db");
    assert_eq!(written.path, path.display().to_string());
    let size = std::fs::metadata(&path).unwrap().len();
    assert_eq!(written.size_bytes, i64::try_from(size).unwrap());
    let status = client.backup_store(backup("monday.db")).await.unwrap_err();
    assert_eq!(status.code(), Code::AlreadyExists);
    for wrong in ["", "../x", "a/b", ".hidden", "..", "a b"] {
        let status = client.backup_store(backup(wrong)).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument, "{wrong}");
    }
    // The copy opens and has what the store had.
    let copy = BuiltInRig::of_file(path).await;
    let request = v1::GetDefinitionRequest {
        name: "definitions/nap".into(),
    };
    let found = copy.definitions().await.get_definition(request).await;
    assert_eq!(found.unwrap().into_inner().name, "definitions/nap");
}

#[cfg(unix)]
#[tokio::test]
async fn a_backup_follows_no_link_out_of_its_directory() {
    let rig = BuiltInRig::start().await;
    let outside = rig.directory.path().join("outside.db");
    let link = rig.directory.path().join("backups/monday.db");
    std::os::unix::fs::symlink(&outside, &link).unwrap();
    let mut client = rig.admin().await;
    let status = client.backup_store(backup("monday.db")).await.unwrap_err();
    assert_eq!(status.code(), Code::AlreadyExists);
    assert!(!outside.exists() && link.is_symlink());
}

#[tokio::test]
async fn only_a_store_of_ours_is_looked_after() {
    let gateway = TestGateway::new()
        .with_puppet("p", &Puppet::new())
        .start()
        .await;
    let mut client = v1::admin_client::AdminClient::new(gateway.channel().await);
    let request = v1::BackupStoreRequest {
        provider: "providers/p".into(),
        file: "x".into(),
    };
    let status = client.backup_store(request).await.unwrap_err();
    assert_eq!(reason_of(&status), "CAPABILITY_NOT_SUPPORTED");
}
