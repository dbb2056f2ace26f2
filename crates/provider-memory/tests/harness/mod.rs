//! The reference provider in the hands of the contract kit. The clock stands still: whatever is
//! staged stays as it is, and nothing has to be waited for.

#![allow(clippy::unwrap_used)]

mod scene;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use stateway_contract_kit::{Fault, Harness, Scene, Skip, Subject, Workload};
use stateway_model::{ExecutionId, Payload};
use stateway_provider_api::table::compiled_in;
use stateway_provider_api::{
    Call, CancelMode, CancelRequest, Capabilities, CompensationChoice, PauseRequest, Provider,
    RequestId, StartDefinition, StartRequest, Table,
};
use stateway_provider_memory::{CAPABILITIES, Clock, Config, MemoryProvider, Upstream};

/// Makes reference providers.
pub(crate) struct Memory;

/// One of them.
pub(crate) struct Staged {
    upstream: Arc<Upstream>,
    config: Config,
    table: Arc<Table>,
    provider: Arc<MemoryProvider>,
    /// The same upstream with every capability, for staging.
    hand: MemoryProvider,
}

#[async_trait]
impl Harness for Memory {
    fn table(&self) -> Arc<Table> {
        compiled_in("memory").unwrap()
    }

    fn capabilities(&self) -> Capabilities {
        CAPABILITIES
    }

    async fn fresh(&self, table: Arc<Table>) -> Result<Box<dyn Subject>, Skip> {
        Ok(Box::new(Staged::new(table)))
    }
}

impl Staged {
    pub(crate) fn new(table: Arc<Table>) -> Self {
        let clock = Clock::manual(Timestamp::constant(1_800_000_000, 0));
        let upstream = Upstream::new(clock);
        let config = Config {
            // So small that pages of a narrowed list come out empty.
            list_scan: 3,
            ..Config::default()
        };
        Self {
            provider: Arc::new(on(&upstream, &config, &table)),
            hand: on(&upstream, &Config::default(), &table),
            table,
            upstream,
            config,
        }
    }
}

fn on(upstream: &Arc<Upstream>, config: &Config, table: &Arc<Table>) -> MemoryProvider {
    let id = "kit".parse().unwrap();
    MemoryProvider::on(upstream.clone(), id, config, table.clone()).unwrap()
}

#[async_trait]
impl Subject for Staged {
    fn provider(&self) -> Arc<dyn Provider> {
        self.provider.clone()
    }

    fn now(&self) -> Timestamp {
        self.upstream.clock().now()
    }

    fn workload(&self) -> Workload {
        let work = |name: &str| {
            Payload::json(format!(r#"{{"steps":[{{"name":"{name}","takes":"1h"}}]}}"#))
        };
        Workload {
            definition: "script".to_owned(),
            input: work("work"),
            other_input: work("other"),
            step_input: None,
            takes_feedback: false,
            takes_from_start: false,
        }
    }

    async fn stage(&self, scene: Scene) -> Result<ExecutionId, Skip> {
        let plan = scene::plan(&scene)?;
        let id = self.start(plan.script, plan.delay).await;
        let rest = Duration::from_secs(3_600);
        self.upstream.clock().advance(rest * plan.rests);
        match plan.then {
            scene::Then::Nothing => {}
            scene::Then::Pause => self.pause(&id).await,
            scene::Then::Cancel(mode) => self.cancel(&id, mode).await,
        }
        Ok(id)
    }

    async fn inject(&self, fault: Fault) -> Result<(), Skip> {
        use stateway_provider_memory::LineFault as Line;
        self.upstream.inject(match fault {
            Fault::Hang => Line::Hang,
            Fault::Slow(pause) => Line::Slow(pause),
            Fault::Throttle(pause) => Line::Throttle(Some(pause)),
            Fault::Unavailable => Line::Refuse,
            Fault::Malformed => Line::Garble,
            Fault::Denied => Line::Deny,
        });
        Ok(())
    }

    async fn restart(&self) -> Result<Arc<dyn Provider>, Skip> {
        Ok(Arc::new(on(&self.upstream, &self.config, &self.table)))
    }
}

/// Staging goes through the front door, with request ids that no case uses.
impl Staged {
    fn request_id(&self) -> RequestId {
        use std::sync::atomic::{AtomicU32, Ordering};
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        format!("staged-{number}").parse().unwrap()
    }

    async fn start(&self, script: String, delay: Option<Duration>) -> ExecutionId {
        let request = StartRequest {
            definition: StartDefinition::native("script"),
            options: Default::default(),
            execution_id: None,
            input: Some(Payload::json(script)),
            labels: Default::default(),
            delay,
            request_id: self.request_id(),
        };
        self.hand.start(&call(), request).await.unwrap().id
    }

    async fn pause(&self, id: &ExecutionId) {
        let request = PauseRequest {
            id: id.clone(),
            comment: String::new(),
            request_id: self.request_id(),
        };
        self.hand.pause(&call(), request).await.unwrap();
    }

    async fn cancel(&self, id: &ExecutionId, mode: CancelMode) {
        let request = CancelRequest {
            id: id.clone(),
            mode,
            compensation: CompensationChoice::AsDefined,
            comment: String::new(),
            request_id: self.request_id(),
        };
        self.hand.cancel(&call(), request).await.unwrap();
    }
}

fn call() -> Call {
    Call::within(Duration::from_secs(5))
}
