//! `stateway history`.

use crate::binary::Gateway;
use crate::scripts::GOOD;

#[test]
fn events_come_in_order_over_all_pages() {
    let gateway = Gateway::new();
    gateway.start("a", GOOD);
    gateway.run(&["wait", "memory/a"]).exits(0);
    let all = gateway
        .run(&[
            "history",
            "memory/a",
            "--page-size",
            "2",
            "--all",
            "-o",
            "json",
        ])
        .exits(0)
        .json();
    let numbers: Vec<_> = all["events"]
        .as_array()
        .unwrap()
        .iter()
        .map(|event| event["sequence"].as_u64().unwrap())
        .collect();
    assert!(numbers.len() > 2 && numbers.is_sorted(), "{numbers:?}");
    let page = gateway
        .run(&["history", "memory/a", "--page-size", "2", "-o", "json"])
        .exits(0)
        .json();
    assert_eq!(page["events"].as_array().unwrap().len(), 2);
    assert_ne!(page["next_page_token"], "");
    let table = gateway.run(&["history", "memory/a"]).exits(0);
    assert!(table.out.starts_with("#  TIME"), "{}", table.out);
}

#[test]
fn what_is_not_there_has_no_history() {
    Gateway::new().run(&["history", "memory/nope"]).exits(3);
}

#[test]
fn the_full_history_has_payload_cause_and_actor() {
    let gateway = crate::built_in::gateway();
    crate::built_in::apply(&gateway, "name: one\nsteps: [{name: a, agent: x}]\n");
    crate::built_in::start(&gateway, "one", "t", "ann");
    let plain = gateway.run(&["history", "builtin/t"]).exits(0).out;
    assert!(!plain.contains("PAYLOAD"), "{plain}");
    let full = gateway
        .run(&["history", "builtin/t", "--full"])
        .exits(0)
        .out;
    for text in ["ACTOR", "CAUSE", "PAYLOAD", "{\"ExecutionCreated\":"] {
        assert!(full.contains(text), "{full}");
    }
    let json = gateway
        .run(&["history", "builtin/t", "-o", "json"])
        .exits(0)
        .json();
    let created = &json["events"][0];
    assert_eq!(created["actor"], "ann");
    assert_eq!(created["correlation_id"], "t");
    assert_eq!(created["payload"]["ExecutionCreated"]["execution"], "t");
}
