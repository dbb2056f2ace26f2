//! Random definitions in the same outside world on every engine.
//!
//! The generator of the machine's own checks makes a definition. Everything outside follows from the seed: what
//! the worker answers to an attempt, what people decide, and when a caller pauses or cancels. The world acts
//! only when the execution rests: every open task is with the worker and no sleep or back-off is under way. So
//! engines of different speed meet the same world in the same order, and their trajectories are the same.

mod source;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::future::poll_fn;
use std::sync::Arc;
use std::time::{Duration, Instant};

use stateway_chance::Chance;
use stateway_machine::{Awaited, ExecutionState, Obligation, State, awaited, obligations};
use stateway_model::{ErrorCategory, ExecutionId, Payload};
use stateway_provider_api::{
    ApplyPortableRequest, Call, CancelMode, CancelRequest, CompensationChoice, DecideRequest,
    Error, InboxId, PauseRequest, Provider, RequestId, ResolutionAction, ResolveRequest,
    ResumeRequest, SignalRequest, StartDefinition, StartRequest, TaskFailure, TaskOutcome,
    WorkerMessage, WorkerOffer, WorkerSession, WorkerTask,
};
use stateway_replay::recording::Recording;

use crate::run::trajectory;

/// How long one call may take.
const CALL: Duration = Duration::from_secs(20);
/// How long an execution may take to come to rest.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long the world waits for messages before it reads the execution again.
const LOOK: Duration = Duration::from_millis(15);
/// The number of acts after which a caller kills the execution.
const MOST_ACTS: usize = 60;
/// From this attempt on the worker always completes.
const LAST_FAILURE: u32 = 4;
/// A timer that is due later does not keep an execution from resting.
const FAR: jiff::SignedDuration = jiff::SignedDuration::from_secs(20);
/// How long the tasks of a child whose parent has ended wait for their cancellation.
const ALONE: Duration = Duration::from_secs(5);
/// More tasks than any definition opens.
const CAPACITY: u32 = 64;

/// The name of the definition of a seed.
#[must_use]
pub fn name_of(seed: u64) -> String {
    format!("random-{seed}")
}

/// The definition of a seed, and that of its children.
#[must_use]
pub fn sources(seed: u64) -> [String; 2] {
    source::of(seed)
}

/// Plays the definition of a seed to its end; the trajectory of the execution and of its children.
///
/// # Errors
/// The execution does not come to rest, or a call fails that has to succeed.
pub async fn play_random(provider: &dyn Provider, seed: u64) -> Result<String, String> {
    let mut world = World::begin(provider, seed).await?;
    let played = world.play().await;
    played.map_err(|why| format!("{}: {why}; acts: {:?}", name_of(seed), world.acts))
}

struct World<'p> {
    provider: &'p dyn Provider,
    seed: u64,
    id: ExecutionId,
    session: Box<dyn WorkerSession>,
    /// The tasks of the worker, by execution, step, attempt and kind.
    tasks: BTreeMap<TaskPlace, WorkerTask>,
    /// The children that the execution had.
    children: Vec<ExecutionId>,
    acts: Vec<String>,
}

type TaskPlace = (ExecutionId, Arc<str>, u32, bool);

/// Something that the world can do now.
#[derive(Debug, Clone)]
enum Act {
    Answer(TaskPlace),
    Signal(ExecutionId, Arc<str>),
    Decide(ExecutionId, String),
    Resolve(ExecutionId, String, String),
    Resume(ExecutionId),
}

impl<'p> World<'p> {
    async fn begin(provider: &'p dyn Provider, seed: u64) -> Result<Self, String> {
        let name = name_of(seed);
        let definitions = provider.portable_definitions().ok_or("no definitions")?;
        for (nth, source) in sources(seed).into_iter().enumerate() {
            let request = ApplyPortableRequest {
                source,
                source_name: format!("{name}.json"),
                request_id: request(&format!("{name}-apply-{nth}")),
            };
            let applied = definitions.apply_portable(&call("ada", ""), request).await;
            applied.map_err(|error| format!("{name}: {error:?}"))?;
        }
        let workers = provider.workers().ok_or("no workers")?;
        let offer = WorkerOffer {
            worker: format!("worker-{name}").into(),
            roles: vec![Arc::from(name.as_str())],
            capacity: CAPACITY,
            ..WorkerOffer::default()
        };
        let connected = workers.connect(&call("worker", ""), offer).await;
        let connected = connected.map_err(|error| format!("{name}: {error:?}"))?;
        let definition = StartDefinition::Portable {
            id: name.clone(),
            source: None,
        };
        let mut start = StartRequest::new(definition, request(&format!("{name}-start")));
        let flag = Chance::new(seed).percent(70);
        start.input = Some(Payload::json(format!("{{\"flag\":{flag}}}")));
        let id = ExecutionId::new(format!("r-{name}")).map_err(|error| error.to_string())?;
        start.execution_id = Some(id.clone());
        let started = provider.start(&call("ada", ""), start).await;
        started.map_err(|error| format!("{name}: {error:?}"))?;
        Ok(Self {
            provider,
            seed,
            id,
            session: connected.session,
            tasks: BTreeMap::new(),
            children: Vec::new(),
            acts: Vec::new(),
        })
    }

    /// A source of numbers that depends on the seed and on a text alone.
    fn chance(&self, about: &str) -> Chance {
        let mixed = about.bytes().fold(self.seed, |mixed, byte| {
            Chance::new(mixed ^ u64::from(byte)).next()
        });
        Chance::new(mixed)
    }

    async fn play(&mut self) -> Result<String, String> {
        // A caller intervenes in one of three executions.
        let mut chance = self.chance("caller");
        let intervenes = chance.percent(33).then(|| chance.below(8));
        loop {
            let Some(mut acts) = self.rest().await? else {
                return self.trajectories().await;
            };
            if self.acts.len() >= MOST_ACTS {
                self.cancel(CancelMode::Kill).await?;
                continue;
            }
            if intervenes == Some(self.acts.len()) {
                self.intervene().await?;
                continue;
            }
            if acts.is_empty() {
                return Err("nothing is left to do, and the execution has not ended".to_owned());
            }
            let nth = self.chance(&format!("act {}", self.acts.len()));
            let act = acts.swap_remove(nth.clone().below(acts.len()));
            self.act(act).await?;
        }
    }

    /// Waits until the execution rests. What can be done then, in a fixed order; none when it has ended.
    async fn rest(&mut self) -> Result<Option<Vec<Act>>, String> {
        let begun = Instant::now();
        loop {
            self.hear().await;
            let state = self.state(&self.id.clone()).await?;
            if let Some(state) = state {
                if state.state().is_terminal() {
                    return Ok(None);
                }
                if let Some(acts) = self.resting(&self.id.clone(), &state).await? {
                    return Ok(Some(acts));
                }
            }
            if begun.elapsed() > PATIENCE {
                return Err("the execution does not come to rest".to_owned());
            }
        }
    }

    /// What can be done about an execution; none while it does not rest.
    async fn resting(
        &mut self,
        id: &ExecutionId,
        state: &State,
    ) -> Result<Option<Vec<Act>>, String> {
        let mut acts = Vec::new();
        for awaited in awaited(state) {
            acts.extend(self.wanted(id, &awaited));
        }
        // Then no timer fires and no task is handed out until a person has decided.
        let is_held = matches!(
            state.state(),
            ExecutionState::Paused | ExecutionState::Escalated
        );
        for obligation in obligations(state) {
            match obligation {
                Obligation::Slot => return Ok(None),
                Obligation::Timer { due, .. } => {
                    if !is_held && due.duration_since(jiff::Timestamp::now()) < FAR {
                        return Ok(None);
                    }
                }
                Obligation::Task(order) => {
                    let task = order.key.task;
                    let place = (id.clone(), task.step, task.attempt, task.undo);
                    if is_held && order.worker.is_none() {
                        continue;
                    }
                    let is_here = order.worker.is_some() && self.tasks.contains_key(&place);
                    if !is_here || order.cancel {
                        return Ok(None);
                    }
                    acts.push(Act::Answer(place));
                }
                Obligation::Child(order) => {
                    let task = order.key.task;
                    let child = format!("{id}~{}~{}", task.step, task.attempt);
                    let child = ExecutionId::new(child).map_err(|error| error.to_string())?;
                    let Some(state) = self.state(&child).await? else {
                        return Ok(None);
                    };
                    if !self.children.contains(&child) {
                        self.children.push(child.clone());
                    }
                    if state.state().is_terminal() {
                        return Ok(None);
                    }
                    let of_child = Box::pin(self.resting(&child, &state)).await?;
                    // A child that its parent ends compensates; until the order has arrived it does not rest.
                    let is_undo = |act: &Act| matches!(act, Act::Answer((_, _, _, undo)) if *undo);
                    match of_child {
                        Some(of_child) if !order.cancel || of_child.iter().all(is_undo) => {
                            acts.extend(of_child);
                        }
                        Some(_) | None => return Ok(None),
                    }
                }
            }
        }
        Ok(Some(acts))
    }

    fn wanted(&self, id: &ExecutionId, awaited: &Awaited) -> Option<Act> {
        Some(match awaited {
            Awaited::Trigger => return None,
            Awaited::Resume => Act::Resume(id.clone()),
            Awaited::Signal { name, .. } => Act::Signal(id.clone(), Arc::clone(name)),
            Awaited::Approval { step, attempt, .. } => {
                Act::Decide(id.clone(), format!("{step}~{attempt}"))
            }
            Awaited::Person {
                step,
                attempt,
                role,
                ..
            } => {
                let role = role.as_deref().unwrap_or("operator").to_owned();
                Act::Resolve(id.clone(), format!("{step}~{attempt}"), role)
            }
        })
    }

    /// Receives the messages of the worker for a moment.
    async fn hear(&mut self) {
        let until = tokio::time::Instant::now() + LOOK;
        loop {
            let message = poll_fn(|context| self.session.poll_message(context));
            let Ok(Some(message)) = tokio::time::timeout_at(until, message).await else {
                break;
            };
            match message {
                WorkerMessage::Task(task) => {
                    let execution = task.execution.clone();
                    let step = Arc::clone(&task.step);
                    let place = (execution, step, task.attempt, task.compensation);
                    self.tasks.insert(place, *task);
                }
                // A worker that is asked to stop gives the task back.
                WorkerMessage::Cancelled { task_token } => {
                    self.forget(&task_token);
                    let outcome = TaskOutcome::Released { begun: false };
                    self.session.settle(task_token, outcome, None);
                }
                WorkerMessage::Withdrawn { task_token, .. } => self.forget(&task_token),
                WorkerMessage::Accepted { .. }
                | WorkerMessage::Refused { .. }
                | WorkerMessage::Closed { .. } => {}
            }
        }
        self.session.heartbeat(None, None);
    }

    fn forget(&mut self, token: &str) {
        self.tasks.retain(|_, task| task.task_token != token);
    }

    /// The state by the log; none before the execution exists.
    async fn state(&self, id: &ExecutionId) -> Result<Option<State>, String> {
        let log = self.provider.event_log().ok_or("no log")?;
        let file = match log.export(&call("ada", ""), id, false).await {
            Ok(file) => file,
            Err(error) if error.kind == stateway_model::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(format!("{error:?}")),
        };
        let recording = Recording::read(&file).map_err(|error| error.to_string())?;
        let state = recording.state_at(None, 0);
        state.map(Some).map_err(|error| error.to_string())
    }

    async fn intervene(&mut self) -> Result<(), String> {
        match self.chance("intervention").below(4) {
            0 => {
                let pause = PauseRequest {
                    id: self.id.clone(),
                    comment: String::new(),
                    request_id: self.request("pause"),
                };
                self.acts.push("pause".to_owned());
                let paused = self.provider.pause(&call("ada", ""), pause).await;
                // An execution that compensates cannot be paused; that is so on every engine.
                match paused {
                    Ok(_) => Ok(()),
                    Err(error) if error.engine_answered() => {
                        self.acts.push(format!("refused {}", error.reason()));
                        Ok(())
                    }
                    Err(error) => Err(format!("{error:?}")),
                }
            }
            1 => self.cancel(CancelMode::Kill).await,
            _ => self.cancel(CancelMode::Graceful).await,
        }
    }

    async fn cancel(&mut self, mode: CancelMode) -> Result<(), String> {
        let cancel = CancelRequest {
            id: self.id.clone(),
            mode,
            compensation: CompensationChoice::AsDefined,
            comment: String::new(),
            request_id: self.request("cancel"),
        };
        self.acts.push(format!("cancel {mode:?}"));
        match self.provider.cancel(&call("ada", ""), cancel).await {
            Ok(_) => Ok(()),
            Err(error) if error.engine_answered() && mode != CancelMode::Kill => {
                self.acts.push(format!("refused {}", error.reason()));
                Ok(())
            }
            Err(error) => Err(format!("{error:?}")),
        }
    }

    async fn act(&mut self, act: Act) -> Result<(), String> {
        let shown = format!("{act:?}");
        let provider = self.provider;
        let request_id = self.request("act");
        let mut chance = self.chance(&format!("{shown} {}", self.acts.len()));
        self.acts.push(shown);
        let done: Result<(), Error> = match act {
            Act::Answer(place) => {
                if let Some(task) = self.tasks.remove(&place) {
                    let outcome = self.outcome(&place);
                    self.session.settle(task.task_token, outcome, None);
                    return self.until_taken_in(&place).await;
                }
                return Ok(());
            }
            Act::Signal(id, signal) => {
                let signal = SignalRequest {
                    id,
                    signal: signal.to_string(),
                    payload: Some(Payload::json("{\"ok\":true}")),
                    request_id,
                };
                provider.signal(&call("sam", ""), signal).await.map(drop)
            }
            Act::Decide(execution, id) => {
                let decide = DecideRequest {
                    id: InboxId { execution, id },
                    grant: chance.percent(70),
                    comment: String::new(),
                    etag: String::new(),
                    request_id,
                };
                let approvals = provider.approvals().ok_or("no approvals")?;
                approvals
                    .decide(&call("bob", "boss"), decide)
                    .await
                    .map(drop)
            }
            Act::Resolve(execution, id, role) => {
                let action = if chance.percent(60) {
                    ResolutionAction::Resume
                } else {
                    ResolutionAction::Cancel
                };
                let resolve = ResolveRequest {
                    id: InboxId { execution, id },
                    action,
                    compensation: CompensationChoice::AsDefined,
                    comment: String::new(),
                    etag: String::new(),
                    request_id,
                };
                let approvals = provider.approvals().ok_or("no approvals")?;
                approvals
                    .resolve(&call("olga", &role), resolve)
                    .await
                    .map(drop)
            }
            Act::Resume(id) => {
                let resume = ResumeRequest { id, request_id };
                provider.resume(&call("ada", ""), resume).await.map(drop)
            }
        };
        done.map_err(|error| format!("{error:?}"))
    }

    /// Waits until a result is in the log: until then the task still counts as open.
    async fn until_taken_in(&mut self, place: &TaskPlace) -> Result<(), String> {
        let begun = Instant::now();
        let (id, step, attempt, undo) = place;
        loop {
            let state = self.state(id).await?;
            let is_open = state.is_some_and(|state| {
                !state.state().is_terminal()
                    && obligations(&state).iter().any(|obligation| {
                        matches!(obligation, Obligation::Task(order)
                            if order.key.task.step == *step
                                && order.key.task.attempt == *attempt
                                && order.key.task.undo == *undo)
                    })
            });
            if !is_open {
                return Ok(());
            }
            if begun.elapsed() > PATIENCE {
                return Err(format!("the result of {place:?} is not taken in"));
            }
            self.hear().await;
        }
    }

    /// What the worker answers to an attempt.
    fn outcome(&self, (id, step, attempt, undo): &TaskPlace) -> TaskOutcome {
        let mut chance = self.chance(&format!("{id} {step} {attempt} {undo}"));
        let completed = |output: &str| TaskOutcome::Completed {
            output: Some(Payload::json(output.to_owned())),
        };
        let failed = |category, no_retry| {
            TaskOutcome::Failed(TaskFailure {
                category,
                message: format!("{step}.{attempt} fails"),
                code: String::new(),
                no_retry,
                effects_unknown: false,
                retry_after: None,
            })
        };
        if *attempt >= LAST_FAILURE {
            return completed("{\"ok\":true,\"maybe\":1}");
        }
        let category = ErrorCategory::ALL[chance.below(ErrorCategory::ALL.len())];
        match (chance.below(100), *undo) {
            (0..60, _) => completed("{\"ok\":true,\"maybe\":1}"),
            (60..72, _) => completed("{\"ok\":true}"),
            (72..80, false) => completed("{}"),
            (80..95, false) => failed(category, false),
            (95.., false) => failed(category, true),
            (_, true) => failed(ErrorCategory::Transient, false),
        }
    }

    fn request(&self, what: &str) -> RequestId {
        request(&format!(
            "{}-{what}-{}",
            name_of(self.seed),
            self.acts.len()
        ))
    }

    async fn trajectories(&mut self) -> Result<String, String> {
        let mut text = String::new();
        let mut ids = std::mem::take(&mut self.children);
        ids.sort();
        ids.insert(0, self.id.clone());
        for id in ids {
            // A child may still end after its parent.
            let begun = Instant::now();
            loop {
                let state = self.state(&id).await?;
                let is_over = state.is_none_or(|state| {
                    matches!(
                        state.state(),
                        ExecutionState::Completed
                            | ExecutionState::Failed
                            | ExecutionState::Cancelled
                            | ExecutionState::RolledBack
                    )
                });
                if is_over {
                    break;
                }
                if begun.elapsed() > PATIENCE {
                    return Err(format!("`{id}` does not end"));
                }
                self.hear().await;
                // A child that was not cancelled is answered, in the order of its tasks.
                if begun.elapsed() > ALONE
                    && let Some(place) = self.tasks.keys().find(|it| it.0 == id).cloned()
                    && let Some(task) = self.tasks.remove(&place)
                {
                    let outcome = self.outcome(&place);
                    self.session.settle(task.task_token, outcome, None);
                }
            }
            let _ = writeln!(text, "# {id}");
            text.push_str(&trajectory(self.provider, &call("ada", ""), &id).await);
        }
        Ok(text)
    }
}

fn call(actor: &str, role: &str) -> Call {
    let roles = [role].into_iter().filter(|role| !role.is_empty());
    Call {
        actor: actor.into(),
        roles: roles.map(Arc::from).collect(),
        ..Call::within(CALL)
    }
}

fn request(text: &str) -> RequestId {
    text.parse().expect("it is short and plain")
}
