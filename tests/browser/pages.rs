//! Definitions, providers and workers in a browser.

use serde_json::json;
use stateway_client::v1;
use stateway_provider_api::ErrorKind;

use crate::browser::Browser;
use crate::stage::{act_as, clean, mark, not_reloaded, page, until_reloaded};
use crate::support::{BuiltInRig, Puppet};

const HELLO: &str = "\
name: hello
description: Says hello.
steps:
  - {name: greet, agent: greeter, timeout: 5m}
  - {name: bow, agent: greeter, timeout: 5m, dependsOn: [greet]}
";

pub(crate) async fn a_definition_is_looked_at_compared_and_started(browser: &Browser) {
    let rig = BuiltInRig::start().await;
    rig.apply(HELLO).await;
    rig.apply(&HELLO.replace("bow", "wave")).await;
    act_as(browser, &rig, "eve", "");
    browser.go(&page(&rig, "/definitions"));
    browser.click("a.go[href='/definitions/hello']");
    browser.sees("Says hello.");
    assert_eq!(browser.count(".graph .node"), 2);
    assert_eq!(browser.count(".graph path.edge"), 1);

    browser.click(".revisions a.muted");
    browser.sees_in(".diff .removed", "name: bow");
    browser.sees_in(".diff .added", "name: wave");
    mark(browser);
    browser.click(".compare button");
    until_reloaded(browser);
    browser.sees_in(".diff .removed", "name: bow");

    browser.go(&page(&rig, "/definitions/hello"));
    browser.click("#start-form summary");
    browser.fill("#start-form textarea[name=input]", "{\"a\": }");
    browser.fill("#start-form input[name=id]", "from-a-page");
    browser.click("#start-form button.primary");
    browser.sees_in(
        "#start-problem",
        "not JSON: expected value at line 1 column 7",
    );
    let kept = browser.script("return document.querySelector('[name=input]').value", &[]);
    assert_eq!(kept, json!("{\"a\": }"));
    browser.fill("#start-form textarea[name=input]", "{\"a\": 1}");
    browser.fill("#start-form textarea[name=labels]", "team=shop");
    browser.click("#start-form button.primary");
    browser.sees("Started.");
    assert!(
        browser.url().ends_with("/executions/b/from-a-page"),
        "{}",
        browser.url()
    );
    let started = rig.get("from-a-page").await;
    assert_eq!(started.labels["team"], "shop");
    assert_eq!(rig.initiator("from-a-page").await, "eve");
    clean(browser);
}

pub(crate) async fn a_provider_that_goes_down_is_named_and_comes_back_without_a_reload(
    browser: &Browser,
) {
    let puppet = Puppet::new();
    puppet.show("p1", "RUNNING");
    let rig = BuiltInRig::start_beside(|gateway| gateway.with_puppet("shaky", &puppet)).await;
    browser.go(&page(&rig, "/providers"));
    browser.sees_in("#providers", "answers");
    mark(browser);
    puppet.fail(ErrorKind::Unavailable, None);
    browser.sees_in("#providers .note.warn", "No answer from shaky");
    browser.sees_in("#providers", "does not answer");
    not_reloaded(browser);

    // The list of executions names it too, and goes on without it.
    browser.go(&page(&rig, "/executions"));
    browser.sees("No answer from shaky");
    mark(browser);
    puppet.recover();
    browser.until("the banner goes", || {
        (!browser.visible().contains("No answer from shaky")).then_some(())
    });
    not_reloaded(browser);
    browser.go(&page(&rig, "/executions"));
    browser.sees("p1");
    clean(browser);
}

pub(crate) async fn a_provider_tells_what_it_can_and_how_its_words_are_read(browser: &Browser) {
    let rig = BuiltInRig::start_beside(|gateway| gateway.with_puppet("p", &Puppet::new())).await;
    browser.go(&page(&rig, "/providers"));
    browser.click("a.go[href='/providers/p']");
    browser.sees_in("#health", "answers");
    browser.sees("The gateway polls the execution");
    browser.sees_in(".states", "TIMED_OUT");
    clean(browser);
}

pub(crate) async fn a_worker_and_what_waits_for_it_are_seen_live(browser: &Browser) {
    let rig = BuiltInRig::start().await;
    rig.apply(HELLO).await;
    browser.go(&page(&rig, "/workers"));
    browser.sees_in("#work-overview", "No worker is connected");
    mark(browser);
    rig.begin("hello", "w1", "ada", json!({})).await;
    browser.sees_in("#work-overview", "none is connected");
    browser.sees_in("#work-overview", "1 task");
    let offer = v1::Offer {
        worker_id: "busy".into(),
        roles: vec!["greeter".into()],
        capacity: 2,
        ..v1::Offer::default()
    };
    let mut worker = rig.work(offer).await.unwrap();
    worker.task().await;
    browser.sees_in("#work-overview .cards", "greet of w1, attempt 1");
    browser.sees_in("#work-overview .cards", "Tasks: 1 of 2");
    not_reloaded(browser);
    clean(browser);
}
