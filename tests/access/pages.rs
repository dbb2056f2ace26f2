//! The dashboard is decided by the same rules.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use stateway_access::Permission;

use super::rig::{AccessRig, Caller, ORDER, RELEASE, name};
use crate::dashboard::visit::Visit;

/// The answer to a request for a page.
async fn page(rig: &AccessRig, who: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(rig.rig.gateway.address).await.unwrap();
    let key = rig.key(who);
    let request = format!(
        "GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
         authorization: Bearer {key}\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    String::from_utf8_lossy(&answer).into_owned()
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

/// Every form of the dashboard that changes something, and the permission that it needs.
const FORMS: [(&str, Permission); 13] = [
    ("/executions/b/x/do/retry-now", Permission::Steer),
    ("/executions/b/x/do/retry-from", Permission::Steer),
    ("/executions/b/x/do/resume", Permission::Steer),
    ("/executions/b/x/do/pause", Permission::Steer),
    ("/executions/b/x/do/signal", Permission::Signal),
    ("/executions/b/x/do/cancel", Permission::Stop),
    ("/executions/b/x/do/kill", Permission::Stop),
    ("/executions/b/x/do/purge", Permission::Operate),
    ("/definitions/nightly/start", Permission::Start),
    ("/definitions/nightly/do/disable-trigger", Permission::Steer),
    ("/definitions/nightly/do/enable-trigger", Permission::Steer),
    ("/definitions/nightly/do/delete", Permission::Define),
    ("/inbox/decide", Permission::Approve),
];

const NIGHTLY: &str = "\
name: nightly
trigger: {schedule: '0 3 * * *'}
steps:
  - name: sign-off
    approval: {role: ops}
";

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
    // One of its own, because the other one ends on the way.
    rig.begin("root", "nightly", ("y", "")).await.unwrap();
    let approval = format!("{}/approvals/sign-off~1", name("y"));
    let fields = [
        ("name", approval.as_str()),
        ("answer", "grant"),
        ("signal", "go"),
        ("input", "{}"),
        ("provider", "b"),
        ("back", "/inbox"),
    ];
    let mut visits = Vec::new();
    for permission in Permission::ALL {
        let mut visit = Visit::with_key(&rig.rig.gateway, rig.key(permission.as_str()));
        // Any page with a form has the token that every form carries. A page has no button for what is refused, but
        // the question behind the button can be asked.
        let on = visit.get("/executions/b/x/do/signal").await;
        visits.push((permission, visit, on));
    }
    let mut taken = 0;
    for (path, needed) in FORMS {
        for (permission, visit, on) in &mut visits {
            let mut answer = visit.send(on, path, &fields).await;
            if answer.status == 303 {
                let to = answer.headers["location"].clone();
                answer = visit.get(&to).await;
            }
            let is_denied = answer.body.contains("o access rule allows you to");
            assert_eq!(is_denied, *permission != needed, "{path} {permission}");
            taken += usize::from(!is_denied);
        }
    }
    assert_eq!(taken, FORMS.len());
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
    // The API says the same.
    let who = page(&rig, "rita", "/whoami").await;
    assert!(
        who.contains("\"permissions\":[\"read\",\"start\",\"approve\",\"stop\"]"),
        "{who}"
    );
}
