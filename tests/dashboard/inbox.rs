//! The inbox: what waits, with everything needed to decide, and the decision.

use std::time::Duration;

use serde_json::json;
use stateway_client::v1;
use stateway_provider_api::Verb;
use stateway_visitor::{Page, Visitor};

use crate::support::{BuiltInRig, Puppet, TestGateway, by};

const RELEASE: &str = "\
name: release
steps:
  - name: sign-off
    approval: {role: ops, expiresAfter: 1h, onReject: fail}
    input: {version: '${input.version}', note: '${input.note}'}
";

const NAME: &str = "providers/b/executions/r1/approvals/sign-off~1";
const GRANT: &str =
    "/inbox/decide?name=providers%2Fb%2Fexecutions%2Fr1%2Fapprovals%2Fsign-off~1&answer=grant";

async fn asking() -> BuiltInRig {
    let rig = BuiltInRig::start().await;
    rig.apply(RELEASE).await;
    ask(&rig, "r1").await;
    rig
}

async fn ask(rig: &BuiltInRig, id: &str) {
    let input = json!({"version": 7, "note": "<b>fast</b>"});
    rig.begin("release", id, "ada", input).await;
    let waits = |view: &v1::Execution| view.native_state == "awaiting_approval";
    rig.until(id, waits).await;
}

#[tokio::test]
async fn a_card_has_all_that_is_needed_to_decide() {
    let rig = asking().await;
    let mut visit = Visitor::by(&rig.gateway, "eve", "ops").await;
    let page = visit.get("/inbox").await.is(200);
    page.has(&[
        "sign-off",
        "release",
        "href=\"/executions/b/r1\"",
        "one person with the role",
        "but not <bdi>ada</bdi>, who started it",
        "the step fails",
        "<bdi>expires after 1h</bdi>, then it is escalated",
        "data-until=",
        "<bdi>team</bdi>=<bdi>shop</bdi>",
        "&lt;b&gt;fast&lt;/b&gt;",
        "Grant…",
        "Reject…",
    ]);
    page.lacks(&["<b>fast"]);
}

#[tokio::test]
async fn a_large_input_is_cut_and_not_set_out() {
    let rig = BuiltInRig::start().await;
    rig.apply(RELEASE).await;
    let note = "x".repeat(300_000);
    let input = json!({"version": 7, "note": note});
    rig.begin("release", "r1", "ada", input).await;
    let waits = |view: &v1::Execution| view.native_state == "awaiting_approval";
    rig.until("r1", waits).await;
    let mut visit = Visitor::by(&rig.gateway, "eve", "ops").await;
    let page = visit.get("/inbox").await.is(200);
    page.has(&[
        "{&quot;note&quot;:&quot;xxx",
        "Truncated: the full length is 3000",
    ]);
    assert!(page.body.len() < 60_000, "{} bytes", page.body.len());
}

#[tokio::test]
async fn who_may_not_decide_is_told_why_instead_of_given_buttons() {
    let rig = asking().await;
    let nobody = Visitor::new(&rig.gateway).get("/inbox").await;
    nobody
        .has(&["Enter your name to decide"])
        .lacks(&["Grant…"]);
    let mut own = Visitor::by(&rig.gateway, "ada", "ops").await;
    let own = own.get("/inbox").await;
    own.has(&["someone else has to decide"]).lacks(&["Grant…"]);
    let mut other = Visitor::by(&rig.gateway, "eve", "dev").await;
    let other = other.get("/inbox").await;
    other
        .has(&["Only the role", "Change your roles"])
        .lacks(&["Grant…"]);
}

#[tokio::test]
async fn a_yes_moves_the_execution_and_is_on_the_record() {
    let rig = asking().await;
    let mut visit = Visitor::by(&rig.gateway, "eve", "ops").await;
    let question = visit.get(GRANT).await.is(200);
    question.has(&[
        "Grant step",
        "recorded under the name",
        "&quot;version&quot;: 7",
    ]);
    let etag = question.field("etag");
    let fields = [
        ("name", NAME),
        ("answer", "grant"),
        ("comment", "looks <i>good</i>"),
        ("etag", &etag),
    ];
    let answer = visit
        .send(&question, "/inbox/decide", &fields)
        .await
        .is(303);
    assert_eq!(answer.header("location"), "/inbox");
    rig.until("r1", |view| view.native_state == "completed")
        .await;
    let page = visit.get("/inbox").await;
    page.has(&[
        "Granted: step sign-off of release.",
        "No approval is pending.",
        "✓ granted",
        "<b><bdi>eve</bdi></b>",
        "looks &lt;i&gt;good&lt;/i&gt;",
    ]);
    // The same form again is the same decision; the other answer comes too late, and says so.
    visit
        .send(&question, "/inbox/decide", &fields[..3])
        .await
        .is(303);
    let late = [("name", NAME), ("answer", "reject")];
    let other = visit.get("/acting").await;
    let late = visit.send(&other, "/inbox/decide", &late).await.is(409);
    late.has(&["ALREADY_DECIDED", "role=\"alert\""]);
}

#[tokio::test]
async fn a_no_is_a_no() {
    let rig = asking().await;
    let mut visit = Visitor::by(&rig.gateway, "eve", "ops").await;
    let question = visit.get(&GRANT.replace("grant", "reject")).await.is(200);
    question.has(&["does not run this step"]);
    let fields = [
        ("name", NAME),
        ("answer", "reject"),
        ("comment", "too early"),
    ];
    visit
        .send(&question, "/inbox/decide", &fields)
        .await
        .is(303);
    rig.until("r1", |view| view.native_state == "failed").await;
    let page = visit.get("/inbox").await;
    page.has(&["Rejected: step sign-off", "✕ rejected", "too early"]);
}

#[tokio::test]
async fn a_refusal_is_shown_in_place_with_reason_and_hint() {
    let rig = asking().await;
    for (actor, roles, reason) in [
        ("ada", "ops", "SELF_APPROVAL"),
        ("eve", "dev", "ROLE_REQUIRED"),
    ] {
        let mut visit = Visitor::by(&rig.gateway, actor, roles).await;
        let question = visit.get(GRANT).await.is(200);
        let fields = [("name", NAME), ("answer", "grant"), ("comment", "my words")];
        let refused = visit
            .send(&question, "/inbox/decide", &fields)
            .await
            .is(403);
        refused.has(&[reason, "class=\"note bad\"", "my words", "Grant step"]);
    }
    let mut nobody = Visitor::new(&rig.gateway);
    let question = nobody.get(GRANT).await.is(200);
    let fields = [("name", NAME), ("answer", "grant")];
    let refused = nobody
        .send(&question, "/inbox/decide", &fields)
        .await
        .is(403);
    refused.has(&["A decision needs your name"]);
    for wrong in ["/inbox/decide", "/inbox/decide?name=x&answer=grant"] {
        assert!(nobody.get(wrong).await.status >= 400, "{wrong}");
    }
    assert_eq!(rig.get("r1").await.native_state, "awaiting_approval");
}

#[tokio::test]
async fn a_form_that_is_not_ours_decides_nothing() {
    let rig = asking().await;
    let mut visit = Visitor::by(&rig.gateway, "eve", "ops").await;
    let question = visit.get(GRANT).await;
    let token = question.field("csrf");
    let decide = [("name", NAME), ("answer", "grant"), ("request_id", "x")];
    let with = |token: &'static str| [("csrf", token), decide[0], decide[1], decide[2]];
    visit.post("/inbox/decide", &decide).await.is(403);
    visit.post("/inbox/decide", &with("AAAA")).await.is(403);
    let stolen = [("csrf", token.as_str()), decide[0], decide[1]];
    for site in ["cross-site", "same-site", "none"] {
        visit
            .post_with(
                "/inbox/decide",
                &stolen,
                &format!("sec-fetch-site: {site}\r\n"),
            )
            .await
            .is(403);
    }
    // The token of one session is nothing to another.
    let mut other = Visitor::by(&rig.gateway, "eve", "ops").await;
    other.post("/inbox/decide", &stolen).await.is(403);
    assert_eq!(rig.get("r1").await.native_state, "awaiting_approval");
}

#[tokio::test]
async fn waiting_for_me_is_what_i_may_decide() {
    let rig = asking().await;
    let all = [
        ("eve", "dev,ops", true),
        ("eve", "dev", false),
        ("ada", "ops", false),
    ];
    for (actor, roles, shown) in all {
        let mut visit = Visitor::by(&rig.gateway, actor, roles).await;
        let page = visit.get("/inbox?mine=1").await.is(200);
        assert_eq!(page.body.contains("sign-off"), shown, "{actor} {roles}");
    }
    let nobody = Visitor::new(&rig.gateway).get("/inbox?mine=1").await;
    nobody.has(&["Enter your name and your roles"]);
}

#[tokio::test]
async fn every_role_counts_and_counts_once() {
    let rig = asking().await;
    let all = ["a,b,c,d,e,f,g,h,i,j,ops", "ops,ops", "ops, ops ops"];
    for roles in all {
        let mut visit = Visitor::by(&rig.gateway, "eve", roles).await;
        let page = visit.get("/inbox?mine=1").await.is(200);
        assert_eq!(page.body.matches("Grant…").count(), 1, "{roles}");
    }
    let mut behind = Visitor::behind_proxy(&rig.gateway, "eve", "dev, ops, ops");
    let page = behind.get("/inbox?mine=1").await.is(200);
    assert_eq!(page.body.matches("Grant…").count(), 1);
}

#[tokio::test]
async fn what_does_not_fit_on_a_page_is_on_the_next() {
    let rig = asking().await;
    for number in 2..=30 {
        ask(&rig, &format!("r{number}")).await;
    }
    let mut visit = Visitor::by(&rig.gateway, "eve", "dev,ops").await;
    for path in ["/inbox", "/inbox?mine=1"] {
        let first = visit.get(path).await.is(200);
        let older = first.link("Older");
        let second = visit.get(&older).await.is(200);
        let counts = [&first, &second].map(|page| page.body.matches("Grant…").count());
        assert_eq!(counts, [25, 5], "{path}");
        let on = |page: &Page, id: &str| page.body.contains(&format!("/executions/b/{id}\""));
        for number in 1..=30 {
            let id = format!("r{number}");
            assert!(on(&first, &id) != on(&second, &id), "{path} {id}");
        }
        second.lacks(&["rel=\"next\""]);
        assert_eq!(second.link("Newest"), path);
        let mut live = visit.listen(&second.live()).await;
        live.line(">Newest</a>").await;
    }
    visit
        .get("/inbox?requests=x")
        .await
        .has(&["role=\"alert\""]);
}

#[tokio::test]
async fn approvals_are_watched_and_not_listed_again_and_again() {
    let puppet = Puppet::pushing_approvals();
    puppet.ask("x", "ship", "ops");
    let gateway = TestGateway::new().with_puppet("p", &puppet).start().await;
    let visit = Visitor::by(&gateway, "eve", "ops").await;
    let mut live = visit.listen("/inbox/live").await;
    live.line("Step <bdi>ship</bdi>").await;
    let listed = puppet.asked(Verb::ListApprovals);
    let escalations = puppet.asked(Verb::ListEscalations);
    // Escalations are read twice more meanwhile, approvals are not.
    let read_again = async {
        while puppet.asked(Verb::ListEscalations) < escalations + 2 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let read_again = tokio::time::timeout(Duration::from_secs(10), read_again);
    read_again.await.expect("escalations are read");
    assert_eq!(puppet.asked(Verb::ListApprovals), listed);
    puppet.ask("x", "sign", "ops");
    live.line("Step <bdi>sign</bdi>").await;
    assert_eq!(puppet.asked(Verb::WatchApprovals), 1);
}

#[tokio::test]
async fn what_comes_and_what_is_decided_elsewhere_is_told_live() {
    let rig = asking().await;
    let visit = Visitor::by(&rig.gateway, "eve", "ops").await;
    let mut live = visit.listen("/inbox/live").await;
    live.line("href=\"/executions/b/r1\"").await;
    ask(&rig, "r2").await;
    live.line("href=\"/executions/b/r2\"").await;
    let decide = v1::DecideApprovalRequest {
        name: NAME.into(),
        decision: v1::decide_approval_request::Choice::Grant.into(),
        comment: "by the command line".into(),
        ..v1::DecideApprovalRequest::default()
    };
    let mut client = rig.approvals().await;
    client
        .decide_approval(by("tom", "ops", decide))
        .await
        .unwrap();
    live.line("by the command line").await;
}

#[tokio::test]
async fn what_was_asked_before_is_on_the_card() {
    let rig = BuiltInRig::start().await;
    rig.apply(&RELEASE.replace("1h", "1s")).await;
    ask(&rig, "r1").await;
    rig.until("r1", |view| view.native_state == "escalated")
        .await;
    let again = v1::ResolveEscalationRequest {
        name: "providers/b/executions/r1/escalations/sign-off~1".into(),
        action: v1::resolution::Action::Resume.into(),
        ..v1::ResolveEscalationRequest::default()
    };
    let mut client = rig.approvals().await;
    client
        .resolve_escalation(by("tom", "operator", again))
        .await
        .unwrap();
    let mut visit = Visitor::by(&rig.gateway, "eve", "ops").await;
    let page = visit.get("/inbox").await.is(200);
    page.has(&["Asked before", "sign-off~1", "expired"]);
}

#[tokio::test]
async fn the_second_of_two_deciders_sees_who_decided_and_no_button() {
    let rig = asking().await;
    let mut olga = Visitor::by(&rig.gateway, "olga", "ops").await;
    let mut eve = Visitor::by(&rig.gateway, "eve", "ops").await;
    let question = olga.get(GRANT).await.is(200);
    let late = eve.get(&GRANT.replace("grant", "reject")).await.is(200);
    let (first, second) = (question.field("etag"), late.field("etag"));
    let grant = [("name", NAME), ("answer", "grant"), ("etag", &first)];
    olga.send(&question, "/inbox/decide", &grant).await.is(303);
    let reject = [("name", NAME), ("answer", "reject"), ("etag", &second)];
    let answer = eve.send(&late, "/inbox/decide", &reject).await.is(409);
    answer.has(&[
        "ALREADY_DECIDED",
        "`olga` has granted the approval",
        "✓ granted",
        "<b><bdi>olga</bdi></b>",
    ]);
    answer.lacks(&["action=\"/inbox/decide\""]);
    let again = eve.get(GRANT).await.is(200);
    again
        .has(&["not pending any more", "<b><bdi>olga</bdi></b>"])
        .lacks(&["action=\"/inbox/decide\""]);
}

#[tokio::test]
async fn the_page_of_an_execution_has_the_decision_it_waits_for() {
    let rig = asking().await;
    let mut visit = Visitor::by(&rig.gateway, "eve", "ops").await;
    let page = visit.get("/executions/b/r1").await.is(200);
    page.has(&["A person has to decide", "Grant…", "Reject…"]);
    let question = visit.get(&page.link("Grant…")).await.is(200);
    assert_eq!(question.field("back"), "/executions/b/r1");
    let fields = [
        ("name", NAME),
        ("answer", "grant"),
        ("back", "/executions/b/r1"),
    ];
    let answer = visit.send(&question, "/inbox/decide", &fields).await;
    assert_eq!(answer.is(303).header("location"), "/executions/b/r1");
    rig.until("r1", |view| view.native_state == "completed")
        .await;
    let page = visit.get("/executions/b/r1").await.is(200);
    page.lacks(&["A person has to decide"]);
    // A form cannot send anyone elsewhere.
    ask(&rig, "r2").await;
    let question = visit.get(&GRANT.replace("r1", "r2")).await.is(200);
    let fields = [
        ("name", "providers/b/executions/r2/approvals/sign-off~1"),
        ("answer", "grant"),
        ("back", "//evil.example"),
    ];
    let answer = visit.send(&question, "/inbox/decide", &fields).await;
    assert_eq!(answer.is(303).header("location"), "/executions");
}

#[tokio::test]
async fn waiting_for_a_person_finds_approvals_and_escalations() {
    let rig = asking().await;
    rig.apply(
        &RELEASE
            .replace("name: release", "name: expired")
            .replace("1h", "1s"),
    )
    .await;
    rig.begin("expired", "x1", "ada", json!({"version": 1, "note": ""}))
        .await;
    rig.until("x1", |view| view.native_state == "escalated")
        .await;
    let mut visit = Visitor::by(&rig.gateway, "eve", "ops").await;
    let list = visit.get("/executions").await.is(200);
    let page = visit.get(&list.link("Waiting for a person")).await.is(200);
    page.has(&[
        "/executions/b/r1",
        "/executions/b/x1",
        "a person's decision",
    ]);
}

#[tokio::test]
async fn a_provider_without_an_answer_about_escalations_is_named() {
    let puppet = Puppet::with_approvals();
    puppet.ask("x", "ship", "ops");
    let gateway = TestGateway::new().with_puppet("p", &puppet).start().await;
    let mut visit = Visitor::by(&gateway, "eve", "ops").await;
    let missing =
        "No answer from <b><bdi>p</bdi></b>. Its approvals and escalations are missing here.";
    for path in ["/inbox", "/inbox?mine=1"] {
        visit.get(path).await.is(200).lacks(&[missing]);
    }
    puppet.component_down("escalations", &[Verb::ListEscalations]);
    for path in ["/inbox", "/inbox?mine=1"] {
        visit.get(path).await.is(200).has(&["ship", missing]);
    }
}
