//! What an operator does every day: find, look into, decide about several, repeat, schedule.

use std::time::Duration;

use stateway_proto::v1;

use crate::headers::between;
use crate::live::live_of;
use crate::support::{GATE, Rig};

/// Starts an execution of `gate` with labels.
async fn labelled(rig: &Rig, id: &str, labels: &[(&str, &str)]) -> String {
    let labels = labels
        .iter()
        .map(|(key, value)| ((*key).into(), (*value).into()));
    let request = v1::StartExecutionRequest {
        parent: "providers/b".into(),
        definition: "definitions/gate".into(),
        execution_id: id.into(),
        input: Some(v1::Payload {
            data: r#"{"order": 17}"#.into(),
            content_type: String::new(),
        }),
        labels: labels.collect(),
        ..Default::default()
    };
    let started = rig.api().await.start_execution(request).await;
    started.expect("it starts").into_inner().name
}

async fn signal(rig: &Rig, name: &str) {
    let request = v1::SignalExecutionRequest {
        name: name.into(),
        signal: "go".into(),
        payload: Some(v1::Payload {
            data: r#"{"by": "the post"}"#.into(),
            content_type: String::new(),
        }),
        ..Default::default()
    };
    rig.api()
        .await
        .signal_execution(request)
        .await
        .expect("it is taken");
}

fn rows(html: &str) -> Vec<String> {
    let cells = html.split("<a class=\"go\" href=\"").skip(1);
    cells.map(|cell| between(cell, "<bdi>", "</bdi>")).collect()
}

fn unescaped(text: &str) -> String {
    text.replace("&amp;", "&").replace("&quot;", "\"")
}

#[tokio::test]
async fn the_payloads_of_a_step_are_one_click_from_its_node_its_bar_and_its_event() {
    let rig = Rig::start().await;
    rig.apply(GATE).await;
    let name = labelled(&rig, "one", &[]).await;
    signal(&rig, &name).await;
    rig.until(&name, |seen| seen.native_state == "completed")
        .await;
    let mut browser = rig.browser();
    let page = browser.get("/executions/b/one").await;
    let step = "href=\"/executions/b/one?step=wait";
    for part in ["graph", "timeline", "history"] {
        let part = between(&page.body, &format!("id=\"{part}\""), "</section>");
        assert!(part.contains(step), "{part}");
    }
    let bar = between(&page.body, "id=\"timeline\"", "</section>");
    assert!(bar.contains("?step=wait&amp;attempt=1#step"), "{bar}");
    let chosen = browser.get("/executions/b/one?step=wait&attempt=1").await;
    let chosen = between(&chosen.body, "<div id=\"step\">", "id=\"event\"");
    assert!(chosen.contains("the post"), "{chosen}");
    assert!(chosen.contains("Attempt 1: succeeded"), "{chosen}");
    assert!(chosen.contains("<dt>Duration</dt>"), "{chosen}");
    // The event itself, as the engine recorded it.
    let history = between(&page.body, "id=\"history\"", "</section>");
    let (before, _) = history
        .split_once("<code><bdi>SignalReceived")
        .expect(&history);
    let (_, link) = before.rsplit_once("href=\"").unwrap();
    let link = unescaped(link.split(['"', '#']).next().unwrap());
    let event = browser.get(&link).await;
    let event = between(&event.body, "<div id=\"event\">", "id=\"payloads\"");
    assert!(event.contains("the post"), "{event}");
}

#[tokio::test]
async fn a_word_finds_ids_by_their_beginning_and_a_label_is_a_link() {
    let rig = Rig::start().await;
    rig.apply(GATE).await;
    labelled(&rig, "brief-30", &[("tenant", "a\"b*c")]).await;
    labelled(&rig, "brief-31", &[("tenant", "acme")]).await;
    labelled(&rig, "order-30", &[]).await;
    let mut browser = rig.browser();
    let found = browser.get("/executions?filter=brief-3").await;
    assert_eq!(rows(&found.body), ["brief-31", "brief-30"]);
    let found = browser.get("/executions?filter=brief-30").await;
    assert_eq!(rows(&found.body), ["brief-30"]);
    let label = between(&found.body, "<a class=\"label\" href=\"", "\"");
    let same = browser.get(&unescaped(&label)).await;
    assert_eq!(rows(&same.body), ["brief-30"], "{label}");
    let page = browser.get("/executions/b/brief-31").await;
    let head = between(&page.body, "id=\"head\"", "id=\"decisions\"");
    assert!(head.contains("class=\"label\""), "{head}");
}

#[tokio::test]
async fn a_filtered_list_fills_its_page() {
    let rig = Rig::start().await;
    rig.apply(GATE).await;
    // More than the gateway reads for one page of the API lie between the matches.
    labelled(&rig, "old", &[("kind", "rare")]).await;
    for number in 0..150 {
        labelled(&rig, &format!("e{number}"), &[]).await;
    }
    labelled(&rig, "new", &[("kind", "rare")]).await;
    let mut browser = rig.browser();
    let page = browser.get("/executions?filter=labels.kind+%3D+rare").await;
    assert_eq!(rows(&page.body), ["new", "old"]);
    assert!(
        !page.body.contains("Search further"),
        "it was searched through"
    );
}

#[tokio::test]
async fn several_executions_are_cancelled_after_a_preview_and_failures_are_listed() {
    let rig = Rig::start().await;
    rig.apply(GATE).await;
    let mut names = Vec::new();
    for id in ["a", "b", "c"] {
        names.push(labelled(&rig, id, &[]).await);
    }
    signal(&rig, &names[2]).await;
    rig.until(&names[2], |seen| seen.native_state == "completed")
        .await;
    let mut browser = rig.browser();
    let list = browser.get("/executions").await;
    assert_eq!(
        list.body.matches("name=\"row\"").count(),
        3,
        "{}",
        list.body
    );
    let none = browser.get("/executions/selected?do=cancel").await;
    assert_eq!(none.status, 400);
    let preview = browser
        .get("/executions/selected?do=cancel&row=b/a&row=b/b&row=b/c")
        .await;
    assert!(
        preview.body.contains("Cancel: 2 of 3 executions"),
        "{}",
        preview.body
    );
    let left_out = between(&preview.body, ">Left out", "</section>");
    assert!(left_out.contains("/executions/b/c"), "{left_out}");
    // Someone else cancels one of them meanwhile, and one is gone.
    let (token, id) = (preview.field("csrf"), preview.field("request_id"));
    let fields = [
        ("csrf", token.as_str()),
        ("request_id", &id),
        ("do", "cancel"),
        ("actor", "ada"),
        ("comment", "no longer wanted"),
        ("row", "b/a"),
        ("row", "b/b"),
        ("row", "b/none"),
    ];
    let done = browser.post("/executions/selected", &fields).await;
    assert_eq!(done.status, 200, "{}", done.body);
    assert!(done.body.contains("Cancel: 2 of 3 done"), "{}", done.body);
    let failed = between(&done.body, "class=\"failures\"", "</table>");
    assert!(failed.contains("EXECUTION_NOT_FOUND"), "{failed}");
    for name in &names[..2] {
        let seen = rig.get(name).await;
        assert_eq!(seen.cancellation.unwrap().comment, "no longer wanted");
    }
    let all = browser
        .get("/executions/selected?do=retry-from&all=1")
        .await;
    assert!(all.body.contains("of 3 executions"), "{}", all.body);
}

#[tokio::test]
async fn a_view_is_saved_shown_and_removed() {
    let rig = Rig::start().await;
    let mut browser = rig.browser();
    let page = browser.get("/executions?filter=sub_state+%3D+ERROR").await;
    let token = page.field("csrf");
    let save = [
        ("csrf", token.as_str()),
        ("request_id", "r1"),
        ("filter", "sub_state = ERROR"),
        ("name", "In trouble"),
    ];
    assert_eq!(browser.post("/views", &save).await.status, 303);
    let page = browser.get("/executions").await;
    let views = between(&page.body, "class=\"presets\"", "</nav>");
    assert!(views.contains("In trouble"), "{views}");
    assert!(views.contains("filter=sub_state+%3D+ERROR"), "{views}");
    let page = browser.get("/executions?filter=sub_state+%3D+ERROR").await;
    assert!(page.body.contains("Remove this view"), "{}", page.body);
    let token = page.field("csrf");
    let remove = [
        ("csrf", token.as_str()),
        ("filter", "sub_state = ERROR"),
        ("remove", "In trouble"),
    ];
    assert_eq!(browser.post("/views", &remove).await.status, 303);
    let page = browser.get("/executions").await;
    assert!(!page.body.contains("In trouble"));
}

#[tokio::test]
async fn times_and_keys_are_as_a_person_chose() {
    let rig = Rig::start().await;
    let mut browser = rig.browser();
    let page = browser.get("/executions").await;
    assert!(
        page.body
            .contains("data-times=\"relative\" data-keys=\"on\"")
    );
    let token = browser.get("/display").await.field("csrf");
    let chosen = [
        ("csrf", token.as_str()),
        ("times", "utc"),
        ("back", "/workers"),
    ];
    let kept = browser.post("/display", &chosen).await;
    assert_eq!((kept.status, kept.header("location")), (303, "/workers"));
    let page = browser.get("/executions").await;
    assert!(page.body.contains("data-times=\"utc\" data-keys=\"off\""));
}

#[tokio::test]
async fn a_form_of_a_gateway_that_was_restarted_keeps_its_text() {
    let rig = Rig::start().await;
    rig.apply(GATE).await;
    let name = labelled(&rig, "one", &[]).await;
    let mut browser = rig.browser();
    let form = "/executions/b/one/do/cancel";
    let question = browser.get(form).await;
    let id = question.field("request_id");
    let fields = [
        ("csrf", "AAAA"),
        ("request_id", id.as_str()),
        ("actor", "ada"),
        ("comment", "a long <story>"),
    ];
    let again = browser.post(form, &fields).await;
    assert_eq!(again.status, 403);
    assert!(
        again.body.contains("a long &lt;story&gt;"),
        "{}",
        again.body
    );
    assert!(again.body.contains("Nothing was changed"), "{}", again.body);
    assert_eq!(rig.get(&name).await.cancellation, None);
    assert_eq!(again.field("request_id"), id);
    let token = again.field("csrf");
    let fields = [("csrf", token.as_str()), fields[1], fields[2], fields[3]];
    assert_eq!(browser.post(form, &fields).await.status, 303);
    let cancelled = rig.get(&name).await.cancellation.unwrap();
    assert_eq!(cancelled.comment, "a long <story>");
}

#[tokio::test]
async fn one_like_this_starts_with_the_same_input_and_labels() {
    let rig = Rig::start().await;
    rig.apply(GATE).await;
    labelled(&rig, "one", &[("tenant", "acme")]).await;
    let mut browser = rig.browser();
    let page = browser.get("/executions/b/one").await;
    let actions = between(&page.body, "id=\"actions\"", "</div>");
    let link = between(&actions, "href=\"", "\"");
    assert_eq!(link, "/definitions/gate?like=b%2Fone#start-form");
    let form = browser.get("/definitions/gate?like=b%2Fone").await;
    let form = between(&form.body, "id=\"start-form\"", "</form>");
    assert!(form.contains("&quot;order&quot;: 17"), "{form}");
    assert!(form.contains("tenant=acme"), "{form}");
    assert!(form.contains("With the input and the labels of"), "{form}");
}

#[tokio::test]
async fn a_schedule_is_shown_disabled_and_run_now() {
    let rig = Rig::start().await;
    rig.apply(&format!("{GATE}trigger: {{schedule: \"0 3 1 1 *\"}}\n"))
        .await;
    let mut browser = rig.browser();
    let page = browser.get("/schedules").await;
    assert!(page.body.contains("0 3 1 1 *"), "{}", page.body);
    assert!(page.body.contains("data-until="), "{}", page.body);
    let run = browser
        .answer_fields("/definitions/gate/do/run-now", &[("actor", "ada")])
        .await;
    assert_eq!(run.status, 303, "{}", run.body);
    let started = run.header("location").to_owned();
    assert!(started.starts_with("/executions/b/"), "{started}");
    let execution = browser.get(&started).await;
    assert!(
        execution.body.contains("scheduledTime"),
        "{}",
        execution.body
    );
    let disable = "/definitions/gate/do/disable-trigger";
    let disabled = browser
        .answer_fields(disable, &[("comment", "maintenance")])
        .await;
    assert_eq!(disabled.status, 303, "{}", disabled.body);
    let page = browser.get("/schedules").await;
    assert!(page.body.contains("disabled by"), "{}", page.body);
    assert!(page.body.contains("enable-trigger"), "{}", page.body);
}

#[tokio::test]
async fn the_history_is_a_file_and_commands_are_on_the_page() {
    let rig = Rig::start().await;
    rig.apply(GATE).await;
    let name = labelled(&rig, "it's", &[]).await;
    let path = format!("/executions/b/{}", name.rsplit('/').next().unwrap());
    let mut browser = rig.browser();
    let page = browser.get(&path).await;
    let commands = between(&page.body, "id=\"commands\"", "</section>");
    assert!(commands.contains("stateway get 'b/it'\\''s'"), "{commands}");
    assert!(commands.contains("stateway cancel"), "{commands}");
    let file = browser.get(&format!("{path}/history")).await;
    assert_eq!(file.status, 200, "{}", file.body);
    assert!(file.body.contains("order"), "{}", file.body);
    assert!(file.header("content-disposition").contains("attachment"));
    // An engine without a log of its own: its events, a line each.
    rig.begin("m/hello", "two", "").await;
    rig.clock.advance(Duration::from_secs(60));
    let file = browser.get("/executions/m/two/history").await;
    assert_eq!(file.status, 200, "{}", file.body);
    assert!(file.body.lines().count() > 1, "{}", file.body);
}

#[tokio::test]
async fn many_tabs_of_one_page_share_one_watch() {
    let rig = Rig::with(stateway_provider_api::Capabilities::ALL, |settings| {
        settings.watch.max_streams = 6;
    })
    .await;
    rig.apply(GATE).await;
    let name = labelled(&rig, "one", &[]).await;
    let mut browser = rig.browser();
    for path in ["/executions", "/executions/b/one"] {
        let live = live_of(&browser.get(path).await.body);
        let mut tabs = Vec::new();
        for _ in 0..40 {
            let mut tab = browser.listen(&live).await;
            tab.until(|heard| heard.contains("waiting")).await;
            assert!(
                !tab.heard.contains("could not be brought up to date"),
                "{}",
                tab.heard
            );
            tabs.push(tab);
        }
        if path == "/executions" {
            continue;
        }
        signal(&rig, &name).await;
        for tab in &mut tabs {
            tab.until(|heard| heard.contains("badge succeeded")).await;
        }
    }
}

#[tokio::test]
async fn a_proxy_serves_the_pages_under_a_path_over_tls() {
    let rig = Rig::start().await;
    rig.apply(GATE).await;
    labelled(&rig, "one", &[]).await;
    let mut browser = rig.browser();
    let proxied = |path: &str| {
        format!(
            "GET {path} HTTP/1.1\r\nx-forwarded-prefix: /ops/stateway\r\nx-forwarded-proto: https\r\n"
        )
    };
    let page = browser.raw(&proxied("/executions")).await;
    assert!(
        page.header("set-cookie").ends_with("; Secure"),
        "{:?}",
        page.headers
    );
    let addresses = page.body.split([' ', '>']).filter(|attribute| {
        let mut names = ["href=\"/", "action=\"/", "src=\"/", "data-live=\"/"].iter();
        names.any(|name| attribute.starts_with(name))
    });
    let addresses: Vec<_> = addresses.collect();
    assert!(addresses.len() > 20, "{addresses:?}");
    for address in addresses {
        assert!(address.contains("=\"/ops/stateway/"), "{address}");
    }
    let start = browser.raw(&proxied("/")).await;
    assert_eq!(start.header("location"), "/ops/stateway/executions");
    let plain = browser.get("/executions").await;
    assert!(!plain.body.contains("/ops/stateway"));
    assert!(!plain.header("set-cookie").contains("Secure"));
}

#[tokio::test]
async fn parent_and_child_link_to_each_other() {
    let rig = Rig::start().await;
    rig.apply(GATE).await;
    rig.apply("name: family\nsteps:\n  - {name: import, workflow: gate}\n")
        .await;
    let parent = rig.begin("family", "one", "").await;
    rig.until(&parent, |seen| !seen.steps[0].child.is_empty())
        .await;
    let child = rig.get(&parent).await.steps[0].child.clone();
    assert_eq!(rig.get(&child).await.parent_execution, parent);
    let mut browser = rig.browser();
    let page = browser.get("/executions/b/one").await;
    let head = between(&page.body, "id=\"head\"", "id=\"decisions\"");
    let path = child.replace("providers/b/executions/", "/executions/b/");
    assert!(head.contains("Children") && head.contains(&path), "{head}");
    let page = browser.get(&path).await;
    let head = between(&page.body, "id=\"head\"", "id=\"decisions\"");
    assert!(head.contains("Child of"), "{head}");
    assert!(head.contains("href=\"/executions/b/one\""), "{head}");
}

#[tokio::test]
async fn parents_siblings_and_children_are_drawn_as_one_tree() {
    let rig = Rig::start().await;
    rig.apply(GATE).await;
    rig.apply("name: middle\nsteps:\n  - {name: deep, workflow: gate}\n")
        .await;
    rig.apply(
        "name: top\nsteps:\n  - {name: left, workflow: middle}\n  - {name: right, workflow: middle}\n",
    )
    .await;
    let top = rig.begin("top", "one", "").await;
    let grown = |seen: &v1::Execution| seen.steps.iter().all(|step| !step.child.is_empty());
    rig.until(&top, grown).await;
    let middle = rig.get(&top).await.steps[0].child.clone();
    rig.until(&middle, grown).await;
    let deep = rig.get(&middle).await.steps[0].child.clone();
    let mut browser = rig.browser();
    for name in [&top, &middle, &deep] {
        let path = name.replace("providers/b/executions/", "/executions/b/");
        let page = browser.get(&path).await;
        let family = between(&page.body, "id=\"family\"", "id=\"graph\"");
        // From every member the whole line is drawn: the top, below it the middle, below that the last.
        let places = [&top, &middle, &deep].map(|member| {
            let href = member.replace("providers/b/executions/", "href=\"/executions/b/");
            family
                .find(&format!("{href}\""))
                .unwrap_or_else(|| panic!("{member}: {family}"))
        });
        assert!(places.is_sorted(), "{family}");
        assert_eq!(family.matches("this execution").count(), 1, "{family}");
        assert!(family.contains("badge waiting"), "{family}");
        let here = format!("href=\"{path}\" aria-current=\"page\"");
        assert!(family.contains(&here), "{family}");
    }
    let page = browser.get("/executions/b/one").await;
    let family = between(&page.body, "id=\"family\"", "id=\"graph\"");
    assert_eq!(family.matches("<li>").count(), 5, "{family}");
    // An execution without relatives has no tree.
    let alone = rig.begin("gate", "alone", "").await;
    let page = browser
        .get(&alone.replace("providers/b/executions/", "/executions/b/"))
        .await;
    assert!(!page.body.contains("family-title"));
}
