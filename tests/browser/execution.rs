//! One execution in a browser.

use serde_json::json;
use stateway_client::v1;
use stateway_provider_memory::Clock;

use crate::browser::Browser;
use crate::stage::{act_as, clean, page};
use crate::support::{BuiltInRig, TestGateway};

const GATE: &str = "\
name: gate
steps:
  - {name: wait, kind: signal, signal: go}
  - {name: rest, sleep: 1h, dependsOn: [wait]}
";

/// Presses a button of the page and confirms it in the dialog.
fn confirm(browser: &Browser, action: &str) {
    browser.click(&format!("#actions a[href$='/do/{action}']"));
    browser.click("dialog[open] button.primary");
}

pub(crate) async fn every_action_asks_first_and_then_happens(browser: &Browser) {
    let rig = BuiltInRig::start().await;
    rig.apply(GATE).await;
    rig.begin("gate", "one", "ada", json!({})).await;
    act_as(browser, &rig, "eve", "");
    browser.go(&page(&rig, "/executions/b/one"));
    browser.sees_in("#overview", "Waits for signal go");
    browser.click("#actions a[href$='/do/pause']");
    browser.sees_in("dialog[open]", "pauses the execution");
    browser.click("dialog[open] a[data-close]");
    assert_eq!(browser.count("dialog[open]"), 0);
    assert_eq!(state(&rig, "one").await, "awaiting_signal");

    confirm(browser, "pause");
    browser.sees("The execution is paused.");
    assert_eq!(state(&rig, "one").await, "paused");
    confirm(browser, "resume");
    browser.sees("The execution continues.");

    browser.click("#actions a[href$='/do/signal']");
    browser.fill("dialog[open] textarea[name=payload]", r#"{"yes": true}"#);
    browser.click("dialog[open] button.primary");
    browser.sees("The signal was sent.");
    browser.sees_in("#graph", "wait");
    browser.until("the first step is done", || {
        (browser.count("#graph .node.succeeded") == 1).then_some(())
    });

    confirm(browser, "cancel");
    browser.sees("The execution is being cancelled.");
    browser.sees_in("#head", "cancelled");
    browser.click("#steps a[href*='/do/retry-from']");
    browser.sees_in("dialog[open]", "Side effects");
    browser.click("dialog[open] button.primary");
    browser.sees("The steps run again.");
    confirm(browser, "kill");
    browser.sees("The execution was killed.");
    confirm(browser, "purge");
    browser.sees("The record was removed.");
    assert!(rig.find("one").await.is_none());
    assert_eq!(browser.complaints(), [""; 0]);
}

async fn state(rig: &BuiltInRig, id: &str) -> String {
    rig.get(id).await.native_state
}

pub(crate) async fn the_page_follows_without_a_reload(browser: &Browser) {
    let rig = BuiltInRig::start().await;
    rig.apply(GATE).await;
    rig.begin("gate", "one", "ada", json!({})).await;
    browser.go(&page(&rig, "/executions/b/one"));
    browser.sees_in("#live", "live");
    browser.script("window.mark = 7", &[]);
    browser.click("#evidence summary");
    let request = v1::SignalExecutionRequest {
        name: "providers/b/executions/one".into(),
        signal: "go".into(),
        ..Default::default()
    };
    let mut client = rig.gateway.executions().await;
    client.signal_execution(request).await.expect("it is taken");
    browser.until("the first step is done", || {
        (browser.count("#graph .node.succeeded") == 1).then_some(())
    });
    browser.sees_in("#overview", "timer");
    browser.sees_in("#history", "SignalDelivered");
    assert_eq!(
        browser.count("#evidence[open]"),
        1,
        "what was opened stays open"
    );
    assert_eq!(browser.script("return window.mark", &[]), json!(7));
    assert_eq!(browser.complaints(), [""; 0]);
}

pub(crate) async fn a_countdown_counts_and_an_attempt_can_be_made_now(browser: &Browser) {
    let gateway = TestGateway::new().with_memory("m", &Clock::system());
    let gateway = gateway.start().await;
    let script = json!({"steps": [{"name": "charge", "fails": 1, "takes": "0s",
        "retry": {"max_attempts": 3, "delay": "500s"}}]});
    let request = v1::StartExecutionRequest {
        definition: "providers/m/definitions/script".into(),
        execution_id: "one".into(),
        input: Some(v1::Payload {
            data: script.to_string().into(),
            content_type: String::new(),
        }),
        ..Default::default()
    };
    let mut client = gateway.executions().await;
    client.start_execution(request).await.expect("it starts");
    browser.go(&format!("http://{}/executions/m/one", gateway.address));
    browser.sees_in(
        "#overview .next",
        "Attempt 1 of 3 failed. Next attempt in 8 min",
    );
    let counted = |browser: &Browser| browser.text("#overview .next time").unwrap_or_default();
    let first = counted(browser);
    browser.until("it counts", || (counted(browser) != first).then_some(()));
    assert_eq!(browser.count("#timeline line.due"), 1);
    browser.click("#steps a[href*='/do/retry-now']");
    browser.fill("dialog[open] input[name=actor]", "eve");
    browser.click("dialog[open] button.primary");
    browser.sees("The next attempt is made now.");
    browser.sees_in("#head", "succeeded");
    assert_eq!(browser.complaints(), [""; 0]);
}

pub(crate) async fn markup_of_others_does_not_run(browser: &Browser) {
    const EVIL: &str = "<img src=x onerror=\"window.ran=1\"><script>window.ran=1</script>";
    let gateway = TestGateway::new().with_memory("m", &Clock::system());
    let gateway = gateway.start().await;
    let script = json!({
        "steps": [{"name": EVIL, "fails": 9, "error": {"message": format!("</pre>{EVIL}\u{202e}")},
            "retry": {"max_attempts": 9, "delay": "1h"}}],
    });
    let request = v1::StartExecutionRequest {
        definition: "providers/m/definitions/script".into(),
        execution_id: EVIL.into(),
        labels: [("team".to_owned(), EVIL.to_owned())].into(),
        input: Some(v1::Payload {
            data: script.to_string().into(),
            content_type: "text/html".into(),
        }),
        ..Default::default()
    };
    let mut client = gateway.executions().await;
    let started = client.start_execution(request).await.expect("it starts");
    let name = started.into_inner().name;
    let path = name.replace("providers/m/executions/", "/executions/m/");
    let at = |path: &str| format!("http://{}{path}", gateway.address);
    let mut attempt = 1;
    browser.go(&at(
        "/executions?filter=%3Cscript%3Ewindow.ran=1%3C/script%3E",
    ));
    browser.sees_in("#filter-problem", "a field is expected");
    assert_eq!(browser.script("return window.ran", &[]), json!(null));
    for path in [
        "/executions".to_owned(),
        path.clone(),
        format!("{path}/do/cancel"),
        format!("{path}/do/retry-now?step=%3Cscript%3Ewindow.ran=1%3C/script%3E"),
        format!("{path}/input"),
    ] {
        browser.go(&at(&path));
        browser.sees("<script>");
        if browser.script("return !!document.body.dataset.live", &[]) == json!(true) {
            browser.sees_in("#live", "live");
            // A live update replaces a part of the page.
            attempt += 1;
            let name = name.clone();
            let request = v1::RetryNowRequest {
                name,
                ..Default::default()
            };
            client.retry_now(request).await.expect("an attempt");
            browser.sees(&format!("attempt {attempt} of 9"));
        }
        assert_eq!(
            browser.script("return window.ran", &[]),
            json!(null),
            "{path}"
        );
        assert!(!browser.has_dialog());
    }
    clean(browser);
}
