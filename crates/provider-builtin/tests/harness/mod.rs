//! The built-in engine in the hands of the contract kit: a real file, a clock that is moved by
//! hand, and one worker that does what a task's action says.

#![allow(clippy::unwrap_used)]

mod hand;
mod scene;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use jiff::Timestamp;
use stateway_contract_kit::{Fault, Harness, Scene, Skip, Subject, Workload};
use stateway_engine::{
    ApplyDefinition, Clock, Config, Decide, Engine, EngineError, ErrorKind, RequestKey, Start,
    Steer,
};
use stateway_model::{ExecutionId, Payload};
use stateway_provider_api::table::compiled_in;
use stateway_provider_api::{Capabilities, Observation, Provider, Table, View};
use stateway_provider_builtin::{BuiltinProvider, CAPABILITIES, Disturb, observation};

use hand::Hand;
use scene::Do;

/// How long a scene may take to be reached.
const PATIENCE: Duration = Duration::from_secs(10);

/// The most executions under way at once; more than any case needs.
pub(crate) const MAX_ACTIVE: usize = 40;

/// What the kit may start: nobody has its role, so it stays open.
const WORKLOAD: &str = r#"{"name":"kit-work","steps":[{"name":"work","agent":"nobody"}]}"#;

/// Makes providers of built-in engines.
pub(crate) struct Builtin;

struct Staged {
    engine: Engine,
    table: Arc<Table>,
    clock: Clock,
    faults: Arc<Faults>,
    hand: Hand,
    requests: AtomicU32,
    _folder: tempfile::TempDir,
}

#[async_trait]
impl Harness for Builtin {
    fn table(&self) -> Arc<Table> {
        compiled_in("builtin").unwrap()
    }

    fn capabilities(&self) -> Capabilities {
        CAPABILITIES
    }

    async fn fresh(&self, table: Arc<Table>) -> Result<Box<dyn Subject>, Skip> {
        let folder = tempfile::tempdir().unwrap();
        let clock = Clock::manual(Timestamp::constant(1_800_000_000, 0));
        let mut config = Config::new(folder.path().join("kit.db"));
        config.clock = clock.clone();
        config.max_active = MAX_ACTIVE;
        let engine = Engine::open(&config).unwrap();
        let staged = Staged {
            hand: Hand::of(&engine),
            engine,
            table,
            clock,
            faults: Arc::default(),
            requests: AtomicU32::new(0),
            _folder: folder,
        };
        staged.apply(WORKLOAD).await;
        Ok(Box::new(staged))
    }
}

#[async_trait]
impl Subject for Staged {
    fn provider(&self) -> Arc<dyn Provider> {
        let provider = BuiltinProvider::over(self.engine.clone(), self.table.clone());
        Arc::new(provider.disturbed_by(self.faults.clone()))
    }

    fn now(&self) -> Timestamp {
        self.engine.now()
    }

    fn workload(&self) -> Workload {
        Workload {
            definition: "kit-work".to_owned(),
            input: Payload::json(r#"{"n":1}"#),
            other_input: Payload::json(r#"{"n":2}"#),
            step_input: Some(Payload::json(r#"{"n": 2}"#)),
            takes_feedback: true,
            takes_from_start: true,
        }
    }

    async fn stage(&self, scene: Scene) -> Result<ExecutionId, Skip> {
        let plan = scene::plan(scene)?;
        self.apply(&plan.definition).await;
        let mut id = None;
        for next in plan.script {
            self.play(next, &mut id).await;
        }
        Ok(ExecutionId::new(&*id.unwrap()).unwrap())
    }

    async fn inject(&self, fault: Fault) -> Result<(), Skip> {
        self.faults.0.lock().unwrap().push_back(fault);
        Ok(())
    }

    async fn restart(&self) -> Result<Arc<dyn Provider>, Skip> {
        Ok(self.provider())
    }
}

impl Staged {
    async fn apply(&self, source: &str) {
        let apply = ApplyDefinition {
            source: source.to_owned(),
            source_name: "kit.json".to_owned(),
            request: None,
        };
        self.engine.apply(apply).await.unwrap();
    }

    async fn play(&self, next: Do, id: &mut Option<Arc<str>>) {
        let present = || id.clone().unwrap();
        match next {
            Do::Start => *id = Some(self.start(None).await),
            Do::StartLater => *id = Some(self.start(Some(Duration::from_secs(3_600))).await),
            Do::Until(wanted) => self.until(&present(), &*wanted).await,
            Do::Advance(time) => self.clock.advance(i64::try_from(time.as_millis()).unwrap()),
            Do::Steer(steer) => {
                let asked = self
                    .engine
                    .steer(present(), steer, "kit".into(), self.key());
                asked.await.unwrap();
            }
            Do::Reject(step) => {
                let decide = Decide {
                    step: step.into(),
                    attempt: 1,
                    branch: None,
                    grant: false,
                    roles: vec!["boss".into()],
                    comment: "no".into(),
                };
                let asked = self
                    .engine
                    .decide(present(), decide, "boss".into(), self.key());
                asked.await.unwrap();
            }
            Do::Answer(category) => self.hand.answer(&present(), category).await,
        }
    }

    fn key(&self) -> RequestKey {
        let number = self.requests.fetch_add(1, Ordering::Relaxed);
        RequestKey {
            id: format!("staged-{number}").into(),
            body: [0; 16],
        }
    }

    async fn start(&self, delay: Option<Duration>) -> Arc<str> {
        let start = Start {
            definition: scene::NAME.into(),
            id: None,
            input: Arc::default(),
            labels: Default::default(),
            not_before: delay.map(|delay| self.engine.now() + delay),
            actor: "kit".into(),
            request: self.key(),
        };
        self.engine.start(start).await.unwrap().id
    }

    async fn until(&self, id: &Arc<str>, wanted: &(dyn Fn(&Observation) -> bool + Send + Sync)) {
        let begin = Instant::now();
        loop {
            let seen = self.engine.get(id.clone()).await.unwrap();
            let shown = observation(&seen, View::Basic);
            if wanted(&shown) {
                return;
            }
            assert!(begin.elapsed() < PATIENCE, "it stays {shown:#?}");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
}

/// Faults of the engine, one for each call.
#[derive(Default)]
struct Faults(Mutex<VecDeque<Fault>>);

#[async_trait]
impl Disturb for Faults {
    async fn disturb(&self) -> Result<(), EngineError> {
        let next = self.0.lock().unwrap().pop_front();
        let Some(fault) = next else { return Ok(()) };
        match fault {
            Fault::Hang => std::future::pending().await,
            Fault::Slow(pause) => {
                tokio::time::sleep(pause).await;
                Ok(())
            }
            Fault::Throttle(pause) => Err(failed(ErrorKind::Throttled, "ENGINE_BUSY", Some(pause))),
            Fault::Unavailable => Err(failed(ErrorKind::Unavailable, "STORE_FULL", None)),
            Fault::Malformed => Err(failed(ErrorKind::DataLoss, "LOG_UNREADABLE", None)),
            Fault::Denied => Err(failed(ErrorKind::PermissionDenied, "NOT_ALLOWED", None)),
        }
    }
}

fn failed(kind: ErrorKind, reason: &'static str, retry_after: Option<Duration>) -> EngineError {
    EngineError {
        kind,
        reason,
        message: "disturbed".to_owned(),
        hint: Box::default(),
        component: None,
        retry_after,
        metadata: Vec::new(),
    }
}

/// What `Do::Steer` is made of.
pub(crate) fn pause() -> Steer {
    Steer::Pause {
        cause: "kit".into(),
    }
}
