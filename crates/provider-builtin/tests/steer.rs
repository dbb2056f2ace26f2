//! What people do to an execution, as the provider shows it.

#![allow(
    clippy::unwrap_used,
    reason = "a test that unwraps an error has failed"
)]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use stateway_engine::{
    AdoptDefinition, ApplyDefinition, Config, Engine, Offer, RequestKey, Start, WorkerMessage,
    WorkerSession,
};
use stateway_model::ExecutionId;
use stateway_provider_api::table::compiled_in;
use stateway_provider_api::{
    Call, CancelMode, CancelRequest, CompensationChoice, Observation, Provider, Result, View,
};
use stateway_provider_builtin::BuiltinProvider;

struct Bench {
    engine: Engine,
    provider: BuiltinProvider,
    _folder: tempfile::TempDir,
}

impl Bench {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let engine = Engine::open(&Config::new(folder.path().join("steer.db"))).unwrap();
        Self {
            provider: BuiltinProvider::over(engine.clone(), compiled_in("builtin").unwrap()),
            engine,
            _folder: folder,
        }
    }

    async fn apply(&self, source: &str) {
        let apply = ApplyDefinition {
            source: source.to_owned(),
            source_name: "job.yaml".to_owned(),
            request: None,
        };
        self.engine.apply(apply).await.unwrap();
    }

    async fn start(&self) {
        let start = Start {
            definition: "job".into(),
            id: Some("e1".into()),
            input: Arc::default(),
            labels: BTreeMap::default(),
            not_before: None,
            actor: "ada".into(),
            request: key("start"),
        };
        self.engine.start(start).await.unwrap();
    }

    async fn get(&self) -> Observation {
        let found = self.provider.get(&call(), &id(), View::Full).await;
        found.unwrap()
    }

    async fn cancel(&self, request_id: &str) -> Result<Observation> {
        let request = CancelRequest {
            id: id(),
            mode: CancelMode::Graceful,
            compensation: CompensationChoice::AsDefined,
            comment: String::new(),
            request_id: request_id.parse().unwrap(),
        };
        self.provider.cancel(&call(), request).await
    }

    fn worker(&self) -> WorkerSession {
        let offer = Offer {
            worker: "w".into(),
            roles: vec!["w".into()],
            capacity: 1,
            ..Offer::default()
        };
        self.engine.connect(offer).unwrap()
    }
}

fn call() -> Call {
    Call::within(Duration::from_secs(10))
}

fn id() -> ExecutionId {
    ExecutionId::new("e1").unwrap()
}

fn key(id: &str) -> RequestKey {
    RequestKey {
        id: id.into(),
        body: [0; 16],
    }
}

#[tokio::test]
async fn an_execution_that_cannot_adopt_a_revision_shows_the_conflicts() {
    let bench = Bench::new();
    bench
        .apply("name: job\nsteps: [{name: a, signal: go, timeout: 1h}]\n")
        .await;
    bench.start().await;
    bench
        .apply("name: job\nsteps: [{name: a, signal: went, timeout: 1h}]\n")
        .await;
    let adopt = AdoptDefinition {
        revision: None,
        actor: "bob".into(),
    };
    let adopted = bench
        .engine
        .adopt_definition("e1".into(), adopt, key("adopt"));
    adopted.await.unwrap();
    let shown = bench.get().await;
    let pause = shown.pause.unwrap();
    assert_eq!(
        pause.conflicts,
        [
            "step `a` has begun and is different in the new revision: `signal` was go and is now went"
        ]
    );
    assert!(shown.notes.contains(&pause.conflicts[0]));
}

#[tokio::test]
async fn cancelling_an_execution_that_is_being_cancelled_changes_nothing() {
    let bench = Bench::new();
    bench
        .apply("name: job\nsteps: [{name: a, agent: w, timeout: 1h}]\n")
        .await;
    let mut worker = bench.worker();
    bench.start().await;
    while !matches!(worker.messages.recv().await, Some(WorkerMessage::Task(_))) {}
    let mut shown = Vec::new();
    for request_id in ["first", "second"] {
        let cancelled = bench.cancel(request_id).await.unwrap();
        assert_eq!(cancelled.native.state, "cancelling");
        shown.push(cancelled.update_time);
    }
    assert_eq!(shown[0], shown[1], "the repetition writes nothing");
}
