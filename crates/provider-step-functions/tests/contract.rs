//! The adapter against the contract, on a service in memory.

#[allow(dead_code, reason = "each test uses a part of it")]
mod mock;

use std::process::ExitCode;
use std::sync::Arc;

use async_trait::async_trait;
use mock::{Service, config};
use serde_json::json;
use stateway_contract_kit::{Fault, Harness, Scene, Skip, Subject, Workload};
use stateway_model::{ExecutionId, Payload};
use stateway_provider_api::table::compiled_in;
use stateway_provider_api::{Capabilities, Provider, Table};
use stateway_provider_step_functions::{Config, StepFunctionsProvider};
use wiremock::MockServer;

fn main() -> ExitCode {
    stateway_contract_kit::main("step-functions", Mocked)
}

struct Mocked;

fn provider(config: &Config) -> StepFunctionsProvider {
    StepFunctionsProvider::with_credentials(config, "test", "test").expect("a good configuration")
}

#[async_trait]
impl Harness for Mocked {
    fn table(&self) -> Arc<Table> {
        Arc::new(compiled_in("step-functions").expect("a table").clone())
    }

    fn capabilities(&self) -> Capabilities {
        provider(&Config::default()).capabilities()
    }

    async fn fresh(&self, wanted: Capabilities) -> Result<Box<dyn Subject>, Skip> {
        let service = Service::default();
        let task = json!({"T": {"Type": "Task", "Resource": "work"}});
        let machine = json!({"StartAt": "T", "States": task});
        service.world().machines.insert("kit".to_owned(), machine);
        let server = service.open().await;
        let mut config = config(&server);
        let off = wanted.iter().filter(|(_, on)| !on);
        config.disable = off.map(|(name, _)| name.to_owned()).collect();
        Ok(Box::new(Staged {
            provider: Arc::new(provider(&config)),
            config,
            service,
            _server: server,
        }))
    }
}

struct Staged {
    provider: Arc<dyn Provider>,
    config: Config,
    service: Service,
    _server: MockServer,
}

#[async_trait]
impl Subject for Staged {
    fn provider(&self) -> Arc<dyn Provider> {
        self.provider.clone()
    }

    fn workload(&self) -> Workload {
        Workload {
            definition: "kit".to_owned(),
            input: Payload::json("{\"n\":1}"),
            other_input: Payload::json("{\"n\":2}"),
            // A redrive goes on with the input there was.
            step_input: None,
        }
    }

    async fn stage(&self, scene: Scene) -> Result<ExecutionId, Skip> {
        let arn = self.service.world().stage(scene)?;
        Ok(ExecutionId::new(arn).expect("an ARN is a name"))
    }

    async fn inject(&self, fault: Fault) -> Result<(), Skip> {
        self.service.world().faults.push_back(fault);
        Ok(())
    }

    async fn restart(&self) -> Result<Arc<dyn Provider>, Skip> {
        Ok(Arc::new(provider(&self.config)))
    }
}
