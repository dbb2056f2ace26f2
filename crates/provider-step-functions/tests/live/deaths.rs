//! The real binary, killed while executions run on the emulator.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use libtest_mimic::Failed;
use serde_json::Value;

use super::hosting::UNLIMITED;
use super::rig::{Rig, ensure};
use super::watching::{BINARY, Running, SKIP};
use crate::Outcome;
use stateway_provider_step_functions::Api;

const EXECUTIONS: usize = 12;
const KILLS: usize = 4;
const PATIENCE: Duration = Duration::from_secs(120);

const ORDER: &str = "\
name: order
steps:
  - {name: pack, agent: packer, timeout: 5m}
  - {name: rest, sleep: 300ms, dependsOn: [pack]}
  - {name: ship, agent: packer, timeout: 5m, dependsOn: [rest]}
";

struct Stage {
    binary: PathBuf,
    home: PathBuf,
    port: u16,
}

impl Stage {
    fn new(rig: &Rig) -> Result<Self, Failed> {
        let Some(binary) = std::env::var_os(BINARY).map(PathBuf::from) else {
            return Err(SKIP.into());
        };
        let home = std::env::temp_dir().join(format!("{}-deaths", rig.unique));
        std::fs::create_dir_all(&home)?;
        let quota = format!(
            "{{ burst = {}, per_second = {} }}",
            UNLIMITED.burst, UNLIMITED.per_second
        );
        let quotas: Vec<_> = Api::ALL
            .iter()
            .map(|api| format!("{api:?} = {quota}"))
            .collect();
        let config = format!(
            "[providers.flows]\nkind = \"step-functions-host\"\nregion = \"us-east-1\"\n\
             endpoint = \"{}\"\nrole_arn = \"arn:aws:iam::000000000000:role/sfn\"\nname = \"{}\"\n\
             quotas = {{ {} }}\n",
            rig.endpoint,
            rig.unique,
            quotas.join(", ")
        );
        std::fs::write(home.join("stateway.toml"), config)?;
        std::fs::write(home.join("order.yaml"), ORDER)?;
        let port = std::net::TcpListener::bind("127.0.0.1:0")?
            .local_addr()?
            .port();
        Ok(Self { binary, home, port })
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.binary);
        command.current_dir(&self.home).envs([
            ("AWS_ACCESS_KEY_ID", "test"),
            ("AWS_SECRET_ACCESS_KEY", "test"),
        ]);
        command
    }

    fn serve(&self) -> Result<Running, Failed> {
        let address = format!("127.0.0.1:{}", self.port);
        let mut command = self.command();
        let serving =
            Running::begin(command.args(["serve", "--listen", &address, "--log", "warn"]))?;
        serving.line(&|line| line.contains("is listening"))?;
        Ok(serving)
    }

    fn client(&self, arguments: &[&str]) -> Command {
        let mut command = self.command();
        command.args(["--server", &format!("http://127.0.0.1:{}", self.port)]);
        command.args(arguments);
        command
    }

    /// Repeats a command until it succeeds: the gateway may be away.
    async fn ask(&self, arguments: &[&str]) -> Result<String, Failed> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let told = self.client(arguments).output()?;
            if told.status.success() {
                return Ok(String::from_utf8(told.stdout)?);
            }
            if Instant::now() > deadline {
                return Err(
                    format!("{arguments:?}: {}", String::from_utf8_lossy(&told.stderr)).into(),
                );
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    async fn json(&self, arguments: &[&str]) -> Result<Value, Failed> {
        let told = self.ask(&[arguments, &["-o", "json"]].concat()).await?;
        Ok(serde_json::from_str(&told)?)
    }
}

fn effects(file: &Path) -> usize {
    std::fs::read_to_string(file).map_or(0, |text| text.lines().count())
}

pub(crate) async fn executions_finish_although_the_gateway_is_killed(rig: &Rig) -> Outcome {
    let stage = Stage::new(rig)?;
    let mut gateway = stage.serve()?;
    stage.ask(&["definitions", "apply", "order.yaml"]).await?;
    let work = "echo $STATEWAY_STEP >> effects; sleep 0.1; echo null";
    let mut worker = stage.client(&[
        "worker",
        "--role",
        "packer",
        "--exec",
        work,
        "--provider",
        "flows",
        "--capacity",
        "4",
    ]);
    let _worker = Running::begin(&mut worker)?;
    let begun = Instant::now();
    for nth in 0..EXECUTIONS {
        let (id, request) = (format!("o-{nth}"), format!("start-{nth}"));
        let start = [
            "start",
            "order",
            "--provider",
            "flows",
            "--id",
            &id,
            "--request-id",
            &request,
        ];
        stage.ask(&start).await?;
        if nth % (EXECUTIONS / KILLS) == 1 {
            // The process gets SIGKILL.
            drop(gateway);
            gateway = stage.serve()?;
        }
    }
    for nth in 0..EXECUTIONS {
        let name = format!("flows/o-{nth}");
        let deadline = Instant::now() + PATIENCE;
        loop {
            let shown = stage.json(&["get", &name]).await?;
            if shown["sub_state"] == "succeeded" {
                break;
            }
            ensure(Instant::now() < deadline, "it succeeds", &shown)?;
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        let history = stage.json(&["history", &name, "--all"]).await?;
        let mut ends: BTreeMap<String, usize> = BTreeMap::new();
        for event in history["events"].as_array().into_iter().flatten() {
            if event["native_type"] == "StepCompleted" {
                *ends.entry(event["step"].to_string()).or_default() += 1;
            }
        }
        let is_exact = ends.len() == 3 && ends.values().all(|count| *count == 1);
        ensure(is_exact, "every step is recorded once", &(ends, &history))?;
    }
    drop(gateway);
    let effects = effects(&stage.home.join("effects"));
    ensure(effects >= 2 * EXECUTIONS, "every step was done", &effects)?;
    println!(
        "summary: {EXECUTIONS} executions on Step Functions, {KILLS} kills of the gateway: {} s, {effects} effects for {} tasks",
        begun.elapsed().as_secs(),
        2 * EXECUTIONS
    );
    Ok(())
}
