//! `stateway audit`: what a gateway recorded, what survives a crash, and what happens to a full disk.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::binary::{Answer, Running, command, finish};
use crate::serve::http;
use crate::tls::{ask, serve};

const AUDIT: &str = "[audit]\nfile = \"audit.jsonl\"\n";
const NAME: &str = "providers/memory/executions/nope";

fn audit(folder: &Path, arguments: &[&str]) -> Answer {
    finish(command(folder).arg("audit").args(arguments), "")
}

/// A call that changes something, or would if the execution existed.
fn signal(folder: &Path, url: &str, actor: &str) -> Answer {
    ask(folder, url, &["--as", actor, "signal", NAME, "go"])
}

#[test]
fn records_are_listed_and_a_changed_one_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let (gateway, url) = serve(folder.path(), AUDIT);
    for actor in ["ada", "bob", "ada"] {
        signal(folder.path(), &url, actor).exits(3);
    }
    ask(folder.path(), &url, &["providers", "list"]).exits(0);

    let listed = audit(folder.path(), &["list", "-o", "json"])
        .exits(0)
        .json();
    let records = listed["records"].as_array().unwrap();
    let verbs: Vec<_> = records
        .iter()
        .map(|it| it["verb"].as_str().unwrap())
        .collect();
    let signal = "SignalExecution";
    assert_eq!(verbs, ["audit.opened", signal, signal, signal]);
    assert_eq!(records[1]["object"], NAME);
    assert_eq!(records[1]["outcome"], "NOT_FOUND");
    let count = |filter: &[&str]| {
        let arguments = [&["list", "-o", "json"], filter].concat();
        let listed = audit(folder.path(), &arguments).exits(0).json();
        listed["records"].as_array().unwrap().len()
    };
    assert_eq!(count(&["--actor", "a*"]), 2);
    assert_eq!(
        count(&["--refused", "--verb", "Signal*", "--object", "*/nope"]),
        3
    );
    assert_eq!(count(&["--since", "1h", "--actor", "bob"]), 1);
    assert_eq!(count(&["--until", "1h"]), 0);
    assert_eq!(count(&["--limit", "2"]), 2);
    let table = audit(folder.path(), &["list"]).exits(0);
    assert!(
        table.out.contains("ACTOR") && table.out.contains("ada"),
        "{}",
        table.out
    );

    let verified = audit(folder.path(), &["verify"]).exits(0);
    let head = verified.out.trim().to_owned();
    assert!(
        head.starts_with("4:") && verified.err.contains("intact: 4 records"),
        "{verified:?}"
    );
    audit(folder.path(), &["verify", "--expect", &head]).exits(0);
    let other = format!("4:{}", "0".repeat(64));
    audit(folder.path(), &["verify", "--expect", &other]).exits(8);
    drop(gateway);

    let file = folder.path().join("audit.jsonl");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace("\"bob\"", "\"eve\"")).unwrap();
    let found = audit(folder.path(), &["verify"]).exits(8);
    assert!(
        found.out.contains("audit.jsonl:3: the record was changed"),
        "{}",
        found.out
    );
    // The list says that it does not show the record.
    let listed = audit(folder.path(), &["list"]).exits(8);
    assert!(!listed.out.contains("eve"), "{}", listed.out);
    assert!(
        listed.err.contains("audit.jsonl:3: the record was changed")
            && listed.err.contains("NOT intact"),
        "{}",
        listed.err
    );
    let listed = audit(folder.path(), &["list", "-o", "json"])
        .exits(8)
        .json();
    assert_eq!(listed["records"].as_array().unwrap().len(), 3);
    assert_eq!(listed["problems"][0]["line"], 3);
    // A record that is missing in the middle is a gap.
    let lines: Vec<_> = text.split_inclusive('\n').collect();
    std::fs::write(&file, [lines[0], lines[1], lines[3]].concat()).unwrap();
    let listed = audit(folder.path(), &["list"]).exits(8);
    assert!(
        listed
            .err
            .contains("record 4 follows where record 3 is expected"),
        "{}",
        listed.err
    );
    // The end is gone.
    let lines: Vec<_> = text.split_inclusive('\n').collect();
    std::fs::write(&file, lines[..3].concat()).unwrap();
    let found = audit(folder.path(), &["verify", "-o", "json"])
        .exits(8)
        .json();
    assert_eq!(found["intact"], false);
    let message = found["problems"][0]["message"].as_str().unwrap();
    assert!(message.contains("the end was removed"), "{message}");
}

#[test]
fn a_gateway_that_is_killed_loses_no_record_of_an_answered_call() {
    let folder = tempfile::tempdir().unwrap();
    let mut answered = 0;
    for _ in 0..3 {
        let (gateway, url) = serve(folder.path(), AUDIT);
        let end = Instant::now() + Duration::from_millis(600);
        let counts: Vec<usize> = std::thread::scope(|scope| {
            let calls: Vec<_> = (0..3)
                .map(|_| {
                    scope.spawn(|| {
                        let mut done = 0;
                        while Instant::now() < end {
                            done += usize::from(signal(folder.path(), &url, "ada").code == 3);
                        }
                        done
                    })
                })
                .collect();
            calls.into_iter().map(|call| call.join().unwrap()).collect()
        });
        answered += counts.iter().sum::<usize>();
        // `drop` kills the process.
        drop(gateway);
        audit(folder.path(), &["verify"]).exits(0);
    }
    let listed = audit(
        folder.path(),
        &[
            "list", "--limit", "100000", "--verb", "Signal*", "-o", "json",
        ],
    );
    let listed = listed.exits(0).json()["records"].as_array().unwrap().len();
    assert!(answered > 0 && listed >= answered, "{listed} {answered}");
    // Half of a record, as a process leaves it that is killed while it writes.
    let file = folder.path().join("audit.jsonl");
    let mut text = std::fs::read(&file).unwrap();
    text.extend(b"{\"seq\":99,\"time\":\"2026-");
    std::fs::write(&file, text).unwrap();
    let found = audit(folder.path(), &["verify"]).exits(0);
    assert!(found.err.contains("unfinished"), "{}", found.err);
    let (_gateway, _) = serve(folder.path(), AUDIT);
    let found = audit(folder.path(), &["verify"]).exits(0);
    assert!(found.err.contains("was cut off"), "{}", found.err);
}

#[test]
fn a_disk_without_space_refuses_changes_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let config = format!("{AUDIT}[providers.memory]\nkind = \"memory\"\n");
    std::fs::write(folder.path().join("stateway.toml"), config).unwrap();
    // No file may become larger than 1 or 2 KiB, by the unit of the shell.
    let binary = env!("CARGO_BIN_EXE_stateway");
    let script = format!("trap '' XFSZ; ulimit -f 2; exec {binary} serve --listen 127.0.0.1:0");
    let mut shell = std::process::Command::new("sh");
    shell
        .current_dir(folder.path())
        .env_clear()
        .args(["-c", &script]);
    let gateway = Running::begin(&mut shell);
    let line = gateway.line("stateway is listening on ");
    let url = line.split(' ').find(|word| word.contains("://")).unwrap();
    let mut refused = signal(folder.path(), url, "ada").exits(3);
    for _ in 0..10 {
        refused = signal(folder.path(), url, "ada");
        if refused.code != 3 {
            break;
        }
    }
    let refused = refused.exits(6);
    for text in ["AUDIT_UNAVAILABLE", "Nothing was changed"] {
        assert!(refused.err.contains(text), "{text}: {}", refused.err);
    }
    ask(folder.path(), url, &["providers", "list"]).exits(0);
    let page = http(url, "/healthz");
    assert!(page.contains("mutations are refused"), "{page}");
    let page = http(url, "/metrics");
    assert!(page.contains("stateway_audit_failing 1"), "{page}");
}

#[test]
fn the_key_of_the_configuration_is_used_and_another_key_is_one_error() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("chain.key"), "a key of the operator").unwrap();
    std::fs::write(folder.path().join("other.key"), "a key of someone else").unwrap();
    let (gateway, url) = serve(folder.path(), &format!("{AUDIT}key_file = \"chain.key\"\n"));
    signal(folder.path(), &url, "ada").exits(3);
    drop(gateway);
    let file = ["--file", "audit.jsonl"];
    audit(folder.path(), &[&["verify"], &file[..]].concat()).exits(0);
    let listed = audit(folder.path(), &[&["list"], &file[..]].concat()).exits(0);
    assert!(listed.out.contains("ada"), "{listed:?}");
    let other = [&file[..], &["--key-file", "other.key"]].concat();
    let without = [&file[..], &["--config", "/dev/null"]].concat();
    for (verb, place) in [
        ("verify", &other),
        ("list", &other),
        ("verify", &without),
        ("list", &without),
    ] {
        let refused = audit(folder.path(), &[&[verb], &place[..]].concat()).exits(8);
        let expected = "no record of audit.jsonl matches the key: the log was written with another key, \
                        or without one";
        assert!(refused.err.contains(expected), "{verb}: {refused:?}");
        assert!(
            refused.err.contains("Give the key with --key-file FILE."),
            "{refused:?}"
        );
        assert!(
            refused.out.is_empty() && !refused.err.contains("was changed"),
            "{refused:?}"
        );
    }
}
