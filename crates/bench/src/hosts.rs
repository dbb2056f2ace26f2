//! Portable executions on a host inside another engine: chains of five steps through gateway, host and worker.
//!
//! - `restate`: on one Restate server and on a cluster.
//! - `temporal`: on a Temporal server, beside plain chains of five activities.
//! - `load`: chains that are under way at the same time.
//!
//! The worker is a part of this process, so that the load knows when the last step of an execution is done
//! without asking: an answer that waits for the end would measure how often the gateway polls.

mod load;
pub(crate) mod restate;
pub(crate) mod temporal;

use std::sync::Arc;
use std::time::{Duration, Instant};

use stateway_client::{Task, TaskError, Worker, WorkerNews};
use stateway_proto::v1;
use stateway_proto::v1::definitions_client::DefinitionsClient;
use stateway_proto::v1::executions_client::ExecutionsClient;
use tokio::process::Child;
use tokio::sync::Notify;

use self::load::{Figures, Load, PATIENCE};
use crate::Outcome;
use crate::engine::{cpu, source};
use crate::process::{Server, stateway_host, stateway_with};

const LAST_STEP: &str = "s5";

/// The servers of an engine.
struct Engine {
    name: &'static str,
    servers: Vec<Child>,
    /// The lines of a provider in the configuration.
    provider: String,
    /// What a host prints when it works.
    ready: &'static str,
}

/// The servers of an engine, a host, a gateway, and a worker in this process.
struct Lab {
    gateway: Server,
    host: Server,
    engine: Engine,
    load: Arc<Load>,
    _folder: tempfile::TempDir,
}

impl Lab {
    async fn new(engine: Engine, folder: tempfile::TempDir) -> Outcome<Self> {
        let config = folder.path().join("stateway.toml");
        let provider = format!(
            "[providers.flows]\n{}limits = {{ max_concurrent = 256 }}\n",
            engine.provider
        );
        std::fs::write(&config, provider)?;
        let host = stateway_host(&config, engine.ready).await?;
        let gateway = stateway_with(&config).await?;
        let mut definitions = DefinitionsClient::connect(gateway.url.clone()).await?;
        let request = v1::ApplyDefinitionRequest {
            source: source(5),
            source_name: "chain.yaml".to_owned(),
            ..Default::default()
        };
        definitions.apply_definition(request).await?;
        let load = Arc::new(Load::default());
        let ready = Arc::new(Notify::new());
        tokio::spawn(work(
            gateway.url.clone(),
            Arc::clone(&load),
            Arc::clone(&ready),
        ));
        ready.notified().await;
        Ok(Self {
            gateway,
            host,
            engine,
            load,
            _folder: folder,
        })
    }

    /// Keeps a constant number of executions running for a time, then waits until all have finished.
    async fn measure(&self, in_flight: usize, seconds: u64) -> Outcome<Figures> {
        let client = ExecutionsClient::connect(self.gateway.url.clone()).await?;
        let before = self.cpu()?;
        let time = Duration::from_secs(seconds);
        let start = |id| start(client.clone(), id);
        let mut figures = self.load.keep(in_flight, time, start).await?;
        let mut used = self.cpu()?;
        for (after, before) in used.iter_mut().zip(before) {
            after.1 = after.1.saturating_sub(before.1);
        }
        figures.cpu = used;
        Ok(figures)
    }

    /// The processor time of everything so far.
    fn cpu(&self) -> Outcome<Vec<(&'static str, Duration)>> {
        Ok(vec![
            (self.engine.name, self.engine.cpu()?),
            ("host", cpu(&format!("/proc/{}/stat", self.host.id()?))?),
            (
                "gateway",
                cpu(&format!("/proc/{}/stat", self.gateway.id()?))?,
            ),
            ("worker and load", cpu("/proc/self/stat")?),
        ])
    }

    /// Every execution that was started has succeeded.
    async fn check(&self) -> Outcome<()> {
        let mut client = ExecutionsClient::connect(self.gateway.url.clone()).await?;
        let started = self.load.started();
        let until = Instant::now() + Duration::from_secs(30);
        loop {
            let request = v1::CountExecutionsRequest {
                parent: "providers/flows".to_owned(),
            };
            let counted = client.count_executions(request).await?.into_inner();
            let succeeded = counted.counts.iter();
            let succeeded = succeeded.filter(|it| it.sub_state() == v1::SubState::Succeeded);
            let succeeded: i64 = succeeded.map(|it| it.execution_count).sum();
            if succeeded == i64::try_from(started)? {
                println!("  {succeeded} of {started} executions succeeded");
                return Ok(());
            }
            if Instant::now() > until {
                return Err(format!("{succeeded} of {started} executions succeeded").into());
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }
}

impl Engine {
    /// The processor time of its servers so far.
    fn cpu(&self) -> Outcome<Duration> {
        let mut all = Duration::ZERO;
        for server in &self.servers {
            let id = server.id().ok_or("a server has ended")?;
            all += cpu(&format!("/proc/{id}/stat"))?;
        }
        Ok(all)
    }
}

async fn start(mut client: ExecutionsClient<tonic::transport::Channel>, id: String) -> Outcome<()> {
    let request = v1::StartExecutionRequest {
        parent: "providers/flows".to_owned(),
        definition: "definitions/chain-5".to_owned(),
        request_id: id.clone(),
        execution_id: id,
        input: Some(v1::Payload {
            data: (&br#"{"order":42}"#[..]).into(),
            ..Default::default()
        }),
        ..Default::default()
    };
    let mut request = tonic::Request::new(request);
    request.set_timeout(PATIENCE);
    client.start_execution(request).await?;
    Ok(())
}

async fn work(url: String, load: Arc<Load>, ready: Arc<Notify>) {
    let worker = Worker::new(&url)
        .role("bench")
        .capacity(256)
        .observe(move |news| {
            if let WorkerNews::Connected { .. } = news {
                ready.notify_one();
            }
        });
    let done = move |task: Task| {
        let load = Arc::clone(&load);
        async move {
            if task.step() == LAST_STEP {
                let id = task.execution().rsplit('/').next();
                load.end(id.unwrap_or_default());
            }
            Ok::<_, TaskError>(serde_json::json!({ "ok": true }))
        }
    };
    if let Err(error) = worker.run(done).await {
        eprintln!("the worker has ended: {error}");
    }
}
