//! What an operator sees: the real binary, serving and watching.

use std::io::{BufRead, BufReader};
use std::num::NonZero;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use libtest_mimic::Failed;
use serde_json::json;
use stateway_model::SubState;

use super::rig::{Rig, ensure};
use crate::Outcome;

/// Where the binary is.
pub(crate) const BINARY: &str = "STATEWAY_BINARY";
/// Why this cannot be shown.
pub(crate) const SKIP: &str = "STATEWAY_BINARY is not set: `cargo xtask test` sets it";
/// How long a line is waited for.
const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) async fn the_command_line_counts_down_to_the_next_attempt(rig: &Rig) -> Outcome {
    let gateway = Gateway::begin(rig)?;
    let work = rig.activity("work").await?;
    let retry = json!([{"ErrorEquals": ["Refused"], "IntervalSeconds": 55, "MaxAttempts": 4}]);
    let states = json!({"Charge": {"Type": "Task", "Resource": work, "Retry": retry, "End": true}});
    let id = rig.run(&states, "Charge").await?;
    let task = rig.take(&work).await?;
    rig.fail(task, "Refused").await?;
    rig.until_shown(&id, SubState::BackingOff).await?;
    let name = format!("payments/{id}");
    let watch = Running::begin(gateway.command().args(["watch", &name]))?;
    let line = watch.line(&|line| line.contains("backing-off"))?;
    for part in ["attempt 1 of 5", "failed", "the card was refused", "next"] {
        ensure(
            line.contains(part),
            &format!("the line says `{part}`"),
            &line,
        )?;
    }
    println!("summary: stateway watch, between retries: {}", line.trim());
    let counted = on_a_terminal(&gateway, &name)?;
    println!("summary: stateway watch, on a terminal: {counted}");
    let explained = gateway.ask(&["explain", &name])?;
    for part in ["ActivityFailed", "follow_up"] {
        ensure(
            explained.contains(part),
            &format!("the evidence names `{part}`"),
            &explained,
        )?;
    }
    Ok(())
}

/// On a terminal the time until the next attempt goes down. Only what changes is drawn, so the screen is compared.
fn on_a_terminal(gateway: &Gateway, name: &str) -> Result<String, Failed> {
    let binary = gateway.binary.to_string_lossy();
    let line = format!(
        "stty cols 200 rows 40; exec {binary} --server {} watch {name}",
        gateway.server
    );
    let mut script = Command::new("script");
    script.current_dir(&gateway.home).env("TERM", "xterm");
    script.args(["-qefc", &line, "/dev/null"]);
    let terminal = Running::draw(&mut script)?;
    let deadline = Instant::now() + PATIENCE;
    let size = |length: u16| NonZero::new(length).expect("a screen has room");
    let mut screen = vt100::Parser::new(size(40), size(200), 0);
    let mut drawn = String::new();
    let mut left: Vec<u64> = Vec::new();
    while left.len() < 2 && Instant::now() < deadline {
        let Ok(line) = terminal.lines.recv_timeout(Duration::from_secs(1)) else {
            continue;
        };
        screen.process(line.as_bytes());
        drawn = screen.screen().contents();
        left.extend(countdowns(&drawn));
        left.dedup();
    }
    ensure(left.len() >= 2, "the time left is drawn twice", &drawn)?;
    ensure(left[1] < left[0], "it goes down", &left)?;
    for part in ["attempt 1 of 5", "the card was refused"] {
        ensure(drawn.contains(part), part, &drawn)?;
    }
    Ok(format!(
        "{} s, then {} s until the next attempt",
        left[0], left[1]
    ))
}

/// Every time of the form `4 min` or `58 s` that follows a `next`, in seconds.
fn countdowns(drawn: &str) -> Vec<u64> {
    let after_next = drawn.split("next").skip(1);
    let seconds = |text: &str| {
        let text: String = text
            .chars()
            .take(40)
            .filter(|letter| letter.is_ascii_alphanumeric() || *letter == ' ')
            .collect();
        let mut total = 0;
        let mut found = false;
        let mut number = String::new();
        for letter in text.chars() {
            match letter {
                '0'..='9' => number.push(letter),
                'm' | 's' if !number.is_empty() => {
                    let value: u64 = number.parse().ok()?;
                    total += if letter == 'm' { value * 60 } else { value };
                    number.clear();
                    found = true;
                    if letter == 's' {
                        break;
                    }
                }
                ' ' => {}
                _ => number.clear(),
            }
        }
        found.then_some(total)
    };
    after_next.filter_map(seconds).collect()
}

/// The real binary, serving the emulator as the provider `payments`.
pub(crate) struct Gateway {
    binary: PathBuf,
    pub(crate) home: PathBuf,
    server: String,
    _serving: Running,
}

impl Gateway {
    pub(crate) fn begin(rig: &Rig) -> Result<Self, Failed> {
        let Some(binary) = std::env::var_os(BINARY).map(PathBuf::from) else {
            return Err(SKIP.into());
        };
        let home = std::env::temp_dir().join(&rig.unique);
        std::fs::create_dir_all(&home)?;
        let config = format!(
            "[server]\nlisten = \"127.0.0.1:0\"\n[providers.payments]\nkind = \"step-functions\"\n\
             region = \"us-east-1\"\nendpoint = \"{}\"\n\
             role = \"arn:aws:iam::000000000000:role/sfn\"\n",
            rig.endpoint
        );
        std::fs::write(home.join("stateway.toml"), config)?;
        let mut serve = Command::new(&binary);
        serve.current_dir(&home).envs([
            ("AWS_ACCESS_KEY_ID", "test"),
            ("AWS_SECRET_ACCESS_KEY", "test"),
        ]);
        let serving = Running::begin(serve.args(["serve", "--config", "stateway.toml"]))?;
        let line = serving.line(&|line| line.contains("127.0.0.1:"))?;
        let address = line.split("127.0.0.1:").nth(1).unwrap_or_default();
        let port: String = address.chars().take_while(char::is_ascii_digit).collect();
        Ok(Self {
            binary,
            home,
            server: format!("http://127.0.0.1:{port}"),
            _serving: serving,
        })
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.binary);
        command.current_dir(&self.home);
        command.args(["--server", &self.server]);
        command
    }

    /// What a command prints.
    pub(crate) fn ask(&self, arguments: &[&str]) -> Result<String, Failed> {
        let told = self.command().args(arguments).output()?;
        let (out, err) = (&told.stdout, &told.stderr);
        Ok(format!(
            "{}{}",
            String::from_utf8_lossy(out),
            String::from_utf8_lossy(err)
        ))
    }
}

/// A process that ends with the test, whatever becomes of it.
pub(crate) struct Running {
    child: Child,
    lines: Receiver<String>,
}

impl Running {
    pub(crate) fn begin(command: &mut Command) -> Result<Self, Failed> {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let (tell, lines) = channel();
        let out = child
            .stdout
            .take()
            .map(|out| Box::new(out) as Box<dyn std::io::Read + Send>);
        let err = child
            .stderr
            .take()
            .map(|err| Box::new(err) as Box<dyn std::io::Read + Send>);
        for output in out.into_iter().chain(err) {
            let tell = tell.clone();
            std::thread::spawn(move || {
                for line in BufReader::new(output).lines().map_while(Result::ok) {
                    // Nobody may be listening any more.
                    let _ = tell.send(line);
                }
            });
        }
        Ok(Self { child, lines })
    }

    /// The same on a terminal, which is drawn on without ever ending a line.
    fn draw(command: &mut Command) -> Result<Self, Failed> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let (tell, lines) = channel();
        let mut out = child.stdout.take().ok_or("no output")?;
        std::thread::spawn(move || {
            let mut part = [0; 4_096];
            while let Ok(read @ 1..) = std::io::Read::read(&mut out, &mut part) {
                let _ = tell.send(String::from_utf8_lossy(&part[..read]).into_owned());
            }
        });
        Ok(Self { child, lines })
    }

    /// The next line for which this holds.
    pub(crate) fn line(&self, holds: &dyn Fn(&str) -> bool) -> Result<String, Failed> {
        let deadline = Instant::now() + PATIENCE;
        let mut said = Vec::new();
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok(line) if holds(&line) => return Ok(line),
                Ok(line) => said.push(line),
                Err(_) => return Err(format!("the line did not come: {said:#?}").into()),
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
