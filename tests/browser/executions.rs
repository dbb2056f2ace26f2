//! The list of executions in a browser.

use serde_json::json;
use stateway_client::v1;
use stateway_provider_api::ErrorKind;

use crate::browser::Browser;
use crate::stage::page;
use crate::support::{BuiltInRig, Puppet, TestGateway};

const GATE: &str = "name: gate\nsteps:\n  - {name: wait, kind: signal, signal: go}\n";
const ENTER: &str = "\u{e007}";
const ESCAPE: &str = "\u{e00c}";

async fn rig() -> BuiltInRig {
    let rig = BuiltInRig::start().await;
    rig.apply(GATE).await;
    rig
}

async fn signal(rig: &BuiltInRig, id: &str) {
    let request = v1::SignalExecutionRequest {
        name: format!("providers/b/executions/{id}"),
        signal: "go".into(),
        ..Default::default()
    };
    let mut client = rig.gateway.executions().await;
    client.signal_execution(request).await.expect("it is taken");
}

/// What only a page that was not loaded again still knows.
fn mark(browser: &Browser) {
    browser.script("window.mark = 7", &[]);
}

fn is_marked(browser: &Browser) -> bool {
    browser.script("return window.mark", &[]) == json!(7)
}

pub(crate) async fn rows_change_in_place_and_new_ones_wait_until_asked_for(browser: &Browser) {
    let rig = rig().await;
    for id in ["one", "two"] {
        rig.begin("gate", id, "ada", json!({})).await;
    }
    browser.go(&page(&rig, "/executions"));
    browser.sees_in("#live", "live");
    mark(browser);
    let row = "tr[id='row-providers/b/executions/one']";
    browser.sees_in(row, "waiting");
    signal(&rig, "one").await;
    browser.sees_in(row, "succeeded");
    browser.sees_in("#counts a.succeeded", "1");
    rig.begin("gate", "three", "ada", json!({})).await;
    browser.sees_in("#fresh", "1 new – show");
    assert_eq!(browser.count("tr.row"), 2, "nothing may jump in");
    assert!(is_marked(browser), "it was loaded again");
    browser.press("n");
    browser.until("the new row", || {
        (browser.count("tr.row") == 3).then_some(())
    });
    assert_eq!(browser.complaints(), [""; 0]);
}

pub(crate) async fn the_list_is_walked_by_keys(browser: &Browser) {
    let rig = rig().await;
    for id in ["one", "two"] {
        rig.begin("gate", id, "ada", json!({})).await;
    }
    browser.go(&page(&rig, "/executions"));
    browser.sees("two");
    browser.press("?");
    browser.sees_in("#keys", "next row");
    browser.press(ESCAPE);
    browser.press("jjk");
    browser.sees_in("tr.chosen", "two");
    browser.press("/");
    browser.press("sub_state = \"waiting\"");
    browser.press(ENTER);
    browser.until("the filter is asked for", || {
        browser.url().contains("filter=sub_state").then_some(())
    });
    browser.sees("two");
    browser.press("j");
    browser.press(ENTER);
    browser.until("the row is opened", || {
        browser.url().ends_with("/executions/b/two").then_some(())
    });
    assert_eq!(browser.complaints(), [""; 0]);
}

pub(crate) async fn a_provider_that_goes_down_is_named_without_a_reload(browser: &Browser) {
    let puppet = Puppet::new();
    puppet.show("one", "RUNNING");
    let gateway = TestGateway::new().with_puppet("far", &puppet).start().await;
    browser.go(&format!("http://{}/executions", gateway.address));
    browser.sees_in("#live", "live");
    mark(browser);
    assert!(!browser.visible().contains("No answer from"));
    puppet.fail(ErrorKind::Unavailable, None);
    browser.sees_in("#unreachable", "No answer from far");
    puppet.recover();
    browser.until("the banner is gone", || {
        (!browser.visible().contains("No answer from")).then_some(())
    });
    assert!(is_marked(browser), "it was loaded again");
    assert_eq!(browser.complaints(), [""; 0]);
}

pub(crate) async fn a_long_id_fits_on_a_phone(browser: &Browser) {
    let rig = rig().await;
    let long = "a-very-long-name-".repeat(7);
    rig.begin("gate", &long, "ada", json!({})).await;
    browser.phone();
    for path in ["/executions", &format!("/executions/b/{long}")] {
        browser.go(&page(&rig, path));
        browser.sees("a-very-long");
        let over =
            "const page = document.documentElement; return page.scrollWidth - page.clientWidth";
        let over = browser.script(over, &[]);
        assert!(
            over.as_i64().is_some_and(|over| over <= 0),
            "{path}: {over}"
        );
    }
    assert_eq!(browser.complaints(), [""; 0]);
}
