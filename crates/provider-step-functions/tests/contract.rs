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
use stateway_provider_step_functions::{CAPABILITIES, Config, StepFunctionsProvider};
use wiremock::MockServer;

fn main() -> ExitCode {
    stateway_contract_kit::main("step-functions", Mocked)
}

pub(crate) struct Mocked;

fn provider(config: &Config, table: &Arc<Table>) -> StepFunctionsProvider {
    let (id, keys) = ("kit".parse().expect("an id"), ("test", "test"));
    StepFunctionsProvider::with_keys(id, config, table.clone(), keys).expect("a good configuration")
}

#[async_trait]
impl Harness for Mocked {
    fn table(&self) -> Arc<Table> {
        compiled_in("step-functions").expect("a table")
    }

    fn capabilities(&self) -> Capabilities {
        CAPABILITIES
    }

    async fn fresh(&self, table: Arc<Table>) -> Result<Box<dyn Subject>, Skip> {
        let service = Service::default();
        let task = json!({"T": {"Type": "Task", "Resource": "work"}});
        let machine = json!({"StartAt": "T", "States": task});
        service.world().machines.insert("kit".to_owned(), machine);
        let server = service.open().await;
        let config = config(&server);
        Ok(Box::new(Staged {
            provider: Arc::new(provider(&config, &table)),
            table,
            config,
            service,
            _server: server,
        }))
    }
}

struct Staged {
    provider: Arc<dyn Provider>,
    table: Arc<Table>,
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
            takes_feedback: false,
            takes_from_start: false,
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
        Ok(Arc::new(provider(&self.config, &self.table)))
    }
}
