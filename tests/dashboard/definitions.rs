//! Definitions: the list, one of them, what changed between revisions, and the form to start one.

use stateway_client::v1;
use stateway_provider_api::{ErrorKind, NativeDefinition};
use stateway_visitor::Visitor;

use crate::support::{BuiltInRig, Puppet, json_of};

const HELLO: &str = "\
name: hello
description: Says <b>hello</b>.
steps:
  - name: greet
    agent: greeter
    timeout: 5m
  - name: bow
    agent: greeter
    timeout: 5m
    dependsOn: [greet]
";

#[tokio::test]
async fn the_list_has_names_descriptions_and_revisions() {
    let rig = BuiltInRig::start().await;
    let mut visit = Visitor::new(&rig.gateway);
    visit.get("/definitions").await.is(200).has(&["None yet"]);
    let applied = rig.apply(HELLO).await;
    let page = visit.get("/definitions").await;
    page.has(&[
        "href=\"/definitions/hello\"",
        "Says &lt;b&gt;hello&lt;/b&gt;.",
        &applied.revision[..12],
    ]);
}

#[tokio::test]
async fn one_definition_has_source_revisions_and_a_form() {
    let rig = BuiltInRig::start().await;
    let old = rig.apply(HELLO).await.revision;
    let new = rig
        .apply(&HELLO.replace("5m\n    dep", "6m\n    dep"))
        .await
        .revision;
    let mut visit = Visitor::new(&rig.gateway);
    let page = visit.get("/definitions/hello").await.is(200);
    page.has(&[
        "agent: greeter",
        "timeout: 6m",
        "<svg",
        ">bow</text>",
        "marker-end=\"url(#arrow)\"",
        "after <bdi>greet</bdi>",
        &old[..12],
        &new[..12],
        "what changed",
        "Start an execution of this definition",
    ]);
    let before = visit
        .get(&format!("/definitions/hello?revision={old}"))
        .await;
    before
        .is(200)
        .has(&["This is not the newest one."])
        .lacks(&["Start an execution of this definition", "timeout: 6m"]);
    visit
        .get("/definitions/nobody")
        .await
        .is(404)
        .has(&["DEFINITION_NOT_FOUND"]);
    visit.get("/definitions/hello?revision=0").await.is(400);
}

#[tokio::test]
async fn two_revisions_are_compared_line_by_line() {
    let rig = BuiltInRig::start().await;
    let old = rig.apply(HELLO).await.revision;
    let new = rig
        .apply(&HELLO.replace("- name: bow", "- name: wave"))
        .await
        .revision;
    let mut visit = Visitor::new(&rig.gateway);
    let page = visit
        .get(&format!("/definitions/hello?from={old}&to={new}"))
        .await
        .is(200);
    page.has(&[
        "<bdi>  - name: bow</bdi>",
        "<bdi>  - name: wave</bdi>",
        "class=\"removed\"",
        "class=\"added\"",
        "lines are the same",
    ]);
    let same = visit
        .get(&format!("/definitions/hello?from={old}&to={old}"))
        .await;
    same.is(200).has(&["The revisions are equal."]);
}

#[tokio::test]
async fn a_start_leads_to_its_execution() {
    let rig = BuiltInRig::start().await;
    rig.apply(HELLO).await;
    let mut visit = Visitor::by(&rig.gateway, "eve", "").await;
    let page = visit.get("/definitions/hello").await;
    let fields = [
        ("input", "{\"to\": 1}"),
        ("id", "x1"),
        ("labels", "team=shop\nrank=3"),
    ];
    let answer = visit
        .send(&page, "/definitions/hello/start", &fields)
        .await
        .is(303);
    assert_eq!(answer.header("location"), "/executions/b/x1");
    let mut client = rig.gateway.executions().await;
    let request = v1::GetExecutionRequest {
        name: "providers/b/executions/x1".into(),
        ..v1::GetExecutionRequest::default()
    };
    let found = client.get_execution(request).await.unwrap().into_inner();
    assert_eq!(found.definition, "definitions/hello");
    assert_eq!(found.labels["rank"], "3");
    assert_eq!(json_of(found.input.as_ref()), serde_json::json!({"to": 1}));
    assert_eq!(rig.initiator("x1").await, "eve");
}

#[tokio::test]
async fn a_start_is_made_in_someones_name() {
    let rig = BuiltInRig::start().await;
    rig.apply(HELLO).await;
    let mut visit = Visitor::new(&rig.gateway);
    let start = "/definitions/hello/start";
    let page = visit.get("/definitions/hello").await;
    page.has(&["Your name (recorded)"]);
    let refused = visit.send(&page, start, &[("id", "x1")]).await.is(403);
    refused.has(&["A start needs your name", "value=\"x1\"", "name=\"actor\""]);
    assert!(rig.find("x1").await.is_none());
    // A name that came with a refused form is kept, as everything else that was typed.
    let named = [("id", "x1"), ("actor", "ada"), ("input", "{")];
    let refused = visit.send(&refused, start, &named).await.is(400);
    refused.has(&["You act as <b><bdi>ada</bdi></b>"]);
    visit.send(&refused, start, &[("id", "x1")]).await.is(303);
    assert_eq!(rig.initiator("x1").await, "ada");
}

#[tokio::test]
async fn a_start_that_may_have_been_made_is_sent_again_under_the_same_id() {
    let puppet = Puppet::new();
    puppet.define(vec![NativeDefinition {
        name: "ship".into(),
        ..NativeDefinition::default()
    }]);
    let rig = BuiltInRig::start_beside(|gateway| gateway.with_puppet("p", &puppet)).await;
    let mut visit = Visitor::by(&rig.gateway, "eve", "").await;
    let page = visit.get("/providers/p/definitions/ship").await;
    let id = page.field("request_id");
    puppet.fail(ErrorKind::Unavailable, None);
    let start = "/providers/p/definitions/ship/start";
    let there = [("id", "x1"), ("provider", "providers/p")];
    let unsure = visit.send(&page, start, &there).await.is(503);
    assert_eq!(unsure.field("request_id"), id);
    // What was refused for certain is another start the next time.
    let refused = visit.send(&page, start, &[("input", "{")]).await.is(400);
    assert_ne!(refused.field("request_id"), id);
}

#[tokio::test]
async fn a_definition_may_be_called_start() {
    let rig = BuiltInRig::start().await;
    rig.apply(&HELLO.replace("name: hello", "name: start"))
        .await;
    let mut visit = Visitor::by(&rig.gateway, "eve", "").await;
    let page = visit.get("/definitions/start").await.is(200);
    let answer = visit
        .send(&page, "/definitions/start/start", &[("id", "x1")])
        .await
        .is(303);
    assert_eq!(answer.header("location"), "/executions/b/x1");
}

#[tokio::test]
async fn what_is_wrong_with_a_start_is_said_in_place_and_nothing_typed_is_lost() {
    let rig = BuiltInRig::start().await;
    rig.apply(HELLO).await;
    let mut visit = Visitor::by(&rig.gateway, "eve", "").await;
    let page = visit.get("/definitions/hello").await;
    let start = "/definitions/hello/start";
    let long = "x".repeat(5_000);
    for (fields, message) in [
        (
            [("input", "{\"a\": }"), ("id", "kept")],
            "The input is not JSON: expected value at line 1 column 7",
        ),
        ([("labels", "nothing"), ("id", "kept")], "has no value"),
        ([("input", "1"), ("id", &long)], "role=\"alert\""),
    ] {
        let answer = visit.send(&page, start, &fields).await.is(400);
        answer.has(&[message, "details class=\"start\" id=\"start-form\" open"]);
        answer.has(&[&format!("value=\"{}\"", fields[1].1)]);
    }
    visit.post(start, &[("input", "{}")]).await.is(403);
    let mut client = rig.gateway.executions().await;
    let request = v1::ListExecutionsRequest {
        parent: "providers/b".into(),
        ..v1::ListExecutionsRequest::default()
    };
    let listed = client.list_executions(request).await.unwrap().into_inner();
    assert_eq!(listed.executions, []);
}

#[tokio::test]
async fn an_engines_own_definitions_are_listed_compared_and_started() {
    let puppet = Puppet::new();
    let revision = |revision: &str, source: &str| NativeDefinition {
        name: "Ship it".into(),
        revision: revision.into(),
        source: source.into(),
        revisions: vec!["2".into(), "1".into()],
        ..NativeDefinition::default()
    };
    puppet.define(vec![
        revision("2", "{\n\"StartAt\": \"B\"\n}"),
        revision("1", "{\n\"StartAt\": \"A\"\n}"),
    ]);
    let rig = BuiltInRig::start_beside(|gateway| gateway.with_puppet("p", &puppet)).await;
    let mut visit = Visitor::by(&rig.gateway, "eve", "").await;
    let path = "/providers/p/definitions/Ship%20it";
    let list = visit.get("/definitions").await.is(200);
    list.has(&[
        "Of <bdi>p</bdi>",
        &format!("href=\"{path}\""),
        "<bdi>Ship it</bdi>",
    ]);
    let page = visit.get(path).await.is(200);
    page.has(&[
        "StartAt",
        "href=\"/providers/p\"",
        "Start an execution of this definition",
    ]);
    let changes = visit.get(&format!("{path}?from=1&to=2")).await.is(200);
    changes.has(&["class=\"removed\"", "class=\"added\""]);
    let fields = [("input", "{}"), ("id", "n1"), ("provider", "providers/p")];
    let started = visit
        .send(&page, &format!("{path}/start"), &fields)
        .await
        .is(303);
    assert_eq!(started.header("location"), "/executions/p/n1");
}

const NIGHTLY: &str = "\
name: nightly
trigger: {event: dusk, schedule: '0 2 * * *'}
steps:
  - {name: rest, signal: go, timeout: 1h}
";

#[tokio::test]
async fn a_trigger_is_disabled_and_enabled_on_the_page() {
    let rig = BuiltInRig::start().await;
    rig.apply(NIGHTLY).await;
    let mut visit = Visitor::by(&rig.gateway, "ada", "").await;
    let page = visit.get("/definitions/nightly").await.is(200);
    page.has(&["Started by the event", "0 2 * * *", "the next start is"]);
    let question = visit.get(&page.link("Disable the trigger")).await.is(200);
    let fields = [("comment", "maintenance <b>")];
    visit
        .send(
            &question,
            "/definitions/nightly/do/disable-trigger",
            &fields,
        )
        .await
        .is(303);
    let page = visit.get("/definitions/nightly").await.is(200);
    page.has(&[
        "The trigger is disabled.",
        "disabled by",
        "maintenance &lt;b&gt;",
    ])
    .lacks(&["the next start is", "Disable the trigger"]);
    visit
        .get("/definitions")
        .await
        .has(&["Trigger disabled by"]);
    visit.get("/workers").await.has(&["does not start: "]);
    let question = visit.get(&page.link("Enable the trigger")).await.is(200);
    visit
        .send(&question, "/definitions/nightly/do/enable-trigger", &[])
        .await
        .is(303);
    let page = visit.get("/definitions/nightly").await.is(200);
    page.has(&["The trigger is enabled.", "the next start is"]);
}

#[tokio::test]
async fn a_definition_is_deleted_on_the_page() {
    let rig = BuiltInRig::start().await;
    let revision = rig.apply(NIGHTLY).await.revision;
    rig.begin("nightly", "n1", "ada", serde_json::json!(null))
        .await;
    let mut visit = Visitor::by(&rig.gateway, "ada", "").await;
    let page = visit.get("/definitions/nightly").await.is(200);
    let question = visit.get(&page.link("Delete")).await.is(200);
    let path = "/definitions/nightly/do/delete";
    let refused = visit.send(&question, path, &[]).await.is(409);
    refused.has(&["an execution of the definition `nightly` is open"]);
    let fields = [("keep_running", "1")];
    visit.send(&refused, path, &fields).await.is(303);
    let page = visit.get("/definitions").await.is(200);
    page.has(&["nightly is deleted. Open executions finish under their revision: 1."])
        .lacks(&["href=\"/definitions/nightly\""]);
    let old = format!("/definitions/nightly?revision={revision}");
    let page = visit.get(&old).await.is(200);
    page.has(&["The definition was deleted."])
        .lacks(&["Start an execution of this definition", ">Delete<"]);
    visit.get("/definitions/nightly/do/explode").await.is(404);
    visit.get("/definitions/nightly/do/delete").await.is(404);
}

#[tokio::test]
async fn a_definition_is_not_changed_by_nobody() {
    let rig = BuiltInRig::start().await;
    rig.apply(NIGHTLY).await;
    let mut visit = Visitor::new(&rig.gateway);
    let question = visit.get("/definitions/nightly/do/delete").await.is(200);
    visit
        .send(&question, "/definitions/nightly/do/delete", &[])
        .await
        .is(403);
    visit.get("/definitions/nightly").await.is(200);
}
