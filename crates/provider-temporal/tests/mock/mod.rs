//! A Temporal server in memory behind real gRPC: what tests put there, the answers that were recorded on server
//! 1.32.0, and a count of the calls. No worker exists: nothing moves unless a call moves it.

#![allow(dead_code, clippy::unwrap_used, reason = "each test uses a part of it")]

mod answer;
mod change;
mod query;
mod service;
mod world;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;
use stateway_provider_temporal::Config;
use stateway_provider_temporal::api::workflowservice::v1::workflow_service_server::WorkflowServiceServer;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tonic::{Code, Status};

use crate::support::message::{described, events};
pub(crate) use world::{Run, World};

/// How the next call is failed.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Fault {
    Hang,
    Slow(Duration),
    Throttle(Duration),
    /// The limit of this name is reached.
    Exhausted(&'static str),
    Unavailable,
    Malformed,
    Denied,
}

/// A server that ends when it is dropped.
pub(crate) struct Mock {
    pub(crate) state: Arc<State>,
    address: String,
    server: tokio::task::JoinHandle<()>,
}

impl Drop for Mock {
    fn drop(&mut self) {
        self.server.abort();
    }
}

type Change = Box<dyn FnOnce(&mut World) + Send>;

/// What the service and the test share.
pub(crate) struct State {
    world: Mutex<World>,
    fault: Mutex<Option<Fault>>,
    /// Calls that are refused until the test allows them again.
    refused: Mutex<BTreeMap<&'static str, Code>>,
    /// Workflows that cannot be described.
    broken: Mutex<BTreeSet<String>>,
    /// Calls that reach a limit until the test allows them again, with the name of the limit.
    exhausted: Mutex<BTreeMap<&'static str, &'static str>>,
    /// Calls that are refused from a call of another name on.
    refused_after: Mutex<BTreeMap<&'static str, &'static str>>,
    /// How many calls of a name are allowed until one is refused.
    allowed: Mutex<BTreeMap<&'static str, usize>>,
    /// What happens immediately before the next call of a name.
    before: Mutex<BTreeMap<&'static str, Change>>,
    calls: Mutex<Vec<(&'static str, Instant)>>,
    /// Counts changes, so that long polls see them.
    changes: watch::Sender<u64>,
    polls: Mutex<Polls>,
}

/// The long polls under way, and the most that were under way at a time.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Polls {
    pub(crate) open: usize,
    pub(crate) most: usize,
}

impl Mock {
    pub(crate) async fn start() -> Self {
        Self::with_streams(None).await
    }

    /// A server behind something that allows so many calls under way on one connection.
    pub(crate) async fn with_streams(most: Option<u32>) -> Self {
        let state = Arc::new(State {
            world: Mutex::default(),
            fault: Mutex::default(),
            refused: Mutex::default(),
            broken: Mutex::default(),
            exhausted: Mutex::default(),
            refused_after: Mutex::default(),
            allowed: Mutex::default(),
            before: Mutex::default(),
            calls: Mutex::default(),
            changes: watch::Sender::new(0),
            polls: Mutex::default(),
        });
        lock(&state.world).polled.insert("lab".to_owned());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let service = WorkflowServiceServer::new(service::Service(state.clone()));
        let incoming =
            tonic::transport::server::TcpIncoming::from(listener).with_nodelay(Some(true));
        let serving = tonic::transport::Server::builder()
            .max_concurrent_streams(most)
            .add_service(service)
            .serve_with_incoming(incoming);
        let server = tokio::spawn(async move { serving.await.unwrap() });
        Self {
            state,
            address,
            server,
        }
    }

    /// For a provider that starts the workflow type `Script` on the queue `lab`.
    pub(crate) fn config(&self) -> Config {
        Config {
            task_queue: Some("lab".to_owned()),
            workflow_types: vec!["Script".to_owned()],
            ..Config::at(self.address.clone())
        }
    }

    /// Puts an execution there, as a description and the events of its history.
    pub(crate) fn put(&self, description: &Value, history: &Value) {
        let run = Run::recorded(described(description), events(history));
        self.change(|world| world.put(run));
    }

    /// Changes something, and wakes long polls.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut World) -> T) -> T {
        self.state.change(change)
    }

    /// Fails the next call like this.
    pub(crate) fn inject(&self, fault: Fault) {
        *lock(&self.state.fault) = Some(fault);
    }

    /// Refuses every call of this name until [`Self::allow`].
    pub(crate) fn refuse(&self, name: &'static str) {
        self.refuse_with(name, Code::Unavailable);
    }

    pub(crate) fn refuse_with(&self, name: &'static str, code: Code) {
        lock(&self.state.refused).insert(name, code);
    }

    /// Descriptions of this workflow fail from now on.
    pub(crate) fn break_workflow(&self, id: &str) {
        lock(&self.state.broken).insert(id.to_owned());
    }

    /// Every call of this name reaches the limit of this cause until [`Self::allow`].
    pub(crate) fn exhaust(&self, name: &'static str, cause: &'static str) {
        lock(&self.state.exhausted).insert(name, cause);
    }

    /// Refuses every call of the second name after one of the first.
    pub(crate) fn refuse_after(&self, first: &'static str, then: &'static str) {
        lock(&self.state.refused_after).insert(first, then);
    }

    /// Refuses one call of this name: the first, the second and so on.
    pub(crate) fn refuse_nth(&self, name: &'static str, number: usize) {
        lock(&self.state.allowed).insert(name, number);
    }

    pub(crate) fn allow(&self, name: &'static str) {
        lock(&self.state.refused).remove(name);
        lock(&self.state.exhausted).remove(name);
    }

    /// Changes something immediately before the next call of this name.
    pub(crate) fn before(
        &self,
        name: &'static str,
        change: impl FnOnce(&mut World) + Send + 'static,
    ) {
        lock(&self.state.before).insert(name, Box::new(change));
    }

    /// How often each call was made since this moment.
    pub(crate) fn calls_since(&self, since: Instant) -> BTreeMap<&'static str, usize> {
        let mut counted = BTreeMap::new();
        for (name, at) in lock(&self.state.calls).iter() {
            if *at >= since {
                *counted.entry(*name).or_insert(0) += 1;
            }
        }
        counted
    }

    /// The most calls of these names in any second since this moment.
    pub(crate) fn busiest_second(&self, since: Instant, names: &[&str]) -> usize {
        let calls = lock(&self.state.calls);
        let wanted = calls
            .iter()
            .filter(|(name, at)| *at >= since && names.contains(name));
        let times: Vec<Instant> = wanted.map(|(_, at)| *at).collect();
        let in_second = |(index, begin): (usize, &Instant)| {
            let rest = times[index..].iter();
            rest.take_while(|at| **at < *begin + Duration::from_secs(1))
                .count()
        };
        times.iter().enumerate().map(in_second).max().unwrap_or(0)
    }

    pub(crate) fn polls(&self) -> Polls {
        *lock(&self.state.polls)
    }
}

impl State {
    /// Whether this workflow cannot be described.
    fn is_broken(&self, id: &str) -> bool {
        lock(&self.broken).contains(id)
    }

    pub(crate) fn world(&self) -> MutexGuard<'_, World> {
        lock(&self.world)
    }

    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut World) -> T) -> T {
        let changed = change(&mut self.world());
        self.changes.send_modify(|count| *count += 1);
        changed
    }

    /// Counts a call and fails it if that is its turn. Whether the answer is to make no sense.
    async fn enter(&self, name: &'static str) -> Result<bool, Status> {
        lock(&self.calls).push((name, Instant::now()));
        let change = lock(&self.before).remove(name);
        if let Some(change) = change {
            self.change(change);
        }
        let refused = lock(&self.refused).get(name).copied();
        if let Some(code) = refused {
            return Err(Status::new(code, "shutting down"));
        }
        let cause = lock(&self.exhausted).get(name).copied();
        if let Some(cause) = cause {
            return Err(answer::exhausted_by(cause));
        }
        if let Some(left) = lock(&self.allowed).get_mut(name) {
            *left = left.wrapping_sub(1);
            if *left == 0 {
                return Err(Status::unavailable("shutting down"));
            }
        }
        if let Some(then) = lock(&self.refused_after).get(name) {
            lock(&self.refused).insert(then, Code::Unavailable);
        }
        let fault = lock(&self.fault).take();
        match fault {
            Some(Fault::Hang) => {
                tokio::time::sleep(Duration::from_secs(3_600)).await;
                Ok(false)
            }
            Some(Fault::Slow(pause)) => {
                tokio::time::sleep(pause).await;
                Ok(false)
            }
            Some(Fault::Throttle(pause)) => Err(answer::exhausted(pause)),
            Some(Fault::Exhausted(cause)) => Err(answer::exhausted_by(cause)),
            Some(Fault::Unavailable) => Err(Status::unavailable("shutting down")),
            Some(Fault::Denied) => Err(Status::permission_denied("Request unauthorized.")),
            Some(Fault::Malformed) => Ok(true),
            None => Ok(false),
        }
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
