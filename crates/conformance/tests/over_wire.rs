//! A provider that cannot be used over the wire fails its cases; it does not skip them.

use std::sync::Arc;

use async_trait::async_trait;
use stateway_conformance::OverWire;
use stateway_contract_kit::{Fault, Harness, Scene, Skip, Subject, Workload};
use stateway_model::ExecutionId;
use stateway_provider_api::table::compiled_in;
use stateway_provider_api::{
    Call, Capabilities, Description, Error, Health, Observation, Provider, Result as Answer, Table,
    Verb, View,
};

/// A provider that never describes itself.
struct Silent;

#[async_trait]
impl Provider for Silent {
    fn describe(&self) -> Arc<Description> {
        Description::pending("memory")
    }

    async fn health(&self, _: &Call) -> Answer<Health> {
        Ok(Health::default())
    }

    async fn get(&self, _: &Call, _: &ExecutionId, _: View) -> Answer<Observation> {
        Err(Error::unsupported(Verb::Get))
    }

    async fn observe(&self, _: &Call, _: &[ExecutionId]) -> Vec<Answer<Observation>> {
        Vec::new()
    }
}

#[async_trait]
impl Harness for Silent {
    fn table(&self) -> Arc<Table> {
        compiled_in("memory").expect("the table is compiled in")
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::NONE
    }

    async fn fresh(&self, _: Arc<Table>) -> Result<Box<dyn Subject>, Skip> {
        Ok(Box::new(Self))
    }
}

#[async_trait]
impl Subject for Silent {
    fn provider(&self) -> Arc<dyn Provider> {
        Arc::new(Self)
    }

    fn workload(&self) -> Workload {
        Workload {
            definition: "none".to_owned(),
            input: stateway_model::Payload::json("1"),
            other_input: stateway_model::Payload::json("2"),
            step_input: None,
            takes_feedback: false,
            takes_from_start: false,
        }
    }

    async fn stage(&self, _: Scene) -> Result<ExecutionId, Skip> {
        Err(Skip::because("nothing can be staged"))
    }

    async fn inject(&self, _: Fault) -> Result<(), Skip> {
        Err(Skip::because("nothing can be injected"))
    }

    async fn restart(&self) -> Result<Arc<dyn Provider>, Skip> {
        Err(Skip::because("nothing can be restarted"))
    }
}

#[tokio::test]
#[should_panic(expected = "has not reported its capabilities")]
async fn a_provider_that_cannot_be_connected_is_no_skip() {
    let harness = OverWire::new(Silent);
    drop(harness.fresh(harness.table()).await);
}
