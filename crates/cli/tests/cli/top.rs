//! `stateway top`.

use rustix::process::Signal;

use crate::binary::{Gateway, run, silent};
use crate::pty::Seen;
use crate::scripts::{BACKING_OFF, GOOD, WAITING};

/// What gives the terminal back: the cursor, and the screen that was there before.
const BACK: &str = "\u{1b}[?25h\u{1b}[?1049l";

/// A gateway where one backs off, one waits and one has succeeded.
fn gateway() -> Gateway {
    let gateway = Gateway::new();
    gateway.start("slow", &BACKING_OFF.replace("1h", "55s"));
    gateway.start("held", WAITING);
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
fn what_matters_is_seen_live_and_q_gives_the_terminal_back() {
    let gateway = gateway();
    let mut top = begin(&gateway);
    top.shows("\u{1b}[?1049h");
    top.shows("running 0   waiting 1   backing-off 1   error 0   succeeded 1   failed 0");
    top.shows("memory serving");
    top.shows("> memory/slow  backing-off");
    top.shows("  memory/held  waiting");
    top.counts_down(3);
    assert!(!top.is_as_it_was());
    gateway.run(&["signal", "memory/held", "go"]).exits(0);
    top.shows("waiting 0   backing-off 1   error 0   succeeded 2");
    top.press("q");
    assert_eq!(top.code(), Some(0));
    assert!(top.screen().ends_with(BACK), "{:?}", top.screen());
    assert!(top.is_as_it_was());
}

#[test]
fn keys_move_open_filter_sort_and_pause() {
    let gateway = gateway();
    let mut top = begin(&gateway);
    top.shows("> memory/slow");
    top.press("j");
    top.shows("> memory/held");
    top.press("\u{1b}[A");
    top.shows("> memory/slow");
    top.press("\r");
    top.shows("providers/memory/executions/slow");
    top.shows("└─ ");
    top.shows("esc back");
    top.clear();
    top.press("\u{1b}");
    top.shows("> memory/slow");
    top.press("fsub_state =");
    top.press("\r");
    top.shows("column");
    top.press("\u{15}waiting\r");
    top.shows("filter: sub_state = \"waiting\"");
    top.shows("waiting 1   backing-off 0");
    top.press("s");
    top.shows("sorted by newest");
    top.press("p");
    top.shows("PAUSED");
    top.clear();
    gateway.run(&["signal", "memory/held", "go"]).exits(0);
    std::thread::sleep(std::time::Duration::from_millis(600));
    assert!(!top.screen().contains("waiting 0"), "{:?}", top.screen());
    top.press("p");
    top.shows("waiting 0   backing-off 0");
    top.press("q");
    assert_eq!(top.code(), Some(0));
}

#[test]
fn a_signal_gives_the_terminal_back_and_a_new_size_is_used() {
    let gateway = gateway();
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let mut top = begin(&gateway);
        top.shows("> memory/slow");
        top.clear();
        top.resize(10, 30);
        top.shows("\u{1b}[10;1Hq quit");
        let wide = top.screen();
        let last = wide.rsplit("\u{1b}[2J").next().unwrap().to_owned();
        let widest = last.split("\u{1b}[").map(|it| it.chars().count()).max();
        assert!(widest.unwrap() <= 30 + "10;1H".len(), "{last:?}");
        top.signal(signal);
        assert_eq!(top.code(), Some(0));
        assert!(top.screen().ends_with(BACK), "{:?}", top.screen());
        assert!(top.is_as_it_was());
    }
}

#[test]
fn a_gateway_that_goes_away_is_told() {
    let gateway = gateway();
    let top = begin(&gateway);
    top.shows("> memory/slow");
    drop(gateway);
    top.shows("ago: as it was then");
}

#[test]
fn in_a_pipe_it_is_shown_once() {
    let gateway = gateway();
    let plain = gateway.run(&["top"]).exits(0).out;
    let lines: Vec<_> = plain.lines().collect();
    assert_eq!(
        lines[0],
        "running 0   waiting 1   backing-off 1   error 0   succeeded 1   failed 0"
    );
    assert_eq!(lines[1], "memory serving");
    let rows: Vec<_> = lines[4..]
        .iter()
        .map(|it| it.split_whitespace().next())
        .collect();
    let order = ["memory/slow", "memory/held", "memory/done"];
    assert_eq!(rows, order.map(Some));
    assert!(!plain.contains('\u{1b}'), "{plain:?}");

    let json = gateway.run(&["top", "-o", "json", "--filter", "sub_state = waiting"]);
    let json = json.exits(0).json();
    assert_eq!(json["counts"]["waiting"], 1);
    assert_eq!(json["counts"]["running"], 0);
    assert_eq!(
        json["executions"][0]["name"],
        "providers/memory/executions/held"
    );
    assert_eq!(json["providers"][0]["health"]["status"], "SERVING");
    gateway.run(&["top", "--filter", "nonsense"]).exits(2);
}

#[test]
fn without_a_gateway_the_terminal_is_not_taken() {
    run(&["top", "--server", "http://127.0.0.1:1"]).exits(6);
    let (_listener, url) = silent();
    let answer = run(&["top", "--server", &url, "--timeout", "1s"]);
    assert_eq!(answer.exits(6).out, "");
}

#[test]
fn a_panic_gives_the_terminal_back_before_it_speaks() {
    let mut this = std::process::Command::new(std::env::current_exe().unwrap());
    let child = ["--exact", "top::panics", "--ignored", "--nocapture"];
    let mut panics = Seen::begin_with_keys(this.args(child));
    assert_ne!(panics.code(), Some(0));
    let screen = panics.screen();
    let (taken, after) = screen.split_once("\u{1b}[?1049h").unwrap();
    assert!(!taken.contains(BACK), "{screen:?}");
    assert_eq!(after.matches(BACK).count(), 1, "{screen:?}");
    assert!(panics.is_as_it_was());
}

#[test]
#[ignore = "the process of the test before this one"]
fn panics() {
    let _taken = stateway_cli::top::Terminal::take().unwrap();
    panic!("on purpose");
}
