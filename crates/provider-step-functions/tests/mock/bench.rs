//! A provider on a service in memory, and what was asked of that.

use std::time::Duration;

use stateway_model::ExecutionId;
use stateway_provider_api::{Call, Observation, Provider, View};
use stateway_provider_step_functions::{Config, StepFunctionsProvider};
use wiremock::MockServer;

use super::{Service, config, script};

pub(crate) struct Bench {
    pub(crate) service: Service,
    pub(crate) provider: StepFunctionsProvider,
    server: MockServer,
}

impl Bench {
    pub(crate) async fn new(change: impl FnOnce(&mut Config)) -> Self {
        let service = Service::default();
        let server = service.open().await;
        let mut config = config(&server);
        change(&mut config);
        let provider = super::provider(&config);
        Self {
            service,
            provider: provider.expect("a good configuration"),
            server,
        }
    }

    /// Another provider on the same service, as another replica of the gateway has it.
    pub(crate) fn replica(&self) -> StepFunctionsProvider {
        super::provider(&config(&self.server)).expect("a good configuration")
    }

    /// Puts an execution there that runs.
    pub(crate) fn put(
        &self,
        machine: &str,
        name: &str,
        (events, definition): (Vec<serde_json::Value>, serde_json::Value),
    ) -> ExecutionId {
        let mut world = self.service.world();
        world.machines.insert(machine.to_owned(), definition);
        let execution = script::execution(machine, name, events);
        let arn = execution.arn();
        world.executions.push(execution);
        ExecutionId::new(arn).expect("an ARN is a name")
    }

    pub(crate) async fn get(&self, id: &ExecutionId) -> Observation {
        let got = self.provider.get(&call(), id, View::Basic).await;
        got.expect("an answer")
    }

    /// The calls since the last time.
    pub(crate) fn calls(&self) -> Vec<(String, usize)> {
        std::mem::take(&mut self.service.world().calls)
            .into_iter()
            .collect()
    }
}

pub(crate) fn call() -> Call {
    Call::within(Duration::from_secs(20))
}

pub(crate) fn counted(calls: &[(&str, usize)]) -> Vec<(String, usize)> {
    calls
        .iter()
        .map(|(api, times)| ((*api).to_owned(), *times))
        .collect()
}
