//! The process of Chromium's driver: starting it until it prints its port, and ending it.
//!
//! The driver chooses a port by itself and binds it for IPv4 and then for IPv6. On a busy machine
//! another program can take the second one in between; the driver then ends before it prints a port.
//! Such a driver is started again.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// How often a driver is started that ends before it prints its port.
const STARTS: usize = 5;
/// How long one driver may take to print its port.
const START_TIMEOUT: Duration = Duration::from_secs(120);

/// A driver that listens on a port. It ends when this value is dropped.
pub(crate) struct Driver {
    process: Child,
    pub(crate) port: u16,
}

impl Driver {
    /// Starts a driver and reads its output until it prints its port.
    ///
    /// # Errors
    /// No driver starts; the message holds what the drivers printed.
    pub(crate) fn start(command: impl Fn() -> Command) -> Result<Self, String> {
        let mut ends = Vec::new();
        for start in 1..=STARTS {
            match start_once(command(), START_TIMEOUT)? {
                Start::Listens(driver) => return Ok(driver),
                Start::Ended(end) => ends.push(format!("start {start}: {end}")),
            }
        }
        Err(format!("the driver does not start:\n{}", ends.join("\n")))
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        end(&mut self.process);
    }
}

enum Start {
    Listens(Driver),
    /// The driver ended by itself: its exit status and its output.
    Ended(String),
}

fn start_once(mut command: Command, timeout: Duration) -> Result<Start, String> {
    let mut process = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("{command:?} does not start: {error}"))?;
    let (sender, lines) = channel();
    let output = process.stdout.take().expect("stdout is piped");
    let errors = process.stderr.take().expect("stderr is piped");
    read_lines(output, sender.clone());
    read_lines(errors, sender);
    let mut printed = Vec::new();
    match wait_for_port(&lines, timeout, &mut printed) {
        Ok(port) => Ok(Start::Listens(Driver { process, port })),
        Err(RecvTimeoutError::Disconnected) => {
            let status = process.wait().map_err(|error| error.to_string())?;
            let printed = printed.join("\n");
            Ok(Start::Ended(format!(
                "ended with {status} before it printed its port; it printed:\n{printed}"
            )))
        }
        Err(RecvTimeoutError::Timeout) => {
            end(&mut process);
            let printed = printed.join("\n");
            Err(format!(
                "the driver printed no port within {timeout:?}; it printed:\n{printed}"
            ))
        }
    }
}

/// Passes lines on. Lines that nobody waits for are read too, so that the driver never blocks on a
/// full pipe.
fn read_lines(output: impl Read + Send + 'static, lines: Sender<String>) {
    std::thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            let _ = lines.send(line);
        }
    });
}

fn wait_for_port(
    lines: &Receiver<String>,
    timeout: Duration,
    printed: &mut Vec<String>,
) -> Result<u16, RecvTimeoutError> {
    let deadline = Instant::now() + timeout;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let line = lines.recv_timeout(left)?;
        if let Some(port) = port_in(&line) {
            return Ok(port);
        }
        printed.push(line);
    }
}

fn port_in(line: &str) -> Option<u16> {
    let (_, rest) = line.split_once("started successfully on port ")?;
    rest.trim_end_matches('.').parse().ok()
}

fn end(process: &mut Child) {
    // The process may have ended already.
    let _ = process.kill();
    let _ = process.wait();
}

/// Rules that need no browser: a shell plays the driver.
pub(crate) mod rules {
    use super::{Command, Driver, Duration, STARTS, start_once};

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    pub(crate) fn the_port_is_read_wherever_the_line_stands() {
        let script = "echo 'Starting ChromeDriver'; echo 'a warning' >&2; \
                      echo 'ChromeDriver was started successfully on port 41234.'; exec sleep 3600";
        let driver = Driver::start(|| shell(script)).expect("a driver");
        assert_eq!(driver.port, 41234);
    }

    pub(crate) fn a_driver_that_ends_before_it_prints_its_port_is_started_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let script = "if mkdir started; then echo 'bind() failed' >&2; exit 1; fi; \
                      echo 'ChromeDriver was started successfully on port 41235.'; exec sleep 3600";
        let start = || {
            let mut command = shell(script);
            command.current_dir(folder.path());
            command
        };
        let driver = Driver::start(start).expect("a driver");
        assert_eq!(driver.port, 41235);
    }

    pub(crate) fn a_driver_that_never_starts_is_reported_with_its_output() {
        let refused = Driver::start(|| shell("echo 'bind() failed' >&2; exit 3"));
        let message = refused.err().expect("no driver starts");
        let starts = message.matches("ended with exit status: 3").count();
        assert_eq!(starts, STARTS, "{message}");
        assert_eq!(message.matches("bind() failed").count(), STARTS);
        let absent = Driver::start(|| Command::new("/nowhere/chromedriver"));
        let message = absent.err().expect("no such program");
        assert!(message.contains("/nowhere/chromedriver"), "{message}");
    }

    pub(crate) fn a_driver_that_prints_no_port_is_ended_and_reported_with_its_output() {
        // The process never ends by itself and never prints a port, so any time limit ends it.
        let silent = shell("echo 'Starting ChromeDriver'; exec sleep 3600");
        let refused = start_once(silent, Duration::ZERO);
        let message = refused.err().expect("no port is printed");
        assert!(
            message.contains("the driver printed no port within 0ns"),
            "{message}"
        );
    }
}
