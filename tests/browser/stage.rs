//! What the tests of all pages share: addresses, a name to act under, and a clean end.

use serde_json::json;
use stateway_client::v1;

use crate::browser::Browser;
use crate::support::BuiltInRig;

/// The address of a page.
pub(crate) fn page(rig: &BuiltInRig, path: &str) -> String {
    format!("http://{}{path}", rig.gateway.address)
}

/// Names the person at the browser.
pub(crate) fn act_as(browser: &Browser, rig: &BuiltInRig, actor: &str, roles: &str) {
    browser.go(&page(rig, "/acting?back=/inbox"));
    browser.fill("input[name=actor]", actor);
    browser.fill("input[name=roles]", roles);
    browser.click("#question button.primary");
    browser.sees(&format!("You act as {actor}."));
}

/// Leaves a mark that a reload would take away.
pub(crate) fn mark(browser: &Browser) {
    browser.script("window.marked = true", &[]);
}

/// Asserts that the page was not loaded again since the mark.
#[track_caller]
pub(crate) fn not_reloaded(browser: &Browser) {
    let marked = browser.script("return window.marked === true", &[]);
    assert_eq!(marked, json!(true), "the page was loaded again");
}

/// Waits until another page is loaded than the marked one.
#[track_caller]
pub(crate) fn until_reloaded(browser: &Browser) {
    browser.until("another page is loaded", || {
        let marked = browser.script("return window.marked === true", &[]);
        (marked == json!(false)).then_some(())
    });
}

/// Asserts that no script failed, nothing was refused by the policy and nothing asks.
#[track_caller]
pub(crate) fn clean(browser: &Browser) {
    assert!(!browser.has_dialog(), "a dialog is open");
    let mut complaints = browser.complaints();
    // A form that is refused answers with such a status, and the page says why.
    complaints.retain(|line| !line.contains("responded with a status of 4"));
    assert_eq!(complaints, [""; 0], "at {}", browser.url());
}

pub(crate) fn asks(view: &v1::Execution) -> bool {
    view.native_state == "awaiting_approval"
}

pub(crate) fn escalated(view: &v1::Execution) -> bool {
    view.native_state == "escalated"
}
