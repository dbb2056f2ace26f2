//! What an operator does every day, in a browser: look into a step, decide, find, act on several.

use serde_json::json;

use crate::browser::Browser;
use crate::stage::{act_as, asks, clean, mark, not_reloaded, page};
use crate::support::BuiltInRig;

const GATE: &str = "name: gate\nsteps:\n  - {name: wait, kind: signal, signal: go}\n";
const ASKS: &str = "name: asks\nsteps:\n  - {name: ask, approval: {role: ops}}\n";

async fn rig(definitions: &[&str]) -> BuiltInRig {
    let rig = BuiltInRig::start().await;
    for definition in definitions {
        rig.apply(definition).await;
    }
    rig
}

pub(crate) async fn the_payloads_of_a_step_are_one_click_away(browser: &Browser) {
    let rig = rig(&[GATE]).await;
    rig.begin("gate", "one", "ada", json!({"order": 17})).await;
    browser.go(&page(&rig, "/executions/b/one"));
    browser.click("#graph .node a");
    browser.sees_in("#step", "Step wait");
    browser.sees_in("#step", "Attempt");
    browser.click("#timeline .name a");
    browser.sees_in("#step", "Step wait");
    browser.click("#history .number a");
    browser.sees_in("#event", "Event 1");
    browser.sees_in("#event", "order");
    clean(browser);
}

pub(crate) async fn a_person_decides_on_the_page_that_waits(browser: &Browser) {
    let rig = rig(&[ASKS]).await;
    rig.begin("asks", "one", "ada", json!({})).await;
    rig.until("one", asks).await;
    act_as(browser, &rig, "eve", "ops");
    browser.go(&page(&rig, "/executions/b/one"));
    browser.sees_in("#decisions", "Approval of step ask");
    browser.click("#decisions a[data-dialog]");
    browser.click("dialog[open] button.primary");
    browser.sees_in("#head", "succeeded");
    assert!(
        browser.url().ends_with("/executions/b/one"),
        "{}",
        browser.url()
    );
    clean(browser);
}

pub(crate) async fn ids_are_found_and_several_executions_are_cancelled(browser: &Browser) {
    let rig = rig(&[GATE]).await;
    for id in ["brief-1", "brief-2", "order-1"] {
        rig.begin("gate", id, "ada", json!({})).await;
    }
    act_as(browser, &rig, "eve", "");
    browser.go(&page(&rig, "/executions"));
    browser.sees_in("#live", "live");
    browser.fill("#filter", "brief");
    browser.click(".filter button");
    browser.until("two rows", || (browser.count("tr.row") == 2).then_some(()));
    // A tick stays when its row changes.
    browser.sees_in("#live", "live");
    mark(browser);
    browser.click("button[data-select-all]");
    assert_eq!(browser.count("input[name=row]:checked"), 2);
    let change = "document.querySelector('tr.row').classList.add('other')";
    browser.script(change, &[]);
    not_reloaded(browser);
    let choose = "document.querySelector('#selection-do').value = 'cancel'";
    browser.script(choose, &[]);
    browser.click("#selection button");
    browser.sees("2 of 2 executions");
    browser.fill("input[name=comment]", "not wanted");
    browser.click("form.question button.primary");
    browser.sees("2 of 2 done");
    rig.until("brief-1", |seen| seen.native_state == "cancelled")
        .await;
    rig.until("order-1", |seen| seen.native_state == "awaiting_signal")
        .await;
    clean(browser);
}

pub(crate) async fn times_are_shown_as_chosen_and_keys_can_be_turned_off(browser: &Browser) {
    let rig = rig(&[GATE]).await;
    rig.begin("gate", "one", "ada", json!({})).await;
    browser.go(&page(&rig, "/executions"));
    let first = "return document.querySelector('tr.row td.time time').textContent";
    let text = || {
        browser
            .script(first, &[])
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    let relative = text();
    assert!(
        relative.contains("ago") || relative.contains("now"),
        "{relative}"
    );
    for (times, wanted) in [("utc", "20"), ("local", "20"), ("relative", "")] {
        browser.click(".bottom a");
        browser.sees_in("dialog[open]", "Stored in this browser");
        browser.script(
            "document.querySelector('dialog[open] select').value = arguments[0]; \
             document.querySelector('dialog[open] input[name=keys]').checked = false",
            &[json!(times)],
        );
        browser.click("dialog[open] button.primary");
        browser.sees("The display was changed.");
        assert!(browser.url().ends_with("/executions"), "{}", browser.url());
        assert!(text().starts_with(wanted), "{times}: {}", text());
    }
    browser.press("?");
    browser.press("j");
    assert_eq!(browser.count("dialog[open]"), 0);
    assert_eq!(browser.count("tr.chosen"), 0);
    clean(browser);
}

pub(crate) async fn the_graph_is_zoomed_and_the_failing_step_is_found(browser: &Browser) {
    let steps: String = (0..12)
        .map(|step| {
            let after = match step {
                0 => String::new(),
                step => format!(", dependsOn: [s{}]", step - 1),
            };
            format!("  - {{name: s{step}, agent: nobody, timeout: 5m{after}}}\n")
        })
        .collect();
    let rig = rig(&[&format!("name: long\nsteps:\n{steps}")]).await;
    rig.begin("long", "one", "ada", json!({})).await;
    act_as(browser, &rig, "eve", "");
    browser.go(&page(&rig, "/executions/b/one"));
    let width = || {
        let width = browser.script(
            "return document.querySelector('.graph svg').width.baseVal.value",
            &[],
        );
        width.as_f64().unwrap()
    };
    let full = width();
    browser.click("button[data-zoom=out]");
    assert!(width() < full);
    browser.click("button[data-zoom=fit]");
    let room = browser.script("return document.querySelector('.graph').clientWidth", &[]);
    assert!(
        width() <= room.as_f64().unwrap() + 1.0,
        "{} of {room}",
        width()
    );
    browser.click("button[data-zoom=full]");
    assert!((width() - full).abs() < 1.0);
    browser.click("button[data-widen=in]");
    assert_eq!(browser.count(".timeline[data-wide='2']"), 1);
    clean(browser);
}

pub(crate) async fn a_text_is_copied(browser: &Browser) {
    let rig = rig(&[GATE]).await;
    rig.begin("gate", "one", "ada", json!({})).await;
    browser.go(&page(&rig, "/executions/b/one"));
    // The clipboard of a headless browser belongs to nobody: what would be written is kept here.
    browser.script(
        "Object.defineProperty(navigator, 'clipboard', \
         { value: { writeText: async (text) => { window.copied = text; } } })",
        &[],
    );
    browser.click("button[data-copy-text]");
    browser.sees("Copied");
    let copied = browser.script("return window.copied", &[]);
    assert_eq!(copied, json!("b/one"));
    browser.click("#commands-list summary");
    browser.click("#commands-list button.copy");
    browser.until("the command is copied", || {
        let copied = browser.script("return window.copied", &[]);
        (copied == json!("stateway get b/one")).then_some(())
    });
    clean(browser);
}
