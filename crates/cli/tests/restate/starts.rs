//! Starting twice, and listing what was started.

use std::collections::BTreeMap;

use crate::lab::{Lab, name};

pub(crate) fn idempotent(lab: &mut Lab) {
    let start = |request: &str, input: &str, more: &[&str]| {
        let base = [
            "start",
            "lab/Lab/echo",
            "--request-id",
            request,
            "--input",
            input,
            "-o",
            "json",
        ];
        lab.run(&[&base[..], more].concat())
    };
    let first = name(&start("r-1", r#""a""#, &[]).exits(0).json());
    let again = name(&start("r-1", r#""a""#, &[]).exits(0).json());
    assert_eq!(again, first);
    let reused = start("r-1", r#""b""#, &[]).exits(4);
    assert!(reused.err.contains("REQUEST_ID_REUSED"), "{reused:?}");
    start("r-2", r#""a""#, &["--id", "mine"]).exits(0);
    let taken = start("r-3", r#""a""#, &["--id", "mine"]).exits(4);
    assert!(taken.err.contains("EXECUTION_ALREADY_EXISTS"), "{taken:?}");
    let unknown = lab
        .run(&["start", "lab/Lab/nothing", "--input", "1"])
        .exits(3);
    assert!(unknown.err.contains("DEFINITION_NOT_FOUND"), "{unknown:?}");
}

pub(crate) fn listed(lab: &mut Lab) {
    let mut started: BTreeMap<String, u32> = BTreeMap::new();
    for number in 0..23 {
        started.insert(lab.start("Lab/echo", &format!("\"{number}\"")), 0);
    }
    let mut token = String::new();
    loop {
        let mut arguments = vec!["list", "--page-size", "7", "-o", "json"];
        if !token.is_empty() {
            arguments.extend(["--page-token", &token]);
        }
        let page = lab.run(&arguments).exits(0).json();
        for row in page["executions"].as_array().unwrap() {
            if let Some(times) = started.get_mut(&name(row)) {
                *times += 1;
            }
        }
        let next = page["next_page_token"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        if next.is_empty() {
            break;
        }
        token = next;
    }
    assert!(started.values().all(|times| *times == 1), "{started:?}");
}
