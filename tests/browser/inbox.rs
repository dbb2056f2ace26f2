//! The inbox in a browser: decisions by mouse and by keyboard, and updates without a reload.

use std::time::{Duration, Instant};

use serde_json::json;
use stateway_client::v1;

use crate::browser::{Browser, ENTER, TAB};
use crate::stage::{act_as, asks, clean, escalated, mark, not_reloaded, page};
use crate::support::{BuiltInRig, by};

const RELEASE: &str = "\
name: release
description: Signs a release off.
steps:
  - name: sign-off
    approval: {role: ops, expiresAfter: 1h}
    input: {version: '${input.version}'}
";

const FORBIDDEN: &str = "\
name: forbidden
steps:
  - name: pay
    agent: billing
    timeout: 5m
    onFailure: escalate
";

async fn asking(id: &str) -> BuiltInRig {
    let rig = BuiltInRig::start().await;
    rig.apply(RELEASE).await;
    ask(&rig, id).await;
    rig
}

async fn ask(rig: &BuiltInRig, id: &str) {
    rig.begin("release", id, "ada", json!({"version": 7})).await;
    rig.until(id, asks).await;
}

pub(crate) async fn an_approval_granted_in_the_browser_moves_the_execution(browser: &Browser) {
    let rig = asking("r1").await;
    act_as(browser, &rig, "eve", "ops,dev");
    browser.sees_in("#requests", "Step sign-off of release");
    browser.sees_in("#requests", "\"version\": 7");
    browser.click("#requests a.primary");
    browser.fill("dialog textarea[name=comment]", "looks good");
    // Looked at from beside: the click itself returns only when the next page is there.
    let mut client = rig.gateway.executions().await;
    let moved = tokio::spawn(async move {
        loop {
            let request = v1::GetExecutionRequest {
                name: "providers/b/executions/r1".into(),
                ..v1::GetExecutionRequest::default()
            };
            let view = client.get_execution(request).await.expect("it is there");
            if view.into_inner().native_state == "completed" {
                return Instant::now();
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    });
    let clicked = Instant::now();
    browser.click("dialog button.primary");
    let moved = tokio::time::timeout(Duration::from_secs(60), moved).await;
    let took = moved.expect("it moves").expect("it is watched") - clicked;
    println!(
        "summary: an approval granted in the browser moved the execution {took:.1?} after the click"
    );
    browser.sees("Granted: step sign-off of release.");
    browser.sees_in("#decided", "granted by eve");
    browser.sees_in("#decided", "looks good");
    clean(browser);
}

pub(crate) async fn an_approval_rejected_in_the_browser_is_on_the_record(browser: &Browser) {
    let rig = asking("r1").await;
    act_as(browser, &rig, "eve", "ops");
    browser.click("#requests a.danger");
    browser.sees_in("dialog", "cannot be taken back");
    browser.fill("dialog textarea[name=comment]", "too early");
    browser.click("dialog button.danger");
    browser.sees("Rejected: step sign-off of release.");
    browser.sees_in("#decided", "rejected by eve");
    rig.until("r1", |view| view.native_state == "cancelled")
        .await;
    clean(browser);
}

pub(crate) async fn a_new_approval_appears_and_a_decided_one_leaves_without_a_reload(
    browser: &Browser,
) {
    let rig = asking("r1").await;
    act_as(browser, &rig, "eve", "ops");
    browser.sees_in("#requests", "r1");
    mark(browser);
    ask(&rig, "r2").await;
    browser.sees_in("#requests", "r2");
    assert_eq!(browser.count("#requests .card"), 2);
    let decide = v1::DecideApprovalRequest {
        name: "providers/b/executions/r1/approvals/sign-off~1".into(),
        decision: v1::decide_approval_request::Choice::Grant.into(),
        comment: "from elsewhere".into(),
        ..v1::DecideApprovalRequest::default()
    };
    let mut client = rig.approvals().await;
    client
        .decide_approval(by("tom", "ops", decide))
        .await
        .unwrap();
    browser.sees_in("#decided", "granted by tom");
    browser.until("one card is left", || {
        (browser.count("#requests .card") == 1).then_some(())
    });
    not_reloaded(browser);
    clean(browser);
}

pub(crate) async fn a_question_that_somebody_else_answered_is_refused_in_place(browser: &Browser) {
    let rig = asking("r1").await;
    act_as(browser, &rig, "eve", "ops");
    browser.click("#requests a.primary");
    browser.fill("dialog textarea[name=comment]", "yes");
    let decide = v1::DecideApprovalRequest {
        name: "providers/b/executions/r1/approvals/sign-off~1".into(),
        decision: v1::decide_approval_request::Choice::Reject.into(),
        ..v1::DecideApprovalRequest::default()
    };
    let mut client = rig.approvals().await;
    client
        .decide_approval(by("tom", "ops", decide))
        .await
        .unwrap();
    browser.click("dialog button.primary");
    browser.sees_in(".note.bad", "Reason:");
    assert_eq!(rig.get("r1").await.native_state, "cancelled");
    clean(browser);
}

pub(crate) async fn the_keyboard_alone_grants_an_approval(browser: &Browser) {
    let rig = asking("r1").await;
    act_as(browser, &rig, "eve", "ops");
    browser.go(&page(&rig, "/inbox"));
    browser.sees_in("#requests", "Grant…");
    tab_to(browser, "Grant…");
    browser.press(ENTER);
    browser.sees_in("dialog", "Grant step sign-off?");
    // The comment has the focus; what is typed goes there, and two tabs on is the button.
    browser.press("by hand");
    tab_to(browser, "Grant");
    browser.press(ENTER);
    browser.sees("Granted: step sign-off of release.");
    browser.sees_in("#decided", "by hand");
    rig.until("r1", |view| view.native_state == "completed")
        .await;
    clean(browser);
}

/// Presses Tab until what has the focus says this, and is seen to have it.
fn tab_to(browser: &Browser, text: &str) {
    for _ in 0..60 {
        let found = browser.script(
            "const at = document.activeElement; \
             return at && at.innerText.trim() === arguments[0] \
                 && getComputedStyle(at).outlineStyle !== 'none'",
            &[json!(text)],
        );
        if found == json!(true) {
            return;
        }
        browser.press(TAB);
    }
    panic!("the focus never comes to `{text}`");
}

pub(crate) async fn waiting_for_me_shows_what_i_may_decide(browser: &Browser) {
    let rig = asking("r1").await;
    act_as(browser, &rig, "eve", "dev");
    browser.go(&page(&rig, "/inbox?mine=1"));
    browser.sees_in("#requests", "Nothing waits for you.");
    act_as(browser, &rig, "eve", "dev ops");
    browser.go(&page(&rig, "/inbox?mine=1"));
    browser.sees_in("#requests", "sign-off");
    clean(browser);
}

pub(crate) async fn a_stuck_step_is_resumed_reassigned_and_cancelled_in_the_browser(
    browser: &Browser,
) {
    let rig = BuiltInRig::start().await;
    rig.apply(FORBIDDEN).await;
    let offer = v1::Offer {
        roles: vec!["billing".into(), "treasury".into()],
        capacity: 1,
        ..v1::Offer::default()
    };
    let mut worker = rig.work(offer).await.unwrap();
    rig.begin("forbidden", "e1", "ada", json!({"amount": 9}))
        .await;
    let task = worker.task().await;
    worker.fail(&task, v1::ErrorCategory::Governance);
    rig.until("e1", escalated).await;
    act_as(browser, &rig, "eve", "operator");
    browser.sees_in("#stuck", "it did not work");

    browser.click("#stuck a.primary");
    browser.fill("dialog textarea", "the limit was raised");
    browser.click("dialog button.primary");
    browser.sees("Resumed: step pay of forbidden.");
    let task = worker.task().await;
    assert_eq!((task.role.as_str(), task.attempt), ("billing", 2));
    worker.fail(&task, v1::ErrorCategory::Governance);
    rig.until("e1", escalated).await;

    browser.sees_in("#stuck", "attempt 2");
    browser.click("#stuck a[href*=reassign]");
    browser.fill("dialog input[name=role]", "treasury");
    browser.click("dialog button.primary");
    browser.sees("Given to another role: step pay");
    let task = worker.task().await;
    assert_eq!(task.role, "treasury");
    worker.fail(&task, v1::ErrorCategory::Governance);
    rig.until("e1", escalated).await;

    browser.sees_in("#stuck", "attempt 3");
    browser.click("#stuck a.danger");
    browser.sees_in("dialog", "The execution is cancelled");
    browser.click("dialog button.danger");
    browser.sees("Cancelled: step pay");
    rig.until("e1", |view| view.native_state == "cancelled")
        .await;
    clean(browser);
}
