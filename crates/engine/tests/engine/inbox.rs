//! The feed of executions that wait for a person.

use std::sync::Arc;

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

#[tokio::test]
async fn it_reports_who_waits_for_a_person_until_nobody_is_waited_for() {
    let lab = Lab::new();
    lab.apply(ASKS).await;
    lab.apply(NAPS).await;
    let mut changes = lab.engine.watch_inbox();
    // Nobody is waited for: nothing of it is reported, from its start to its end.
    let nap = lab.start("naps", json!({})).await.id;
    lab.until(&nap, |view| view.state == ExecutionState::Completed)
        .await;
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
    lab.until(&asking, |view| view.state == ExecutionState::Completed)
        .await;
    let other = lab.start("asks", json!({})).await.id;
    assert_eq!(next(&mut changes).await, (other, 1));
}
