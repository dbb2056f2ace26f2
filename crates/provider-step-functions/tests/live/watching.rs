//! What an operator sees: the real binary, serving and watching.

use std::io::{BufRead, BufReader};
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
const BINARY: &str = "STATEWAY_BINARY";
/// Why this cannot be shown.
pub(crate) const SKIP: &str = "STATEWAY_BINARY is not set: `cargo xtask test` sets it";
/// How long a line is waited for.
const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) async fn the_command_line_counts_down_to_the_next_attempt(rig: &Rig) -> Outcome {
    let Some(binary) = std::env::var_os(BINARY).map(PathBuf::from) else {
        return Err(SKIP.into());
    };
    let work = rig.activity("work").await?;
    let retry = json!([{"ErrorEquals": ["Refused"], "IntervalSeconds": 300, "MaxAttempts": 4}]);
    let states = json!({"Charge": {"Type": "Task", "Resource": work, "Retry": retry, "End": true}});
    let id = rig.run(&states, "Charge").await?;
    let task = rig.take(&work).await?;
    rig.fail(task, "Refused").await?;
    rig.until_shown(&id, SubState::BackingOff).await?;

    let home = std::env::temp_dir().join(&rig.unique);
    std::fs::create_dir_all(&home)?;
    let config = format!(
        "[server]\nlisten = \"127.0.0.1:0\"\n[providers.payments]\nkind = \"step-functions\"\n\
         region = \"us-east-1\"\nendpoint = \"{}\"\n",
        rig.endpoint
    );
    std::fs::write(home.join("stateway.toml"), config)?;
    let command = || {
        let mut command = Command::new(&binary);
        command.current_dir(&home).envs([
            ("AWS_ACCESS_KEY_ID", "test"),
            ("AWS_SECRET_ACCESS_KEY", "test"),
        ]);
        command
    };
    let gateway = Running::begin(command().args(["serve", "--config", "stateway.toml"]))?;
    let line = gateway.line(&|line| line.contains("127.0.0.1:"))?;
    let address = line.split("127.0.0.1:").nth(1).unwrap_or_default();
    let port: String = address.chars().take_while(char::is_ascii_digit).collect();
    let server = format!("http://127.0.0.1:{port}");
    let name = format!("payments/{id}");
    let watch = Running::begin(command().args(["--server", &server, "watch", &name]))?;
    let line = watch.line(&|line| line.contains("backing-off"))?;
    for part in ["attempt 1 of 5", "failed", "the card was refused", "next"] {
        ensure(
            line.contains(part),
            &format!("the line says `{part}`"),
            &line,
        )?;
    }
    println!("summary: stateway watch, between retries: {}", line.trim());
    let explained = command()
        .args(["--server", &server, "explain", &name])
        .output()?;
    let explained = String::from_utf8_lossy(&explained.stdout).into_owned();
    for part in ["ActivityFailed", "follow_up"] {
        ensure(
            explained.contains(part),
            &format!("the evidence names `{part}`"),
            &explained,
        )?;
    }
    Ok(())
}

/// A process that ends with the test, whatever becomes of it.
struct Running {
    child: Child,
    lines: Receiver<String>,
}

impl Running {
    fn begin(command: &mut Command) -> Result<Self, Failed> {
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

    /// The next line for which this holds.
    fn line(&self, holds: &dyn Fn(&str) -> bool) -> Result<String, Failed> {
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
