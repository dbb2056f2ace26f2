//! For everyone: a phone, a screen reader, both lights.

use std::path::PathBuf;

use serde_json::json;
use stateway_client::v1;

use crate::browser::Browser;
use crate::stage::{act_as, asks, clean, escalated, page};
use crate::support::{BuiltInRig, Puppet, TestWorker};

const MIXED: &str = "\
name: mixed
description: Asks, and gets stuck.
trigger: {schedule: \"0 3 * * *\"}
failurePolicy: compensate
steps:
  - {name: ask, approval: {role: ops, expiresAfter: 1h}}
  - {name: pay, agent: billing, timeout: 5m, onFailure: escalate, dependsOn: [ask]}
  - {name: a-step-with-quite-a-long-name-for-a-phone, agent: nobody, timeout: 5m}
compensation:
  - {step: pay, agent: billing, action: refund, timeout: 5m}
";

const PAGES: [&str; 20] = [
    "/executions",
    "/executions?filter=colour%20%3D%20red",
    "/executions?filter=m",
    "/executions/selected?do=cancel&row=b/m1&row=b/m2",
    "/executions/b/m1",
    "/executions/b/m2?step=pay&attempt=1",
    "/executions/b/m2?event=1",
    "/executions/b/m2",
    "/executions/b/m1/do/cancel",
    "/acting",
    "/display",
    "/inbox",
    "/inbox/resolve?name=providers%2Fb%2Fexecutions%2Fm2%2Fescalations%2Fpay~1&action=reassign",
    "/definitions",
    "/definitions/mixed",
    "/providers",
    "/providers/p",
    "/schedules",
    "/workers",
    "/workers/b/cashier",
];

/// Something on every page.
async fn full() -> (BuiltInRig, TestWorker) {
    let puppet = Puppet::new();
    puppet.show(&"long".repeat(40), "RUNNING");
    let rig = BuiltInRig::start_beside(|gateway| gateway.with_puppet("p", &puppet)).await;
    rig.apply(&MIXED.replace("Asks", "Once asked")).await;
    rig.apply(MIXED).await;
    let long = json!({"text": "unbroken".repeat(60), "list": [1, 2, 3]});
    for id in ["m1", "m2"] {
        rig.begin("mixed", id, "ada", long.clone()).await;
        rig.until(id, |view| {
            view.steps.iter().any(|step| !step.waits.is_empty())
        })
        .await;
    }
    let offer = v1::Offer {
        worker_id: "cashier".into(),
        roles: vec!["billing".into()],
        capacity: 2,
        ..v1::Offer::default()
    };
    let mut worker = rig.work(offer).await.unwrap();
    let grant = v1::DecideApprovalRequest {
        name: "providers/b/executions/m2/approvals/ask~1".into(),
        decision: v1::decide_approval_request::Choice::Grant.into(),
        ..v1::DecideApprovalRequest::default()
    };
    let mut client = rig.approvals().await;
    let grant = crate::support::by("tom", "ops", grant);
    client.decide_approval(grant).await.unwrap();
    let task = worker.task().await;
    worker.fail(&task, v1::ErrorCategory::Governance);
    rig.until("m2", |view| {
        escalated(view) || asks(view) || view.last_error.is_some()
    })
    .await;
    (rig, worker)
}

/// What sticks out to the right; nothing when nothing does.
const WIDE: &str = r#"
// Not innerWidth: a phone zooms out to what is too wide.
const room = document.documentElement.clientWidth, wide = document.documentElement.scrollWidth;
if (wide <= room + 1) return null;
const out = [...document.body.querySelectorAll('*')]
  .filter((e) => e.getBoundingClientRect().right > room + 1)
  .filter((e) => {
    // What scrolls by itself may be wider inside.
    for (let at = e.parentElement; at; at = at.parentElement) if (getComputedStyle(at).overflowX !== 'visible') return false;
    return true;
  })
  .map((e) => e.outerHTML.slice(0, 160));
return [wide, room, out.slice(0, 5)];
"#;

pub(crate) async fn a_phone_shows_every_page_without_scrolling_sideways(browser: &Browser) {
    let (rig, _worker) = full().await;
    act_as(browser, &rig, "eve", "ops");
    browser.phone();
    for path in PAGES {
        browser.go(&page(&rig, path));
        let found = browser.script(WIDE, &[]);
        assert!(found.is_null(), "{path}: {found}");
    }
    // What is too wide would be seen.
    browser.script("document.querySelector('main').style.width = '900px'", &[]);
    assert!(!browser.script(WIDE, &[]).is_null());
    clean(browser);
}

/// The sections of the navigation that are not wholly on the screen.
const BEYOND: &str = "\
const room = document.documentElement.clientWidth;
const nav = document.querySelector('.sections').getBoundingClientRect();
return [...document.querySelectorAll('.sections a')]
  .filter((a) => {
    const at = a.getBoundingClientRect();
    const left = Math.max(0, nav.left), right = Math.min(room, nav.right);
    return at.left < left || at.right > right || at.bottom > nav.bottom + 2;
  })
  .map((a) => a.textContent.trim());
";

pub(crate) async fn a_phone_shows_every_section(browser: &Browser) {
    let rig = BuiltInRig::start().await;
    act_as(browser, &rig, "eve", "ops");
    browser.phone();
    browser.go(&page(&rig, "/executions"));
    assert_eq!(browser.count(".sections a"), 6);
    assert_eq!(browser.script(BEYOND, &[]), json!([]));
    // A section that scrolls out of the navigation would be seen.
    browser.script(
        "document.querySelector('.sections').style.flexWrap = 'nowrap'",
        &[],
    );
    let beyond = browser.script(BEYOND, &[]);
    assert!(
        beyond
            .as_array()
            .is_some_and(|it| it.contains(&json!("Workers"))),
        "{beyond}"
    );
    clean(browser);
}

/// Runs axe-core on the page, with every rule for WCAG 2.1 A and AA and its best practices. A line for each
/// rule that an element breaks.
fn broken_rules(browser: &Browser) -> Vec<String> {
    // What has just changed is coloured for a moment; a still page is looked at.
    browser.script("for (const a of document.getAnimations()) a.finish()", &[]);
    let run = "\
        const found = await axe.run(document, { resultTypes: ['violations'] });\
        return found.violations.map((rule) => rule.id + ': ' + rule.help + ' – ' + \
          rule.nodes.slice(0, 3).map((node) => node.html.slice(0, 200)).join(' | '));";
    let source =
        axe().and_then(|path| std::fs::read_to_string(path).map_err(|error| error.to_string()));
    let source = source.expect("axe-core is there");
    let body = format!("{source}\nreturn (async () => {{ {run} }})();");
    let found = browser.script(&body, &[]);
    let lines = found.as_array().expect("a list of rules");
    lines
        .iter()
        .map(|line| line.as_str().unwrap_or_default().to_owned())
        .collect()
}

/// The script of axe-core.
pub(crate) fn axe() -> Result<PathBuf, String> {
    let named = std::env::var_os("STATEWAY_AXE").map(PathBuf::from);
    let reason = "STATEWAY_AXE does not name the script; `cargo xtask test` installs it";
    named
        .filter(|script| script.is_file())
        .ok_or_else(|| reason.to_owned())
}

/// Puts a badge of each state on the page.
const BADGES: &str = "\
const box = document.createElement('p');
box.id = 'badges';
for (const word of ['running', 'waiting', 'backing-off', 'error', 'succeeded', 'failed', 'unknown']) {
  const badge = document.createElement('span');
  badge.className = 'badge ' + word;
  badge.textContent = word;
  box.append(badge);
}
document.querySelector('main').append(box);
";

pub(crate) async fn every_page_passes_axe_in_both_lights(browser: &Browser) {
    let (rig, _worker) = full().await;
    act_as(browser, &rig, "eve", "ops");
    let mut grounds = Vec::new();
    for light in ["light", "dark"] {
        browser.prefers(light);
        for path in PAGES {
            browser.go(&page(&rig, path));
            assert_eq!(broken_rules(browser), [""; 0], "{light} {path}");
        }
        // Every badge, also of states that nothing on these pages has.
        browser.go(&page(&rig, "/executions"));
        browser.script(BADGES, &[]);
        assert_eq!(browser.count("#badges .badge"), 7);
        assert_eq!(broken_rules(browser), [""; 0], "{light} badges");
        grounds.push(browser.script(
            "return getComputedStyle(document.body).backgroundColor",
            &[],
        ));
    }
    assert_ne!(grounds[0], grounds[1], "there is one light only");
    // What is wrong would be reported.
    let spoil = "document.querySelector('main').append(document.createElement('input')); \
                 document.querySelector('h1').style.color = '#333'";
    browser.script(spoil, &[]);
    let broken = broken_rules(browser).join("\n");
    assert!(
        broken.contains("label:") && broken.contains("color-contrast:"),
        "{broken}"
    );
    clean(browser);
}

/// A dialog that the script opened is a page of its own to people who cannot see it.
pub(crate) async fn an_open_dialog_passes_axe(browser: &Browser) {
    let (rig, _worker) = full().await;
    act_as(browser, &rig, "eve", "ops");
    browser.go(&page(&rig, "/executions/b/m1"));
    browser.click("a[href$='/do/cancel']");
    browser.sees_in("#dialog", "Cancel the execution");
    assert_eq!(broken_rules(browser), [""; 0]);
    clean(browser);
}
