//! `stateway demo`.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::binary::{Answer, Running, command, finish};

/// A demo whose temporary folder is in a folder of the test.
struct Demo {
    process: Running,
    url: String,
    folder: tempfile::TempDir,
}

impl Demo {
    fn begin(flags: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut demo = command(folder.path());
        demo.env("TMPDIR", folder.path())
            .args(["demo", "--listen", "127.0.0.1:0"])
            .args(flags);
        let process = Running::begin(&mut demo);
        let ready = process.line("stateway is listening on http://");
        let url = ready.split_whitespace().find(|it| it.starts_with("http"));
        Self {
            url: url.unwrap().to_owned(),
            process,
            folder,
        }
    }

    fn run(&self, arguments: &[&str]) -> Answer {
        let mut command = command(self.folder.path());
        command.env("STATEWAY_SERVER", &self.url).args(arguments);
        finish(&mut command, "")
    }

    fn executions(&self) -> Vec<Value> {
        let list = self.run(&["list", "--all", "-o", "json"]).exits(0).json();
        list["executions"].as_array().unwrap().clone()
    }

    /// The sub-states that executions are in, now.
    fn sub_states(&self) -> BTreeSet<String> {
        let all = self.executions();
        let words = all.iter().map(|it| it["sub_state"].as_str().unwrap());
        words.map(str::to_owned).collect()
    }
}

fn is_empty(folder: &Path) -> bool {
    std::fs::read_dir(folder).unwrap().next().is_none()
}

const SIX: [&str; 6] = [
    "backing-off",
    "error",
    "failed",
    "running",
    "succeeded",
    "waiting",
];

#[test]
fn all_six_sub_states_are_there_within_a_minute_and_stay_and_ctrl_c_leaves_nothing() {
    let mut demo = Demo::begin(&[]);
    let begin = Instant::now();
    while !demo.sub_states().iter().eq(SIX) {
        assert!(
            begin.elapsed() < Duration::from_secs(60),
            "{:?} {:#?}",
            demo.sub_states(),
            demo.process.said()
        );
        std::thread::sleep(Duration::from_millis(200));
    }
    for _ in 0..5 {
        std::thread::sleep(Duration::from_secs(1));
        assert!(demo.sub_states().iter().eq(SIX), "{:?}", demo.sub_states());
    }
    // One waits for minutes, so that a countdown can be seen.
    let all = demo.executions();
    let waits = all.iter().find(|it| it["sub_state"] == "backing-off");
    let next = waits.unwrap()["retry"]["next_attempt_time"].as_str();
    let next: jiff::Timestamp = next.unwrap().parse().unwrap();
    let pause = next.duration_since(jiff::Timestamp::now());
    assert!(pause.as_secs() > 60, "{waits:#?}");

    // Workers say how far they are.
    let steps = all.iter().flat_map(|it| it["steps"].as_array().unwrap());
    let mut details = steps.filter_map(|step| step["progress"]["detail"].as_str());
    assert!(details.next().is_some(), "{all:#?}");

    // What the guide says can be done as it says it; a watch would not end.
    demo.process.line(&format!("{}/", demo.url));
    let said = demo.process.said();
    let guide = said
        .iter()
        .filter_map(|line| line.strip_prefix("  stateway "));
    let commands: Vec<_> = guide.filter_map(|line| line.split("  ").next()).collect();
    assert!(commands.iter().any(|it| it.contains("approvals grant")));
    for command in commands.iter().filter(|it| !it.contains(" watch ")) {
        let words: Vec<_> = command.split_whitespace().collect();
        assert_eq!(words[..2], ["--server", &demo.url]);
        demo.run(&words).exits(0);
    }

    assert!(!is_empty(demo.folder.path()), "the store is somewhere else");
    demo.process.signal("-INT");
    assert_eq!(demo.process.code(), 0, "{:#?}", demo.process.said());
    assert!(
        is_empty(demo.folder.path()),
        "{:#?}",
        std::fs::read_dir(demo.folder.path()).unwrap().next()
    );
}

#[test]
fn it_ends_by_itself_and_goes_on_in_a_folder_that_was_chosen() {
    let store = tempfile::tempdir().unwrap();
    let path = store.path().join("new");
    let path = path.to_str().unwrap();
    let mut numbers = BTreeSet::new();
    for _ in 0..2 {
        let mut demo = Demo::begin(&["--path", path, "--for", "2s", "--rate", "600"]);
        demo.process.line("Ctrl-C stops the demo.");
        std::thread::sleep(Duration::from_secs(1));
        let all = demo.executions();
        let names = all.iter().map(|it| it["name"].as_str().unwrap().to_owned());
        let before = numbers.len();
        numbers.extend(names);
        assert!(numbers.len() > before, "{numbers:?}");
        assert_eq!(demo.process.code(), 0, "{:#?}", demo.process.said());
        assert!(is_empty(demo.folder.path()));
    }
    assert!(Path::new(path).join("stateway.db").is_file());
}

#[test]
fn a_second_signal_during_the_stop_leaves_nothing_either() {
    let mut demo = Demo::begin(&[]);
    demo.process.line("Ctrl-C stops the demo.");
    // The stopped process receives both signals when it continues, so that the second one comes before the end.
    for signal in ["-STOP", "-TERM", "-HUP", "-CONT"] {
        demo.process.signal(signal);
    }
    assert_eq!(demo.process.code(), 130, "{:#?}", demo.process.said());
    assert!(is_empty(demo.folder.path()));
}

#[test]
fn a_pace_or_a_place_that_cannot_be_is_refused() {
    let nowhere = tempfile::tempdir().unwrap();
    for wrong in [
        &["--rate", "0"][..],
        &["--rate", "601"],
        &["--for", "60"],
        &["--listen", "0.0.0.0:0"],
    ] {
        let mut demo = command(nowhere.path());
        demo.env("TMPDIR", nowhere.path()).arg("demo").args(wrong);
        finish(&mut demo, "").exits(2);
        assert!(is_empty(nowhere.path()), "{wrong:?}");
    }
    let file = nowhere.path().join("file");
    std::fs::write(&file, "").unwrap();
    let refused = finish(command(nowhere.path()).args(["demo", "--path", "file"]), "");
    assert!(refused.exits(4).err.contains("--path"));
}
