//! Rules change without a restart; a broken file changes nothing.

use std::time::Duration;

use stateway_client::v1;
use tonic::Code;

use super::rig::{AccessRig, RELEASE, TENANTS};
use crate::support::reason_of;

async fn eventually(mut condition: impl AsyncFnMut() -> bool) {
    let waiting = async {
        while !condition().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), waiting)
        .await
        .expect("the condition holds in time");
}

/// Writes a file in one step.
fn write(rig: &AccessRig, text: &str) {
    let new = rig.rules.with_extension("new");
    std::fs::write(&new, text).unwrap();
    std::fs::rename(&new, &rig.rules).unwrap();
}

#[tokio::test]
async fn rules_that_change_count_from_then_on_and_streams_end() {
    let rig = AccessRig::start().await;
    rig.apply(RELEASE).await;
    rig.begin("ada", "release", ("a1", "acme")).await.unwrap();
    let watch = v1::WatchExecutionsRequest {
        parent: "providers/b".into(),
        ..v1::WatchExecutionsRequest::default()
    };
    let mut client = rig.executions().await;
    let ended = client.watch_executions(rig.by("vic", watch.clone())).await;
    let mut ended = ended.unwrap().into_inner();
    let kept = client.watch_executions(rig.by("ada", watch)).await;
    let mut kept = kept.unwrap().into_inner();
    // The viewers lose what they had.
    write(
        &rig,
        &TENANTS.replace("role = \"viewer\"", "role = \"auditor\""),
    );
    let status = loop {
        match ended.message().await {
            Ok(Some(_)) => {}
            Ok(None) => panic!("it ended well"),
            Err(status) => break status,
        }
    };
    assert_eq!(reason_of(&status), "ACCESS_CHANGED");
    let get = rig.get("vic", "a1").await.unwrap_err();
    assert_eq!(get.code(), Code::PermissionDenied);
    // Whoever may do the same as before does not notice.
    rig.get("ada", "a1").await.unwrap();
    rig.begin("ada", "release", ("a2", "acme")).await.unwrap();
    loop {
        let response = kept.message().await.unwrap().unwrap();
        if response
            .execution
            .is_some_and(|it| it.name.ends_with("/a2"))
        {
            break;
        }
    }
    write(&rig, TENANTS);
    eventually(async || rig.get("vic", "a1").await.is_ok()).await;
}

#[tokio::test]
async fn a_broken_file_keeps_the_old_rules() {
    let rig = AccessRig::start().await;
    rig.apply(RELEASE).await;
    rig.begin("ada", "release", ("a1", "acme")).await.unwrap();
    let narrower = TENANTS.replace("role = \"viewer\"", "role = \"auditor\"");
    for broken in [
        "[[rules]",
        "[[rules]]\nname = \"x\"\n",
        "[[rules]]\nname = \"x\"\nwho = { subject = \"*\" }\nmay = \"fly\"\n",
        "[[rules]]\nname = \"x\"\nwho = { subject = \"*\" }\nmay = \"read\"\nwhere = \"tenant = 1\"\n",
    ] {
        write(&rig, broken);
        tokio::time::sleep(Duration::from_millis(100)).await;
        rig.get("vic", "a1").await.unwrap();
        let status = rig
            .begin("vic", "release", ("x", "acme"))
            .await
            .unwrap_err();
        assert_eq!(status.code(), Code::PermissionDenied);
    }
    std::fs::remove_file(&rig.rules).unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    rig.get("vic", "a1").await.unwrap();
    write(&rig, &narrower);
    eventually(async || rig.get("vic", "a1").await.is_err()).await;
}
