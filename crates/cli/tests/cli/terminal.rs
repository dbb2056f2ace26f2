//! What a terminal gets: colours, and a `watch` that ticks.

use crate::binary::Gateway;
use crate::built_in::{apply, gateway as built_in, worker};
use crate::pty::Seen;
use crate::scripts::{BACKING_OFF, GOOD};
use rustix::process::Signal;

#[test]
fn a_watch_counts_down_to_the_next_attempt_and_ends_with_the_execution() {
    let gateway = Gateway::new();
    gateway.start("a", &BACKING_OFF.replace("1h", "55s"));
    let mut watch = Seen::begin(&mut gateway.command(&["watch", "memory/a"]));
    watch.shows("attempt 1 of 5 failed; next attempt in 5");
    watch.shows("s: gateway timed out");
    watch.counts_down(3);
    gateway.run(&["retry-now", "memory/a"]).exits(0);
    watch.shows("succeeded");
    assert_eq!(watch.code(), Some(0));
}

#[test]
fn a_picture_without_a_gateway_says_that_it_is_old() {
    let gateway = Gateway::new();
    gateway.start("a", BACKING_OFF);
    let watch = Seen::begin(&mut gateway.command(&["watch", "memory/a"]));
    watch.shows("next attempt in");
    drop(gateway);
    watch.shows("s ago: as it was then)");
}

#[test]
fn the_last_picture_stays_when_the_deadline_comes() {
    let gateway = Gateway::new();
    gateway.start("a", BACKING_OFF);
    let arguments = ["watch", "memory/a", "--timeout", "2s", "--color", "never"];
    let mut watch = Seen::begin(&mut gateway.command(&arguments));
    watch.shows("next attempt in");
    assert!(watch.is_full_screen());
    assert_eq!(watch.code(), Some(7));
    let screen = watch.screen();
    assert!(!watch.is_full_screen());
    assert!(screen.starts_with("memory/a  backing-off"), "{screen}");
    assert!(screen.contains("next attempt in"), "{screen}");
}

#[test]
fn q_and_signals_end_a_watch_and_restore_the_terminal() {
    let gateway = Gateway::new();
    gateway.start("a", BACKING_OFF);
    for end in [None, Some(Signal::INT), Some(Signal::TERM)] {
        let arguments = ["watch", "memory/a", "--color", "never"];
        let mut watch = Seen::begin_with_keys(&mut gateway.command(&arguments));
        watch.shows("next attempt in");
        watch.shows("q quit");
        match end {
            None => watch.press("q"),
            Some(signal) => watch.signal(signal),
        }
        assert_eq!(watch.code(), Some(130));
        assert!(watch.is_restored());
        let screen = watch.screen();
        assert!(screen.starts_with("memory/a  backing-off"), "{screen}");
    }
}

#[test]
fn sub_states_are_coloured_unless_no_color_is_set() {
    let gateway = Gateway::new();
    gateway.start("a", GOOD);
    gateway.run(&["wait", "memory/a"]).exits(0);
    let coloured = Seen::begin(&mut gateway.command(&["get", "memory/a"]));
    coloured.shows("succeeded");
    let bytes = coloured.bytes();
    assert!(bytes.contains("\u{1b}[32msucceeded"), "{bytes:?}");
    let plain = Seen::begin(gateway.command(&["get", "memory/a"]).env("NO_COLOR", "1"));
    plain.shows("succeeded");
    assert!(!plain.bytes().contains("\u{1b}["), "{:?}", plain.bytes());
}

const PARENT: &str = "
name: nightly
steps:
  - {name: shop, workflow: import}
  - {name: report, dependsOn: [shop], agent: etl}
";
const CHILD: &str = "name: import\nsteps: [{name: fetch, agent: slow}, {name: load, dependsOn: [fetch], agent: etl}]\n";

#[test]
fn a_watch_is_a_tree_with_children_and_with_what_is_to_come() {
    let gateway = built_in();
    apply(&gateway, CHILD);
    apply(&gateway, PARENT);
    gateway
        .run(&["start", "definitions/nightly", "--id", "n"])
        .exits(0);
    let mut watch = Seen::begin(&mut gateway.command(&["watch", "builtin/n", "--color", "never"]));
    watch.shows("├─ shop    waiting");
    watch.shows("│  ├─ fetch  waiting      NO_WORKER  waits for a worker of role `slow`");
    watch.shows("│  └─ load   not started; after fetch");
    watch.shows("└─ report  not started; after shop");
    let _slow = worker(&gateway, "slow", "sleep 1; echo 1");
    let _quick = worker(&gateway, "etl", "echo 2");
    watch.shows("└─ report  succeeded");
    assert_eq!(watch.code(), Some(0));
    // The last picture has the end of the child too.
    let last = watch.screen();
    assert!(last.contains("├─ fetch  succeeded"), "{last:?}");
    assert!(last.contains("└─ load   succeeded"), "{last:?}");
}

#[test]
fn start_and_wait_shows_the_steps_and_then_what_they_came_to() {
    let gateway = built_in();
    apply(
        &gateway,
        "name: hello\nsteps: [{name: greet, agent: etl}]\n",
    );
    let program =
        "sleep 0.5; test $STATEWAY_EXECUTION != providers/builtin/executions/bad && echo 7";
    let _worker = worker(&gateway, "etl", program);
    let start = |id| {
        [
            "start",
            "definitions/hello",
            "--id",
            id,
            "--wait",
            "--color",
            "never",
        ]
    };
    let mut good = Seen::begin(&mut gateway.command(&start("good")));
    good.shows("└─ greet  running");
    assert_eq!(good.code(), Some(0));
    assert!(
        good.screen().contains("output      {\"greet\":7}"),
        "{}",
        good.screen()
    );
    let mut bad = Seen::begin(&mut gateway.command(&start("bad")));
    assert_eq!(bad.code(), Some(1));
    assert!(
        bad.screen().contains("last error  greet: "),
        "{}",
        bad.screen()
    );
}

#[test]
fn a_history_is_stepped_through_with_keys() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/histories");
    let file = format!("{folder}/retries.jsonl");
    let gateway = Gateway::new();
    let mut replay =
        Seen::begin_with_keys(&mut gateway.command(&["replay", "--file", &file, "--step"]));
    replay.shows("event 1 of 15");
    replay.shows("q quit");
    replay.press("\u{1b}[C");
    replay.shows("event 2 of 15");
    replay.press("nn");
    replay.shows("event 4 of 15");
    replay.press("G");
    replay.shows("event 15 of 15");
    replay.shows("succeeded");
    replay.press("\u{1b}[D");
    replay.shows("event 14 of 15");
    replay.press("q");
    assert_eq!(replay.code(), Some(0));
}
