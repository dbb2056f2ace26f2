//! The dashboard is decided by the same rules.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use stateway_access::Permission;
use stateway_client::v1;
use stateway_dashboard::{definition_actions, execution_actions};
use stateway_provider_api::NativeDefinition;
use stateway_visitor::{Visitor, exchange};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::rig::{AccessRig, Caller, ORDER, RELEASE, name};
use super::workers::{Worker, offer};
use crate::support::{Puppet, TestGateway};

/// The answer to a request for a page.
async fn page(rig: &AccessRig, who: &str, path: &str) -> String {
    let key = rig.key(who);
    let head = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {key}\r\n");
    exchange(&rig.rig.gateway, &head, b"").await
}

#[tokio::test]
async fn pages_show_what_their_visitor_may_read() {
    let rig = AccessRig::start().await;
    rig.apply(RELEASE).await;
    rig.apply(ORDER).await;
    rig.begin("ada", "release", ("theirs-1", "acme"))
        .await
        .unwrap();
    rig.begin("eve", "release", ("mine-1", "evil"))
        .await
        .unwrap();
    for path in ["/executions", "/inbox"] {
        let eve = page(&rig, "eve", path).await;
        assert!(eve.contains("mine-1"), "{path}: {eve}");
        assert!(!eve.contains("theirs-1"), "{path}: {eve}");
        let ada = page(&rig, "ada", path).await;
        assert!(
            ada.contains("theirs-1") && !ada.contains("mine-1"),
            "{path}"
        );
    }
    let hidden = page(&rig, "eve", "/executions/b/theirs-1").await;
    assert!(hidden.starts_with("HTTP/1.1 404"), "{hidden}");
    let absent = page(&rig, "eve", "/executions/b/absent-1").await;
    assert!(absent.starts_with("HTTP/1.1 404"), "{absent}");
    let payload = page(&rig, "ada", "/executions/b/theirs-1/input").await;
    assert!(payload.contains("s3cret"), "{payload}");
    for path in ["/executions/b/theirs-1", "/executions/b/theirs-1/input"] {
        let vic = page(&rig, "vic", path).await;
        assert!(!vic.contains("s3cret"), "{path}: {vic}");
    }
}

#[tokio::test]
async fn a_form_about_something_hidden_or_absent_is_answered_after_the_pause() {
    let rig = AccessRig::start().await;
    rig.apply(RELEASE).await;
    rig.begin("ada", "release", ("theirs", "acme"))
        .await
        .unwrap();
    rig.begin("eve", "release", ("mine", "evil")).await.unwrap();
    let mut visit = Visitor::with_key(&rig.rig.gateway, rig.key("eve"));
    let on = visit.get("/executions/b/mine/do/signal").await;
    for id in ["theirs", "absent"] {
        let path = format!("/executions/b/{id}/do/signal");
        for _ in 0..10 {
            let began = Instant::now();
            let answer = visit.send(&on, &path, &[("signal", "go")]).await;
            let took = began.elapsed();
            assert_eq!(answer.status, 303, "{}", answer.body);
            assert!(took >= Duration::from_millis(10), "{id}: {took:?}");
        }
    }
}

#[tokio::test]
async fn a_visitor_without_a_rule_sees_nothing() {
    let rig = AccessRig::start().await;
    rig.apply(RELEASE).await;
    rig.begin("ada", "release", ("theirs-1", "acme"))
        .await
        .unwrap();
    for path in [
        "/executions",
        "/executions/b/theirs-1",
        "/inbox",
        "/definitions",
        "/definitions/release",
        "/providers",
        "/workers",
    ] {
        let answer = page(&rig, "nobody", path).await;
        assert!(
            !answer.contains("theirs-1") || path.contains("theirs-1"),
            "{path}: {answer}"
        );
        assert!(answer.contains("no access rule allows"), "{path}: {answer}");
        assert!(!answer.contains("sign-off"), "{path}: {answer}");
    }
}

#[tokio::test]
async fn metrics_are_for_readers_of_everything() {
    let rig = AccessRig::start().await;
    let root = page(&rig, "root", "/metrics").await;
    assert!(root.contains("# the metrics page"), "{root}");
    for who in ["ada", "vic", "nobody"] {
        let answer = page(&rig, who, "/metrics").await;
        assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
        assert!(!answer.contains("# the metrics page"), "{answer}");
    }
}

/// The form of a page: its path, the permission that it needs, and fields beside those of all forms.
type Form = (
    &'static str,
    Permission,
    &'static [(&'static str, &'static str)],
);

/// The execution of the form for several executions.
const SELECTED: (&str, &str) = ("row", "b/z");

/// Forms of the dashboard that change what their visitor sees, and nothing else.
const OWN: [&str; 3] = ["/acting", "/display", "/views"];

/// The start of a definition of an engine, which has no page that could say why it is refused.
const START_OF_ENGINE: &str = "/providers/m/definitions/script/start";

/// Every other form of the dashboard.
const FORMS: [Form; 18] = [
    (
        "/executions/selected",
        Permission::Steer,
        &[("do", "pause"), SELECTED],
    ),
    (
        "/executions/selected",
        Permission::Signal,
        &[("do", "signal"), SELECTED],
    ),
    (
        "/executions/selected",
        Permission::Stop,
        &[("do", "cancel"), SELECTED],
    ),
    ("/executions/b/x/do/retry-now", Permission::Steer, &[]),
    ("/executions/b/x/do/retry-from", Permission::Steer, &[]),
    ("/executions/b/x/do/resume", Permission::Steer, &[]),
    ("/executions/b/x/do/pause", Permission::Steer, &[]),
    ("/executions/b/x/do/signal", Permission::Signal, &[]),
    ("/executions/b/x/do/cancel", Permission::Stop, &[]),
    ("/executions/b/x/do/kill", Permission::Stop, &[]),
    ("/executions/b/x/do/purge", Permission::Operate, &[]),
    ("/definitions/nightly/start", Permission::Start, &[]),
    ("/definitions/nightly/do/run-now", Permission::Start, &[]),
    (
        "/definitions/nightly/do/disable-trigger",
        Permission::Steer,
        &[],
    ),
    (
        "/definitions/nightly/do/enable-trigger",
        Permission::Steer,
        &[],
    ),
    ("/definitions/nightly/do/delete", Permission::Define, &[]),
    (
        "/inbox/decide",
        Permission::Approve,
        &[("name", "providers/b/executions/y/approvals/sign-off~1")],
    ),
    (
        "/inbox/resolve",
        Permission::Approve,
        &[
            ("name", "providers/b/executions/e/escalations/pay~1"),
            ("action", "resume"),
        ],
    ),
];

const NIGHTLY: &str = "\
name: nightly
trigger: {schedule: '0 3 * * *'}
steps:
  - name: sign-off
    approval: {role: ops}
";

const PAID: &str = "\
name: paid
steps:
  - name: paid
    signal: payment-settled
";

/// The source of a folder.
fn source_of(folder: &Path) -> String {
    let mut text = String::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            text.push_str(&source_of(&path));
        } else if path.extension().is_some_and(|it| it == "rs") {
            text.push_str(&std::fs::read_to_string(&path).unwrap());
        }
    }
    text
}

/// Every route of the dashboard with this method, by its source, with the names of actions.
fn routes(method: &str) -> BTreeSet<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/dashboard/src");
    let source = source_of(&folder);
    for other in [".route_service(", ".nest(", ".nest_service("] {
        assert!(!source.contains(other), "{other} is not understood here");
    }
    let mut routes = BTreeSet::new();
    for part in source.split(".route(").skip(1) {
        // The methods of a route are before the next route.
        let (path, rest) = part.trim_start().split_once(',').unwrap();
        let handlers = rest.split('}').next().unwrap();
        if !handlers.contains(method) {
            continue;
        }
        let path = path.strip_prefix('"').and_then(|it| it.strip_suffix('"'));
        let path = path.unwrap_or_else(|| panic!("the path in `{part}` is no literal"));
        let actions = match path {
            "/executions/{provider}/{id}/do/{action}" => execution_actions(),
            "/definitions/{definition}/do/{action}" => definition_actions(),
            path => {
                assert!(!path.contains("{action}"), "{path}");
                vec![""]
            }
        };
        routes.extend(actions.iter().map(|it| path.replace("{action}", it)));
    }
    assert!(routes.len() > 10, "{routes:?}");
    routes
}

/// Whether a path is one of a route.
fn is_of(path: &str, route: &str) -> bool {
    let path = path.split('?').next().unwrap_or_default();
    let (path, route) = (path.split('/'), route.split('/'));
    path.clone().count() == route.clone().count()
        && path
            .zip(route)
            .all(|(part, of)| part == of || of.starts_with('{'))
}

/// Fails unless every route has a decision, and every decision has a route.
#[track_caller]
fn are_decided(routes: &BTreeSet<String>, known: &[&str]) {
    for route in routes {
        let is_known = known.iter().any(|path| is_of(path, route));
        assert!(is_known, "{route} has no expected permission");
    }
    for path in known {
        let is_served = routes.iter().any(|route| is_of(path, route));
        assert!(is_served, "{path} is expected, and not served");
    }
}

#[test]
fn a_form_without_an_expected_permission_fails() {
    let known = FORMS.iter().map(|(path, ..)| *path);
    let known: Vec<_> = known.chain(OWN).chain([START_OF_ENGINE]).collect();
    are_decided(&routes("post("), &known);
}

#[test]
fn a_page_without_an_expected_permission_fails() {
    let pages = pages("/workers/b/w");
    let known = pages.iter().map(|page| &*page.path);
    let known: Vec<_> = known.chain(PUBLIC.map(|(path, _)| path)).collect();
    are_decided(&routes("get("), &known);
}

/// What a page sends until it ends, or within a time if it is live.
async fn live_page(rig: &AccessRig, who: &str, path: &str, wanted: Option<&str>) -> String {
    let mut stream = TcpStream::connect(SocketAddr::from(&rig.rig.gateway))
        .await
        .unwrap();
    let key = rig.key(who);
    let request = format!(
        "GET {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {key}\r\n\
         accept: text/event-stream\r\nconnection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let reading = async {
        let is_there = |answer: &[u8]| {
            wanted.is_some_and(|wanted| String::from_utf8_lossy(answer).contains(wanted))
        };
        while !is_there(&answer) && stream.read_buf(&mut answer).await.unwrap() > 0 {}
    };
    // A live page ends with its reader. A text that is there comes as soon as a busy machine can; one that is not
    // there can only be waited for.
    let patience = Duration::from_secs(if wanted.is_some() { 60 } else { 2 });
    let _ = tokio::time::timeout(patience, reading).await;
    String::from_utf8_lossy(&answer).into_owned()
}

/// A definition whose names are on no page but those of the definition and its executions.
const ZEBRA: &str = "\
name: zebra
trigger: {schedule: '0 3 * * *'}
steps:
  - {name: graze, agent: agent-savanna, timeout: 5m}
  - name: gallop
    approval: {role: ops}
    input: {secret: '${input.secret}'}
";

/// A definition whose output is the payload of a signal.
const GIRAFFE: &str = "\
name: giraffe
steps:
  - {name: stretch, signal: leaf}
output: {leaf: '${steps.stretch.output}'}
";

/// Texts that only readers may see.
const HIDDEN: [&str; 11] = [
    "hidden-7",
    "hidden-8",
    "hidden-9",
    "zebra",
    "graze",
    "gallop",
    "warden",
    "giraffe",
    "it did not work",
    "waterhole",
    "okapi",
];

/// Parts of payloads: of the input of every execution, and of the output of `hidden-9`.
const PAYLOADS: [&str; 2] = ["s3cret", "acacia"];

/// Pages that are the same for every visitor, and why they may be.
const PUBLIC: [(&str, &str); 5] = [
    ("/", "leads to the list of executions"),
    ("/acting", "asks for the visitor's own name and roles"),
    ("/display", "asks how times are displayed"),
    ("/sign-in", "is for visitors without an identity"),
    ("/assets/hash/name", "styles, scripts and icons"),
];

/// A page that needs a permission.
struct Shown {
    path: String,
    permission: Permission,
    /// On the page for those who have the permission, and for nobody else.
    text: String,
}

/// Every page of the dashboard that needs a permission. `worker` is the page of a worker, whose address has its identity.
fn pages(worker: &str) -> Vec<Shown> {
    let reads = |path: &str, text: &str| Shown {
        path: path.to_owned(),
        permission: Permission::Read,
        text: text.to_owned(),
    };
    let mut pages = vec![
        reads("/executions", "hidden-7"),
        reads("/executions/live?row=b/hidden-7", "zebra"),
        reads("/executions/selected?do=pause&all=1", "hidden-7"),
        reads(
            "/executions/selected?do=pause&row=b/hidden-7",
            "Pause: 1 of 1",
        ),
        reads("/executions/b/hidden-7", "graze"),
        reads("/executions/b/hidden-7/live", "graze"),
        reads("/executions/b/hidden-7/history", "graze"),
        reads("/inbox", "gallop"),
        reads("/inbox/live", "gallop"),
        reads(
            "/inbox/decide?answer=grant&name=providers/b/executions/hidden-7/approvals/gallop~1",
            "Grant step",
        ),
        reads(
            "/inbox/resolve?action=resume&name=providers/b/executions/hidden-8/escalations/pay~1",
            "it did not work",
        ),
        reads("/definitions", "zebra"),
        reads("/definitions/zebra", "graze"),
        reads("/providers/p/definitions/waterhole", "okapi"),
        reads("/schedules", "zebra"),
        reads("/workers", "warden"),
        reads("/workers/live", "warden"),
        reads(worker, "hidden-7"),
        reads(&format!("{worker}/live"), "hidden-7"),
        reads("/providers", "providers/b"),
        reads("/live/providers", "providers/b"),
        reads("/providers/b", "State table"),
        reads("/providers/b/live", "health-title"),
    ];
    // The question before an action shows what is about to be changed.
    let questions = |of: &str, actions: Vec<&str>| {
        let ask = |action| {
            let path = format!("{of}/do/{action}");
            reads(&path, &format!("action=\"{path}\""))
        };
        actions.into_iter().map(ask).collect::<Vec<_>>()
    };
    pages.extend(questions("/executions/b/hidden-7", execution_actions()));
    pages.extend(questions("/definitions/zebra", definition_actions()));
    for (path, text) in [("input", PAYLOADS[0]), ("output", PAYLOADS[1])] {
        pages.push(Shown {
            path: format!("/executions/b/hidden-9/{path}"),
            permission: Permission::ReadPayloads,
            text: text.to_owned(),
        });
    }
    pages
}

/// Executions, definitions and a worker with something of each page; the address of the page of the worker.
async fn stage(rig: &AccessRig) -> (Worker, String) {
    rig.apply(ZEBRA).await;
    rig.apply(GIRAFFE).await;
    let offered = v1::Offer {
        worker_id: "warden".into(),
        ..offer("agent-savanna", "")
    };
    let mut worker = Worker::connect(rig, "root", offered).await.unwrap();
    rig.begin("root", "zebra", ("hidden-7", "")).await.unwrap();
    worker.task().await;
    rig.escalated("hidden-8", "").await;
    rig.begin("root", "giraffe", ("hidden-9", ""))
        .await
        .unwrap();
    let signal = v1::SignalExecutionRequest {
        name: name("hidden-9"),
        signal: "leaf".into(),
        payload: Some(v1::Payload {
            data: format!("{:?}", PAYLOADS[1]).into(),
            content_type: String::new(),
        }),
        ..v1::SignalExecutionRequest::default()
    };
    let mut executions = rig.executions().await;
    let signalled = executions.signal_execution(rig.by("root", signal)).await;
    signalled.unwrap();
    while rig.get("root", "hidden-9").await.unwrap().native_state != "completed" {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // The name of the worker in addresses has its identity.
    let workers = page(rig, "root", "/workers").await;
    let links = workers.split("\"/workers/b/").skip(1);
    let mut names = links.map(|at| at.split('"').next().unwrap_or_default());
    let warden = names.find(|at| at.contains("warden"));
    let warden = warden.unwrap_or_else(|| panic!("no link to the worker: {workers}"));
    (worker, format!("/workers/b/{warden}"))
}

#[tokio::test]
async fn every_page_is_shown_with_its_permission_and_nothing_of_it_without() {
    let rule = |permission: Permission| {
        format!(
            "[[rules]]\nname = \"{permission}\"\nwho = {{ role = \"{permission}\" }}\n\
             may = \"{permission}\"\n"
        )
    };
    let mut rules = Permission::ALL.map(rule).concat();
    rules.push_str("[[rules]]\nname = \"root\"\nwho = { role = \"root\" }\nmay = \"admin\"\n");
    let names = Permission::ALL.map(Permission::as_str);
    let roles = names.map(|name| [name, "ops"]);
    let mut callers: Vec<Caller<'_>> = vec![("root", &["root"], None)];
    for (name, roles) in names.iter().zip(&roles) {
        callers.push((name, roles, None));
    }
    let puppet = Puppet::new();
    puppet.define(vec![NativeDefinition {
        name: "waterhole".into(),
        source: "okapi".into(),
        ..NativeDefinition::default()
    }]);
    let more = |gateway: TestGateway| gateway.with_puppet("p", &puppet);
    let rig = AccessRig::made(&rules, &callers, false, more).await;
    let (_worker, worker) = stage(&rig).await;
    let pages = pages(&worker);
    let (rig, pages) = (&rig, &pages);
    let asked = Permission::ALL.into_iter().flat_map(|permission| {
        let asked = pages.iter().map(move |page| async move {
            // Whoever may read payloads may read everything else.
            let is_shown = page.permission == permission
                || page.permission == Permission::Read && permission == Permission::ReadPayloads;
            let wanted = is_shown.then_some(&*page.text);
            let answer = live_page(rig, permission.as_str(), &page.path, wanted).await;
            (permission, page, is_shown, answer)
        });
        asked.collect::<Vec<_>>()
    });
    for (permission, page, is_shown, answer) in futures::future::join_all(asked).await {
        let Shown { path, text, .. } = page;
        assert_eq!(
            answer.contains(text),
            is_shown,
            "{path} {permission}: {answer}"
        );
        for hidden in HIDDEN {
            let may_be = is_shown || path.contains(hidden);
            assert!(
                may_be || !answer.contains(hidden),
                "{path} {permission} {hidden}: {answer}"
            );
        }
        for payload in PAYLOADS {
            let may_be = permission == Permission::ReadPayloads;
            assert!(
                may_be || !answer.contains(payload),
                "{path} {permission} {payload}: {answer}"
            );
        }
    }
    let inbox = page(rig, "read-payloads", "/inbox").await;
    assert!(inbox.contains(PAYLOADS[0]), "{inbox}");
}

#[tokio::test]
async fn public_pages_show_nothing_that_needs_a_permission() {
    let rig = AccessRig::start().await;
    stage(&rig).await;
    let list = page(&rig, "nobody", "/executions").await;
    let (_, asset) = list.split_once("\"/assets/").expect("a link");
    let asset = format!("/assets/{}", asset.split('"').next().unwrap_or_default());
    for (path, why) in PUBLIC {
        let path = if path.starts_with("/assets/") {
            &*asset
        } else {
            path
        };
        let answer = page(&rig, "nobody", path).await;
        let is_served = ["HTTP/1.1 200", "HTTP/1.1 303"]
            .iter()
            .any(|line| answer.starts_with(line));
        assert!(is_served, "{path} ({why}): {answer}");
        for hidden in HIDDEN.into_iter().chain(PAYLOADS) {
            assert!(!answer.contains(hidden), "{path} ({why}): {answer}");
        }
    }
    let home = page(&rig, "nobody", "/").await;
    assert!(home.contains("location: /executions\r\n"), "{home}");
}

#[tokio::test]
async fn every_form_is_denied_without_its_permission_and_taken_with_it() {
    // Everyone reads, and has one permission more.
    let rule = |permission: Permission| {
        format!(
            "[[rules]]\nname = \"{permission}\"\nwho = {{ role = \"{permission}\" }}\n\
             may = [\"read-payloads\", \"{permission}\"]\n"
        )
    };
    let mut rules = Permission::ALL.map(rule).concat();
    rules.push_str("[[rules]]\nname = \"root\"\nwho = { role = \"root\" }\nmay = \"admin\"\n");
    let names = Permission::ALL.map(Permission::as_str);
    let roles = names.map(|name| [name, "ops"]);
    let mut callers: Vec<Caller<'_>> = vec![("root", &["root"], None)];
    callers.extend(
        names
            .iter()
            .zip(&roles)
            .map(|(name, roles)| (*name, &roles[..], None)),
    );
    let rig = AccessRig::with(&rules, &callers).await;
    rig.apply(NIGHTLY).await;
    rig.begin("root", "nightly", ("x", "")).await.unwrap();
    // Others of their own, because this one ends on the way.
    rig.begin("root", "nightly", ("y", "")).await.unwrap();
    rig.begin("root", "nightly", ("z", "")).await.unwrap();
    rig.escalated("e", "").await;
    let fields = [
        ("answer", "grant"),
        ("signal", "go"),
        ("input", "{}"),
        ("provider", "b"),
        ("back", "/inbox"),
    ];
    let mut visits = Vec::new();
    for permission in Permission::ALL {
        let mut visit = Visitor::with_key(&rig.rig.gateway, rig.key(permission.as_str()));
        // Any page with a form has the token that every form carries. A page has no button for what is refused, but
        // the question behind the button can be asked.
        let on = visit.get("/executions/b/x/do/signal").await;
        visits.push((permission, visit, on));
    }
    let mut taken = 0;
    for (number, (path, needed, more)) in FORMS.into_iter().enumerate() {
        for (permission, visit, on) in &mut visits {
            // Each form has an id of its own, or it would be the repetition of another one.
            let id = format!("{}-{number}", on.field("request_id"));
            let csrf = on.field("csrf");
            let proof = [("csrf", &*csrf), ("request_id", &*id)];
            let fields = [&proof[..], &fields, more].concat();
            let mut answer = visit.post(path, &fields).await;
            if answer.status == 303 {
                let to = answer.header("location").to_owned();
                answer = visit.get(&to).await;
            }
            let is_denied = answer.body.contains("o access rule allows you to");
            assert_eq!(
                is_denied,
                *permission != needed,
                "{path} {permission}: {}",
                answer.body
            );
            taken += usize::from(!is_denied);
        }
    }
    assert_eq!(taken, FORMS.len());
    // Only the effect of a start is seen.
    let start = START_OF_ENGINE;
    let script = r#"{"steps": [{"name": "pay"}]}"#;
    for (permission, visit, on) in &mut visits {
        visit.send(on, start, &[("input", script)]).await;
        let list = v1::ListExecutionsRequest {
            parent: "providers/m".into(),
            ..v1::ListExecutionsRequest::default()
        };
        let mut executions = rig.executions().await;
        let listed = executions.list_executions(rig.by("root", list)).await;
        let listed = listed.unwrap().into_inner().executions.len();
        // The permissions are in the order of `Permission::ALL`.
        let is_after = *permission >= Permission::Start;
        assert_eq!(listed, usize::from(is_after), "{start} {permission}");
    }
    // What was taken has happened.
    let escalation = v1::GetEscalationRequest {
        name: format!("{}/escalations/pay~1", name("e")),
    };
    let mut approvals = rig.approvals().await;
    let escalation = approvals.get_escalation(rig.by("root", escalation)).await;
    let escalation = escalation.unwrap().into_inner();
    assert_eq!(escalation.state(), v1::escalation::State::Resolved);
    let resolution = escalation.resolution.unwrap();
    assert_eq!(resolution.decision.unwrap().decided_by, "approve");
    let selected = rig.get("root", "z").await.unwrap();
    assert_eq!(selected.native_state, "cancelled");
}

/// The text of each element that begins with this and has this in its tag.
fn titles<'p>(page: &'p str, begin: &str, has: &str) -> Vec<&'p str> {
    let mut found = Vec::new();
    for part in page.split(begin).skip(1) {
        let (tag, rest) = part.split_once('>').unwrap_or_default();
        if tag.contains(has) {
            found.push(rest.split('<').next().unwrap_or_default().trim());
        }
    }
    found
}

/// What the page offers: the titles of buttons that can be pressed, and of those that cannot.
fn buttons(page: &str) -> (Vec<&str>, Vec<&str>) {
    let able = titles(page, "<a class=\"button", "/do/");
    (able, titles(page, "<button ", "disabled"))
}

#[tokio::test]
async fn buttons_that_the_rules_refuse_cannot_be_pressed_and_say_why() {
    let rules = "\
[[rules]]
name = \"root\"
who = { role = \"root\" }
may = \"admin\"
[[rules]]
name = \"all\"
who = { role = \"reader\" }
may = [\"read\"]
[[rules]]
name = \"acme\"
who = { role = \"reader\" }
may = [\"stop\", \"approve\", \"start\"]
where = \"labels.tenant = acme\"
";
    let callers: [Caller<'_>; 2] = [
        ("root", &["root"], None),
        ("rita", &["reader", "ops"], None),
    ];
    let rig = AccessRig::with(rules, &callers).await;
    rig.apply(NIGHTLY).await;
    rig.begin("root", "nightly", ("hers", "acme"))
        .await
        .unwrap();
    rig.begin("root", "nightly", ("other", "evil"))
        .await
        .unwrap();
    let hers = page(&rig, "rita", "/executions/b/hers").await;
    let (able, refused) = buttons(&hers);
    assert_eq!(able, ["Cancel", "Kill"], "{hers}");
    assert_eq!(refused, ["Pause"], "{hers}");
    assert!(hers.contains("permission \u{201c}steer\u{201d}"), "{hers}");
    assert!(hers.contains("Grant…"), "{hers}");
    let other = page(&rig, "rita", "/executions/b/other").await;
    let (able, refused) = buttons(&other);
    assert!(able.is_empty(), "{able:?}");
    assert_eq!(refused, ["Pause", "Cancel", "Kill"]);
    assert!(!other.contains("Grant…") && other.contains("permission \u{201c}approve\u{201d}"));
    // A start may be allowed for some labels; the trigger and the definition itself are not hers.
    let definition = page(&rig, "rita", "/definitions/nightly").await;
    assert!(definition.contains("id=\"start-form\""), "{definition}");
    assert_eq!(buttons(&definition).1, ["Disable the trigger", "Delete"]);
    let whole = page(&rig, "root", "/executions/b/other").await;
    assert_eq!(buttons(&whole).1, [""; 0], "{whole}");
    rig.apply(PAID).await;
    rig.begin("root", "paid", ("waits", "acme")).await.unwrap();
    let waits = page(&rig, "rita", "/executions/b/waits").await;
    let (able, refused) = buttons(&waits);
    assert!(!able.contains(&"Send a signal"), "{waits}");
    assert!(refused.contains(&"Send a signal"), "{waits}");
    assert!(
        waits.contains("permission \u{201c}signal\u{201d}"),
        "{waits}"
    );
    let root = page(&rig, "root", "/executions/b/waits").await;
    assert!(buttons(&root).0.contains(&"Send a signal"), "{root}");
    // The API says the same.
    let who = page(&rig, "rita", "/whoami").await;
    assert!(
        who.contains("\"permissions\":[\"read\",\"start\",\"approve\",\"stop\"]"),
        "{who}"
    );
}
