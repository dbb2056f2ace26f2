//! Turns as a function: messages and a time in, effects out. No thread, no waiting.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use stateway_model::Progress;
use tokio::sync::{mpsc, oneshot, watch};

use super::*;
use crate::in_memory::Place;
use crate::request::{ApplyDefinition, RequestKey, RetryFrom, Start, Steer};
use crate::store::{Backend, MemoryDisk, SqliteFile, Store};
use crate::view::View;
use crate::worker::{Answer, Offer, TaskToken, WorkerMessage};
use crate::{Clock, Faults};

/// A keeper on a file, stepped by the test.
struct Stepped {
    keeper: Keeper,
    now: Moment,
    requests: u32,
    in_memory: Arc<InMemory>,
    folder: tempfile::TempDir,
}

impl Stepped {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mut config = Config::new(folder.path().join("store.db"));
        let start = "2026-01-01T00:00:00Z".parse().expect("a time");
        config.clock = Clock::manual(start);
        let file = SqliteFile::new(config.path.clone(), &Faults::default());
        let store = file.open().expect("a store");
        Self::over(store, &config, folder)
    }

    /// A keeper on a store in memory.
    fn on(disk: &MemoryDisk) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mut config = Config::new("memory");
        config.clock = Clock::manual("2026-01-01T00:00:00Z".parse().expect("a time"));
        Self::over(disk.open().expect("a store"), &config, folder)
    }

    /// A keeper that retains finished executions for a while.
    fn retaining(retention: crate::Retention) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mut config = Config::new(folder.path().join("store.db"));
        config.clock = Clock::manual("2026-01-01T00:00:00Z".parse().expect("a time"));
        config.retention = retention;
        let file = SqliteFile::new(config.path.clone(), &Faults::default());
        Self::over(file.open().expect("a store"), &config, folder)
    }

    fn total(&self) -> u64 {
        self.keeper.store.total().expect("a number")
    }

    /// A keeper on a store in memory whose turns are written when the keeper waits for that.
    fn beside(disk: &MemoryDisk) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mut config = Config::new("memory");
        config.clock = Clock::manual("2026-01-01T00:00:00Z".parse().expect("a time"));
        let access = StoreAccess {
            store: disk.open().expect("a store"),
            reader: disk.reader().expect("a reader"),
            writer: Box::<LateWriter>::default(),
        };
        Self::with(access, &config, folder)
    }

    fn over(store: Box<dyn Store>, config: &Config, folder: tempfile::TempDir) -> Self {
        let access = StoreAccess {
            store,
            reader: MemoryDisk::default().reader().expect("a reader"),
            writer: Box::new(NoWriter),
        };
        Self::with(access, config, folder)
    }

    fn with(access: StoreAccess, config: &Config, folder: tempfile::TempDir) -> Self {
        let now = config.clock.moment();
        let shared = Shared::default();
        let in_memory = Arc::clone(&shared.in_memory);
        let (keeper, _) = Keeper::open(config, access, shared, now).expect("a keeper");
        Self {
            keeper,
            now,
            requests: 0,
            in_memory,
            folder,
        }
    }

    fn turn(&mut self, messages: Vec<Message>) {
        for effect in self.keeper.turn(messages.into_iter(), self.now) {
            match effect {
                Effect::Answer(answer) => answer.deliver(),
                Effect::Tell(worker, message) => drop(worker.send(message)),
                Effect::Changed(_) | Effect::Removed(_) | Effect::Committed(_) => {}
            }
        }
    }

    fn pass(&mut self, by: Duration) {
        self.now.steady += by;
        self.now.wall = self.now.wall.checked_add(by).expect("a time");
    }

    fn request(&mut self) -> RequestKey {
        self.requests += 1;
        RequestKey {
            id: format!("r{}", self.requests).into(),
            body: [0; 16],
        }
    }

    fn apply(&mut self, source: &str) {
        let (answer, mut applied) = oneshot::channel();
        let apply = ApplyDefinition {
            source: source.to_owned(),
            source_name: "test.yaml".to_owned(),
            request: None,
        };
        let ask = DefinitionAsk::Apply { apply, answer };
        self.turn(vec![Message::Definition(Box::new(ask))]);
        applied.try_recv().expect("an answer").expect("applied");
    }

    fn start(&mut self, definition: &str) -> View {
        view(self.ask_to_start(definition))
    }

    fn ask_to_start(&mut self, definition: &str) -> oneshot::Receiver<Answer> {
        let request = self.request();
        self.ask_to_start_by(definition, request)
    }

    fn ask_to_start_by(
        &mut self,
        definition: &str,
        request: RequestKey,
    ) -> oneshot::Receiver<Answer> {
        let (answer, started) = oneshot::channel();
        let start = Start {
            definition: definition.into(),
            id: None,
            input: Arc::new(json!(null)),
            labels: Default::default(),
            not_before: None,
            actor: "ada".into(),
            request,
        };
        self.turn(vec![Message::Ask(Box::new(Ask::Start { start, answer }))]);
        started
    }

    fn flush(&mut self) {
        let effects = self.keeper.flush();
        show(effects, &self.keeper.board, &watch::Sender::new(0));
    }

    fn steer(&mut self, id: &Arc<str>, steer: Steer) -> Answer {
        let (ask, mut steered) = self.ask_to_steer(id, steer);
        self.turn(vec![ask]);
        steered.try_recv().expect("an answer")
    }

    fn ask_to_steer(
        &mut self,
        id: &Arc<str>,
        steer: Steer,
    ) -> (Message, oneshot::Receiver<Answer>) {
        let (answer, steered) = oneshot::channel();
        let ask = Ask::Steer {
            id: Arc::clone(id),
            steer,
            actor: "ada".into(),
            request: self.request(),
            answer,
        };
        (Message::Ask(Box::new(ask)), steered)
    }

    /// A message that purges everything that has ended, and its answer.
    fn ask_to_purge(&self) -> (Message, oneshot::Receiver<Result<crate::request::Purged>>) {
        let (answer, purged) = oneshot::channel();
        let ended_before = self.now.wall.checked_add(HOUR).expect("a time");
        let purge = Message::Purge {
            ended_before,
            limit: 10,
            answer,
        };
        (purge, purged)
    }

    /// Whether readers find nothing but what is on disk.
    fn is_only_on_disk(&self, id: &str) -> bool {
        matches!(self.in_memory.find(id), Place::Disk)
    }

    fn connect(&mut self, worker: &str, role: &str) -> mpsc::UnboundedReceiver<WorkerMessage> {
        let (tell, messages) = mpsc::unbounded_channel();
        let offer = Offer {
            worker: worker.into(),
            roles: vec![role.into()],
            capacity: 1,
            ..Offer::default()
        };
        self.turn(vec![Message::Connect {
            session: 1,
            offer,
            tell,
            http: false,
        }]);
        messages
    }

    fn facts(&self, id: &str) -> Vec<&'static str> {
        let number = self.keeper.number_of(id).expect("an execution");
        let mut facts = Vec::new();
        let read = self.keeper.store.chronicle(number, (0, 0), &mut |row| {
            for event in row.events(number)? {
                facts.push(event.fact.name());
            }
            Ok(true)
        });
        read.expect("a log");
        facts
    }
}

/// Writes a turn when the keeper waits for that.
#[derive(Debug, Default)]
struct LateWriter(std::sync::Mutex<Option<Job>>);

impl Writer for LateWriter {
    fn takes(&self, turn: &crate::store::Turn) -> bool {
        !turn.appends.is_empty()
    }

    fn begin(&self, job: Job) {
        *self.0.lock().expect("a lock") = Some(job);
    }

    fn end(&self) -> Done {
        let job = self.0.lock().expect("a lock").take();
        let job = job.expect("a turn was begun");
        job.carry_out(&crate::news::Board::default(), &watch::Sender::new(0))
    }
}

fn view(mut answer: oneshot::Receiver<Answer>) -> View {
    *answer.try_recv().expect("an answer").expect("a view")
}

fn token(messages: &mut mpsc::UnboundedReceiver<WorkerMessage>) -> TaskToken {
    match messages.try_recv() {
        Ok(WorkerMessage::Task(task)) => task.token,
        other => panic!("expected a task, got {other:?}"),
    }
}

const ONE: &str = "name: one\nsteps: [{name: a, agent: x, timeout: 9h}]";

fn progress(token: &TaskToken, fraction: f64) -> Message {
    Message::Heartbeat {
        session: 1,
        token: Some(token.clone()),
        progress: Progress::new(fraction, ""),
    }
}

#[test]
fn a_retry_in_the_turn_of_another_event_is_carried_out() {
    let mut stepped = Stepped::new();
    stepped.apply(ONE);
    let mut worker = stepped.connect("w1", "x");
    let started = stepped.start("one");
    let token = token(&mut worker);
    let (answer, retried) = oneshot::channel();
    let request = stepped.request();
    let retry = Ask::RetryFrom {
        id: Arc::clone(&started.id),
        from: RetryFrom {
            step: "a".into(),
            ..RetryFrom::default()
        },
        actor: "ada".into(),
        request,
        answer,
    };
    stepped.turn(vec![progress(&token, 0.5), Message::Ask(Box::new(retry))]);
    assert_eq!(view(retried).branch, 1);
    let facts = stepped.facts(&started.id);
    let at = |name| facts.iter().position(|fact| *fact == name);
    assert!(at("ProgressReported") < at("BranchOpened"), "{facts:?}");
}

#[test]
fn progress_is_recorded_soon_and_ever_more_rarely() {
    let mut stepped = Stepped::new();
    stepped.apply(ONE);
    let mut worker = stepped.connect("w1", "x");
    let started = stepped.start("one");
    let token = token(&mut worker);
    // Three hours, one report each second.
    for second in 0..10_800_u32 {
        stepped.pass(Duration::from_secs(1));
        stepped.turn(vec![progress(&token, f64::from(second) / 10_800.0)]);
    }
    let facts = stepped.facts(&started.id);
    let reports = facts.iter().filter(|fact| **fact == "ProgressReported");
    let reports = reports.count();
    assert!((300..1_000).contains(&reports), "{reports} reports");
}

#[test]
fn the_last_report_is_recorded_although_no_heartbeat_follows() {
    let mut stepped = Stepped::new();
    stepped.apply(ONE);
    let mut worker = stepped.connect("w1", "x");
    let started = stepped.start("one");
    let token = token(&mut worker);
    stepped.turn(vec![progress(&token, 0.25), progress(&token, 0.5)]);
    let idle = stepped.keeper.idle(stepped.now);
    assert!(idle <= Duration::from_millis(250), "{idle:?}");
    stepped.pass(idle);
    stepped.turn(Vec::new());
    let facts = stepped.facts(&started.id);
    let reports = facts.iter().filter(|fact| **fact == "ProgressReported");
    assert_eq!(reports.count(), 2);
}

#[test]
fn nothing_is_seen_before_the_turn_returns() {
    let mut stepped = Stepped::new();
    stepped.apply(ONE);
    let (answer, mut started) = oneshot::channel();
    let start = Start {
        definition: "one".into(),
        id: Some("e1".into()),
        input: Arc::new(json!(null)),
        labels: Default::default(),
        not_before: None,
        actor: "ada".into(),
        request: stepped.request(),
    };
    let message = Message::Ask(Box::new(Ask::Start { start, answer }));
    let effects = stepped.keeper.turn(std::iter::once(message), stepped.now);
    assert!(started.try_recv().is_err(), "the answer is an effect");
    let committed = effects
        .iter()
        .position(|effect| matches!(effect, Effect::Committed(_)));
    assert!(committed.is_some());
    assert_eq!(stepped.facts("e1").first(), Some(&"ExecutionCreated"));
}

#[test]
fn a_task_that_is_handed_out_again_to_the_same_worker_is_sent_once() {
    let mut stepped = Stepped::new();
    stepped.apply(ONE);
    stepped.start("one");
    let mut given = Vec::new();
    // The sessions end without a message, until the worker loses the task and gets it again.
    for session in 1..=2 * u64::from(crate::limits::MAX_ENDED_SESSIONS) {
        let (tell, mut messages) = mpsc::unbounded_channel();
        let offer = Offer {
            worker: "w1".into(),
            roles: vec!["x".into()],
            capacity: 1,
            ..Offer::default()
        };
        let connect = Message::Connect {
            session,
            offer,
            tell,
            http: false,
        };
        stepped.turn(vec![connect]);
        given.push(token(&mut messages).hand_out);
        assert!(messages.try_recv().is_err(), "session {session}: one task");
        stepped.turn(vec![Message::Gone { session }]);
    }
    assert_eq!(given.first(), Some(&1));
    assert_eq!(given.last(), Some(&2), "{given:?}");
}

/// A definition with this number of steps, each of which starts the definition again.
fn bomb(steps: usize) -> String {
    let steps = (0..steps).map(|step| format!("{{name: s{step}, workflow: bomb}}"));
    let steps: Vec<_> = steps.collect();
    format!("name: bomb\nsteps: [{}]", steps.join(", "))
}

#[test]
fn a_definition_that_starts_itself_many_times_starts_few_executions_in_one_turn() {
    const STEPS: usize = 60;
    let mut stepped = Stepped::new();
    stepped.apply(&bomb(STEPS));
    let mut before = 0;
    // Two commands create and queue an execution; the children of the last one may exceed the limit.
    let most = crate::limits::WORK_PER_TURN / 2 + STEPS;
    stepped.start("bomb");
    for turn in 1..=3 {
        let all = stepped.keeper.store.last_number().expect("a number");
        let all = usize::try_from(all).expect("a count");
        assert!(all - before <= most, "turn {turn}: {} starts", all - before);
        assert!(all > before, "turn {turn}: the rest is started");
        before = all;
        stepped.turn(Vec::new());
    }
}

#[test]
fn a_scheduled_start_that_fails_is_made_later() {
    let mut stepped = Stepped::new();
    stepped
        .apply("name: nightly\ntrigger: {schedule: \"0 3 * * *\"}\nsteps: [{name: a, signal: go}]");
    let file = rusqlite::Connection::open(stepped.folder.path().join("store.db"));
    let file = file.expect("the file");
    let run = |sql: &str| file.execute_batch(sql).expect("a change of the file");
    run("ALTER TABLE executions RENAME TO away");
    stepped.pass(Duration::from_secs(3 * 3_600));
    stepped.turn(Vec::new());
    run("ALTER TABLE away RENAME TO executions");
    let started = "nightly~20260101T030000Z";
    assert!(stepped.keeper.number_of(started).is_err());
    stepped.pass(Duration::from_secs(1));
    stepped.turn(Vec::new());
    stepped.pass(Duration::from_secs(1));
    stepped.turn(Vec::new());
    assert_eq!(stepped.facts(started).first(), Some(&"ExecutionCreated"));
    assert_eq!(stepped.keeper.store.last_number().ok(), Some(1), "once");
}

#[test]
fn a_process_that_lost_the_store_does_not_report_damage() {
    let disk = MemoryDisk::default();
    let mut first = Stepped::on(&disk);
    first.apply(ONE);
    let started = first.start("one");
    disk.revoke();
    let mut second = Stepped::on(&disk);
    second.requests = 100;
    let pause = Steer::Pause { cause: "".into() };
    second.steer(&started.id, pause).expect("paused");
    let refused = first.steer(&started.id, Steer::Resume).expect_err("fails");
    assert_eq!(refused.reason, "STORE_FAILED", "{refused}");
    assert!(refused.message.contains("another process"), "{refused}");
    second.steer(&started.id, Steer::Resume).expect("resumed");
}

const HOUR: Duration = Duration::from_secs(60 * 60);

fn kill() -> Steer {
    Steer::Cancel {
        mode: stateway_machine::CancelMode::Kill,
        cause: "".into(),
    }
}

#[test]
fn an_execution_that_is_gathered_twice_in_a_turn_is_written_whole() {
    let disk = MemoryDisk::default();
    let mut stepped = Stepped::on(&disk);
    stepped
        .apply("name: gate\nsteps: [{name: a, signal: go}, {name: b, signal: on, dependsOn: [a]}]");
    let id: Arc<str> = "x".into();
    let (answer, mut started) = oneshot::channel();
    let start = Start {
        definition: "gate".into(),
        id: Some(Arc::clone(&id)),
        input: Arc::new(json!(null)),
        labels: Default::default(),
        not_before: None,
        actor: "ada".into(),
        request: stepped.request(),
    };
    let mut messages = vec![
        Message::Ask(Box::new(Ask::Start { start, answer })),
        Message::Lull,
    ];
    for signal in ["go", "on"] {
        let (answer, _) = oneshot::channel();
        messages.push(Message::Ask(Box::new(Ask::Steer {
            id: Arc::clone(&id),
            steer: Steer::Signal {
                name: signal.into(),
                payload: Arc::new(json!(null)),
            },
            actor: "ada".into(),
            request: stepped.request(),
            answer,
        })));
        messages.push(Message::Lull);
    }
    // It has ended by what is gathered, which is not on disk yet.
    let (answer, mut removed) = oneshot::channel();
    messages.push(Message::Remove {
        id: Arc::clone(&id),
        answer,
    });
    stepped.turn(messages);
    assert!(started.try_recv().expect("an answer").is_ok());
    let refused = removed.try_recv().expect("an answer").expect_err("refused");
    assert_eq!(refused.reason, "NOT_FINISHED");
    assert_eq!(stepped.facts("x").last(), Some(&"ExecutionCompleted"));
    assert_eq!(stepped.keeper.executions.len(), 0, "it has left memory");
    let number = stepped.keeper.number_of("x").expect("an execution");
    let kept = stepped.keeper.store.kept(number).expect("a read");
    assert!(kept.expect("a row").status.ended.is_some());
    drop(stepped);
    // The next process reads the log, whose rows are linked by their hashes.
    let mut next = Stepped::on(&disk);
    assert!(next.keeper.load_number(number).is_ok());
}

#[test]
fn a_definition_is_not_deleted_while_an_execution_is_gathered_and_not_on_disk() {
    let mut stepped = Stepped::on(&MemoryDisk::default());
    stepped.apply("name: gate\nsteps: [{name: a, signal: go}]");
    let (answer, mut started) = oneshot::channel();
    let start = Start {
        definition: "gate".into(),
        id: Some("x".into()),
        input: Arc::new(json!(null)),
        labels: Default::default(),
        not_before: None,
        actor: "ada".into(),
        request: stepped.request(),
    };
    let (deleted, mut refused) = oneshot::channel();
    let delete = crate::request::DeleteDefinition {
        name: "gate".into(),
        keep_running: false,
        request: stepped.request(),
    };
    let delete = DefinitionAsk::Delete {
        delete,
        answer: deleted,
    };
    stepped.turn(vec![
        Message::Ask(Box::new(Ask::Start { start, answer })),
        Message::Lull,
        Message::Definition(Box::new(delete)),
    ]);
    assert!(started.try_recv().expect("an answer").is_ok());
    let refused = refused.try_recv().expect("an answer").expect_err("in use");
    assert_eq!(refused.reason, "DEFINITION_IN_USE");
}

#[test]
fn finished_executions_are_removed_after_their_retention_a_few_at_a_time() {
    let mut stepped = Stepped::retaining(crate::Retention {
        succeeded: None,
        failed: Some(HOUR),
    });
    stepped.apply("name: gate\nsteps: [{name: a, signal: go}]");
    let open = stepped.start("gate").id;
    let done = stepped.start("gate").id;
    let request = Steer::Signal {
        name: "go".into(),
        payload: Arc::new(json!(null)),
    };
    stepped.steer(&done, request).expect("signalled");
    let killed: Vec<_> = (0..250).map(|_| stepped.start("gate").id).collect();
    for id in &killed {
        stepped.steer(id, kill()).expect("killed");
    }
    stepped.pass(HOUR);
    stepped.turn(vec![]);
    assert_eq!(stepped.total(), 252, "an hour old, not older");
    stepped.pass(HOUR);
    stepped.turn(vec![]);
    // The first of the 200 that one step reads is the one that succeeded.
    assert_eq!(stepped.total(), 53);
    stepped.turn(vec![]);
    assert_eq!(stepped.total(), 53, "the sweep rests");
    stepped.pass(Duration::from_millis(50));
    stepped.turn(vec![]);
    assert_eq!(stepped.total(), 2);
    let kept = |id: &str| {
        stepped
            .keeper
            .store
            .number_of(id)
            .expect("a read")
            .is_some()
    };
    assert!(kept(&open) && kept(&done) && !kept(&killed[249]));
}

#[test]
fn an_execution_that_is_purged_in_the_turn_that_loaded_it_can_no_longer_be_read() {
    let mut stepped = Stepped::new();
    stepped.apply("name: gate\nsteps: [{name: a, signal: go}]");
    let id = stepped.start("gate").id;
    stepped.steer(&id, kill()).expect("killed");
    assert_eq!(stepped.keeper.executions.len(), 0, "it has left memory");
    assert!(!stepped.is_only_on_disk(&id));
    let (late, mut refused) = stepped.ask_to_steer(&id, Steer::Resume);
    let (purge, mut purged) = stepped.ask_to_purge();
    stepped.turn(vec![late, purge]);
    assert!(refused.try_recv().expect("an answer").is_err(), "loaded");
    let purged = purged.try_recv().expect("an answer").expect("purged");
    assert_eq!((purged.executions, stepped.total()), (1, 0));
    assert!(stepped.is_only_on_disk(&id));
    assert_eq!(stepped.keeper.executions.len(), 0);
}

#[test]
fn an_execution_that_is_purged_while_its_end_leaves_memory_can_no_longer_be_read() {
    let disk = MemoryDisk::default();
    let mut stepped = Stepped::beside(&disk);
    stepped.apply("name: gate\nsteps: [{name: a, signal: go}]");
    let started = stepped.ask_to_start("gate");
    stepped.flush();
    let id = view(started).id;
    // The turn with the end is being written.
    let (end, _ended) = stepped.ask_to_steer(&id, kill());
    stepped.turn(vec![end]);
    assert!(!stepped.is_only_on_disk(&id));
    let (purge, mut purged) = stepped.ask_to_purge();
    stepped.turn(vec![purge]);
    stepped.flush();
    let purged = purged.try_recv().expect("an answer").expect("purged");
    assert_eq!((purged.executions, stepped.total()), (1, 0));
    assert!(stepped.is_only_on_disk(&id));
    assert_eq!(stepped.keeper.executions.len(), 0);
}

#[test]
fn an_execution_stays_until_webhooks_have_its_events_however_old_it_is() {
    let mut stepped = Stepped::retaining(crate::Retention {
        succeeded: Some(HOUR),
        failed: Some(HOUR),
    });
    stepped.apply("name: gate\nsteps: [{name: a, signal: go}]");
    let first = stepped.start("gate").id;
    stepped.steer(&first, kill()).expect("killed");
    let delivered = stepped.keeper.store.last_position();
    let second = stepped.start("gate").id;
    stepped.steer(&second, kill()).expect("killed");
    stepped.keeper.sinks.insert("hook".into(), delivered);
    stepped.pass(2 * HOUR);
    stepped.turn(vec![]);
    assert_eq!(stepped.total(), 1);
    let last = stepped.keeper.store.last_position();
    stepped.keeper.sinks.insert("hook".into(), last);
    stepped.pass(Duration::from_secs(60));
    stepped.turn(vec![]);
    assert_eq!(stepped.total(), 0);
}

#[test]
fn an_execution_stays_until_webhooks_had_time_to_connect_after_a_take_over() {
    let mut stepped = Stepped::retaining(crate::Retention {
        succeeded: None,
        failed: Some(HOUR),
    });
    stepped.apply("name: gate\nsteps: [{name: a, signal: go}]");
    let id = stepped.start("gate").id;
    stepped.steer(&id, kill()).expect("killed");
    stepped.pass(2 * HOUR);
    stepped.keeper.now = stepped.now;
    stepped.keeper.begin_epoch(7).expect("a store");
    stepped.pass(Duration::from_secs(59));
    stepped.turn(vec![]);
    assert_eq!(stepped.total(), 1);
    stepped.pass(Duration::from_secs(1));
    stepped.turn(vec![]);
    assert_eq!(stepped.total(), 0);
}

#[test]
fn a_webhook_that_could_not_connect_before_a_take_over_keeps_its_events() {
    let disk = MemoryDisk::default();
    let mut stepped = Stepped::on(&disk);
    stepped.apply("name: gate\nsteps: [{name: a, signal: go}]");
    let id = stepped.start("gate").id;
    stepped.steer(&id, kill()).expect("killed");
    // Another process owns the store.
    let error = EngineError::stopped();
    stepped.keeper.broken = Some(Broken {
        error,
        tried: stepped.now.steady,
    });
    let hook: Arc<str> = "hook".into();
    let expect = Message::ExpectSink {
        name: Arc::clone(&hook),
        from: SinkStart::Beginning,
    };
    stepped.turn(vec![expect]);
    assert_eq!(stepped.keeper.needed_by_sinks(), None);
    stepped.pass(TRY_AGAIN);
    stepped.turn(vec![]);
    assert_eq!(stepped.keeper.needed_by_sinks(), Some(0));
    let refused = stepped.keeper.remove(&id).expect_err("needed");
    assert_eq!(refused.reason, "EVENTS_NOT_DELIVERED");
    stepped.turn(vec![Message::CloseSink { name: hook }]);
    stepped.keeper.remove(&id).expect("removed");
}

#[test]
fn a_turn_is_decided_while_the_turn_before_is_written() {
    let disk = MemoryDisk::default();
    let mut stepped = Stepped::beside(&disk);
    stepped.apply(ONE);
    let mut first = stepped.ask_to_start("one");
    assert!(
        first.try_recv().is_err(),
        "nothing is shown before it is on disk"
    );
    assert_eq!(disk.last_position(), 0);
    let mut second = stepped.ask_to_start("one");
    // The second turn is decided. Its own commit waits, and the one before is done.
    assert!(first.try_recv().expect("an answer").is_ok());
    assert!(
        second.try_recv().is_err(),
        "nothing is shown before it is on disk"
    );
    assert_eq!(disk.last_position(), 1);
    stepped.flush();
    assert!(second.try_recv().expect("an answer").is_ok());
    assert_eq!(disk.last_position(), 2);
}

#[test]
fn what_was_decided_after_a_turn_that_could_not_be_written_is_dropped_with_it() {
    let disk = MemoryDisk::default();
    let mut stepped = Stepped::beside(&disk);
    stepped.apply(ONE);
    let mut first = stepped.ask_to_start("one");
    disk.revoke();
    let mut second = stepped.ask_to_start("one");
    for answer in [&mut first, &mut second] {
        let error = answer.try_recv().expect("an answer").expect_err("fails");
        assert!(error.reason.starts_with("STORE_"), "{}", error.reason);
    }
    assert_eq!(
        stepped.keeper.executions.len(),
        0,
        "memory is not ahead of the disk"
    );
    assert_eq!(disk.last_position(), 0);
}

#[test]
fn a_request_of_the_turn_that_is_being_written_is_known() {
    let disk = MemoryDisk::default();
    let mut stepped = Stepped::beside(&disk);
    stepped.apply(ONE);
    let request = stepped.request();
    let first = stepped.ask_to_start_by("one", request.clone());
    let again = stepped.ask_to_start_by("one", request);
    stepped.flush();
    assert_eq!(view(first).id, view(again).id);
    assert_eq!(stepped.total(), 1);
}
