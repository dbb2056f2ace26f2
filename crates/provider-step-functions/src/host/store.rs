//! Reads and writes objects in Step Functions.

mod generation;
mod read;
mod turn;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use aws_credential_types::Credentials;
use jiff::Timestamp;
use stateway_hosted::message::StoredView;
use stateway_hosted::object::{self, Missing, Turn, VIEW};
use stateway_hosted::provider::ObjectKind;
use stateway_hosted::{Plans, definition_object};
use stateway_provider_api::{Call, Error, ErrorKind, Result};
use tokio::sync::{Notify, OnceCell, watch};

use super::config::HostConfig;
use super::envelope::Envelope;
use super::gate::Values;
use super::machine;
use super::mirror::{Head, Key, Mirror};
use super::name;
use crate::Clock;
use crate::client::{Ask, Client, NewMachine};
use crate::id::execution_of;

/// The shortest and the longest pause before a turn that was accepted is read.
const SETTLE: (u64, u64) = (5, 400);
/// The ARNs of the state machines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Machines {
    pub(crate) executions: String,
    pub(crate) definitions: String,
}

impl Machines {
    pub(crate) fn of(&self, kind: ObjectKind) -> &str {
        match kind {
            ObjectKind::Execution => &self.executions,
            ObjectKind::Definition => &self.definitions,
        }
    }
}

/// What the port and the controller share.
pub(crate) struct Store {
    pub(crate) client: Client,
    config: HostConfig,
    machines: OnceCell<Machines>,
    plans: Plans,
    mirror: Mutex<Mirror>,
    /// Something is to be done earlier than before.
    pub(crate) wake: Notify,
    /// When the newest executions were listed.
    pub(crate) listed: Mutex<Option<Instant>>,
    /// Whether every open execution was listed once.
    pub(crate) known: watch::Sender<bool>,
    /// Whether every open execution was read once.
    pub(crate) swept: watch::Sender<bool>,
    /// Names this process.
    writer: String,
    writes: AtomicU64,
    /// How long Step Functions takes from an accepted turn to the next gate, in milliseconds.
    settle: AtomicU64,
}

impl Store {
    pub(crate) fn new(config: &HostConfig, credentials: Option<Credentials>) -> Self {
        let clock = Clock::default();
        let began = Timestamp::now().as_nanosecond();
        Self {
            client: Client::new(config.connection(), credentials, clock),
            config: config.clone(),
            machines: OnceCell::new(),
            plans: Plans::default(),
            mirror: Mutex::default(),
            wake: Notify::new(),
            listed: Mutex::default(),
            known: watch::Sender::new(false),
            swept: watch::Sender::new(false),
            writer: format!("{}-{began:x}", std::process::id()),
            writes: AtomicU64::new(0),
            settle: AtomicU64::new(SETTLE.0 * 4),
        }
    }

    /// From this event of its history on an execution continues in another one.
    pub(crate) fn most_events(&self) -> u64 {
        self.config.most_events
    }

    pub(crate) fn mirror(&self) -> MutexGuard<'_, Mirror> {
        self.mirror.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state machines. They are created if they do not exist.
    pub(crate) async fn machines(&self, ask: Ask<'_>) -> Result<&Machines> {
        let made = Box::pin(async {
            let executions = machine::executions(&self.config.name);
            let definitions = machine::definitions(&self.config.name);
            Ok(Machines {
                executions: self.machine(ask, &executions).await?,
                definitions: self.machine(ask, &definitions).await?,
            })
        });
        self.machines.get_or_try_init(|| made).await
    }

    /// The ARN of a state machine that has our definition.
    async fn machine(&self, ask: Ask<'_>, name: &str) -> Result<String> {
        let mut token = None;
        loop {
            let page = self.client.machines(ask, 1_000, token).await?;
            if let Some(found) = page.rows.into_iter().find(|it| it.name == name) {
                let told = self.client.machine(ask, &found.arn).await?;
                if is_same(&told.definition, machine::DEFINITION) {
                    return Ok(found.arn);
                }
                let message = format!("the state machine `{name}` has another definition");
                return Err(Error::precondition(ask.verb, message)
                    .with_reason("STATE_MACHINE_CHANGED")
                    .with_hint("Set `name` of the provider to another beginning of names, or restore its definition."));
            }
            match page.next {
                Some(next) => token = Some(next),
                None => break,
            }
        }
        if self.config.role_arn.is_empty() {
            let message = format!("the state machine `{name}` does not exist");
            return Err(Error::precondition(ask.verb, message)
                .with_reason("STATE_MACHINE_MISSING")
                .with_hint(
                    "Set `role_arn` of the provider: then the gateway creates the state machine.",
                ));
        }
        let new = NewMachine {
            name,
            source: machine::DEFINITION,
            role: &self.config.role_arn,
            express: false,
            tags: Vec::new(),
        };
        let (arn, _) = self.client.create(ask, new).await?;
        Ok(arn)
    }

    async fn arn(&self, ask: Ask<'_>, key: &Key, generation: u32) -> Result<String> {
        let machines = self.machines(ask).await?;
        let name = name::of_generation(&key.1, generation);
        let arn = execution_of(machines.of(key.0), &name);
        arn.ok_or_else(|| {
            Error::new(
                ErrorKind::Malformed,
                ask.verb,
                "the ARN of the state machine cannot be read",
            )
        })
    }

    /// Carries out a request with the pure object.
    async fn handle(
        &self,
        ask: Ask<'_>,
        key: &Key,
        head: Option<&Head>,
        (id, request): (&str, &[u8]),
    ) -> Result<Turn> {
        let mut log: Option<Arc<Values>> = None;
        loop {
            let bytes = |value: &String| value.clone().into_bytes();
            let mut read = |name: &str| match (head, &log) {
                (None, _) => Ok(None),
                (Some(head), _) if head.envelope.w.contains_key(name) => {
                    Ok(head.envelope.w.get(name).map(bytes))
                }
                (Some(_), Some(log)) => Ok(log.values.get(name).map(bytes)),
                (Some(_), None) => Err(Missing(name.to_owned())),
            };
            let turn = match key.0 {
                ObjectKind::Execution => object::handle(id, request, &mut read, &self.plans),
                ObjectKind::Definition => definition_object::handle(id, request, &mut read),
            };
            match (turn, head) {
                (Ok(turn), _) => return Ok(turn),
                (Err(_), Some(head)) => log = Some(self.values(ask, key, head).await?),
                (Err(Missing(name)), None) => {
                    let message = format!("the value `{name}` of a new object is wanted");
                    return Err(Error::new(ErrorKind::Internal, ask.verb, message));
                }
            }
        }
    }

    /// The token of the gate; none when the object has moved on meanwhile.
    async fn token(&self, ask: Ask<'_>, key: &Key, head: &Head) -> Result<Option<String>> {
        if let Some(token) = &head.token {
            return Ok(Some(token.clone()));
        }
        loop {
            let found = self.find(ask, key).await?;
            let now = found.head.filter(|now| now.closed.is_none());
            let now = now.filter(|now| now.envelope.by == head.envelope.by);
            let Some(now) = now else { return Ok(None) };
            if let Some(token) = &now.token {
                return Ok(Some(token.clone()));
            }
            self.settled(ask).await?;
            self.learn_settle(false);
        }
    }

    /// Waits as long as Step Functions usually takes from a turn to the next gate.
    async fn settled(&self, ask: Ask<'_>) -> Result<()> {
        let pause = Duration::from_millis(self.settle.load(Ordering::Relaxed));
        if ask.call.remaining() <= pause {
            let message = "Step Functions accepted the request and does not show it yet";
            return Err(Error::new(ErrorKind::Timeout, ask.verb, message)
                .with_hint("Repeat the request with the same request id."));
        }
        tokio::time::sleep(pause).await;
        Ok(())
    }

    /// A pause that was too short is longer next time, one that was enough a little shorter: each read counts
    /// against the quota.
    fn learn_settle(&self, was_enough: bool) {
        let now = self.settle.load(Ordering::Relaxed);
        let next = if was_enough {
            now - now / 16
        } else {
            now + now / 2
        };
        self.settle
            .store(next.clamp(SETTLE.0, SETTLE.1), Ordering::Relaxed);
    }

    /// A call of the gateway itself, without a caller.
    pub(crate) fn own_call() -> Call {
        Call::within(Duration::from_secs(30))
    }
}

/// Whether two texts are the same JSON.
fn is_same(one: &str, other: &str) -> bool {
    let read = |text| serde_json::from_str::<serde_json::Value>(text).ok();
    read(one).is_some_and(|one| Some(one) == read(other))
}

/// The view that a turn of an execution has.
fn view(envelope: &Envelope) -> Option<StoredView> {
    serde_json::from_str(envelope.w.get(VIEW)?).ok()
}

/// Whether the token of a gate was used before.
fn is_used(error: &Error) -> bool {
    ["TaskTimedOut", "TaskDoesNotExist", "InvalidToken"].contains(&error.native_code.as_str())
}
