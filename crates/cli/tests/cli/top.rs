//! `stateway top`.

use rustix::process::Signal;

use crate::binary::{Gateway, run, silent};
use crate::pty::Seen;
use crate::scripts::{BACKING_OFF, GOOD, WAITING};

/// A gateway where one execution backs off, one waits and one has succeeded.
fn gateway() -> Gateway {
    let gateway = Gateway::new();
    gateway.start("slow", &BACKING_OFF.replace("1h", "55s"));
    gateway.start("gate", WAITING);
    gateway.start("done", GOOD);
    gateway.run(&["wait", "memory/done"]).exits(0);
    gateway
        .run(&["wait", "memory/slow", "--for", "backing-off"])
        .exits(0);
    gateway
}

fn begin(gateway: &Gateway) -> Seen {
    Seen::begin_with_keys(&mut gateway.command(&["top", "--color", "never"]))
}

#[test]
fn the_executions_are_live_and_q_restores_the_terminal() {
    let gateway = gateway();
    let mut top = begin(&gateway);
    top.shows("running 0  ◌ waiting 1  ↻ backing-off 1  ! error 0  ✓ succeeded 0  ✗ failed 0");
    assert!(top.is_full_screen() && !top.is_restored());
    top.shows("memory serving");
    top.shows("> memory/slow  ↻ backing-off");
    top.shows("at charge: attempt 1 of 5 failed");
    top.shows("  memory/gate  ◌ waiting");
    top.counts_down(3);
    gateway.run(&["signal", "memory/gate", "go"]).exits(0);
    top.shows("waiting 0  ↻ backing-off 1  ! error 0  ✓ succeeded 1");
    top.press("q");
    assert_eq!(top.code(), Some(0));
    assert!(top.is_restored());
}

#[test]
fn keys_move_open_filter_sort_and_pause() {
    let gateway = gateway();
    let mut top = begin(&gateway);
    top.shows("> memory/slow");
    top.press("j");
    top.shows("> memory/gate");
    top.press("\u{1b}[A");
    top.shows("> memory/slow");
    top.press("?");
    top.shows("open the execution");
    top.press("?\r");
    top.shows("providers/memory/executions/slow");
    top.shows("└─ ");
    top.shows("esc back");
    top.press("\u{1b}");
    top.shows("> memory/slow");
    top.press("fsub_state =");
    top.press("\r");
    top.shows("column");
    top.press("\u{15}waiting\r");
    top.shows("filter: sub_state = \"waiting\"");
    top.shows("waiting 1  ↻ backing-off 0");
    top.press("s");
    top.shows("sorted by newest");
    top.press("p");
    top.shows("PAUSED");
    gateway.run(&["signal", "memory/gate", "go"]).exits(0);
    gateway.run(&["wait", "memory/gate"]).exits(0);
    // A key is drawn after the change, which is not.
    top.press("s");
    top.shows("sorted by name");
    assert!(top.screen().contains("waiting 1"), "{}", top.screen());
    top.press("p");
    top.shows("waiting 0  ↻ backing-off 0");
    top.press("q");
    assert_eq!(top.code(), Some(0));
}

#[test]
fn a_signal_restores_the_terminal_and_a_new_size_is_used() {
    let gateway = gateway();
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let mut top = begin(&gateway);
        top.shows("> memory/slow");
        top.resize(10, 80);
        // The keys are on the last of ten lines.
        top.sees("keys on line 10", |screen| {
            let last = screen.lines().nth(9);
            last.is_some_and(|line| line.starts_with("q quit"))
        });
        top.signal(signal);
        assert_eq!(top.code(), Some(0));
        assert!(top.is_restored());
    }
}

#[test]
fn a_gateway_that_stops_is_reported() {
    let gateway = gateway();
    let top = begin(&gateway);
    top.shows("> memory/slow");
    drop(gateway);
    top.shows("ago: as it was then");
}

#[test]
fn in_a_pipe_the_executions_are_printed_once() {
    let gateway = gateway();
    let plain = gateway.run(&["top"]).exits(0).out;
    let lines: Vec<_> = plain.lines().collect();
    assert_eq!(
        lines[0],
        "running 0   waiting 1   backing-off 1   error 0   succeeded 0   failed 0"
    );
    assert_eq!(lines[1], "memory serving");
    let rows: Vec<_> = lines[4..]
        .iter()
        .map(|it| it.split_whitespace().next())
        .collect();
    assert_eq!(rows, ["memory/slow", "memory/gate"].map(Some));
    // What had finished before is shown if the filter asks for it.
    let all = gateway
        .run(&["top", "--filter", "sub_state:*"])
        .exits(0)
        .out;
    assert!(
        all.contains("succeeded 1") && all.contains("memory/done"),
        "{all}"
    );
    assert!(!plain.contains('\u{1b}'), "{plain:?}");

    let json = gateway.run(&["top", "-o", "json", "--filter", "sub_state = waiting"]);
    let json = json.exits(0).json();
    assert_eq!(json["counts"]["waiting"], 1);
    assert_eq!(json["counts"]["running"], 0);
    assert_eq!(
        json["executions"][0]["name"],
        "providers/memory/executions/gate"
    );
    assert_eq!(json["providers"][0]["health"]["status"], "SERVING");
    gateway.run(&["top", "--filter", "nonsense = 1"]).exits(2);
}

#[test]
fn without_a_gateway_the_terminal_is_not_taken() {
    let (_listener, silent) = silent();
    for server in ["http://127.0.0.1:1", &silent] {
        let nowhere = tempfile::tempdir().unwrap();
        let mut command = crate::binary::command(nowhere.path());
        let arguments = ["top", "--server", server, "--timeout", "1s"];
        let mut top = Seen::begin_with_messages(command.args(arguments));
        assert_eq!(top.code(), Some(6));
        assert!(!top.bytes().contains("\u{1b}[?1049h"), "{:?}", top.bytes());
        assert!(top.screen().contains("error: "), "{}", top.screen());
        assert!(top.is_as_it_was());
    }
    run(&["top", "--server", "http://127.0.0.1:1"]).exits(6);
}

#[test]
fn a_panic_restores_the_terminal_before_its_message() {
    let mut this = std::process::Command::new(std::env::current_exe().unwrap());
    let child = ["--exact", "top::panics", "--ignored", "--nocapture"];
    let mut panics = Seen::begin_with_messages(this.args(child));
    assert_ne!(panics.code(), Some(0));
    let bytes = panics.bytes();
    assert_eq!(bytes.matches("\u{1b}[?1049h").count(), 1, "{bytes:?}");
    let (_, after) = bytes.split_once("\u{1b}[?1049l").unwrap();
    assert!(after.contains("on purpose"), "{bytes:?}");
    assert!(panics.is_restored());
}

#[test]
#[ignore = "the process of the test before this one"]
fn panics() {
    let _taken = stateway_cli::screen::FullScreen::take().unwrap();
    panic!("on purpose");
}
