//! What others wrote cannot act on the terminal of whoever looks at it.

use std::path::Path;

use stateway_audit::{Chain, ChainKey, Head, OPENED, Record, file};

use crate::binary::{Answer, Gateway};

/// A step, an error, a label and an output that want to clear the screen and forge lines.
const SCRIPT: &str = r#"{"steps": [{"name": "pay\u001b[2J\nforged  succeeded", "fails": 1,
    "error": {"message": "no\u001b]0;owned\u0007\u009b31m\r\u202eforged\nsecond line", "fails_for_good": true}}],
    "output": "\u007f\u0085\u2066"}"#;
const LABEL: &str = "team=shop\u{1b}[31m\tred";
const ID: &str = "a\nb\u{1b}[2J";

/// Every byte is one that people may see, apart from the ends of lines and, where they are on, our
/// own colours.
#[track_caller]
fn is_harmless(text: &str) {
    let bad = |symbol: char| {
        symbol != '\n' && symbol.is_control()
            || matches!(symbol, '\u{200e}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    assert!(!text.contains(bad), "{text:?}");
    let forged = |line: &&str| line.starts_with("forged") || line.starts_with("second");
    assert_eq!(text.lines().find(forged), None, "{text}");
}

fn hostile() -> Gateway {
    let gateway = Gateway::new();
    let arguments = [
        "start",
        "memory/script",
        "--id",
        ID,
        "--label",
        LABEL,
        "--input",
        SCRIPT,
    ];
    let started: Answer = gateway.run(&arguments).exits(0);
    is_harmless(&started.out);
    gateway
}

/// A log of a gateway whose callers want to clear the screen of the auditor and forge lines.
fn hostile_log(path: &Path) {
    let text = "x\u{1b}[2J\u{1b}[H\u{202e}\nforged  ada  OK";
    let (key, mut chain) = (ChainKey::default(), Chain::default());
    let called = Record {
        verb: text.into(),
        object: text.into(),
        result: "y\rforged".into(),
        outcome: text.into(),
        reason: text.into(),
        actor: text.into(),
        proof: text.into(),
        rule: text.into(),
        request_id: text.into(),
        address: text.into(),
        ..Record::default()
    };
    let opened = Record {
        verb: OPENED.into(),
        note: text.into(),
        count: 1,
        ..Record::default()
    };
    let mut lines = chain.append(&key, &called);
    lines.extend(chain.append(&key, &opened));
    std::fs::write(path, lines).unwrap();
    std::fs::write(file::head(path), Head::of(&chain, 1).to_line(&key)).unwrap();
}

#[test]
fn nothing_raw_is_printed_for_people() {
    let gateway = hostile();
    let name = format!("memory/{ID}");
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("audit.jsonl");
    hostile_log(&log);
    let log = log.to_str().unwrap();
    for (arguments, code) in [
        (&["wait", &name][..], 1),
        (&["get", &name], 0),
        (&["list"], 0),
        (&["watch", &name], 1),
        (&["history", &name], 0),
        (&["explain", &name], 0),
        (&["signal", &name, "go"], 4),
        (&["get", "memory/nope\u{1b}[2J\nforged"], 3),
        (&["get", "\u{1b}[2J\nforged"], 2),
        (&["start", "memory/nope\u{1b}[2J\nforged"], 3),
        (&["list", "--filter", "x\u{1b}[2J\nforged = 1"], 2),
        (&["audit", "list", "--file", log], 0),
        (&["audit", "verify", "--file", log], 8),
    ] {
        let answer = gateway.run(arguments).exits(code);
        is_harmless(&answer.out);
        is_harmless(&answer.err);
        assert!(
            !answer.out.is_empty() || !answer.err.is_empty(),
            "{arguments:?}"
        );
    }
}

#[test]
fn each_row_stays_one_line() {
    let gateway = hostile();
    let name = format!("memory/{ID}");
    gateway.run(&["wait", &name]).exits(1);
    let listed = gateway.run(&["list"]).exits(0);
    assert_eq!(listed.out.lines().count(), 2, "{}", listed.out);
    assert!(
        listed
            .out
            .contains("providers/memory/executions/a%0Ab%1B%5B2J"),
        "{}",
        listed.out
    );
    let shown = gateway.run(&["get", &name]).exits(0).out;
    let steps: Vec<_> = shown
        .lines()
        .skip_while(|line| !line.starts_with("STEP"))
        .take_while(|line| !line.is_empty())
        .collect();
    assert_eq!(steps.len(), 2, "{shown}");
    assert!(
        steps[1].starts_with(r"pay\u{1b}[2J\nforged  succeeded  failed"),
        "{shown}"
    );
    assert!(steps[1].ends_with("  second line"), "{shown}");
    // The whole text of the error stands below, indented, so that no line of it looks like ours.
    let (_, trace) = shown.split_once("error trace of pay").unwrap();
    let trace: Vec<_> = trace.lines().skip(1).collect();
    assert_eq!(
        trace,
        [
            r"  no\u{1b}]0;owned\u{7}\u{9b}31m\r\u{202e}forged",
            "  second line"
        ],
        "{shown}"
    );
    assert!(shown.contains(r"team=shop\u{1b}[31m\tred"), "{shown}");
}

#[test]
fn our_own_colours_are_still_there_and_nothing_else() {
    let gateway = hostile();
    let name = format!("memory/{ID}");
    gateway.run(&["wait", &name]).exits(1);
    for arguments in [&["get", &name][..], &["list"], &["explain", &name]] {
        let mut coloured = arguments.to_vec();
        coloured.extend(["--color", "always"]);
        let out = gateway.run(&coloured).exits(0).out;
        assert!(out.contains("\u{1b}["), "{out:?}");
        assert!(
            !out.contains("\u{1b}[2J") && !out.contains("\u{1b}]"),
            "{out:?}"
        );
    }
}

#[test]
fn programs_get_it_as_it_came() {
    let gateway = hostile();
    let name = format!("memory/{ID}");
    let shown = gateway.run(&["wait", &name, "-o", "json"]).exits(1).json();
    assert_eq!(shown["steps"][0]["name"], "pay\u{1b}[2J\nforged  succeeded");
    assert_eq!(shown["labels"]["team"], "shop\u{1b}[31m\tred");
}
