//! The inbox in a browser.

use std::time::{Duration, Instant};

use serde_json::json;
use stateway_machine::ExecutionState;

use crate::browser::Browser;
use crate::support::BuiltInRig;

const RELEASE: &str = "\
name: release
description: Signs a release off.
steps:
  - name: sign-off
    approval: {role: ops, expiresAfter: 1h}
    input: {version: '${input.version}'}
";

/// Names the person at the browser.
pub(crate) fn act_as(browser: &Browser, rig: &BuiltInRig, actor: &str, roles: &str) {
    browser.go(&page(rig, "/acting"));
    browser.fill("input[name=actor]", actor);
    browser.fill("input[name=roles]", roles);
    browser.click("#question button.primary");
    browser.sees(&format!("You act as {actor}."));
}

pub(crate) fn page(rig: &BuiltInRig, path: &str) -> String {
    format!("http://{}{path}", rig.gateway.address)
}

pub(crate) async fn an_approval_granted_in_the_browser_moves_the_execution_within_a_second(
    browser: &Browser,
) {
    let rig = BuiltInRig::start().await;
    rig.apply(RELEASE).await;
    rig.begin("release", "r1", "ada", json!({"version": 7}))
        .await;
    act_as(browser, &rig, "eve", "ops,dev");
    browser.go(&page(&rig, "/inbox"));
    browser.sees_in("#requests", "Step sign-off of release");
    std::fs::write("/tmp/pages/inbox.png", browser.screenshot()).unwrap();
    browser.click("#requests a.primary");
    browser.fill("dialog textarea[name=comment]", "looks good");
    std::fs::write("/tmp/pages/inbox-dialog.png", browser.screenshot()).unwrap();
    browser.click("dialog button.primary");
    let answered = Instant::now();
    rig.until("r1", |view| view.state == ExecutionState::Completed)
        .await;
    let took = answered.elapsed();
    println!("summary: an approval granted in the browser moved the execution in {took:?}");
    assert!(took < Duration::from_secs(1), "{took:?}");
    browser.sees("Granted: step sign-off of release.");
    browser.sees_in("#decided", "granted by eve");
    browser.sees_in("#decided", "looks good");
    assert_eq!(browser.complaints(), [""; 0]);
}
