//! The feed of executions that wait for a person.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use stateway_engine::{Change, Changes, Decide};
use stateway_machine::ExecutionState;

use crate::lab::{Lab, PATIENCE};

const ASKS: &str = "name: asks\nsteps: [{name: sign, approval: {role: boss}}]";
const NAPS: &str = "name: naps\nsteps: [{name: nap, sleep: 1ms}]";

/// The next change: whose it is, and how many people are waited for.
async fn next(changes: &mut Changes) -> (Arc<str>, usize) {
    let change = tokio::time::timeout(PATIENCE, changes.next()).await;
    match change.expect("a change").expect("none was missed") {
        Change::Seen(view) => (Arc::clone(&view.id), view.awaited.len()),
        Change::Removed(removed) => (Arc::clone(&removed.id), 0),
    }
}

/// Waits for the end by reading: a watch on the execution would be reported to this feed too.
async fn completed(lab: &Lab, id: &Arc<str>) {
    let reading = async {
        while lab.get(id).await.state != ExecutionState::Completed {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(PATIENCE, reading)
        .await
        .expect("it ends");
}

#[tokio::test]
async fn it_reports_who_waits_for_a_person_until_nobody_is_waited_for() {
    let lab = Lab::new();
    lab.apply(ASKS).await;
    lab.apply(NAPS).await;
    let mut changes = lab.engine.watch_inbox();
    // Nobody is waited for: nothing of it is reported, from its start to its end.
    let nap = lab.start("naps", json!({})).await.id;
    completed(&lab, &nap).await;
    let asking = lab.start("asks", json!({})).await.id;
    assert_eq!(next(&mut changes).await, (asking.clone(), 1));
    let decide = Decide {
        step: "sign".into(),
        attempt: 1,
        branch: None,
        grant: true,
        roles: vec!["boss".into()],
        comment: "".into(),
    };
    let key = lab.key(0);
    let decided = lab.engine.decide(asking.clone(), decide, "eve".into(), key);
    decided.await.unwrap();
    assert_eq!(next(&mut changes).await, (asking.clone(), 0));
    completed(&lab, &asking).await;
    let other = lab.start("asks", json!({})).await.id;
    assert_eq!(next(&mut changes).await, (other, 1));
}
