//! `stateway approvals` and `stateway escalations`.

use serde_json::Value;

use crate::binary::Running;
use crate::built_in;

const RELEASE: &str = "\
name: release
steps:
  - name: sign-off
    approval: {role: ops}
";

const PAY: &str = "\
name: pay
steps:
  - name: transfer
    agent: billing
    timeout: 5m
    onFailure: escalate
";

#[test]
fn a_person_finds_what_waits_and_decides_in_their_own_name() {
    let gateway = built_in::gateway();
    built_in::apply(&gateway, RELEASE);
    built_in::start(&gateway, "release", "r1", "ada");
    let short = "builtin/r1/sign-off~1";
    let inbox = ["approvals", "list"];
    built_in::until(&gateway, &inbox, |answer| answer.out.contains(short));
    let shown = gateway.run(&["approvals", "get", short]).exits(0).out;
    assert!(
        shown.contains("pending") && shown.contains("ada"),
        "{shown}"
    );

    let grant = |who: &[&str]| {
        let arguments = [
            "approvals",
            "grant",
            short,
            "--comment",
            "fine",
            "-o",
            "json",
        ];
        gateway.run(&[&arguments[..], who].concat())
    };
    let own = grant(&["--as", "ada", "--role", "ops"]).exits(4);
    assert!(own.err.contains("SELF_APPROVAL"), "{}", own.err);
    let roleless = grant(&["--as", "eve"]).exits(4);
    assert!(roleless.err.contains("ROLE_REQUIRED"), "{}", roleless.err);
    let granted = grant(&["--as", "eve", "--role", "dev", "--role", "ops"]);
    let granted = granted.exits(0).json();
    assert_eq!(granted["state"], "granted");
    assert_eq!(granted["decision"]["decided_by"], "eve");
    assert_eq!(granted["decision"]["comment"], "fine");
    gateway
        .run(&["wait", "builtin/r1", "--timeout", "10s"])
        .exits(0);
    assert!(!gateway.run(&inbox).exits(0).out.contains(short));
    gateway.run(&["approvals", "get", "builtin/r1"]).exits(2);
    gateway
        .run(&["approvals", "get", "builtin/r1/sign-off~7"])
        .exits(3);
}

#[test]
fn a_watch_shows_each_approval_as_it_comes_and_as_it_ends() {
    let gateway = built_in::gateway();
    built_in::apply(&gateway, RELEASE);
    built_in::start(&gateway, "release", "r1", "ada");
    let short = "builtin/r1/sign-off~1";
    let inbox = ["approvals", "list"];
    built_in::until(&gateway, &inbox, |answer| answer.out.contains(short));
    let watch = ["approvals", "watch", "--filter", "role = ops"];
    let watch = Running::begin(&mut gateway.command(&watch));
    let json = ["approvals", "watch", "--provider", "builtin", "-o", "json"];
    let json = Running::begin(&mut gateway.command(&json));
    watch.line(&format!("{short}  pending  ops  definitions/release"));
    json.line("\"BOOKMARK\"");
    let grant = ["approvals", "grant", short, "--as", "eve", "--role", "ops"];
    gateway.run(&grant).exits(0);
    watch.line(&format!(
        "{short}  granted  ops  definitions/release  by eve"
    ));
    json.line("\"REMOVED\"");
    let lines: Vec<Value> = json
        .said()
        .iter()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let kinds: Vec<_> = lines.iter().map(|line| &line["kind"]).collect();
    assert_eq!(kinds, ["ADDED", "BOOKMARK", "REMOVED"]);
    assert_eq!(lines[0]["approval"]["state"], "pending");
    assert_eq!(lines[2]["approval"]["decision"]["decided_by"], "eve");
    assert!(lines.iter().all(|line| line["unreachable"].is_array()));
}

#[test]
fn a_watch_ends_with_its_deadline_or_a_filter_that_shows_nothing() {
    let gateway = built_in::gateway();
    let late = gateway.run(&["approvals", "watch", "--timeout", "1s"]);
    assert!(late.exits(7).err.contains("the timeout expired"));
    let watch = ["approvals", "watch", "--filter", "state = GRANTED"];
    let refused = gateway.run(&watch).exits(2);
    assert!(refused.err.contains("INVALID_FILTER"), "{}", refused.err);
    assert!(
        refused.err.contains("`stateway approvals list`"),
        "{}",
        refused.err
    );
}

#[test]
fn a_no_ends_what_asked() {
    let gateway = built_in::gateway();
    built_in::apply(&gateway, RELEASE);
    built_in::start(&gateway, "release", "r2", "ada");
    let inbox = ["approvals", "list"];
    built_in::until(&gateway, &inbox, |answer| {
        answer.out.contains("builtin/r2/")
    });
    let mut reject = gateway.command(&["approvals", "reject", "builtin/r2/sign-off~1"]);
    reject
        .env("STATEWAY_ACTOR", "eve")
        .env("STATEWAY_ROLES", "ops,dev");
    crate::binary::finish(&mut reject, "").exits(0);
    gateway
        .run(&["wait", "builtin/r2", "--timeout", "10s"])
        .exits(1);
}

#[test]
fn an_escalation_is_found_and_decided_about() {
    let gateway = built_in::gateway();
    built_in::apply(&gateway, PAY);
    built_in::start(&gateway, "pay", "p1", "ada");
    let _worker = built_in::worker(&gateway, "billing", "false");
    let list = ["escalations", "list"];
    let first = "builtin/p1/transfer~1";
    built_in::until(&gateway, &list, |answer| answer.out.contains(first));
    let json = gateway
        .run(&["escalations", "list", "-o", "json"])
        .exits(0)
        .json();
    let row = &json["escalations"][0];
    assert_eq!(
        (row["step"].as_str(), row["state"].as_str()),
        (Some("transfer"), Some("pending"))
    );
    assert_eq!(row["roles"][0], "operator");
    let name = row["name"].as_str().unwrap();
    // A bare step names its pending escalation.
    for one in [name, first, "builtin/p1/transfer"] {
        let got = gateway.run(&["escalations", "get", one, "-o", "json"]);
        let got = got.exits(0).json();
        assert_eq!(got["name"], row["name"]);
        assert_eq!(got["attempts"][0]["attempt"], 1);
    }
    let told = gateway.run(&["escalations", "get", first]).exits(0).out;
    assert!(
        told.contains("cause") && told.contains("attempt 1"),
        "{told}"
    );
    let now = gateway.run(&["get", "builtin/p1"]).exits(0).out;
    assert!(now.contains("waits for a person's decision"), "{now}");
    for unknown in ["builtin/p1/transfer~9", "builtin/p1/other"] {
        gateway.run(&["escalations", "get", unknown]).exits(3);
    }

    let decide =
        |what: &[&str], who: &[&str]| gateway.run(&[&["escalations"][..], what, who].concat());
    let operator = ["--as", "eve", "--role", "operator"];
    let resume = ["resume", "builtin/p1/transfer"];
    let own = decide(&resume, &["--as", "ada", "--role", "operator"]).exits(4);
    assert!(own.err.contains("SELF_APPROVAL"), "{}", own.err);
    let roleless = decide(&resume, &["--as", "eve"]).exits(4);
    assert!(roleless.err.contains("ROLE_REQUIRED"), "{}", roleless.err);
    let resumed = decide(&resume, &operator).exits(0).out;
    assert!(
        resumed.contains("resolved") && resumed.contains("eve"),
        "{resumed}"
    );
    built_in::until(&gateway, &list, |answer| {
        answer.out.contains("builtin/p1/transfer~2")
    });
    let resolved = ["escalations", "list", "--filter", "state = resolved"];
    let resolved = gateway.run(&resolved).exits(0).out;
    assert!(
        resolved.contains(first) && resolved.contains("resume by eve"),
        "{resolved}"
    );
    let stale = decide(&["cancel", first], &operator).exits(4);
    assert!(stale.err.contains("STALE_ESCALATION"), "{}", stale.err);
    let reassign = ["reassign", "builtin/p1/transfer", "--to", "treasury"];
    decide(&reassign, &operator).exits(0);
    let queue = ["queue", "-o", "json"];
    built_in::until(&gateway, &queue, |answer| answer.out.contains("treasury"));
    decide(&["cancel", "builtin/p1/transfer"], &operator).exits(3);
}

#[test]
fn a_cancel_takes_one_choice_about_compensation() {
    let gateway = built_in::gateway();
    built_in::apply(&gateway, RELEASE);
    built_in::start(&gateway, "release", "r3", "ada");
    let cancel = |flags: &[&str]| gateway.run(&[&["cancel", "builtin/r3"][..], flags].concat());
    cancel(&["--compensate", "--no-compensate"]).exits(2);
    cancel(&["--kill", "--compensate"]).exits(2);
    cancel(&["--no-compensate"]).exits(0);
}

#[test]
fn the_cancel_of_an_escalation_takes_one_choice_about_compensation() {
    let gateway = built_in::gateway();
    built_in::apply(&gateway, PAY);
    built_in::start(&gateway, "pay", "p2", "ada");
    let _worker = built_in::worker(&gateway, "billing", "false");
    built_in::until(&gateway, &["escalations", "list"], |answer| {
        answer.out.contains("builtin/p2/transfer~1")
    });
    let cancel = |flags: &[&str]| {
        let name = ["escalations", "cancel", "builtin/p2/transfer"];
        let who = ["--as", "eve", "--role", "operator"];
        gateway.run(&[&name[..], &who, flags].concat())
    };
    cancel(&["--compensate", "--no-compensate"]).exits(2);
    cancel(&["--compensate"]).exits(0);
    let history = gateway.run(&["history", "builtin/p2"]).exits(0).out;
    assert!(history.contains("CompensationStarted"), "{history}");
}
