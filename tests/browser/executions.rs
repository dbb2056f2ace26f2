//! The executions in a browser: the live list, one of them, and every action on it.

use serde_json::json;
use stateway_machine::ExecutionState;
use stateway_proto::v1;

use crate::browser::Browser;
use crate::stage::{act_as, clean, mark, not_reloaded, page};
use crate::support::{BuiltInRig, TestWorker};

const SLOW: &str = "\
name: slow
steps:
  - name: charge
    agent: billing
    timeout: 5m
    retryPolicy: {maxRetries: 5, backoff: constant, initialDelay: 10m, maxDelay: 10m}
  - {name: paid, signal: paid, dependsOn: [charge]}
";

fn billing() -> v1::Offer {
    v1::Offer {
        roles: vec!["billing".into()],
        capacity: 1,
        ..v1::Offer::default()
    }
}

async fn slow(id: &str) -> (BuiltInRig, TestWorker) {
    let rig = BuiltInRig::start().await;
    rig.apply(SLOW).await;
    let worker = rig.work(billing()).await.unwrap();
    rig.begin("slow", id, "ada", json!({"amount": 9})).await;
    (rig, worker)
}

/// Presses a button of the page and confirms.
fn act(browser: &Browser, action: &str) {
    browser.click(&format!("a[href$='/do/{action}']"));
    browser.sees_in("dialog .will", " ");
    browser.click("dialog form .buttons button");
}

pub(crate) async fn the_list_moves_without_a_reload(browser: &Browser) {
    let (rig, mut worker) = slow("s1").await;
    let task = worker.task().await;
    browser.go(&page(&rig, "/executions"));
    browser.sees_in("tr.row", "running");
    mark(browser);
    worker.fail(&task, "transient");
    browser.sees_in("tr.row", "backing-off");
    browser.sees_in("tr.row", "next in");
    rig.begin("slow", "s2", "ada", json!({})).await;
    browser.sees("1 new");
    not_reloaded(browser);
    browser.click("a.fresh");
    browser.sees("s2");
    clean(browser);
}

pub(crate) async fn a_filter_that_is_wrong_is_said_in_place(browser: &Browser) {
    let (rig, _worker) = slow("s1").await;
    browser.go(&page(&rig, "/executions"));
    browser.fill("#filter", "colour = red");
    browser.click(".filter button");
    browser.sees_in("#filter-problem", "colour");
    browser.fill("#filter", "sub_state = \"failed\"");
    browser.click(".filter button");
    browser.sees("Nothing like that");
    clean(browser);
}

pub(crate) async fn every_action_is_carried_out_from_the_page(browser: &Browser) {
    let (rig, mut worker) = slow("s1").await;
    let task = worker.task().await;
    worker.fail(&task, "transient");
    act_as(browser, &rig, "eve", "");
    browser.go(&page(&rig, "/executions/b/s1"));
    browser.sees("it did not work");

    act(browser, "retry-now");
    let again = worker.task().await;
    assert_eq!(again.attempt, 2);
    worker.complete(&again, &json!({}));
    rig.until("s1", |view| view.state == ExecutionState::AwaitingSignal)
        .await;

    act(browser, "pause");
    rig.until("s1", |view| view.state == ExecutionState::Paused)
        .await;
    act(browser, "resume");
    rig.until("s1", |view| view.state == ExecutionState::AwaitingSignal)
        .await;

    browser.click("a[href$='/do/signal']");
    browser.sees_in("dialog", "signal");
    browser.fill("dialog [name=signal]", "paid");
    browser.click("dialog form .buttons button");
    rig.until("s1", |view| view.state == ExecutionState::Completed)
        .await;
    browser.sees("succeeded");
    clean(browser);
}

pub(crate) async fn cancel_asks_first_and_then_ends_it(browser: &Browser) {
    let (rig, mut worker) = slow("s1").await;
    worker.task().await;
    act_as(browser, &rig, "eve", "");
    browser.go(&page(&rig, "/executions/b/s1"));
    browser.click("a[href$='/do/cancel']");
    browser.sees_in("dialog", "Cancel");
    browser.click("dialog a[data-close]");
    let view = rig.engine.get("s1".into()).await.unwrap();
    assert_eq!(view.state, ExecutionState::Running);
    act(browser, "cancel");
    rig.until("s1", |view| view.state == ExecutionState::Cancelled)
        .await;
    browser.sees("cancelled");

    // Nothing failed, so without a step there is nothing to begin with: that is said in place.
    act(browser, "retry-from");
    browser.sees_in(".note.bad", "no step of the execution has failed");
    browser.click("a[href*='/do/retry-from?step=charge']");
    browser.sees_in("dialog .will", " ");
    browser.click("dialog form .buttons button");
    let again = worker.task().await;
    assert_eq!(again.step, "charge");
    clean(browser);
}
