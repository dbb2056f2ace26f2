//! An engine in a folder of its own, and short ways to use it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use stateway_engine::{
    ApplyDefinition, Clock, Config, Engine, EngineError, ListQuery, Offer, Outcome, RequestDigest,
    RequestKey, Start, Steer, Survey, View, WorkerMessage, WorkerSession, WorkerTask,
};
use stateway_model::{ErrorCategory, SubState, Usage};

pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Lab {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) engine: Engine,
    pub(crate) config: Config,
    requests: AtomicU32,
}

impl Lab {
    pub(crate) fn new() -> Self {
        Self::with(|_| {})
    }

    pub(crate) fn with(change: impl FnOnce(&mut Config)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut config = crate::place::config(folder.path());
        change(&mut config);
        let engine = Engine::open(&config).unwrap();
        Self {
            folder,
            engine,
            config,
            requests: AtomicU32::new(0),
        }
    }

    /// In a folder that the test has made.
    pub(crate) fn at(folder: &std::path::Path) -> Self {
        Self::at_with(folder, |_| {})
    }

    /// The same with another configuration.
    pub(crate) fn at_with(folder: &std::path::Path, change: impl FnOnce(&mut Config)) -> Self {
        // Another lab in the same folder asks for other things.
        static LABS: AtomicU32 = AtomicU32::new(0);
        let mut config = crate::place::config(folder);
        change(&mut config);
        Self {
            folder: tempfile::tempdir().unwrap(),
            engine: Engine::open(&config).unwrap(),
            config,
            requests: AtomicU32::new((1 + LABS.fetch_add(1, Ordering::Relaxed)) * 100_000),
        }
    }

    /// On a clock that is moved by hand.
    pub(crate) fn by_hand() -> (Self, Clock) {
        let clock = Clock::manual("2026-01-01T00:00:00Z".parse().unwrap());
        let hand = clock.clone();
        (Self::with(|config| config.clock = clock), hand)
    }

    /// The engine stops and another one takes the file.
    pub(crate) fn restart(self) -> Self {
        self.restart_after(|| {})
    }

    /// Likewise, and meanwhile something happens.
    pub(crate) fn restart_after(self, meanwhile: impl FnOnce()) -> Self {
        let Self {
            folder,
            engine,
            config,
            requests,
        } = self;
        drop(engine);
        meanwhile();
        let engine = Engine::open(&config).unwrap();
        Self {
            folder,
            engine,
            config,
            requests,
        }
    }

    /// Another engine takes the file, if it can; otherwise none has it. Whether one has.
    pub(crate) fn try_restart(self) -> (Self, bool) {
        let Self {
            folder,
            engine,
            config,
            requests,
        } = self;
        drop(engine);
        let lab = |engine, config| Self {
            folder,
            engine,
            config,
            requests,
        };
        match Engine::open(&config) {
            Ok(engine) => (lab(engine, config), true),
            Err(_) => {
                let elsewhere = tempfile::tempdir().unwrap();
                let idle = Engine::open(&Config::new(elsewhere.path().join("store.db")));
                (lab(idle.unwrap(), config), false)
            }
        }
    }

    /// The process is killed: another engine goes on with the file as it is at this moment.
    pub(crate) fn crash(self) -> Self {
        self.crash_with(|_| {})
    }

    /// Likewise, and something happens to what it left.
    pub(crate) fn crash_with(mut self, meanwhile: impl FnOnce(&std::path::Path)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        crate::place::copy(self.folder.path(), folder.path());
        meanwhile(folder.path());
        self.config.path = folder.path().join("store.db");
        self.engine = Engine::open(&self.config).unwrap();
        self.folder = folder;
        self
    }

    pub(crate) fn key(&self, body: u8) -> RequestKey {
        let number = self.requests.fetch_add(1, Ordering::Relaxed);
        RequestDigest::new("test", "")
            .bytes(&[body])
            .key(format!("request-{number}"))
    }

    pub(crate) async fn apply(&self, source: &str) {
        let apply = ApplyDefinition {
            source: source.to_owned(),
            source_name: "test.yaml".to_owned(),
            request: None,
        };
        self.engine.apply(apply).await.unwrap();
    }

    pub(crate) fn start_of(&self, definition: &str, input: Value) -> Start {
        Start {
            definition: definition.into(),
            id: None,
            input: Arc::new(input),
            labels: Default::default(),
            not_before: None,
            actor: "ada".into(),
            request: self.key(0),
        }
    }

    pub(crate) async fn start(&self, definition: &str, input: Value) -> View {
        let start = self.start_of(definition, input);
        self.engine.start(start).await.unwrap()
    }

    pub(crate) async fn steer(&self, id: &Arc<str>, steer: Steer) -> Result<View, EngineError> {
        let request = self.key(1);
        self.engine
            .steer(id.clone(), steer, "ada".into(), request)
            .await
    }

    pub(crate) async fn get(&self, id: &Arc<str>) -> View {
        self.engine.get(id.clone()).await.unwrap()
    }

    /// Waits until an execution shows this.
    pub(crate) async fn until(&self, id: &Arc<str>, wanted: impl Fn(&View) -> bool) -> View {
        let mut news = self.engine.watch_one(id);
        let look = async {
            loop {
                let view = self.get(id).await;
                if wanted(&view) {
                    return view;
                }
                if news.changed().await.is_err() {
                    // The engine has unloaded it.
                    news = self.engine.watch_one(id);
                }
            }
        };
        match tokio::time::timeout(PATIENCE, look).await {
            Ok(view) => view,
            Err(_) => panic!("{id} stays {:#?}", self.get(id).await),
        }
    }

    pub(crate) async fn ended(&self, id: &Arc<str>) -> View {
        self.until(id, |view| {
            matches!(view.sub_state, SubState::Succeeded | SubState::Failed)
        })
        .await
    }

    /// The ids of the executions, newest first.
    pub(crate) async fn ids(&self) -> Vec<Arc<str>> {
        let query = ListQuery {
            limit: 100,
            ..ListQuery::default()
        };
        let page = self.engine.list(query).await.unwrap();
        page.items.into_iter().map(|view| view.id).collect()
    }

    /// Waits until the engine reports this about itself.
    pub(crate) async fn until_survey(&self, wanted: impl Fn(&Survey) -> bool) {
        let look = async {
            while !wanted(&self.engine.survey().await.unwrap()) {
                tokio::task::yield_now().await;
            }
        };
        if tokio::time::timeout(PATIENCE, look).await.is_err() {
            panic!("the engine stays {:#?}", self.engine.survey().await);
        }
    }

    /// Waits until this many executions exist.
    pub(crate) async fn until_started(&self, count: usize) {
        let look = async {
            while self.ids().await.len() < count {
                tokio::task::yield_now().await;
            }
        };
        let waited = tokio::time::timeout(PATIENCE, look).await;
        waited.expect("the executions are started");
    }

    /// Waits until nothing is counted as having work under way.
    pub(crate) async fn until_idle(&self) {
        self.until_survey(|survey| survey.active == 0).await;
    }

    pub(crate) fn worker(&self, id: &str, roles: &[&str], capacity: u32) -> Hand {
        let offer = Offer {
            worker: id.into(),
            roles: roles.iter().map(|role| (*role).into()).collect(),
            capacity,
            ..Offer::default()
        };
        Hand {
            session: self.engine.connect(offer).unwrap(),
            had: Vec::new(),
        }
    }
}

/// A worker that does what the test says.
pub(crate) struct Hand {
    pub(crate) session: WorkerSession,
    had: Vec<stateway_engine::TaskToken>,
}

impl Hand {
    /// It remembers this task from before.
    pub(crate) fn remembers(mut self, task: &WorkerTask) -> Self {
        self.had.push(task.token.clone());
        self
    }

    /// It has lost this task and may get it again.
    pub(crate) fn forgets(&mut self, task: &WorkerTask) {
        self.had.retain(|had| *had != task.token);
    }

    pub(crate) async fn message(&mut self) -> WorkerMessage {
        let next = tokio::time::timeout(PATIENCE, self.session.messages.recv());
        next.await.expect("a message in time").expect("a session")
    }

    pub(crate) async fn task(&mut self) -> WorkerTask {
        loop {
            match self.message().await {
                // A worker that comes back is told again what it has.
                WorkerMessage::Task(task) if self.had.contains(&task.token) => {}
                WorkerMessage::Task(task) => {
                    self.had.push(task.token.clone());
                    return *task;
                }
                WorkerMessage::Accepted { .. } => {}
                other => panic!("expected a task, got {other:?}"),
            }
        }
    }

    pub(crate) fn done(&self, task: &WorkerTask, output: Value) {
        self.done_with(task, output, Usage::default());
    }

    pub(crate) fn done_with(&self, task: &WorkerTask, output: Value, usage: Usage) {
        let output = Arc::new(output);
        let outcome = Outcome::Completed { output };
        let answers = self.session.answers();
        answers.settle(task.token.clone(), outcome, Some(usage));
    }

    pub(crate) fn failed(&self, task: &WorkerTask, category: ErrorCategory) {
        let failure = stateway_machine::Failure::reported(category, "no");
        let answers = self.session.answers();
        answers.settle(task.token.clone(), Outcome::Failed(failure), None);
    }

    /// Does every task by answering its step's name.
    pub(crate) fn diligent(mut self) -> tokio::task::JoinHandle<()> {
        tokio::spawn(async move {
            while let Some(message) = self.session.messages.recv().await {
                if let WorkerMessage::Task(task) = message {
                    self.done(&task, json!({ "did": &*task.task.step }));
                }
            }
        })
    }
}

/// Nothing is wrong any more, in memory neither.
pub(crate) async fn all_is_well(lab: &Lab) {
    let found = lab.engine.verify_batch(0, 1_000).await.unwrap();
    assert!(found.wrong.is_empty(), "{:#?}", found.wrong);
}

/// Replaces a text in the rows of a branch that have it.
pub(crate) fn replace_in_log(path: &std::path::Path, branch: u32, (from, to): (&str, &str)) {
    let file = rusqlite::Connection::open(path).unwrap();
    let mut query = file
        .prepare("SELECT position, lines FROM events WHERE branch = ?1")
        .unwrap();
    let rows = query.query_map([branch], |row| {
        Ok((row.get::<_, i64>(0)?, row.get::<_, Vec<u8>>(1)?))
    });
    let rows: Vec<_> = rows.unwrap().map(Result::unwrap).collect();
    let mut changed = 0;
    for (position, stored) in rows {
        let text = String::from_utf8(stateway_engine::unpack(&stored).into_owned()).unwrap();
        if text.contains(from) {
            let lines = text.replace(from, to).into_bytes();
            let update = "UPDATE events SET lines = ?2 WHERE position = ?1";
            changed += file
                .execute(update, rusqlite::params![position, lines])
                .unwrap();
        }
    }
    assert!(changed > 0, "no row has {from}");
}
