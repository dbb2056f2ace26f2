//! What contradicts a log: brought about by a process that dies with half a turn on disk or a disk
//! that loses a write, seen, put right, noted in the log, and no work done again without need.

#[path = "recovery/codes.rs"]
mod codes;
#[path = "recovery/log.rs"]
mod log;
#[path = "recovery/running.rs"]
mod running;
#[path = "recovery/sweep.rs"]
mod sweep;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::json;
use stateway_engine::recovery::{Code, Finding, Recover, Recovered, StoreFile};
use stateway_engine::{
    Config, Decide, EngineError, Fate, Faults, Outcome, View, WorkerMessage, Write,
};
use stateway_machine::Fact;

use crate::lab::{Lab, PATIENCE, all_is_well};

/// Waits for a person in the middle.
const GATED: &str = "
name: gated
steps:
  - {name: a, agent: x, timeout: 1h}
  - {name: ok, approval: {role: boss}, dependsOn: [a]}
  - {name: b, agent: x, dependsOn: [ok], timeout: 1h}
";

/// What a test lets go wrong, once.
#[derive(Clone, Default)]
struct Trap {
    set: Arc<Mutex<Vec<(Write, Fate, usize)>>>,
}

impl Trap {
    fn faults(&self) -> Faults {
        let set = Arc::clone(&self.set);
        Faults::by(move |write| {
            let mut set = set.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(at) = set.iter().position(|(wanted, ..)| *wanted == write) else {
                return Fate::Done;
            };
            if set[at].2 > 0 {
                set[at].2 -= 1;
                return Fate::Done;
            }
            set.remove(at).1
        })
    }

    /// The next write of this kind has this fate.
    fn set(&self, write: Write, fate: Fate) {
        self.set_after(0, write, fate);
    }

    /// Likewise, after some that go well.
    fn set_after(&self, passes: usize, write: Write, fate: Fate) {
        self.set.lock().unwrap().push((write, fate, passes));
    }

    fn sprung(&self) -> bool {
        self.set.lock().unwrap().is_empty()
    }
}

fn lab(change: impl FnOnce(&mut Config)) -> (Lab, Trap) {
    let trap = Trap::default();
    let lab = Lab::with(|config| {
        config.faults = trap.faults();
        change(config);
    });
    (lab, trap)
}

/// What was done, by step: each time a worker did it.
#[derive(Clone, Default)]
struct Deeds(Arc<Mutex<BTreeMap<String, usize>>>);

impl Deeds {
    fn of(&self, step: &str) -> usize {
        let deeds = self.0.lock().unwrap();
        deeds.get(step).copied().unwrap_or(0)
    }

    /// A worker that does every task at once.
    fn worker(&self, lab: &Lab, id: &str) -> tokio::task::JoinHandle<()> {
        let (deeds, mut session) = (self.clone(), lab.worker(id, &["x"], 4).session);
        tokio::spawn(async move {
            while let Some(message) = session.messages.recv().await {
                let WorkerMessage::Task(task) = message else {
                    continue;
                };
                let step = task.task.step.to_string();
                let output = Arc::new(json!({ "did": step }));
                *deeds.0.lock().unwrap().entry(step).or_default() += 1;
                let outcome = Outcome::Completed { output };
                session.answers().settle(task.token.clone(), outcome, None);
            }
        })
    }
}

async fn decide(lab: &Lab, id: &Arc<str>, grant: bool) -> Result<View, EngineError> {
    let decide = Decide {
        step: "ok".into(),
        attempt: 1,
        branch: None,
        grant,
        roles: vec!["boss".into()],
        comment: "".into(),
    };
    let request = lab.key(7);
    lab.engine
        .decide(id.clone(), decide, "bob".into(), request)
        .await
}

async fn recover(lab: &Lab, id: &Arc<str>) -> Result<Recovered, EngineError> {
    let (ask, request) = (Recover::default(), lab.key(9));
    lab.engine
        .recover(id.clone(), ask, "ada".into(), request)
        .await
}

fn codes(findings: &[Finding]) -> Vec<Code> {
    findings.iter().map(|finding| finding.code).collect()
}

/// The recoveries an execution's log tells of: reason, branches, cutoff, who.
async fn audit(lab: &Lab, id: &Arc<str>) -> Vec<(String, u32, u32, u64, String)> {
    let events = lab.engine.chronicle(id.clone(), (0, 0), 10_000).await;
    let facts = events.unwrap().into_iter().map(|record| record.event.fact);
    facts
        .filter_map(|fact| match fact {
            Fact::ExecutionRecovered {
                reason,
                from,
                branch,
                cutoff,
                by,
                ..
            } => Some((reason.to_string(), from, branch, cutoff, by.to_string())),
            _ => None,
        })
        .collect()
}

/// The process dies with half a turn on disk, and the file shows this code; then it starts again.
fn die(lab: Lab, code: Code) -> Lab {
    lab.crash_with(|folder| {
        let found = StoreFile::open(&folder.join("store.db"))
            .and_then(|file| file.verify(0, 1_000))
            .unwrap();
        let seen: Vec<Code> = found
            .wrong
            .iter()
            .flat_map(|v| codes(&v.findings))
            .collect();
        assert!(seen.contains(&code), "{:#?}", found.wrong);
        let evidence = found.wrong.iter().flat_map(|v| &v.findings);
        assert!(evidence.clone().all(|finding| !finding.evidence.is_empty()));
    })
}
