//! Serves a harness of the kit: its provider by the contract, and its scenes by Staging.

use std::sync::{Arc, Mutex};

use jiff::Timestamp;
use stateway_contract_kit::{Harness, Skip, Subject};
use stateway_provider_api::Provider;
use stateway_provider_api::adapter::lock;
use stateway_provider_server::{About, ProviderServer, Source};
use stateway_wire::v1::staging_server::{Staging, StagingServer};
use stateway_wire::{Misfit, convert, v1};
use tonic::service::Routes;
use tonic::{Request, Response, Status};

use crate::scene;

/// A provider that tests can stage.
pub struct StagedProvider {
    harness: Arc<dyn Harness>,
    current: Mutex<Current>,
}

#[derive(Clone)]
struct Current {
    subject: Arc<dyn Subject>,
    provider: Arc<dyn Provider>,
    instance_id: String,
    start_time: Timestamp,
}

impl Current {
    fn new(subject: Arc<dyn Subject>, provider: Arc<dyn Provider>) -> Self {
        Self {
            subject,
            provider,
            instance_id: uuid::Uuid::new_v4().to_string(),
            start_time: Timestamp::now(),
        }
    }
}

impl StagedProvider {
    /// The provider of this harness, on an empty engine.
    ///
    /// # Errors
    /// There is no engine here.
    pub async fn new(harness: Arc<dyn Harness>) -> Result<Arc<Self>, Skip> {
        let current = fresh(&*harness).await?;
        Ok(Arc::new(Self {
            harness,
            current: Mutex::new(current),
        }))
    }

    /// The services of the contract, and Staging.
    #[must_use]
    pub fn routes(self: &Arc<Self>, about: About) -> Routes {
        let source: Arc<dyn Source> = self.clone();
        let staging = StagingServer::new(StagingService(Arc::clone(self)));
        ProviderServer::of(source, about)
            .routes()
            .add_service(staging)
    }

    fn current(&self) -> Current {
        lock(&self.current).clone()
    }
}

async fn fresh(harness: &dyn Harness) -> Result<Current, Skip> {
    let subject: Arc<dyn Subject> = harness.fresh(harness.table()).await?.into();
    let provider = subject.provider();
    Ok(Current::new(subject, provider))
}

impl Source for StagedProvider {
    fn provider(&self) -> Arc<dyn Provider> {
        self.current().provider
    }

    fn instance_id(&self) -> String {
        self.current().instance_id
    }

    fn start_time(&self) -> Timestamp {
        self.current().start_time
    }
}

struct StagingService(Arc<StagedProvider>);

fn skipped(skip: Skip) -> Status {
    Status::unimplemented(skip.0)
}

fn refused(misfit: &Misfit) -> Status {
    Status::unimplemented(misfit.to_string())
}

/// The time of an engine, if its clock is not the clock of the machine.
fn engine_time(subject: &dyn Subject) -> Option<prost_types::Timestamp> {
    let (engine, machine) = (subject.now(), Timestamp::now());
    let apart = machine.duration_since(engine).abs();
    let differs = apart > jiff::SignedDuration::from_secs(5);
    differs.then(|| convert::timestamp(engine))
}

#[tonic::async_trait]
impl Staging for StagingService {
    async fn reset(
        &self,
        _: Request<v1::ResetRequest>,
    ) -> Result<Response<v1::ResetResponse>, Status> {
        let current = fresh(&*self.0.harness).await.map_err(skipped)?;
        let response = v1::ResetResponse {
            workload: Some(scene::workload(&current.subject.workload())),
            engine_time: engine_time(&*current.subject),
        };
        *lock(&self.0.current) = current;
        Ok(Response::new(response))
    }

    async fn stage_execution(
        &self,
        request: Request<v1::StageExecutionRequest>,
    ) -> Result<Response<v1::StageExecutionResponse>, Status> {
        let scene = scene::read_scene(request.into_inner().scene);
        let scene = scene.map_err(|misfit| refused(&misfit))?;
        let subject = self.0.current().subject;
        let id = subject.stage(scene).await.map_err(skipped)?;
        Ok(Response::new(v1::StageExecutionResponse {
            id: id.to_string(),
            engine_time: engine_time(&*subject),
        }))
    }

    async fn inject_fault(
        &self,
        request: Request<v1::InjectFaultRequest>,
    ) -> Result<Response<v1::InjectFaultResponse>, Status> {
        let fault = scene::read_fault(request.into_inner());
        let fault = fault.map_err(|misfit| refused(&misfit))?;
        let injected = self.0.current().subject.inject(fault).await;
        injected.map_err(skipped)?;
        Ok(Response::new(v1::InjectFaultResponse {}))
    }

    async fn restart_provider(
        &self,
        _: Request<v1::RestartProviderRequest>,
    ) -> Result<Response<v1::RestartProviderResponse>, Status> {
        let subject = self.0.current().subject;
        let provider = subject.restart().await.map_err(skipped)?;
        *lock(&self.0.current) = Current::new(subject, provider);
        Ok(Response::new(v1::RestartProviderResponse {}))
    }
}
