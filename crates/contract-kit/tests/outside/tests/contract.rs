//! The provider against the contract.

use std::sync::Arc;

use acme_provider::{Acme, CAPABILITIES, DEFINITION, Engine, table};
use async_trait::async_trait;
use stateway_contract_kit::{Fault, Harness, Scene, Skip, Subject, Workload};
use stateway_model::{ExecutionId, Payload};
use stateway_provider_api::table::Scope;
use stateway_provider_api::{Capabilities, Provider, Table};

struct AcmeHarness;

struct AcmeSubject {
    engine: Arc<Engine>,
    table: Arc<Table>,
    provider: Arc<Acme>,
}

#[async_trait]
impl Harness for AcmeHarness {
    fn table(&self) -> Arc<Table> {
        table()
    }

    fn capabilities(&self) -> Capabilities {
        CAPABILITIES
    }

    async fn fresh(&self, table: Arc<Table>) -> Result<Box<dyn Subject>, Skip> {
        let engine = Arc::<Engine>::default();
        Ok(Box::new(AcmeSubject {
            provider: Arc::new(Acme::new(engine.clone(), table.clone())),
            engine,
            table,
        }))
    }
}

#[async_trait]
impl Subject for AcmeSubject {
    fn provider(&self) -> Arc<dyn Provider> {
        self.provider.clone()
    }

    fn workload(&self) -> Workload {
        Workload {
            definition: DEFINITION.to_owned(),
            input: Payload::json("1"),
            other_input: Payload::json("2"),
            step_input: None,
            takes_feedback: false,
            takes_from_start: false,
        }
    }

    async fn stage(&self, scene: Scene) -> Result<ExecutionId, Skip> {
        match scene {
            Scene::Native {
                scope: Scope::Execution,
                native,
            } => Ok(self.engine.put(&native.state)),
            Scene::NoMetadata => Ok(self.engine.put("OPEN")),
            Scene::Succeeded => Ok(self.engine.put("DONE")),
            _ => Err(Skip::because("Acme has no such thing")),
        }
    }

    async fn inject(&self, _: Fault) -> Result<(), Skip> {
        Err(Skip::because("the engine is in memory"))
    }

    async fn restart(&self) -> Result<Arc<dyn Provider>, Skip> {
        Ok(Arc::new(Acme::new(self.engine.clone(), self.table.clone())))
    }
}

fn main() -> std::process::ExitCode {
    stateway_contract_kit::main("acme", AcmeHarness)
}
