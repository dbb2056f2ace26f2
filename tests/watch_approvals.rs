//! Watching approvals: the pending ones first, then a bookmark, then how each one comes and ends.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use stateway_client::v1;
use stateway_client::v1::approval::State;
use stateway_client::v1::approvals_client::ApprovalsClient;
use stateway_client::v1::decide_approval_request::Choice;
use stateway_client::v1::watch_approvals_response::Kind;
use stateway_engine::{Policy, PolicyQuestion, PolicyVerdict, Ruling};
use stateway_provider_api::{Capabilities, Description, ErrorKind, Verb};
use tonic::{Code, Status, Streaming};

use crate::support::{
    BuiltInRig, Puppet, Running, TestGateway, by, reason_of, table, without_capabilities,
};

const RELEASE: &str = "\
name: release
steps:
  - name: sign-off
    approval: {role: ops}
";

const LEGAL: &str = "\
name: contract
steps:
  - name: review
    approval: {role: legal}
";

/// A rejection has to be looked at by a person again.
const STRICT: &str = "\
name: strict
steps:
  - name: sign-off
    approval: {role: ops, onReject: fail}
    onFailure: escalate
";

/// Escalated when nobody decides, which is soon.
const SHORT: &str = "\
name: short
steps:
  - name: sign-off
    approval: {role: ops, expiresAfter: 1s, onExpiry: escalate}
";

/// The longest a test waits for something that must come.
const PATIENCE: Duration = Duration::from_secs(60);

/// A watch, read one answer at a time.
struct Watching(Streaming<v1::WatchApprovalsResponse>);

/// What a change is about: kind, name and state of the approval.
type Seen = (Kind, String, State);

impl Watching {
    async fn open(gateway: &Running, parent: &str, filter: &str) -> Result<Self, Status> {
        let request = v1::WatchApprovalsRequest {
            parent: parent.into(),
            filter: filter.into(),
        };
        let mut client = ApprovalsClient::new(gateway.channel().await);
        Ok(Self(client.watch_approvals(request).await?.into_inner()))
    }

    async fn on(gateway: &Running, parent: &str) -> Self {
        Self::open(gateway, parent, "").await.expect("it opens")
    }

    async fn next(&mut self) -> Result<v1::WatchApprovalsResponse, Status> {
        let next = tokio::time::timeout(PATIENCE, self.0.message()).await;
        let next = next.expect("it comes in time");
        next.map(|answer| answer.expect("the stream goes on"))
    }

    /// The next answer, which must be a bookmark: the providers that do not answer.
    async fn bookmark(&mut self) -> Vec<String> {
        let answer = self.next().await.expect("an answer");
        assert_eq!(answer.kind(), Kind::Bookmark, "{answer:?}");
        assert_eq!(answer.approval, None);
        answer.unreachable
    }

    /// The next answer about an approval, bookmarks passed over.
    async fn approval(&mut self) -> (Kind, v1::Approval) {
        loop {
            let answer = self.next().await.expect("an answer");
            let kind = answer.kind();
            if let Some(approval) = answer.approval {
                return (kind, approval);
            }
        }
    }

    async fn change(&mut self) -> Seen {
        let (kind, approval) = self.approval().await;
        let state = approval.state();
        (kind, approval.name, state)
    }
}

fn name(execution: &str, step: &str) -> String {
    format!("providers/b/executions/{execution}/approvals/{step}~1")
}

fn added(name: &str) -> Seen {
    (Kind::Added, name.to_owned(), State::Pending)
}

fn removed(name: &str, state: State) -> Seen {
    (Kind::Removed, name.to_owned(), state)
}

async fn decide(gateway: &Running, name: &str, (who, role): (&str, &str), choice: Choice) {
    let request = v1::DecideApprovalRequest {
        name: name.to_owned(),
        decision: choice.into(),
        comment: "as agreed".into(),
        ..v1::DecideApprovalRequest::default()
    };
    let mut client = ApprovalsClient::new(gateway.channel().await);
    let decided = client.decide_approval(by(who, role, request)).await;
    decided.expect("it is decided");
}

async fn ask(rig: &BuiltInRig, definition: &str, id: &str) {
    rig.begin(definition, id, "ada", json!({})).await;
    let asks = |view: &v1::Execution| view.native_state == "awaiting_approval";
    rig.until(id, asks).await;
}

async fn rig() -> BuiltInRig {
    let rig = BuiltInRig::start().await;
    for definition in [RELEASE, LEGAL, STRICT, SHORT] {
        rig.apply(definition).await;
    }
    rig
}

#[tokio::test]
async fn the_pending_ones_come_first_then_a_bookmark_then_changes() {
    let rig = rig().await;
    ask(&rig, "release", "r1").await;
    let mut watching = Watching::on(&rig.gateway, "providers/-").await;
    let (kind, shown) = watching.approval().await;
    assert_eq!((kind, &shown.name), (Kind::Added, &name("r1", "sign-off")));
    assert_eq!((shown.role.as_str(), &*shown.initiator), ("ops", "ada"));
    assert_eq!(shown.execution, "providers/b/executions/r1");
    assert_eq!((shown.input, shown.decision), (None, None));
    assert!(watching.bookmark().await.is_empty());
    ask(&rig, "release", "r2").await;
    assert_eq!(watching.change().await, added(&name("r2", "sign-off")));
    let eve = ("eve", "ops");
    decide(&rig.gateway, &shown.name, eve, Choice::Grant).await;
    let (kind, ended) = watching.approval().await;
    assert_eq!((kind, ended.state()), (Kind::Removed, State::Granted));
    let decision = ended.decision.expect("the decision");
    assert_eq!(
        (&*decision.decided_by, &*decision.comment),
        ("eve", "as agreed")
    );
    // The row of a watch is the row of a list.
    let list = v1::ListApprovalsRequest {
        parent: "providers/-".into(),
        ..Default::default()
    };
    let listed = rig.approvals().await.list_approvals(list).await.unwrap();
    let mut again = Watching::on(&rig.gateway, "providers/b").await;
    let (_, present) = again.approval().await;
    assert_eq!(listed.into_inner().approvals, [present]);
    assert!(again.bookmark().await.is_empty());
}

#[tokio::test]
async fn a_rejected_one_leaves_as_rejected_also_if_it_is_escalated() {
    let rig = rig().await;
    ask(&rig, "strict", "s1").await;
    let mut watching = Watching::on(&rig.gateway, "providers/-").await;
    let asked = name("s1", "sign-off");
    assert_eq!(watching.change().await, added(&asked));
    decide(&rig.gateway, &asked, ("eve", "ops"), Choice::Reject).await;
    assert_eq!(watching.change().await, removed(&asked, State::Rejected));
    rig.until("s1", |view| view.native_state == "escalated")
        .await;
}

#[tokio::test]
async fn an_expired_one_leaves_as_expired_and_is_escalated() {
    let rig = rig().await;
    let mut watching = Watching::on(&rig.gateway, "providers/-").await;
    assert!(watching.bookmark().await.is_empty());
    ask(&rig, "short", "x1").await;
    let asked = name("x1", "sign-off");
    assert_eq!(watching.change().await, added(&asked));
    assert_eq!(watching.change().await, removed(&asked, State::Expired));
    rig.until("x1", |view| view.native_state == "escalated")
        .await;
}

#[tokio::test]
async fn a_cancelled_execution_withdraws_it_and_a_purge_leaves_no_ghost() {
    let rig = rig().await;
    ask(&rig, "release", "r1").await;
    let mut watching = Watching::on(&rig.gateway, "providers/-").await;
    let asked = name("r1", "sign-off");
    assert_eq!(watching.change().await, added(&asked));
    assert!(watching.bookmark().await.is_empty());
    let execution = "providers/b/executions/r1".to_owned();
    let cancel = v1::CancelExecutionRequest {
        name: execution.clone(),
        ..Default::default()
    };
    let mut client = rig.gateway.executions().await;
    client.cancel_execution(cancel).await.unwrap();
    assert_eq!(watching.change().await, removed(&asked, State::Withdrawn));
    rig.until("r1", |view| view.end_time.is_some()).await;
    let purge = v1::PurgeExecutionRequest {
        name: execution,
        ..Default::default()
    };
    client.purge_execution(purge).await.unwrap();
    // Nothing more is said about it: the next change is the next request.
    ask(&rig, "release", "r2").await;
    assert_eq!(watching.change().await, added(&name("r2", "sign-off")));
    let mut later = Watching::on(&rig.gateway, "providers/b").await;
    assert_eq!(later.change().await, added(&name("r2", "sign-off")));
    assert!(later.bookmark().await.is_empty());
}

#[tokio::test]
async fn a_retry_from_a_step_moves_the_request_to_a_new_name() {
    let rig = BuiltInRig::start().await;
    let tracks = "\
name: tracks
steps:
  - {name: gate, approval: {role: rm}}
  - {name: build, agent: w, action: x, timeout: 1m, onFailure: pause}
";
    rig.apply(tracks).await;
    let offer = v1::Offer {
        roles: vec!["w".into()],
        capacity: 1,
        ..v1::Offer::default()
    };
    let mut worker = rig.work(offer).await.unwrap();
    rig.begin("tracks", "t1", "ada", json!({})).await;
    let task = worker.task().await;
    worker.fail(&task, v1::ErrorCategory::AgentError);
    rig.until("t1", |view| view.native_state == "paused").await;
    let mut watching = Watching::on(&rig.gateway, "providers/b").await;
    let before = name("t1", "gate");
    assert_eq!(watching.change().await, added(&before));
    rig.retry_from("t1", "build", "ben").await;
    assert_eq!(watching.change().await, removed(&before, State::Withdrawn));
    let (kind, after) = watching.approval().await;
    assert_eq!(kind, Kind::Added);
    assert_eq!(after.branch, "providers/b/executions/t1/branches/1");
    assert_eq!(after.name, format!("{before}~b1"));
}

#[tokio::test]
async fn a_filter_narrows_a_watch_and_must_admit_pending_approvals() {
    let rig = rig().await;
    let parent = "providers/-";
    let mut legal = Watching::open(&rig.gateway, parent, "role = legal")
        .await
        .unwrap();
    assert!(legal.bookmark().await.is_empty());
    let mut one = Watching::open(&rig.gateway, parent, "execution = b/r1")
        .await
        .unwrap();
    assert!(one.bookmark().await.is_empty());
    ask(&rig, "release", "r0").await;
    ask(&rig, "release", "r1").await;
    ask(&rig, "contract", "c1").await;
    assert_eq!(legal.change().await, added(&name("c1", "review")));
    assert_eq!(one.change().await, added(&name("r1", "sign-off")));
    decide(
        &rig.gateway,
        &name("r1", "sign-off"),
        ("eve", "ops"),
        Choice::Grant,
    )
    .await;
    let end = removed(&name("r1", "sign-off"), State::Granted);
    assert_eq!(one.change().await, end);
    for (filter, parent) in [
        ("state = GRANTED", "providers/-"),
        ("colour = red", "providers/-"),
        ("execution = other/r1", "providers/b"),
    ] {
        let refused = Watching::open(&rig.gateway, parent, filter).await;
        let refused = refused.err().expect("a refusal");
        assert_eq!(refused.code(), Code::InvalidArgument, "{filter}");
        assert_eq!(reason_of(&refused), "INVALID_FILTER", "{filter}");
    }
    let nowhere = Watching::open(&rig.gateway, "", "").await;
    assert_eq!(nowhere.err().unwrap().code(), Code::InvalidArgument);
}

/// Two rules ask about one attempt, one after the other.
#[derive(Debug, Default)]
struct AskTwice(std::sync::atomic::AtomicBool);

impl Policy for AskTwice {
    fn decide(&self, _: &PolicyQuestion<'_>) -> Option<Ruling> {
        let second = self.0.load(std::sync::atomic::Ordering::SeqCst);
        let (rule, role) = if second {
            ("frozen", "ceo")
        } else {
            ("large", "cfo")
        };
        Some(Ruling {
            rule: rule.into(),
            verdict: PolicyVerdict::RequireApproval {
                role: role.into(),
                expires_after: None,
            },
        })
    }
}

#[tokio::test]
async fn requests_of_policy_rules_have_the_names_that_a_list_shows() {
    let rules = Arc::new(AskTwice::default());
    let policy = rules.clone();
    let rig = BuiltInRig::with(|config| config.policy = Some(policy)).await;
    rig.apply("name: order\nsteps: [{name: pay, agent: w, action: x, timeout: 1m}]\n")
        .await;
    let mut watching = Watching::on(&rig.gateway, "providers/-").await;
    assert!(watching.bookmark().await.is_empty());
    let offer = v1::Offer {
        roles: vec!["w".into()],
        capacity: 1,
        ..v1::Offer::default()
    };
    let _worker = rig.work(offer).await.unwrap();
    ask(&rig, "order", "o1").await;
    let first = name("o1", "pay");
    assert_eq!(watching.change().await, added(&first));
    rules.0.store(true, std::sync::atomic::Ordering::SeqCst);
    decide(&rig.gateway, &first, ("eve", "cfo"), Choice::Grant).await;
    assert_eq!(watching.change().await, removed(&first, State::Granted));
    let (kind, second) = watching.approval().await;
    assert_eq!((kind, second.name), (Kind::Added, format!("{first}.2")));
    assert_eq!((&*second.policy_rule, &*second.role), ("frozen", "ceo"));
}

#[tokio::test]
async fn watchers_share_one_stream_of_the_provider() {
    let puppet = Puppet::pushing_approvals();
    puppet.ask("x", "ship", "ops");
    let gateway = TestGateway::new().with_puppet("b", &puppet).start().await;
    let mut watchers = Vec::new();
    for parent in ["providers/b", "providers/-", "providers/b"] {
        watchers.push(Watching::on(&gateway, parent).await);
    }
    let asked = "providers/b/executions/x/approvals/ask-ship";
    for watching in &mut watchers {
        assert_eq!(watching.change().await, added(asked));
        assert!(watching.bookmark().await.is_empty());
    }
    decide(&gateway, asked, ("eve", "ops"), Choice::Grant).await;
    for watching in &mut watchers {
        assert_eq!(watching.change().await, removed(asked, State::Granted));
    }
    assert_eq!(puppet.asked(Verb::WatchApprovals), 1);
    assert_eq!(puppet.asked(Verb::ListApprovals), 0);
}

#[tokio::test]
async fn a_purged_one_is_removed_as_it_was_last_seen_and_a_change_is_a_change() {
    let puppet = Puppet::pushing_approvals();
    puppet.ask("x", "ship", "ops");
    let gateway = TestGateway::new().with_puppet("b", &puppet).start().await;
    let parent = "providers/b";
    let mut watching = Watching::on(&gateway, parent).await;
    let mut filtered = Watching::open(&gateway, parent, "role = ops")
        .await
        .unwrap();
    let asked = "providers/b/executions/x/approvals/ask-ship";
    assert_eq!(watching.change().await, added(asked));
    assert_eq!(filtered.change().await, added(asked));
    puppet.ask("x", "ship", "sre");
    let (kind, changed) = watching.approval().await;
    assert_eq!((kind, &*changed.role), (Kind::Modified, "sre"));
    let (kind, changed) = filtered.approval().await;
    assert_eq!((kind, &*changed.role), (Kind::Removed, "sre"));
    puppet.forget_approval("x", "ship");
    assert_eq!(watching.change().await, removed(asked, State::Pending));
}

#[tokio::test]
async fn a_provider_that_does_not_push_is_listed() {
    let puppet = Puppet::with_approvals();
    let gateway = TestGateway::new().with_puppet("b", &puppet).start().await;
    let mut watching = Watching::on(&gateway, "providers/b").await;
    assert!(watching.bookmark().await.is_empty());
    puppet.ask("x", "ship", "ops");
    puppet.ask("x", "sign", "ops");
    let ship = "providers/b/executions/x/approvals/ask-ship";
    let sign = "providers/b/executions/x/approvals/ask-sign";
    assert_eq!(watching.change().await, added(ship));
    assert_eq!(watching.change().await, added(sign));
    decide(&gateway, ship, ("eve", "ops"), Choice::Reject).await;
    assert_eq!(watching.change().await, removed(ship, State::Rejected));
    puppet.forget_approval("x", "sign");
    assert_eq!(watching.change().await, removed(sign, State::Pending));
    assert_eq!(puppet.asked(Verb::WatchApprovals), 0);
}

#[tokio::test]
async fn the_built_in_engine_is_listed_where_the_push_is_turned_off() {
    let rig = rig().await;
    let polled = without_capabilities(rig.built_in(), &["watch_approvals"]);
    let gateway = TestGateway::new()
        .with("b", "builtin", polled)
        .start()
        .await;
    let mut watching = Watching::on(&gateway, "providers/-").await;
    assert!(watching.bookmark().await.is_empty());
    ask(&rig, "release", "r1").await;
    let asked = name("r1", "sign-off");
    assert_eq!(watching.change().await, added(&asked));
    // Decided through another gateway, so that only polling can show it.
    decide(&rig.gateway, &asked, ("eve", "ops"), Choice::Grant).await;
    assert_eq!(watching.change().await, removed(&asked, State::Granted));
}

#[tokio::test]
async fn a_provider_without_approvals_is_refused_and_left_out_of_all() {
    let puppet = Puppet::pushing_approvals();
    let plain = Puppet::new();
    let gateway = TestGateway::new()
        .with_puppet("b", &puppet)
        .with_puppet("plain", &plain)
        .start()
        .await;
    let refused = Watching::open(&gateway, "providers/plain", "").await;
    let refused = refused.err().expect("a refusal");
    assert_eq!(refused.code(), Code::Unimplemented);
    assert_eq!(reason_of(&refused), "CAPABILITY_NOT_SUPPORTED");
    let unknown = Watching::open(&gateway, "providers/nobody", "").await;
    assert_eq!(unknown.err().unwrap().code(), Code::NotFound);
    let mut all = Watching::on(&gateway, "providers/-").await;
    assert!(all.bookmark().await.is_empty());
    let only = TestGateway::new()
        .with_puppet("plain", &plain)
        .start()
        .await;
    let nobody = Watching::open(&only, "providers/-", "").await;
    assert_eq!(nobody.err().unwrap().code(), Code::Unimplemented);
}

#[tokio::test]
async fn a_provider_that_stops_offering_approvals_ends_its_watch() {
    let puppet = Puppet::pushing_approvals();
    let gateway = TestGateway::new().with_puppet("b", &puppet).start().await;
    let mut watching = Watching::on(&gateway, "providers/b").await;
    assert!(watching.bookmark().await.is_empty());
    let capabilities = Capabilities {
        approvals: false,
        watch_approvals: false,
        ..Capabilities::ALL
    };
    puppet.describe_as(Arc::new(Description {
        generation: 2,
        ..(*Description::fixed(capabilities, table("step-functions"))).clone()
    }));
    puppet.lose_track_of_approvals();
    let ended = watching.next().await.unwrap_err();
    assert_eq!(ended.code(), Code::Unimplemented);
}

#[tokio::test]
async fn a_provider_that_does_not_answer_is_named_and_followed_later() {
    let (good, bad) = (Puppet::pushing_approvals(), Puppet::pushing_approvals());
    good.ask("x", "ship", "ops");
    bad.ask("y", "ship", "ops");
    bad.fail(ErrorKind::Unavailable, None);
    let mut gateway = TestGateway::new()
        .with_puppet("bad", &bad)
        .with_puppet("good", &good);
    gateway.settings.watch.heartbeat = Duration::from_millis(30);
    gateway.settings.default_upstream.breaker_cool_down = Duration::from_millis(50);
    let gateway = gateway.start().await;
    let alone = Watching::open(&gateway, "providers/bad", "").await;
    assert_eq!(alone.err().unwrap().code(), Code::Unavailable);
    let mut watching = Watching::on(&gateway, "providers/-").await;
    let ship = "providers/good/executions/x/approvals/ask-ship";
    assert_eq!(watching.change().await, added(ship));
    assert_eq!(watching.bookmark().await, ["providers/bad"]);
    bad.recover();
    let late = "providers/bad/executions/y/approvals/ask-ship";
    assert_eq!(watching.change().await, added(late));
    let back = async { while !watching.bookmark().await.is_empty() {} };
    tokio::time::timeout(PATIENCE, back)
        .await
        .expect("it comes back");
    // An outage of a provider that was in sync removes nothing.
    bad.fail(ErrorKind::Unavailable, None);
    bad.lose_track_of_approvals();
    let named = async { while watching.bookmark().await != ["providers/bad"] {} };
    tokio::time::timeout(PATIENCE, named)
        .await
        .expect("it is named");
    bad.withdraw("y", "ship");
    bad.recover();
    assert_eq!(watching.change().await, removed(late, State::Withdrawn));
}

#[tokio::test]
async fn what_ended_while_the_provider_had_lost_track_is_removed_with_its_end() {
    let puppet = Puppet::pushing_approvals();
    for step in ["a", "b", "c"] {
        puppet.ask("x", step, "ops");
    }
    let gateway = TestGateway::new().with_puppet("b", &puppet).start().await;
    let mut watching = Watching::on(&gateway, "providers/b").await;
    let asked = |step: &str| format!("providers/b/executions/x/approvals/ask-{step}");
    for step in ["a", "b", "c"] {
        assert_eq!(watching.change().await, added(&asked(step)));
    }
    puppet.lose_track_of_approvals();
    puppet.withdraw("x", "a");
    puppet.forget_approval("x", "b");
    puppet.ask("x", "d", "ops");
    let mut changes = Vec::new();
    for _ in 0..3 {
        changes.push(watching.change().await);
    }
    let mut expected = vec![
        added(&asked("d")),
        removed(&asked("a"), State::Withdrawn),
        removed(&asked("b"), State::Pending),
    ];
    changes.sort_by(|one, other| one.1.cmp(&other.1));
    expected.sort_by(|one, other| one.1.cmp(&other.1));
    assert_eq!(changes, expected);
}

#[tokio::test]
async fn after_a_restart_the_pending_ones_come_again() {
    let rig = rig().await;
    for id in ["r1", "r2"] {
        ask(&rig, "release", id).await;
    }
    let mut first = TestGateway::new()
        .with_engine("b", rig.built_in())
        .start()
        .await;
    let mut watching = Watching::on(&first, "providers/b").await;
    for id in ["r1", "r2"] {
        assert_eq!(watching.change().await, added(&name(id, "sign-off")));
    }
    assert!(watching.bookmark().await.is_empty());
    first.stop();
    let ended = watching.next().await.unwrap_err();
    let reason = reason_of(&ended);
    assert_eq!(
        (ended.code(), &*reason),
        (Code::Unavailable, "GATEWAY_DRAINING")
    );
    decide(
        &rig.gateway,
        &name("r1", "sign-off"),
        ("eve", "ops"),
        Choice::Grant,
    )
    .await;
    let second = TestGateway::new()
        .with_engine("b", rig.built_in())
        .start()
        .await;
    let mut again = Watching::on(&second, "providers/b").await;
    assert_eq!(again.change().await, added(&name("r2", "sign-off")));
    assert!(again.bookmark().await.is_empty());
}

#[tokio::test]
async fn a_slow_reader_resyncs_and_has_no_ghosts() {
    let puppet = Puppet::pushing_approvals();
    puppet.ask("x", "ship", "ops");
    let mut gateway = TestGateway::new().with_puppet("b", &puppet);
    gateway.settings.watch.buffer = 4;
    let gateway = gateway.start().await;
    let mut slow = Watching::on(&gateway, "providers/b").await;
    slow.change().await;
    assert!(slow.bookmark().await.is_empty());
    let mut fast = Watching::on(&gateway, "providers/b").await;
    fast.change().await;
    // Enough changes to fill the transport's window and then the topic's buffer.
    let fat = "x".repeat(200_000);
    for number in 0..40 {
        let role = format!("{fat}{number}");
        puppet.ask("x", "ship", &role);
        while fast.approval().await.1.role != role {}
    }
    puppet.ask("x", "sign", "ops");
    puppet.withdraw("x", "ship");
    while fast.change().await.0 != Kind::Removed {}
    while slow.next().await.expect("an answer").kind() != Kind::Resync {}
    let sign = "providers/b/executions/x/approvals/ask-sign";
    let answer = slow.next().await.expect("an answer");
    assert_eq!(answer.kind(), Kind::Added);
    assert_eq!(answer.approval.expect("an approval").name, sign);
    assert!(slow.bookmark().await.is_empty());
}

#[tokio::test]
async fn a_quiet_watch_sends_bookmarks_and_counts_as_a_watch() {
    let puppet = Puppet::pushing_approvals();
    let mut gateway = TestGateway::new().with_puppet("b", &puppet);
    gateway.settings.watch.heartbeat = Duration::from_millis(30);
    gateway.settings.watch.max_streams = 1;
    let gateway = gateway.start().await;
    let mut watching = Watching::on(&gateway, "providers/b").await;
    for _ in 0..3 {
        assert!(watching.bookmark().await.is_empty());
    }
    let refused = Watching::open(&gateway, "providers/b", "").await;
    let refused = refused.err().expect("a refusal");
    assert_eq!(refused.code(), Code::ResourceExhausted);
    assert_eq!(reason_of(&refused), "TOO_MANY_WATCHES");
}

#[tokio::test]
async fn more_approvals_than_a_watch_follows_end_the_watch_and_say_so() {
    let puppet = Puppet::pushing_approvals();
    puppet.ask("x", "a", "ops");
    let mut gateway = TestGateway::new().with_puppet("b", &puppet);
    gateway.settings.watch.max_watched_executions = 1;
    let gateway = gateway.start().await;
    let mut watching = Watching::on(&gateway, "providers/b").await;
    watching.change().await;
    assert!(watching.bookmark().await.is_empty());
    puppet.ask("x", "b", "ops");
    let ended = watching.next().await.unwrap_err();
    assert_eq!(ended.code(), Code::FailedPrecondition);
    assert_eq!(reason_of(&ended), "TOO_MANY_APPROVALS");
}

#[tokio::test]
async fn opening_a_watch_ends_by_the_deadline_of_the_call() {
    let puppet = Puppet::pushing_approvals();
    puppet.hang(true);
    let gateway = TestGateway::new().with_puppet("b", &puppet).start().await;
    let mut request = tonic::Request::new(v1::WatchApprovalsRequest {
        parent: "providers/b".into(),
        ..Default::default()
    });
    request.set_timeout(Duration::from_millis(300));
    let mut client = ApprovalsClient::new(gateway.channel().await);
    let opened = tokio::time::timeout(PATIENCE, client.watch_approvals(request)).await;
    let status = opened.expect("it ends").unwrap_err();
    assert_eq!(status.code(), Code::DeadlineExceeded);
}
