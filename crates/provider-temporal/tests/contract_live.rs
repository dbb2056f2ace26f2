//! The Temporal provider against the contract, in front of the real server with a real worker. Each case has a
//! namespace of its own. `cargo xtask test` installs and names the peers.

#![allow(clippy::needless_pass_by_value, clippy::unwrap_used)]

mod lab;
mod live_scenes;

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use async_trait::async_trait;
use libtest_mimic::{Arguments, Completion, Trial};
use stateway_contract_kit::{Fault, Harness, Scene, Skip, Subject, Workload, cases};
use stateway_model::{ExecutionId, Payload};
use stateway_provider_api::table::compiled_in;
use stateway_provider_api::{Capabilities, Provider, Table};
use stateway_provider_temporal::{CAPABILITIES, Config, TemporalProvider};

use lab::{Lab, Peers, QUEUE};
use live_scenes::Place;

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let table = compiled_in("temporal").unwrap();
    let peers = match Peers::named() {
        Ok(peers) if !arguments.list => peers,
        peers => {
            let reason = peers.err().unwrap_or_default();
            let skip = Trial::ignorable_test("the_contract_on_the_real_server", move || {
                Ok(Completion::ignored_with(reason))
            });
            return libtest_mimic::run(&arguments, vec![skip]).exit_code();
        }
    };
    // One more for each case, because a case that is given up may have taken one.
    let namespaces: Vec<String> = (0..2 * cases(&table).len())
        .map(|number| format!("kit-{number}"))
        .collect();
    let rows = Rows::default();
    let code = stateway_contract_kit::main(
        "temporal on the real server",
        Real {
            lab: Arc::new(Lab::start(&peers, &namespaces)),
            next: AtomicUsize::new(0),
            rows: rows.clone(),
        },
    );
    rows.print(table.rows().len());
    let is_whole = arguments.filter.is_none() && arguments.skip.is_empty();
    if is_whole && rows.not_staged() != NOT_STAGED {
        println!("other rows are not staged than {NOT_STAGED:?}");
        return ExitCode::FAILURE;
    }
    code
}

/// The row that only lists show; the live test of a list with a small quota meets it.
const NOT_STAGED: [&str; 1] = ["execution RUNNING pending=unread"];

/// Which rows of the table were staged, and why others were not.
#[derive(Clone, Default)]
struct Rows(Arc<Mutex<BTreeMap<String, Option<String>>>>);

impl Rows {
    fn note(&self, scene: &str, outcome: &Result<String, Skip>) {
        let mut rows = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let why = outcome.as_ref().err().map(|skip| skip.0.clone());
        rows.insert(scene.to_owned(), why);
    }

    fn not_staged(&self) -> Vec<String> {
        let rows = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let missing = rows.iter().filter(|(_, why)| why.is_some());
        missing.map(|(row, _)| row.clone()).collect()
    }

    fn print(&self, all: usize) {
        let rows = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let met = rows.values().filter(|why| why.is_none()).count();
        println!("summary: temporal: {met} of {all} rows of the table staged on the real server");
        for (row, why) in rows.iter() {
            if let Some(why) = why {
                println!("summary: temporal: not staged: {row}: {why}");
            }
        }
    }
}

struct Real {
    lab: Arc<Lab>,
    next: AtomicUsize,
    rows: Rows,
}

struct Staged {
    place: Place,
    config: Config,
    table: Arc<Table>,
    provider: Arc<TemporalProvider>,
    scenes: AtomicUsize,
    worker: OnceLock<()>,
    rows: Rows,
}

impl Drop for Staged {
    fn drop(&mut self) {
        if self.worker.get().is_some() && !std::thread::panicking() {
            self.place.lab.worker.end(&self.place.namespace.name);
        }
    }
}

fn provider(config: &Config, table: &Arc<Table>) -> Arc<TemporalProvider> {
    Arc::new(TemporalProvider::new("kit".parse().unwrap(), config, table.clone()).unwrap())
}

#[async_trait]
impl Harness for Real {
    fn table(&self) -> Arc<Table> {
        compiled_in("temporal").unwrap()
    }

    fn capabilities(&self) -> Capabilities {
        CAPABILITIES
    }

    async fn fresh(&self, table: Arc<Table>) -> Result<Box<dyn Subject>, Skip> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let namespace = format!("kit-{number}");
        let config = Config {
            namespace: namespace.clone(),
            task_queue: Some(QUEUE.to_owned()),
            workflow_types: vec!["Script".to_owned()],
            ..Config::at(self.lab.server.address())
        };
        Ok(Box::new(Staged {
            place: Place {
                lab: self.lab.clone(),
                namespace: self.lab.namespace(&namespace),
            },
            provider: provider(&config, &table),
            config,
            table,
            scenes: AtomicUsize::new(0),
            worker: OnceLock::new(),
            rows: self.rows.clone(),
        }))
    }
}

#[async_trait]
impl Subject for Staged {
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
        self.worker
            .get_or_init(|| self.place.lab.worker.begin(&self.place.namespace.name));
        let number = self.scenes.fetch_add(1, Ordering::Relaxed);
        let row = match &scene {
            Scene::Native { scope, native } if native.state != "KIT_NEVER_SEEN" => {
                let when: Vec<String> = native
                    .qualifiers
                    .iter()
                    .map(|(name, value)| format!("{name}={value}"))
                    .collect();
                Some(format!(
                    "{} {} {}",
                    scope.as_str(),
                    native.state,
                    when.join(",")
                ))
            }
            _ => None,
        };
        let staged = self.place.stage(&format!("scene-{number}"), scene);
        // Lists that are narrowed to a status, and the history of a chain, depend on what lists show.
        if let Ok(id) = &staged
            && self.place.namespace.has_ended(id)
        {
            self.place.namespace.until_listed(id);
        }
        if let Some(row) = row {
            self.rows.note(&row, &staged);
        }
        Ok(ExecutionId::new(staged?).unwrap())
    }

    async fn inject(&self, _: Fault) -> Result<(), Skip> {
        Err(Skip::because(
            "a real server is not made to fail a call; contract.rs does that on the mock",
        ))
    }

    async fn restart(&self) -> Result<Arc<dyn Provider>, Skip> {
        Ok(provider(&self.config, &self.table))
    }

    async fn until_listed(&self, id: &ExecutionId) {
        self.place.namespace.until_listed(id.as_str());
    }
}
