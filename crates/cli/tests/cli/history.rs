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
