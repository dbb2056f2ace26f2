//! A process on a terminal of its own.

use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

/// A process on a terminal of its own; it ends with the test.
pub(crate) struct Seen {
    child: Child,
    screen: Arc<Mutex<Vec<u8>>>,
    reader: Option<JoinHandle<()>>,
}

impl Seen {
    pub(crate) fn begin(command: &mut Command) -> Self {
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
        let child = command
            .env("TERM", "xterm-256color")
            .stdin(Stdio::null())
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
        }
    }

    pub(crate) fn screen(&self) -> String {
        String::from_utf8_lossy(&self.screen.lock().unwrap()).into_owned()
    }

    /// Waits for the end, until all of it is on the screen; the exit code.
    pub(crate) fn code(&mut self) -> Option<i32> {
        let status = self.child.wait().unwrap();
        self.reader.take().unwrap().join().unwrap();
        status.code()
    }

    #[track_caller]
    pub(crate) fn shows(&self, text: &str) {
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
    pub(crate) fn counts_down(&self, figures: usize) {
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
