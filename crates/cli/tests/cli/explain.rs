//! `stateway explain`.

use crate::binary::Gateway;
use crate::scripts::BACKING_OFF;

#[test]
fn the_row_and_the_evidence_are_named() {
    let gateway = Gateway::new();
    gateway.start("a", BACKING_OFF);
    gateway
        .run(&[
            "wait",
            "memory/a",
            "--for",
            "backing-off",
            "--timeout",
            "5s",
        ])
        .exits(0);
    let text = gateway.run(&["explain", "memory/a"]).exits(0).out;
    for part in [
        "memory/a  backing-off",
        "row ",
        "source ",
        "evidence  native state `ACTIVE`",
        "charge",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let json = gateway
        .run(&["explain", "memory/a", "-o", "json"])
        .exits(0)
        .json();
    assert_eq!(json["execution"]["sub_state"], "backing-off");
    assert_eq!(json["row"]["native_state"], "ACTIVE");
    assert_eq!(json["steps"][0]["row"]["sub_state"], "backing-off");
    assert!(!json["evidence"].as_array().unwrap().is_empty());
}

#[test]
fn what_is_not_there_cannot_be_explained() {
    Gateway::new().run(&["explain", "memory/nope"]).exits(3);
}
