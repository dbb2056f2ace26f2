//! The contract kit tests itself: each broken provider must fail exactly the cases that should
//! catch it, and no other.

#[path = "broken/defect.rs"]
mod defect;
pub(crate) mod harness;
#[path = "broken/inbox.rs"]
mod inbox;
#[path = "broken/provider.rs"]
mod provider;
#[path = "broken/shelf.rs"]
mod shelf;

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use jiff::Timestamp;
use libtest_mimic::{Arguments, Failed, Trial};
use stateway_contract_kit::{Fault, Harness, Scene, Skip, Stop, Subject, Workload, cases, run};
use stateway_model::ExecutionId;
use stateway_provider_api::{Capabilities, Limited, Provider, Table};

pub(crate) use defect::Defect;
use harness::{Memory, Staged};
use provider::Broken;

/// Makes providers with one defect.
pub(crate) struct BrokenMemory(pub(crate) Defect);

/// One of them.
struct BrokenStaged {
    staged: Staged,
    provider: Arc<Broken>,
}

#[async_trait]
impl Harness for BrokenMemory {
    fn table(&self) -> Arc<Table> {
        Memory.table()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::ALL
    }

    async fn fresh(&self, table: Arc<Table>) -> Result<Box<dyn Subject>, Skip> {
        let staged = Staged::new(table);
        let provider = Broken::new(staged.provider(), self.0, Capabilities::ALL);
        Ok(Box::new(BrokenStaged {
            staged,
            provider: Arc::new(provider),
        }))
    }
}

#[async_trait]
impl Subject for BrokenStaged {
    fn provider(&self) -> Arc<dyn Provider> {
        self.provider.clone()
    }

    /// The defect is outside, so that it can break what is off too.
    fn limited(&self, allowed: Capabilities) -> Arc<dyn Provider> {
        let limited = Limited::to(self.staged.provider(), allowed);
        let defect = self.provider.defect;
        Arc::new(Broken::new(Arc::new(limited), defect, allowed))
    }

    fn now(&self) -> Timestamp {
        self.staged.now()
    }

    fn workload(&self) -> Workload {
        self.staged.workload()
    }

    async fn stage(&self, scene: Scene) -> Result<ExecutionId, Skip> {
        match scene {
            Scene::AwaitingApproval => Ok(self.provider.inbox.ask()),
            scene => self.staged.stage(scene).await,
        }
    }

    async fn inject(&self, fault: Fault) -> Result<(), Skip> {
        self.staged.inject(fault).await
    }

    async fn restart(&self) -> Result<Arc<dyn Provider>, Skip> {
        let defect = self.provider.defect;
        let inner = match defect {
            Defect::RestartForgetsEverything => Staged::new(Memory.table()).provider(),
            _ => self.staged.restart().await?,
        };
        Ok(Arc::new(Broken::new(inner, defect, Capabilities::ALL)))
    }
}

/// Which cases a broken provider fails, and which should have been failed.
fn check(defect: Defect) -> Result<(), Failed> {
    let harness: Arc<dyn Harness> = Arc::new(BrokenMemory(defect));
    let cases = cases(&harness.table());
    let fails =
        |case: &&stateway_contract_kit::Case| matches!(run(case, &harness), Err(Stop::Failed(_)));
    let failed: BTreeSet<&str> = cases.iter().filter(fails).map(|case| &*case.name).collect();
    let names = cases.iter().map(|case| &*case.name);
    let expected: BTreeSet<&str> = names.filter(|name| should_catch(name, defect)).collect();
    if expected.is_empty() || failed != expected {
        let wrongly: Vec<_> = failed.difference(&expected).collect();
        let missed: Vec<_> = expected.difference(&failed).collect();
        return Err(format!("failed though unrelated: {wrongly:#?}; missed: {missed:#?}").into());
    }
    Ok(())
}

pub(crate) fn should_catch(case: &str, defect: Defect) -> bool {
    defect
        .caught_by()
        .iter()
        .any(|pattern| is_like(case, pattern))
}

/// Whether a name is the pattern, or begins as a pattern that ends in `*`.
fn is_like(case: &str, pattern: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(beginning) => case.starts_with(beginning),
        None => case == pattern,
    }
}

/// Cases that no defect is made for: each row of executions, because two defects show that a word
/// or a qualifier that is changed is noticed, and the rows are alike; each method that is implemented,
/// because one defect shows that a method which is not is noticed, and the methods are alike.
const CAUGHT_BY_NONE: &[&str] = &["mapping::execution::*", "capability_on::*"];

/// A case that nothing can fail is no case.
fn every_case_has_a_defect() -> Result<(), Failed> {
    let spared = |case: &str| CAUGHT_BY_NONE.iter().any(|pattern| is_like(case, pattern));
    let without: Vec<String> = cases(&Memory.table())
        .into_iter()
        .map(|case| case.name)
        .filter(|case| !Defect::ALL.iter().any(|defect| should_catch(case, *defect)))
        .filter(|case| !spared(case))
        .collect();
    if without.is_empty() {
        Ok(())
    } else {
        Err(format!("no defect is made for {without:#?}").into())
    }
}

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    // They mostly wait: for deadlines, and for streams that say nothing.
    arguments.test_threads.get_or_insert(8);
    let (tried, caught) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let trial = |defect: &Defect| {
        let (defect, tried, caught) = (*defect, tried.clone(), caught.clone());
        Trial::test(format!("{defect:?}"), move || {
            tried.fetch_add(1, Ordering::Relaxed);
            check(defect)?;
            caught.fetch_add(1, Ordering::Relaxed);
            Ok(())
        })
    };
    let every_case = Trial::test("every_case_has_a_defect", every_case_has_a_defect);
    let trials = Defect::ALL.iter().map(trial).chain([every_case]).collect();
    let conclusion = libtest_mimic::run(&arguments, trials);
    if !arguments.list {
        println!(
            "contract-kit: {} cases, {} broken providers, {} caught",
            cases(&Memory.table()).len(),
            tried.load(Ordering::Relaxed),
            caught.load(Ordering::Relaxed)
        );
    }
    conclusion.exit_code()
}
