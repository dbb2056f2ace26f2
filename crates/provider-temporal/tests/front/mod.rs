//! A provider in front of the mock, and the scenes of the contract kit on it.

#![allow(dead_code, clippy::unwrap_used, reason = "each test uses a part of it")]

use std::time::Duration;

use stateway_contract_kit::Scene;
use stateway_model::ExecutionId;
use stateway_provider_api::Call;
use stateway_provider_api::table::compiled_in;
use stateway_provider_temporal::TemporalProvider;

use crate::mock::Mock;
use crate::scenes;

/// A server, and a provider in front of it.
pub(crate) async fn server() -> (Mock, TemporalProvider) {
    let mock = Mock::start().await;
    let provider = gateway(&mock);
    (mock, provider)
}

/// Another provider in front of the same server.
pub(crate) fn gateway(mock: &Mock) -> TemporalProvider {
    let table = compiled_in("temporal").unwrap();
    TemporalProvider::new("test".parse().unwrap(), &mock.config(), table).unwrap()
}

pub(crate) fn call() -> Call {
    Call::within(Duration::from_secs(20))
}

/// Stages a scene under this workflow id; the execution id that shows it.
pub(crate) fn put(mock: &Mock, name: &str, scene: Scene) -> ExecutionId {
    let workflow = scenes::staged(name, scene).unwrap();
    for run in &workflow.runs {
        mock.put(&run.description, &run.history);
    }
    ExecutionId::new(workflow.execution_id).unwrap()
}
