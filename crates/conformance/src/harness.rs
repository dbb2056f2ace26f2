//! Drives a provider in another process through the cases of the kit.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use jiff::Timestamp;
use stateway_contract_kit::{Fault, Harness, Scene, Skip, Subject, Workload};
use stateway_model::{ExecutionId, ProviderId};
use stateway_provider_api::adapter::lock;
use stateway_provider_api::{Call, Capabilities, Error, Provider, Table, Verb};
use stateway_provider_remote::{Config, RemoteProvider, channel};
use stateway_wire::v1::staging_client::StagingClient;
use stateway_wire::{convert, v1};
use tonic::transport::Channel;
use tonic::{Code, Status};

use crate::scene;

/// How long one call of the Staging service may take.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long a restarted provider may take to answer again.
const RESTART: Duration = Duration::from_secs(15);
/// The pause between two connects to a restarted provider.
const PAUSE: Duration = Duration::from_millis(50);

/// A provider in another process that also serves Staging.
pub struct WireHarness {
    config: Config,
    table: Arc<Table>,
    capabilities: Capabilities,
    failure: Arc<Mutex<Option<String>>>,
}

impl WireHarness {
    /// Connects to the provider, reads what it reports about itself, and resets its engine once.
    ///
    /// # Errors
    /// The provider cannot be reached, its description is refused, or it does not serve Staging.
    pub async fn connect(config: Config) -> Result<Self, Error> {
        let provider = connected(&config, None).await?;
        check_staging(&config).await?;
        let description = provider.describe();
        Ok(Self {
            config,
            table: Arc::clone(&description.table),
            capabilities: description.capabilities,
            failure: Arc::default(),
        })
    }

    pub(crate) const fn config(&self) -> &Config {
        &self.config
    }

    /// Why the Staging service failed since the last time this was asked. A case cannot be skipped then.
    pub(crate) fn failure(&self) -> Option<String> {
        lock(&self.failure).take()
    }
}

/// Without Staging no case can run, and skipped cases would look like success. Any other failure of Reset
/// is shown by the cases.
async fn check_staging(config: &Config) -> Result<(), Error> {
    let reset = staging(config, async |mut client| {
        client.reset(v1::ResetRequest {}).await
    });
    match reset.await {
        Err(status) if status.code() == Code::Unimplemented => {
            let message = "the provider does not serve stateway.provider.v1.Staging, or cannot reset its engine";
            let error = Error::invalid(Verb::Health, format!("{message}: {}", status.message()));
            Err(error.with_hint("Start the test build of the provider, which serves Staging."))
        }
        _ => Ok(()),
    }
}

fn kit() -> ProviderId {
    "kit".parse().expect("a short lower-case word")
}

async fn connected(
    config: &Config,
    overlay: Option<Arc<Table>>,
) -> Result<Arc<RemoteProvider>, Error> {
    let provider = RemoteProvider::new(kit(), config, overlay);
    let provider = provider.map_err(|error| Error::invalid(Verb::Health, error.to_string()))?;
    provider.connect(&Call::within(PATIENCE)).await?;
    Ok(Arc::new(provider))
}

#[async_trait]
impl Harness for WireHarness {
    fn table(&self) -> Arc<Table> {
        Arc::clone(&self.table)
    }

    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    async fn fresh(&self, table: Arc<Table>) -> Result<Box<dyn Subject>, Skip> {
        // The rows of an operator are laid over the table by the gateway, not by the provider.
        let overlay = Some(table).filter(|table| *table != self.table);
        let failure = Arc::clone(&self.failure);
        let subject = WireSubject::fresh(self.config.clone(), overlay, failure).await?;
        Ok(Box::new(subject))
    }
}

/// The provider with an empty engine.
pub(crate) struct WireSubject {
    config: Config,
    overlay: Option<Arc<Table>>,
    provider: Arc<RemoteProvider>,
    workload: Workload,
    engine_time: Mutex<Option<Timestamp>>,
    failure: Arc<Mutex<Option<String>>>,
}

impl WireSubject {
    pub(crate) async fn fresh(
        config: Config,
        overlay: Option<Arc<Table>>,
        failure: Arc<Mutex<Option<String>>>,
    ) -> Result<Self, Skip> {
        let reset = staging(&config, async |mut client| {
            client.reset(v1::ResetRequest {}).await
        });
        let reset = reset
            .await
            .map_err(|status| skip(&failure, "Reset", &status))?;
        let provider = connected(&config, overlay.clone()).await;
        let provider = provider.map_err(|error| fail(&failure, error.to_string()))?;
        Ok(Self {
            config,
            overlay,
            provider,
            workload: scene::read_workload(reset.workload),
            engine_time: Mutex::new(time(reset.engine_time)),
            failure,
        })
    }

    fn skip(&self, method: &str, status: &Status) -> Skip {
        skip(&self.failure, method, status)
    }
}

/// What a status of Staging means: only UNIMPLEMENTED is a reason to skip a case.
fn skip(failure: &Mutex<Option<String>>, method: &str, status: &Status) -> Skip {
    if status.code() == Code::Unimplemented {
        return Skip::because(status.message());
    }
    let message = format!("{method} of the Staging service failed: {status}");
    fail(failure, message)
}

fn fail(failure: &Mutex<Option<String>>, message: String) -> Skip {
    *lock(failure) = Some(message.clone());
    Skip::because(message)
}

/// The time of an engine whose clock is not the clock of the machine.
fn time(time: Option<prost_types::Timestamp>) -> Option<Timestamp> {
    let time = time?;
    convert::read_timestamp("engine_time", time).ok()
}

/// One call of Staging, on a new connection: the provider may have been restarted since the last call.
pub(crate) async fn staging<T>(
    config: &Config,
    call: impl AsyncFnOnce(StagingClient<Channel>) -> Result<tonic::Response<T>, Status>,
) -> Result<T, Status> {
    let work = async {
        let channel = channel(config).await;
        let channel = channel.map_err(|error| Status::unavailable(error.to_string()))?;
        Ok(call(StagingClient::new(channel)).await?.into_inner())
    };
    let done = tokio::time::timeout(PATIENCE, work).await;
    done.unwrap_or_else(|_| Err(Status::deadline_exceeded("no answer in time")))
}

#[async_trait]
impl Subject for WireSubject {
    fn provider(&self) -> Arc<dyn Provider> {
        self.provider.clone()
    }

    fn now(&self) -> Timestamp {
        lock(&self.engine_time).unwrap_or_else(Timestamp::now)
    }

    fn workload(&self) -> Workload {
        self.workload.clone()
    }

    async fn stage(&self, scene: Scene) -> Result<ExecutionId, Skip> {
        let request = v1::StageExecutionRequest {
            scene: Some(scene::scene(&scene)),
        };
        let staged = staging(&self.config, async |mut client| {
            client.stage_execution(request).await
        });
        let staged = staged.await;
        let staged = staged.map_err(|status| self.skip("StageExecution", &status))?;
        *lock(&self.engine_time) = time(staged.engine_time);
        let id = convert::read_id("id", &staged.id);
        id.map_err(|misfit| fail(&self.failure, format!("StageExecution answered: {misfit}")))
    }

    async fn inject(&self, fault: Fault) -> Result<(), Skip> {
        let request = scene::fault(fault);
        let injected = staging(&self.config, async |mut client| {
            client.inject_fault(request).await
        });
        let injected = injected.await.map(drop);
        injected.map_err(|status| self.skip("InjectFault", &status))
    }

    async fn restart(&self) -> Result<Arc<dyn Provider>, Skip> {
        let restarted = staging(&self.config, async |mut client| {
            client.restart_provider(v1::RestartProviderRequest {}).await
        });
        match restarted.await {
            // A provider that restarts its whole process may not get to answer.
            Ok(_) => {}
            Err(status) if is_broken(&status) => {}
            Err(status) => return Err(self.skip("RestartProvider", &status)),
        }
        let patience = Instant::now() + RESTART;
        loop {
            match connected(&self.config, self.overlay.clone()).await {
                Ok(provider) => return Ok(provider),
                Err(error) if Instant::now() > patience => {
                    let message = format!("the provider did not start again: {error}");
                    return Err(fail(&self.failure, message));
                }
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
        }
    }
}

/// Whether the connection broke before an answer came.
pub(crate) fn is_broken(status: &Status) -> bool {
    matches!(
        status.code(),
        Code::Unavailable | Code::Unknown | Code::Cancelled
    )
}
