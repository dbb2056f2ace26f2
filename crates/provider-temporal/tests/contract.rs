//! The Temporal provider against the contract, in front of a server in memory.

#![allow(clippy::needless_pass_by_value, clippy::unwrap_used)]

mod mock;
mod scenes;
mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use async_trait::async_trait;
use stateway_contract_kit::{Fault, Harness, Scene, Skip, Subject, Workload};
use stateway_model::{ExecutionId, Payload};
use stateway_provider_api::table::compiled_in;
use stateway_provider_api::{Capabilities, Provider, Table};
use stateway_provider_temporal::{CAPABILITIES, Config, TemporalProvider};

use mock::Mock;

fn main() -> std::process::ExitCode {
    stateway_contract_kit::main("temporal", Temporal)
}

pub(crate) struct Temporal;

struct Mocked {
    mock: Mock,
    config: Config,
    table: Arc<Table>,
    provider: Arc<TemporalProvider>,
    staged: AtomicU32,
}

fn provider(config: &Config, table: &Arc<Table>) -> Arc<TemporalProvider> {
    Arc::new(TemporalProvider::new("kit".parse().unwrap(), config, table.clone()).unwrap())
}

#[async_trait]
impl Harness for Temporal {
    fn table(&self) -> Arc<Table> {
        compiled_in("temporal").unwrap()
    }

    fn capabilities(&self) -> Capabilities {
        CAPABILITIES
    }

    async fn fresh(&self, table: Arc<Table>) -> Result<Box<dyn Subject>, Skip> {
        let mock = Mock::start().await;
        let config = mock.config();
        Ok(Box::new(Mocked {
            provider: provider(&config, &table),
            table,
            mock,
            config,
            staged: AtomicU32::new(0),
        }))
    }
}

#[async_trait]
impl Subject for Mocked {
    fn provider(&self) -> Arc<dyn Provider> {
        self.provider.clone()
    }

    fn workload(&self) -> Workload {
        Workload {
            definition: "Script".to_owned(),
            input: Payload::json(r#"{"steps":[{"signal":"go"}]}"#),
            other_input: Payload::json(r#"{"steps":[{"signal":"other"}]}"#),
            step_input: None,
            takes_feedback: false,
            takes_from_start: true,
        }
    }

    async fn stage(&self, scene: Scene) -> Result<ExecutionId, Skip> {
        let number = self.staged.fetch_add(1, Ordering::Relaxed);
        let workflow = scenes::staged(&format!("scene-{number}"), scene)?;
        for run in &workflow.runs {
            self.mock.put(&run.description, &run.history);
        }
        Ok(ExecutionId::new(workflow.execution_id).unwrap())
    }

    async fn inject(&self, fault: Fault) -> Result<(), Skip> {
        self.mock.inject(match fault {
            Fault::Hang => mock::Fault::Hang,
            Fault::Slow(pause) => mock::Fault::Slow(pause),
            Fault::Throttle(pause) => mock::Fault::Throttle(pause),
            Fault::Unavailable => mock::Fault::Unavailable,
            Fault::Malformed => mock::Fault::Malformed,
            Fault::Denied => mock::Fault::Denied,
        });
        Ok(())
    }

    async fn restart(&self) -> Result<Arc<dyn Provider>, Skip> {
        Ok(provider(&self.config, &self.table))
    }
}
