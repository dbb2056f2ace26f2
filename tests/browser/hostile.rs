//! Hostile content in a browser: it is shown, and does not run.

use serde_json::{Value, json};
use stateway_client::v1;

use crate::browser::Browser;
use crate::stage::{act_as, clean, mark, not_reloaded, page};
use crate::support::{BuiltInRig, Puppet, TestWorker, by};
use stateway_model::{ExecutionError, ExecutionId, Wait, WaitKind};
use stateway_provider_api::{NativeState, Observation, ObservedDefinition, StepObservation};

/// Ways in: markup, handlers, ends of attributes and of elements, addresses, templates, and
/// characters that turn, hide or control.
const WAYS_IN: [&str; 9] = [
    "<script>window.evil=1</script>",
    "\"'><img src=x onerror=window.evil=1>",
    "</textarea></title></style><svg onload=window.evil=1>",
    "javascript:window.evil=1",
    "<a href=\"javascript:window.evil=1\" onclick=window.evil=1>here</a>",
    "{{constructor.constructor('window.evil=1')()}}${window.evil=1}",
    "<iframe srcdoc='<script>parent.window.evil=1</script>'></iframe>",
    "\u{202e}turned\u{2066}\u{200b}\u{feff}",
    "\u{7}\u{1b}[31mred\r\ndata: <script>window.evil=1</script>",
];

fn evil() -> String {
    WAYS_IN.join(" ")
}

/// One execution that asks and is stuck, of a definition all of whose texts are hostile; and one of
/// another engine, whose very words are.
async fn hostile() -> (BuiltInRig, TestWorker) {
    let puppet = Puppet::new();
    let mut shown = Observation::new(
        ExecutionId::new(WAYS_IN[1]).expect("any text is an id"),
        NativeState::new(WAYS_IN[0]),
    );
    shown.labels = [("note".to_owned(), evil())].into();
    shown.definition = Some(ObservedDefinition::Native(WAYS_IN[2].to_owned()));
    shown.last_error = Some(ExecutionError {
        step: WAYS_IN[1].to_owned(),
        native_code: WAYS_IN[0].to_owned(),
        ..ExecutionError::message(evil())
    });
    shown.waits = vec![Wait::new(WaitKind::Signal, evil())];
    let steps = WAYS_IN.map(|name| StepObservation::new(name, NativeState::new(WAYS_IN[0])));
    shown.steps = steps.into();
    puppet.show_observation(shown);
    let rig = BuiltInRig::start_beside(|gateway| gateway.with_puppet("p", &puppet)).await;
    let text = serde_json::to_string(&evil()).unwrap();
    // What looks like a reference is one, unless it is written twice.
    let literal = text.replace("${", "$${");
    let role = serde_json::to_string(WAYS_IN[1]).unwrap();
    let source = format!(
        "name: evil\ndescription: {text}\nsteps:\n  \
         - {{name: ask, approval: {{role: ops}}, input: {{x: {literal}}}}}\n  \
         - {{name: pay, agent: {role}, action: {text}, timeout: 5m, onFailure: escalate}}\n"
    );
    rig.apply(&source).await;
    let offer = v1::Offer {
        worker_id: "w".into(),
        roles: vec![WAYS_IN[1].into()],
        skills: vec![WAYS_IN[0].into()],
        capacity: 1,
        ..v1::Offer::default()
    };
    let mut worker = rig.work(offer).await.unwrap();
    get_stuck(&rig, &mut worker, WAYS_IN[1]).await;
    (rig, worker)
}

/// Starts the hostile definition and fails its step, until a person has to decide.
async fn get_stuck(rig: &BuiltInRig, worker: &mut TestWorker, id: &str) {
    let start = v1::StartExecutionRequest {
        definition: "definitions/evil".into(),
        execution_id: id.into(),
        input: Some(v1::Payload {
            data: json!({evil(): evil()}).to_string().into(),
            content_type: String::new(),
        }),
        labels: labels(),
        ..v1::StartExecutionRequest::default()
    };
    let mut client = rig.gateway.executions().await;
    client.start_execution(by("ada", "", start)).await.unwrap();
    let task = worker.task().await;
    worker.say(v1::stream_tasks_request::Message::Failed(v1::TaskFailed {
        task_token: task.task_token,
        category: v1::ErrorCategory::Governance.into(),
        message: evil(),
        code: WAYS_IN[0].into(),
        ..v1::TaskFailed::default()
    }));
    rig.until(id, |view| view.native_state == "escalated").await;
}

/// One for each way in.
fn labels() -> std::collections::HashMap<String, String> {
    let pairs = WAYS_IN.iter().enumerate();
    pairs
        .map(|(place, text)| (format!("note-{place}"), (*text).to_owned()))
        .collect()
}

#[track_caller]
fn nothing_ran(browser: &Browser, at: &str) {
    let ran = browser.script("return window.evil === undefined ? null : window.evil", &[]);
    assert_eq!(ran, Value::Null, "{at}");
    let strangers = "return [...document.querySelectorAll('script:not([src^=\"/assets/\"]), \
                     iframe, img, object, embed, [onclick], [onerror], [onload], \
                     a[href^=\"javascript:\"]')].map(e => e.outerHTML)";
    assert_eq!(browser.script(strangers, &[]), json!([]), "{at}");
    clean(browser);
}

pub(crate) async fn hostile_content_is_shown_on_every_page_and_does_not_run(browser: &Browser) {
    let (rig, mut worker) = hostile().await;
    act_as(browser, &rig, "eve", "ops,operator");
    let id = "%22%27%3E%3Cimg%20src%3Dx%20onerror%3Dwindow.evil%3D1%3E";
    let approval = format!(
        "providers%2Fb%2Fexecutions%2F{}%2Fapprovals%2Fask~1",
        id.replace('%', "%25")
    );
    let pages = [
        ("/executions".to_owned(), "onerror=window.evil=1"),
        (
            format!("/executions/b/{id}"),
            "<script>window.evil=1</script>",
        ),
        (format!("/executions/p/{id}"), "<svg onload=window.evil=1>"),
        (
            format!("/executions/b/{id}/do/cancel"),
            "onerror=window.evil=1",
        ),
        (
            format!("/executions/b/{id}/do/signal"),
            "onerror=window.evil=1",
        ),
        ("/inbox".to_owned(), "<script>window.evil=1</script>"),
        (
            format!("/inbox/decide?name={approval}&answer=grant"),
            "<iframe srcdoc=",
        ),
        ("/definitions".to_owned(), "<script>window.evil=1</script>"),
        ("/definitions/evil".to_owned(), "<iframe srcdoc="),
        ("/providers".to_owned(), "answers"),
        ("/providers/p".to_owned(), "Capabilities"),
        ("/workers".to_owned(), "onerror=window.evil=1"),
        (format!("/executions?filter={id}"), "Search"),
        (format!("/definitions/{id}"), "Not"),
    ];
    for (path, text) in pages {
        browser.go(&page(&rig, &path));
        browser.sees(text);
        nothing_ran(browser, &path);
    }
    // It is there, as text.
    browser.go(&page(&rig, "/inbox"));
    browser.sees_in("#stuck", "<script>window.evil=1</script>");
    browser.sees_in("#stuck", "\\u{202e}turned");
    // And by what is sent live: a second card, put in place by the script.
    assert_eq!(browser.count("#stuck .card"), 1);
    mark(browser);
    get_stuck(&rig, &mut worker, &format!("{} again", WAYS_IN[1])).await;
    browser.until("a second card", || {
        (browser.count("#stuck .card") == 2).then_some(())
    });
    not_reloaded(browser);
    nothing_ran(browser, "/inbox, live");
    browser.click("#stuck a.primary");
    browser.sees_in("dialog", "Resume");
    nothing_ran(browser, "a question");
}
