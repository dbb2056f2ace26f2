//! Connects to the provider on demand, and keeps its description current.
//!
//! A call that finds no connection makes one, and the health checks of the gateway are such calls. So a
//! provider may start before or after the gateway, and leave at any time. After a failed connect the gateway
//! waits in [`reconnected`](Connection::reconnected), which tries again until the provider is back.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use stateway_model::ProviderId;
use stateway_provider_api::adapter::lock;
use stateway_provider_api::{
    Call, Capabilities, Description, Error, ErrorKind, Result, Table, Verb,
};
use stateway_wire::v1;
use tokio::sync::Notify;
use tonic::Request;

use crate::address::Dialer;
use crate::client::Client;
use crate::description::{self, Described};
use crate::error::{timed_out, unreachable};
use crate::pace::{Budget, pause};
use crate::violation::{CLOSES, Violations};

/// How long one connect and the description of the provider may take.
const CONNECT: Duration = Duration::from_secs(5);

/// A connection that is lost within this time has a short life.
const SHORT_LIFE: Duration = Duration::from_secs(1);
/// A connection that is lost sooner than this is not taken for the restart of a process.
const SHORTEST_RESTART: Duration = Duration::from_millis(20);
/// After this number of short lives in a row, the next connect waits.
const SHORT_LIVES: u32 = 3;

/// The connection to one provider.
pub(crate) struct Connection {
    id: ProviderId,
    dialer: Dialer,
    overlay: Option<Arc<Table>>,
    state: Mutex<State>,
    violations: Violations,
    /// What the watches may still receive.
    pub(crate) budget: Mutex<Budget>,
    /// One connect at a time.
    connecting: tokio::sync::Mutex<()>,
    /// Wakes `reconnected` after a connect, and when a connection is lost.
    changed: Arc<Notify>,
}

struct State {
    description: Arc<Description>,
    known: Option<CheckedDescription>,
    client: Option<Client>,
    failure: Option<Failure>,
    /// A connection was made that `reconnected` has not reported yet.
    has_connected: bool,
    connected_at: Option<Instant>,
    /// The process of the connection that was lost last.
    lost_instance: Option<String>,
    /// How many connections in a row were lost soon after they were made.
    short_lived: u32,
    /// How often the provider reported another `instance_id` than before.
    restart_count: u64,
}

impl State {
    /// Takes note of a lost connection. If the provider closes its connections repeatedly, the pauses before
    /// the next connection grow, and the error is returned. If its process ends repeatedly, the pause stays
    /// the shortest, because the next process may work.
    fn note_lost(&mut self, now: Instant) -> Option<Error> {
        let lived = self
            .connected_at
            .map_or(SHORT_LIFE, |at| now.saturating_duration_since(at));
        let instance = self.known.as_ref();
        let instance = instance.map(|known| known.described.instance_id.clone());
        let is_restart = self.lost_instance != instance && lived >= SHORTEST_RESTART;
        self.lost_instance = instance;
        if lived >= SHORT_LIFE {
            self.short_lived = 0;
            return None;
        }
        self.short_lived = self.short_lived.saturating_add(1);
        if is_restart {
            self.short_lived = self.short_lived.min(SHORT_LIVES + 1);
        }
        let in_a_row = self.short_lived.saturating_sub(SHORT_LIVES);
        if in_a_row == 0 {
            return None;
        }
        let error = if is_restart {
            let message = "the process of the provider ends soon after each start";
            Error::new(ErrorKind::Unavailable, Verb::Health, message)
        } else {
            let message = "the provider closes its connections within a second";
            Error::new(ErrorKind::Unavailable, Verb::Health, message).with_reason(CLOSES)
        };
        self.failure = Some(Failure {
            error: error.clone(),
            in_a_row,
            not_before: now + pause(in_a_row),
        });
        Some(error)
    }

    /// When to connect again; none while a connection lives or none was ever wanted.
    fn reconnect_at(&self) -> Option<Instant> {
        match (&self.failure, &self.client) {
            (Some(failure), _) => Some(failure.not_before),
            (None, Some(client)) if client.is_closed() => Some(Instant::now()),
            (None, _) => None,
        }
    }
}

/// What the provider reported last, and the result of checking it, so that the same report is not checked
/// again. One value: a report never stands beside the result of another one.
#[derive(Clone, PartialEq)]
struct CheckedDescription {
    response: v1::DescribeResponse,
    described: Described,
}

/// Why the last connect failed.
struct Failure {
    error: Error,
    in_a_row: u32,
    not_before: Instant,
}

impl Connection {
    pub(crate) fn new(id: ProviderId, dialer: Dialer, overlay: Option<Arc<Table>>) -> Self {
        let kind = overlay.as_ref().map_or("remote", |table| &table.kind);
        Self {
            state: Mutex::new(State {
                description: Description::pending(kind),
                known: None,
                client: None,
                failure: None,
                has_connected: false,
                connected_at: None,
                lost_instance: None,
                short_lived: 0,
                restart_count: 0,
            }),
            id,
            dialer,
            overlay,
            violations: Violations::default(),
            budget: Mutex::new(Budget::new(Instant::now())),
            connecting: tokio::sync::Mutex::new(()),
            changed: Arc::default(),
        }
    }

    pub(crate) fn id(&self) -> &ProviderId {
        &self.id
    }

    /// The newest description.
    pub(crate) fn description(&self) -> Arc<Description> {
        Arc::clone(&lock(&self.state).description)
    }

    /// One line about what was ignored in the description and about broken rules; may be empty.
    pub(crate) fn remark(&self) -> String {
        let ignored = {
            let state = lock(&self.state);
            state.known.as_ref().map(|known| known.described.remark())
        };
        let remarks = [ignored.unwrap_or_default(), self.violations.remark()];
        let remarks = remarks.into_iter().filter(|remark| !remark.is_empty());
        remarks.collect::<Vec<_>>().join("; ")
    }

    /// Takes note if the provider broke the contract.
    pub(crate) fn blame(&self, error: &Error) {
        self.violations.note(&self.id, error);
    }

    /// Takes note that the provider broke the contract.
    pub(crate) fn record(&self, violation: &Error) {
        self.violations.record(&self.id, violation);
    }

    /// How often the process of the provider was replaced by another one.
    pub(crate) fn restart_count(&self) -> u64 {
        lock(&self.state).restart_count
    }

    /// A connection whose provider has described itself and offers the verb.
    pub(crate) async fn client(self: &Arc<Self>, call: &Call, verb: Verb) -> Result<Client> {
        let client = match self.live() {
            Some(client) => client,
            None => {
                let connected = tokio::time::timeout_at(call.deadline.into(), self.connected());
                let connected = connected.await.map_err(|_| timed_out(verb))?;
                connected.map_err(|mut error| {
                    error.verb = verb;
                    error
                })?
            }
        };
        // The provider may have described itself again since the gateway checked the capability.
        self.description().check(verb)?;
        Ok(client)
    }

    fn live(&self) -> Option<Client> {
        let state = lock(&self.state);
        state.client.clone().filter(|client| !client.is_closed())
    }

    /// Returns when a provider whose connection was lost, or that could not be reached, is connected again.
    /// It may have been restarted with other capabilities, so it is not left to the next call to notice.
    pub(crate) async fn reconnected(self: &Arc<Self>) {
        loop {
            let reconnect_at = {
                let mut state = lock(&self.state);
                // A caller may have connected while this task did not wait.
                if std::mem::take(&mut state.has_connected) {
                    return;
                }
                state.reconnect_at()
            };
            match reconnect_at {
                Some(at) => {
                    tokio::time::sleep_until(at.into()).await;
                    // The next round sees how it ended.
                    self.connected().await.ok();
                }
                None => self.changed.notified().await,
            }
        }
    }

    /// Connects. A connect continues when its caller gives up, for at most [`CONNECT`]: a caller in a hurry
    /// neither hides a failure nor keeps a slow provider from ever being connected.
    async fn connected(self: &Arc<Self>) -> Result<Client> {
        let this = Arc::clone(self);
        let connecting = tokio::spawn(async move { this.connect().await });
        connecting.await.unwrap_or_else(|lost| {
            let message = format!("the connection attempt was interrupted: {lost}");
            Err(Error::new(ErrorKind::Internal, Verb::Health, message))
        })
    }

    async fn connect(&self) -> Result<Client> {
        let _one_at_a_time = self.connecting.lock().await;
        if let Some(client) = self.live() {
            return Ok(client);
        }
        {
            let mut state = lock(&self.state);
            if let Some(lost) = state.client.take() {
                tracing::warn!(provider = %self.id, "connection lost: {}", lost.why_closed());
                if let Some(error) = state.note_lost(Instant::now()) {
                    self.blame(&error);
                }
            }
            let pausing = state.failure.as_ref();
            let pausing = pausing.filter(|failure| Instant::now() < failure.not_before);
            if let Some(failure) = pausing {
                return Err(failure.error.clone());
            }
        }
        let connected = tokio::time::timeout(CONNECT, self.open()).await;
        let connected = connected.unwrap_or_else(|_| Err(timed_out(Verb::Health)));
        match connected {
            Ok((client, known)) => {
                let mut state = lock(&self.state);
                state.client = Some(client.clone());
                state.failure = None;
                state.has_connected = true;
                state.connected_at = Some(Instant::now());
                self.changed.notify_one();
                let (id, one) = (&self.id, &known.described);
                let (name, version, instance) = (&one.name, &one.version, &one.instance_id);
                tracing::info!(provider = %id, name, version, instance, "connected");
                self.publish(state, known);
                Ok(client)
            }
            Err(error) => Err(self.note(error)),
        }
    }

    async fn open(&self) -> Result<(Client, CheckedDescription)> {
        let line = self.dialer.dial().await;
        let line = line.map_err(|error| unreachable(Verb::Health, &error))?;
        let client = Client::over(line, Arc::clone(&self.changed)).await;
        let client = client.map_err(|error| unreachable(Verb::Health, &error))?;
        let known = self.ask(&client).await?;
        Ok((client, known))
    }

    async fn ask(&self, client: &Client) -> Result<CheckedDescription> {
        let mut request = Request::new(description::request(&self.id));
        request.set_timeout(CONNECT);
        let response = client.identity().describe(request).await;
        let response = response.map_err(|status| client.failed(&status, Verb::Health))?;
        let response = response.into_inner();
        let known = lock(&self.state).known.clone();
        if let Some(known) = known.filter(|known| known.response == response) {
            return Ok(known);
        }
        let described = description::read(response.clone(), self.overlay.as_deref())?;
        Ok(CheckedDescription {
            response,
            described,
        })
    }

    /// Asks a connected provider to describe itself again. The answer of a connection that was replaced
    /// meanwhile has no effect.
    pub(crate) async fn refresh(&self, call: &Call, client: &Client) -> Result<()> {
        let asked = tokio::time::timeout_at(call.deadline.into(), self.ask(client)).await;
        let asked = asked.map_err(|_| timed_out(Verb::Health))?;
        let mut state = lock(&self.state);
        let is_current = state.client.as_ref().is_some_and(|one| one.is_same(client));
        match asked {
            Ok(known) => {
                if is_current {
                    self.publish(state, known);
                }
                Ok(())
            }
            // A provider that broke a rule is not called until it describes itself well. One that could not
            // describe itself this time is as good as its last description.
            Err(error) if is_current && description::is_refused(&error) => {
                state.client = None;
                drop(state);
                Err(self.note(error))
            }
            Err(error) => Err(error),
        }
    }

    /// Takes note of a failed connect.
    fn note(&self, error: Error) -> Error {
        let mut state = lock(&self.state);
        let before = state.failure.as_ref();
        let is_new = before.is_none_or(|before| before.error.message != error.message);
        let in_a_row = before.map_or(1, |before| before.in_a_row.saturating_add(1));
        state.failure = Some(Failure {
            error: error.clone(),
            in_a_row,
            not_before: Instant::now() + pause(in_a_row),
        });
        drop(state);
        self.changed.notify_one();
        if is_new {
            let provider = &self.id;
            tracing::warn!(%provider, reason = error.reason(), "not connected: {}", error.message);
        }
        error
    }

    /// Makes a description take effect.
    fn publish(&self, mut state: MutexGuard<'_, State>, known: CheckedDescription) {
        let described = known.described.clone();
        let known_before = state.known.replace(known);
        let known_before = known_before.map(|before| before.described);
        let instance_before = known_before.as_ref().map(|before| &before.instance_id);
        if instance_before.is_some_and(|before| *before != described.instance_id) {
            state.restart_count += 1;
        }
        if known_before.as_ref() == Some(&described) {
            return;
        }
        let before = Arc::clone(&state.description);
        let (capabilities, table) = (described.capabilities, Arc::clone(&described.table));
        state.description = before.succeeded_by(capabilities, table);
        let after = Arc::clone(&state.description);
        drop(state);
        let unknown_before = known_before.map(|before| before.unknown);
        if unknown_before.unwrap_or_default() != described.unknown && !described.unknown.is_empty()
        {
            tracing::warn!(provider = %self.id, "{}", described.remark());
        }
        report(&self.id, &before, &after);
    }
}

/// Logs what has changed.
fn report(id: &ProviderId, before: &Description, after: &Description) {
    if before.generation == 0 {
        return;
    }
    if before.capabilities != after.capabilities {
        let gained = difference(after.capabilities, before.capabilities);
        let lost = difference(before.capabilities, after.capabilities);
        tracing::warn!(provider = %id, gained, lost, "capabilities changed");
    }
    if before.table != after.table {
        let rows = after.table.rows().len();
        tracing::warn!(provider = %id, rows, "state table changed");
    }
}

/// The names that one has and the other has not.
fn difference(one: Capabilities, other: Capabilities) -> String {
    let pairs = one.iter().zip(other.iter());
    let only = pairs.filter(|((_, one), (_, other))| *one && !*other);
    let names: Vec<_> = only.map(|((name, _), _)| name).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use stateway_provider_api::table::MEMORY;

    use super::*;

    fn described_as(instance: &str) -> CheckedDescription {
        let response = v1::DescribeResponse {
            name: "far".into(),
            min_contract_version: 1,
            max_contract_version: 1,
            instance_id: instance.into(),
            state_table: MEMORY.to_owned(),
            ..v1::DescribeResponse::default()
        };
        let described = description::read(response.clone(), None).unwrap();
        CheckedDescription {
            response,
            described,
        }
    }

    /// The pause in ms after each loss of a connection that lived for so long.
    fn pauses(lived: Duration, instance: impl Fn(u32) -> String) -> Vec<u128> {
        let config = crate::Config::at("unix:/nowhere".to_owned());
        let dialer = Dialer::new(&config).unwrap();
        let connection = Connection::new("far".parse().unwrap(), dialer, None);
        let mut state = lock(&connection.state);
        let mut now = Instant::now();
        let losses = (0..8).map(|number| {
            state.known = Some(described_as(&instance(number)));
            (state.failure, state.connected_at) = (None, Some(now));
            now += lived;
            state.note_lost(now);
            let until = state.failure.as_ref().map_or(now, |one| one.not_before);
            (until - now).as_millis()
        });
        losses.collect()
    }

    #[test]
    fn a_provider_that_closes_its_connections_waits_and_a_restarted_one_hardly() {
        let one = |_| "one".to_owned();
        let other = |number: u32| number.to_string();
        for lived in [3, 25, 100, 999] {
            let pauses = pauses(Duration::from_millis(lived), one);
            assert_eq!(pauses, [0, 0, 0, 50, 100, 200, 400, 800], "{lived} ms");
        }
        assert_eq!(pauses(Duration::from_secs(1), one), [0; 8]);
        for lived in [25, 100, 999] {
            let pauses = pauses(Duration::from_millis(lived), other);
            assert_eq!(pauses, [0, 0, 0, 50, 50, 50, 50, 50], "{lived} ms");
        }
        // No process starts and ends as fast.
        let pauses = pauses(Duration::from_millis(3), other);
        assert_eq!(pauses, [0, 0, 0, 50, 100, 200, 400, 800]);
    }
}
