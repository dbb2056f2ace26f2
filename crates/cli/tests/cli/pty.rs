//! A process on a terminal of its own.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::num::NonZeroU16;
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::binary::PATIENCE;
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};

/// The size of the terminal at the beginning: rows, columns.
const SIZE: (u16, u16) = (40, 160);

/// Everything that the process has written.
struct Written {
    bytes: Vec<u8>,
    /// What a person sees of it.
    picture: vt100::Parser,
}

/// A process on a terminal of its own; it ends with the test.
pub(crate) struct Seen {
    child: Child,
    written: Arc<Mutex<Written>>,
    reader: Option<JoinHandle<()>>,
    /// The person's side of it.
    person: File,
}

fn some(count: u16) -> NonZeroU16 {
    NonZeroU16::new(count).unwrap()
}

fn size(rows: u16, columns: u16) -> Winsize {
    Winsize {
        ws_row: rows,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    }
}

impl Seen {
    pub(crate) fn begin(command: &mut Command) -> Self {
        Self::on(command, false, false)
    }

    /// With keys that can be pressed.
    pub(crate) fn begin_with_keys(command: &mut Command) -> Self {
        Self::on(command, true, false)
    }

    /// With keys, and with standard error on the same terminal.
    pub(crate) fn begin_with_messages(command: &mut Command) -> Self {
        Self::on(command, true, true)
    }

    fn on(command: &mut Command, keys: bool, messages: bool) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        tcsetwinsize(&master, size(SIZE.0, SIZE.1)).unwrap();
        let path = ptsname(&master, Vec::new()).unwrap();
        let terminal = OpenOptions::new()
            .read(true)
            .write(true)
            .open(path.to_str().unwrap());
        let terminal = OwnedFd::from(terminal.unwrap());
        let also = |wanted: bool| {
            if wanted {
                Stdio::from(terminal.try_clone().unwrap())
            } else {
                Stdio::null()
            }
        };
        let (input, errors) = (also(keys), also(messages));
        let child = command
            .env("TERM", "xterm-256color")
            .stdin(input)
            .stdout(terminal)
            .stderr(errors)
            .spawn()
            .unwrap();
        // What the command holds of the terminal would keep it open after the process.
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let person = File::from(master.try_clone().unwrap());
        let written = Arc::new(Mutex::new(Written {
            bytes: Vec::new(),
            picture: vt100::Parser::new(some(SIZE.0), some(SIZE.1), 0),
        }));
        let sink = Arc::clone(&written);
        let reader = std::thread::spawn(move || {
            let mut master = File::from(master);
            let mut buffer = [0; 4096];
            // Reading ends with an error when the last writer has gone.
            while let Ok(length @ 1..) = master.read(&mut buffer) {
                let mut sink = sink.lock().unwrap();
                sink.bytes.extend_from_slice(&buffer[..length]);
                sink.picture.process(&buffer[..length]);
            }
        });
        Self {
            child,
            written,
            reader: Some(reader),
            person,
        }
    }

    /// Presses keys, as the bytes that a terminal sends for them.
    pub(crate) fn press(&mut self, keys: &str) {
        self.person.write_all(keys.as_bytes()).unwrap();
    }

    pub(crate) fn resize(&self, rows: u16, columns: u16) {
        let mut written = self.written.lock().unwrap();
        written.picture.set_size(some(rows), some(columns));
        tcsetwinsize(&self.person, size(rows, columns)).unwrap();
    }

    /// Whether what is typed is shown and comes line by line, as a shell leaves a terminal.
    pub(crate) fn is_as_it_was(&self) -> bool {
        let modes = tcgetattr(&self.person).unwrap().local_modes;
        modes.contains(LocalModes::ICANON | LocalModes::ECHO)
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let id = Pid::from_child(&self.child);
        kill_process(id, signal).unwrap();
    }

    /// All bytes so far, as text.
    pub(crate) fn bytes(&self) -> String {
        String::from_utf8_lossy(&self.written.lock().unwrap().bytes).into_owned()
    }

    /// What a person sees now.
    pub(crate) fn screen(&self) -> String {
        self.written.lock().unwrap().picture.screen().contents()
    }

    /// Whether the whole terminal is taken, and the shell's screen is hidden.
    pub(crate) fn is_full_screen(&self) -> bool {
        let written = self.written.lock().unwrap();
        written.picture.screen().alternate_screen()
    }

    /// Whether the cursor and the screen of the shell are back.
    pub(crate) fn is_restored(&self) -> bool {
        let written = self.written.lock().unwrap();
        let screen = written.picture.screen();
        !screen.alternate_screen() && !screen.hide_cursor() && self.is_as_it_was()
    }

    /// Waits for the end, until all of it is on the screen; the exit code.
    pub(crate) fn code(&mut self) -> Option<i32> {
        let begin = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            let late = begin.elapsed() > PATIENCE;
            assert!(!late, "still running: {:?}", self.screen());
            std::thread::sleep(Duration::from_millis(20));
        };
        self.reader.take().unwrap().join().unwrap();
        status.code()
    }

    #[track_caller]
    pub(crate) fn shows(&self, text: &str) {
        self.sees(text, |screen| screen.contains(text));
    }

    /// Waits until a person sees what is wanted.
    #[track_caller]
    pub(crate) fn sees(&self, what: &str, wanted: impl Fn(&str) -> bool) {
        let begin = Instant::now();
        while !wanted(&self.screen()) {
            assert!(
                begin.elapsed() < PATIENCE,
                "no {what} on\n{}",
                self.screen()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits for this many different figures, each less than the one before.
    #[track_caller]
    pub(crate) fn counts_down(&self, figures: usize) {
        let begin = Instant::now();
        let mut seen: Vec<u32> = Vec::new();
        while seen.len() < figures {
            let screen = self.screen();
            let figure = screen.split("next attempt in ").nth(1);
            let figure =
                figure.and_then(|rest| rest.split_whitespace().next()?.parse::<u32>().ok());
            seen.extend(figure);
            seen.dedup();
            assert!(
                seen.is_sorted_by(|before, after| before > after),
                "{seen:?}"
            );
            assert!(begin.elapsed() < PATIENCE, "only {seen:?}");
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
