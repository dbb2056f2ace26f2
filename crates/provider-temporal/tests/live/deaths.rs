//! A killed worker and a killed server.

use std::time::{Duration, Instant};

use futures::StreamExt;
use serde_json::json;
use stateway_model::{ExecutionId, SubState};
use stateway_provider_api::{ErrorKind, Observation, Provider, View, WatchScope, Watched};

use crate::lab::{Lab, PATIENCE, activity};
use crate::rig::{Rig, call, config, execution_id, provider, shown};

const NAMESPACE: &str = "deaths";

async fn until(
    provider: &impl Provider,
    id: &ExecutionId,
    wanted: SubState,
) -> stateway_model::Execution {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let seen = provider.get(&call(), id, View::Full).await;
        if let Ok(seen) = &seen {
            let seen = shown(seen.clone());
            if seen.sub_state == wanted {
                return seen;
            }
        }
        assert!(
            Instant::now() < deadline,
            "`{id}` is not {wanted} after {PATIENCE:?}, but {seen:#?}"
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

pub(crate) async fn a_killed_worker_is_noticed_by_the_heartbeat(rig: &Rig) {
    let lab = Lab::start(&rig.peers, &[NAMESPACE.to_owned()]);
    lab.worker.begin(NAMESPACE);
    let at = lab.namespace(NAMESPACE);
    let provider = provider(&config(lab.server.address(), NAMESPACE));
    let charge = json!({
        "type": "obey", "input": {"name": "work"}, "heartbeat": 2,
        "retry": {"initial": 600},
    });
    at.start("work", json!([activity(charge)]));
    at.until_activity("work", "STARTED", 1);
    lab.worker.kill();
    let id = execution_id("work");
    let resting = until(&provider, &id, SubState::BackingOff).await;
    let error = resting.retry.last_error.unwrap();
    assert!(
        error.message.to_lowercase().contains("timeout"),
        "{}",
        error.message
    );
    // The server reports the Unix time as the interval after a timeout.
    let delay = resting.retry.delay.unwrap_or_default();
    assert!(delay < Duration::from_secs(3_600), "{delay:?}");
}

pub(crate) async fn a_killed_server_is_unavailable_and_comes_back_with_its_state(rig: &Rig) {
    let mut lab = Lab::start(&rig.peers, &[NAMESPACE.to_owned()]);
    lab.worker.begin(NAMESPACE);
    let at = lab.namespace(NAMESPACE);
    let provider = provider(&config(lab.server.address(), NAMESPACE));
    lab.tell("pay", "fail");
    let retry = json!({"initial": 600, "maximum": 5});
    let charge = json!({"type": "obey", "input": {"name": "pay"}, "retry": retry});
    at.start("pay", json!([activity(charge)]));
    at.start("idle", json!([{"signal": "go"}, {"return": 1}]));
    let (pay, idle) = (execution_id("pay"), execution_id("idle"));
    let before = until(&provider, &pay, SubState::BackingOff).await;
    until(&provider, &idle, SubState::Waiting).await;

    lab.server.kill();
    let down = provider.get(&call(), &pay, View::Full).await.unwrap_err();
    assert_eq!(down.kind, ErrorKind::Unavailable, "{down}");
    let began = Instant::now();
    lab.server.restart();
    let after = until(&provider, &pay, SubState::BackingOff).await;
    println!(
        "summary: temporal: a killed server was readable again after {:?}",
        began.elapsed()
    );
    assert_eq!(after.retry.attempt, before.retry.attempt);
    assert_eq!(
        after.retry.next_attempt_time,
        before.retry.next_attempt_time
    );
    assert_eq!(after.etag(), before.etag());
    at.signal("idle", "go");
    until(&provider, &idle, SubState::Succeeded).await;
}

/// Follows a scope as the gateway does, which opens a stream again that broke, until the execution is seen
/// like this. Returns how often the stream was opened.
async fn follow(
    provider: &impl Provider,
    scope: WatchScope,
    id: &ExecutionId,
    wanted: SubState,
) -> usize {
    let deadline = Instant::now() + PATIENCE;
    for opened in 1.. {
        assert!(Instant::now() < deadline, "`{id}` is not seen {wanted}");
        if let Ok(mut stream) = provider.watch(&call(), scope.clone()).await {
            while let Some(Ok(item)) = stream.next().await {
                match item {
                    Watched::Seen(seen)
                        if seen.id == *id
                            && shown(Observation::clone(&seen)).sub_state == wanted =>
                    {
                        return opened;
                    }
                    Watched::Gone(gone) => panic!("{gone} is reported as gone"),
                    _ => {}
                }
            }
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    unreachable!("the loop has no end")
}

pub(crate) async fn watches_show_what_happened_after_a_killed_server(rig: &Rig) {
    let mut lab = Lab::start(&rig.peers, &[NAMESPACE.to_owned()]);
    lab.worker.begin(NAMESPACE);
    let at = lab.namespace(NAMESPACE);
    let provider = provider(&config(lab.server.address(), NAMESPACE));
    at.start("idle", json!([{"signal": "go"}, {"return": 1}]));
    let id = execution_id("idle");
    until(&provider, &id, SubState::Waiting).await;
    let one = follow(
        &provider,
        WatchScope::One(id.clone()),
        &id,
        SubState::Succeeded,
    );
    let all = follow(&provider, WatchScope::All, &id, SubState::Succeeded);
    let death = async {
        // Both watches are open.
        tokio::time::sleep(Duration::from_secs(1)).await;
        tokio::task::block_in_place(|| {
            lab.server.kill();
            lab.server.restart();
            at.signal("idle", "go");
        });
    };
    let (one, all, ()) = tokio::join!(one, all, death);
    // How often depends on how long the server takes to start.
    println!("summary: temporal: watches were opened {one} and {all} times around a killed server");
}
