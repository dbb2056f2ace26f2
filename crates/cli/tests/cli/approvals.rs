//! `stateway approvals` and `stateway escalations`.

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
fn a_no_ends_what_asked() {
    let gateway = built_in::gateway();
    built_in::apply(&gateway, RELEASE);
    built_in::start(&gateway, "release", "r2", "ada");
    let inbox = ["approvals", "list"];
    built_in::until(&gateway, &inbox, |answer| {
        answer.out.contains("builtin/r2/")
    });
    let mut deny = gateway.command(&["approvals", "deny", "builtin/r2/sign-off~1"]);
    deny.env("STATEWAY_ACTOR", "eve")
        .env("STATEWAY_ROLES", "ops,dev");
    crate::binary::finish(&mut deny, "").exits(0);
    gateway
        .run(&["wait", "builtin/r2", "--timeout", "10s"])
        .exits(1);
}

#[test]
fn a_stuck_step_is_found_and_decided_about() {
    let gateway = built_in::gateway();
    built_in::apply(&gateway, PAY);
    built_in::start(&gateway, "pay", "p1", "ada");
    let _worker = built_in::worker(&gateway, "billing", "false");
    let list = ["escalations", "list"];
    built_in::until(&gateway, &list, |answer| {
        answer.out.contains("builtin/p1/transfer")
    });
    let json = gateway
        .run(&["escalations", "list", "-o", "json"])
        .exits(0)
        .json();
    assert_eq!(json["escalations"][0]["step"], "transfer");
    let one = json["escalations"][0]["name"].as_str().unwrap();
    let get = gateway.run(&["escalations", "get", one, "-o", "json"]);
    assert_eq!(get.exits(0).json(), json["escalations"][0]);
    let told = gateway.run(&["escalations", "get", one]).exits(0).out;
    assert!(
        told.contains("cause") && told.contains("attempts"),
        "{told}"
    );
    let other = format!("{one}-not");
    gateway.run(&["escalations", "get", &other]).exits(3);
    let resumed = gateway.run(&[
        "escalations",
        "resume",
        "builtin/p1/transfer",
        "--as",
        "eve",
    ]);
    assert!(resumed.exits(0).out.contains("resume"));
    built_in::until(&gateway, &list, |answer| {
        answer.out.contains("builtin/p1/transfer")
    });
    let name = "builtin/p1/transfer";
    gateway
        .run(&[
            "escalations",
            "reassign",
            name,
            "--to",
            "treasury",
            "--as",
            "eve",
        ])
        .exits(0);
    let queue = ["queue", "-o", "json"];
    built_in::until(&gateway, &queue, |answer| answer.out.contains("treasury"));
    gateway.run(&["escalations", "cancel", name]).exits(4);
}
