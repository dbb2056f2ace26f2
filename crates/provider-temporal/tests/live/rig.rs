//! What a test works with: a provider, the server behind it, and ids that no other test has.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde_json::{Value, json};
use stateway_model::{Execution, ExecutionId, Payload, SubState};
use stateway_provider_api::table::compiled_in;
use stateway_provider_api::{
    Call, CancelMode, CancelRequest, CompensationChoice, Mapper, Observation, Provider, RequestId,
    Result, SignalRequest, StartDefinition, StartRequest, View,
};
use stateway_provider_temporal::{Config, TemporalProvider};

use crate::NAMESPACE;
use crate::lab::{Lab, Namespace, PATIENCE, Peers, QUEUE};

static NUMBER: AtomicU32 = AtomicU32::new(0);

pub(crate) struct Rig {
    pub(crate) lab: Arc<Lab>,
    pub(crate) peers: Peers,
    pub(crate) at: Namespace,
    pub(crate) provider: TemporalProvider,
    /// No other test has it.
    pub(crate) unique: String,
}

/// For a provider of a namespace.
pub(crate) fn config(address: String, namespace: &str) -> Config {
    Config {
        namespace: namespace.to_owned(),
        task_queue: Some(QUEUE.to_owned()),
        search_attributes: vec!["team".to_owned()],
        ..Config::at(address)
    }
}

pub(crate) fn provider(config: &Config) -> TemporalProvider {
    let table = compiled_in("temporal").unwrap();
    TemporalProvider::new("live".parse().unwrap(), config, table).unwrap()
}

/// The execution as clients see it.
pub(crate) fn shown(seen: Observation) -> Execution {
    let table = compiled_in("temporal").unwrap();
    Mapper::new("live".parse().unwrap()).execution(&table, seen, Timestamp::now())
}

pub(crate) fn call() -> Call {
    Call::within(Duration::from_secs(30))
}

pub(crate) fn execution_id(id: &str) -> ExecutionId {
    ExecutionId::new(id).unwrap()
}

impl Rig {
    pub(crate) fn new(lab: Arc<Lab>, peers: Peers) -> Self {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        Self {
            provider: provider(&config(lab.server.address(), NAMESPACE)),
            at: lab.namespace(NAMESPACE),
            unique: format!("t{number}"),
            lab,
            peers,
        }
    }

    /// An id of this test.
    pub(crate) fn id(&self, name: &str) -> String {
        format!("{}-{name}", self.unique)
    }

    pub(crate) fn request_id(&self) -> RequestId {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        format!("{}-request-{number}", self.unique).parse().unwrap()
    }

    pub(crate) fn start_request(&self, id: &str, steps: &Value) -> StartRequest {
        StartRequest {
            execution_id: Some(execution_id(id)),
            input: Some(Payload::json(json!({"steps": steps}).to_string())),
            ..StartRequest::new(StartDefinition::native("Script"), self.request_id())
        }
    }

    /// Starts a script through the provider.
    pub(crate) async fn start(&self, id: &str, steps: Value) -> ExecutionId {
        let request = self.start_request(id, &steps);
        self.provider.start(&call(), request).await.unwrap().id
    }

    pub(crate) async fn get(&self, id: &ExecutionId) -> Execution {
        shown(self.provider.get(&call(), id, View::Full).await.unwrap())
    }

    /// Reads until the execution shows something.
    pub(crate) async fn until(
        &self,
        id: &ExecutionId,
        what: &str,
        wanted: impl Fn(&Execution) -> bool,
    ) -> Execution {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let seen = self.get(id).await;
            if wanted(&seen) {
                return seen;
            }
            assert!(
                Instant::now() < deadline,
                "`{id}` is not {what} after {PATIENCE:?}, but {seen:#?}"
            );
            tokio::time::sleep(Duration::from_millis(30)).await;
        }
    }

    pub(crate) async fn until_shown(&self, id: &ExecutionId, wanted: SubState) -> Execution {
        self.until(id, wanted.as_str(), |seen| seen.sub_state == wanted)
            .await
    }

    pub(crate) async fn signal(
        &self,
        id: &ExecutionId,
        signal: &str,
        payload: Option<Payload>,
    ) -> Result<Observation> {
        let request = SignalRequest {
            id: id.clone(),
            signal: signal.to_owned(),
            payload,
            request_id: self.request_id(),
        };
        self.provider.signal(&call(), request).await
    }

    pub(crate) async fn cancel(&self, id: &ExecutionId, mode: CancelMode) -> Result<Observation> {
        let request = CancelRequest {
            id: id.clone(),
            mode,
            compensation: CompensationChoice::AsDefined,
            comment: "live test".to_owned(),
            request_id: self.request_id(),
        };
        self.provider.cancel(&call(), request).await
    }
}
