//! A provider in a crate of its own: a small engine, and its adapter.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use stateway_model::ExecutionId;
use stateway_provider_api::{
    Call, CancelMode, CancelRequest, Capabilities, Description, Error, Health, NativeState,
    Observation, ObservedDefinition, Provider, Result, StartRequest, Table, Verb, View, one_by_one,
};

/// What the adapter can do.
pub const CAPABILITIES: Capabilities = Capabilities {
    start: true,
    start_idempotent: true,
    kill: true,
    ..Capabilities::NONE
};

/// The only definition of the engine.
pub const DEFINITION: &str = "sleep";

/// The table of the adapter.
pub fn table() -> Arc<Table> {
    Arc::new(Table::parse(include_str!("table.toml")).expect("the contract test reads it"))
}

/// The engine. It outlives its adapters.
#[derive(Default)]
pub struct Engine {
    runs: Mutex<BTreeMap<ExecutionId, Run>>,
}

struct Run {
    state: String,
    request: Option<StartRequest>,
}

impl Engine {
    /// Adds a run in this state.
    pub fn put(&self, state: &str) -> ExecutionId {
        self.add(None, state, None)
    }

    fn add(
        &self,
        id: Option<ExecutionId>,
        state: &str,
        request: Option<StartRequest>,
    ) -> ExecutionId {
        let mut runs = self.runs.lock().expect("no panic while it is locked");
        let id = id.unwrap_or_else(|| {
            ExecutionId::new(format!("run-{}", runs.len())).expect("short and not empty")
        });
        let state = state.to_owned();
        runs.insert(id.clone(), Run { state, request });
        id
    }
}

/// The adapter.
pub struct Acme {
    engine: Arc<Engine>,
    description: Arc<Description>,
}

impl Acme {
    /// An adapter to this engine.
    pub fn new(engine: Arc<Engine>, table: Arc<Table>) -> Self {
        let description = Description::fixed(CAPABILITIES, table);
        Self {
            engine,
            description,
        }
    }

    fn seen(&self, verb: Verb, id: &ExecutionId) -> Result<Observation> {
        let runs = self.engine.runs.lock().expect("no panic while it is locked");
        let run = runs.get(id).ok_or_else(|| Error::not_found(verb, id))?;
        let mut seen = Observation::new(id.clone(), NativeState::new(&run.state));
        if run.request.is_some() {
            seen.definition = Some(ObservedDefinition::Native(DEFINITION.to_owned()));
        }
        Ok(seen)
    }

    /// The run that this request started before, or an error for the same id with another body.
    fn started(&self, request: &StartRequest) -> Result<Option<ExecutionId>> {
        let runs = self.engine.runs.lock().expect("no panic while it is locked");
        for (id, run) in runs.iter() {
            match &run.request {
                Some(known) if known == request => return Ok(Some(id.clone())),
                Some(known) if known.request_id == request.request_id => {
                    return Err(Error::request_id_reused(Verb::Start));
                }
                _ => {}
            }
        }
        match &request.execution_id {
            Some(id) if runs.contains_key(id) => Err(Error::execution_exists(id)),
            _ => Ok(None),
        }
    }
}

#[async_trait]
impl Provider for Acme {
    fn describe(&self) -> Arc<Description> {
        Arc::clone(&self.description)
    }

    async fn health(&self, _: &Call) -> Result<Health> {
        Ok(Health {
            engine_version: "1.0".to_owned(),
            ..Health::default()
        })
    }

    async fn start(&self, _: &Call, request: StartRequest) -> Result<Observation> {
        request.check_capabilities(&CAPABILITIES)?;
        request.check_options(&[])?;
        if request.definition.id() != DEFINITION {
            return Err(Error::no_definition(request.definition.id(), [DEFINITION]));
        }
        let id = match self.started(&request)? {
            Some(id) => id,
            None => {
                let wanted = request.execution_id.clone();
                self.engine.add(wanted, "OPEN", Some(request))
            }
        };
        self.seen(Verb::Start, &id)
    }

    async fn get(&self, _: &Call, id: &ExecutionId, _: View) -> Result<Observation> {
        self.seen(Verb::Get, id)
    }

    async fn observe(&self, call: &Call, ids: &[ExecutionId]) -> Vec<Result<Observation>> {
        one_by_one(self, call, ids).await
    }

    async fn cancel(&self, _: &Call, request: CancelRequest) -> Result<Observation> {
        let verb = request.verb();
        if request.mode == CancelMode::Graceful {
            return Err(Error::unsupported(verb));
        }
        {
            let mut runs = self.engine.runs.lock().expect("no panic while it is locked");
            let run = runs.get_mut(&request.id);
            let run = run.ok_or_else(|| Error::not_found(verb, &request.id))?;
            if run.state == "DONE" {
                return Err(Error::already_finished(verb, "the run is done"));
            }
            run.state = "KILLED".to_owned();
        }
        self.seen(verb, &request.id)
    }
}
