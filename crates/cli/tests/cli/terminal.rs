//! What a terminal gets: colours, and a `watch` that ticks.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::binary::Gateway;
use crate::scripts::{BACKING_OFF, GOOD};

/// A process on a terminal of its own; it ends with the test.
struct Seen {
    child: Child,
    screen: Arc<Mutex<Vec<u8>>>,
    reader: Option<JoinHandle<()>>,
    keys: File,
}

impl Seen {
    fn begin(command: &mut Command) -> Self {
        Self::on(command, false)
    }

    /// On a terminal that also has a keyboard.
    fn typing(command: &mut Command) -> Self {
        Self::on(command, true)
    }

    fn on(command: &mut Command, keyboard: bool) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let size = Winsize {
            ws_row: 40,
            ws_col: 160,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        tcsetwinsize(&master, size).unwrap();
        let path = ptsname(&master, Vec::new()).unwrap();
        let terminal = OpenOptions::new()
            .read(true)
            .write(true)
            .open(path.to_str().unwrap());
        let terminal = OwnedFd::from(terminal.unwrap());
        let input = match keyboard {
            true => Stdio::from(terminal.try_clone().unwrap()),
            false => Stdio::null(),
        };
        let keys = File::from(master.try_clone().unwrap());
        let child = command
            .env("TERM", "xterm-256color")
            .stdin(input)
            .stdout(terminal)
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let screen = Arc::<Mutex<Vec<u8>>>::default();
        let sink = Arc::clone(&screen);
        let reader = std::thread::spawn(move || {
            let mut master = File::from(master);
            let mut buffer = [0; 4096];
            // Reading ends with an error when the last writer has gone.
            while let Ok(length @ 1..) = master.read(&mut buffer) {
                sink.lock().unwrap().extend_from_slice(&buffer[..length]);
            }
        });
        Self {
            child,
            screen,
            reader: Some(reader),
            keys,
        }
    }

    /// Presses keys.
    fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    fn screen(&self) -> String {
        String::from_utf8_lossy(&self.screen.lock().unwrap()).into_owned()
    }

    /// Waits for the end, until all of it is on the screen; the exit code.
    fn code(&mut self) -> Option<i32> {
        let status = self.child.wait().unwrap();
        self.reader.take().unwrap().join().unwrap();
        status.code()
    }

    #[track_caller]
    fn shows(&self, text: &str) {
        let begin = Instant::now();
        while !self.screen().contains(text) {
            assert!(
                begin.elapsed() < Duration::from_secs(15),
                "no `{text}` in {:?}",
                self.screen()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits for this many different figures, each less than the one before.
    #[track_caller]
    fn counts_down(&self, figures: usize) {
        let begin = Instant::now();
        loop {
            let screen = self.screen();
            let mut seen: Vec<u32> = screen
                .split("next attempt in ")
                .skip(1)
                .filter_map(|rest| rest.split_whitespace().next()?.parse().ok())
                .collect();
            seen.dedup();
            assert!(
                seen.is_sorted_by(|before, after| before > after),
                "{seen:?}"
            );
            if seen.len() >= figures {
                return;
            }
            assert!(begin.elapsed() < Duration::from_secs(15), "only {seen:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Seen {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_watch_counts_down_to_the_next_attempt_and_ends_with_the_execution() {
    let gateway = Gateway::new();
    gateway.start("a", &BACKING_OFF.replace("1h", "90s"));
    let mut watch = Seen::begin(&mut gateway.command(&["watch", "memory/a"]));
    watch.shows("attempt 1 of 5 failed: gateway timed out; next attempt in 8");
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
    let mut watch = Seen::begin(&mut gateway.command(&[
        "watch",
        "memory/a",
        "--timeout",
        "1s",
        "--color",
        "never",
    ]));
    watch.shows("next attempt in");
    assert_eq!(watch.code(), Some(7));
    let screen = watch.screen();
    let after = screen.rsplit("memory/a  backing-off").next().unwrap();
    assert!(
        after.contains("next attempt in") && !after.ends_with("\u{1b}[2K"),
        "{screen:?}"
    );
}

#[test]
fn sub_states_are_coloured_unless_no_color_is_set() {
    let gateway = Gateway::new();
    gateway.start("a", GOOD);
    gateway.run(&["wait", "memory/a"]).exits(0);
    let coloured = Seen::begin(&mut gateway.command(&["get", "memory/a"]));
    coloured.shows("\u{1b}[32msucceeded");
    let plain = Seen::begin(gateway.command(&["get", "memory/a"]).env("NO_COLOR", "1"));
    plain.shows("succeeded");
    assert!(!plain.screen().contains("\u{1b}["), "{:?}", plain.screen());
}

#[test]
fn a_history_is_stepped_through_with_keys() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/histories");
    let file = format!("{folder}/retries.jsonl");
    let gateway = Gateway::new();
    let mut replay = Seen::typing(&mut gateway.command(&["replay", "--file", &file, "--step"]));
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
