//! The worker's loop: one connection after the other, with one set of task records.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use stateway_proto::v1::stream_tasks_request::Message as Request;
use stateway_proto::v1::stream_tasks_response::Message as Response;
use stateway_proto::v1::workers_client::WorkersClient;
use stateway_proto::v1::{self, StreamTasksResponse};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval, sleep, sleep_until, timeout};
use tonic::transport::Channel;
use tonic::{Code, Status, Streaming};

use super::handler::Handlers;
use super::outbox::{Outbox, outbox};
use super::task_records::{Begun, TaskRecords};
use super::{Task, Worker, WorkerNews};
use crate::Error;
use crate::back_off::{BackOff, spread};
use crate::identity::Identity;

/// The delays between connections. A worker never stops trying to connect.
const BACK_OFF: BackOff = BackOff {
    first: Duration::from_millis(50),
    longest: Duration::from_secs(2),
    most: u32::MAX,
};

/// The interval of heartbeats if the gateway does not send a lease.
const LEASE: Duration = Duration::from_secs(15);

/// The shortest interval of heartbeats, for any lease.
const SHORTEST_LIFE: Duration = Duration::from_millis(20);

/// The most heartbeats of tasks that wait to be sent.
const MAX_HEARTBEATS: usize = 1024;

/// The largest task.
const MAX_MESSAGE: usize = 64 * 1024 * 1024;

/// How long the worker waits until the gateway has closed the stream.
const GOODBYE: Duration = Duration::from_secs(1);

/// Another worker connected with the same id. A reconnect would in turn replace that worker.
const REPLACED: &str = "REPLACED";

/// A worker at work.
pub(super) struct Driver {
    channel: Channel,
    identity: Identity,
    offer: v1::Offer,
    handlers: Handlers,
    records: TaskRecords,
    work: JoinSet<(u64, Request)>,
    heartbeats: (
        mpsc::Sender<v1::TaskHeartbeat>,
        mpsc::Receiver<v1::TaskHeartbeat>,
    ),
    stop: BoxFuture<'static, ()>,
    drain: Duration,
    /// The time until which handlers may continue; set when the worker is asked to stop.
    stopping: Option<Instant>,
    tell: Arc<dyn Fn(&WorkerNews) + Send + Sync>,
    /// Consecutive connections that failed.
    failures: u32,
}

/// How a connection ended.
enum Ended {
    Stopped,
    Broken(Error),
    /// The credential of an open connection expired or was revoked. The next connection sends what a token file has
    /// by then, and its refusal is final.
    Outlived(Error),
}

impl Driver {
    pub(super) fn new(channel: Channel, worker: Worker) -> Self {
        let capacity = usize::try_from(worker.offer.capacity).unwrap_or(usize::MAX);
        Self {
            channel,
            identity: worker.identity,
            offer: worker.offer,
            handlers: worker.handlers,
            records: TaskRecords::new(capacity),
            work: JoinSet::new(),
            heartbeats: mpsc::channel(MAX_HEARTBEATS),
            stop: worker.stop,
            drain: worker.drain,
            stopping: None,
            tell: worker.tell,
            failures: 0,
        }
    }

    pub(super) async fn run(mut self) -> Result<(), Error> {
        loop {
            let error = match self.session().await {
                Ended::Stopped => return Ok(()),
                Ended::Broken(error) if is_final(&error) => return Err(error),
                Ended::Broken(error) | Ended::Outlived(error) => error,
            };
            self.failures = self.failures.saturating_add(1);
            let pause = BACK_OFF.pause(self.failures, error.retry_after(), spread());
            (self.tell)(&WorkerNews::Interrupted(error));
            if let Ended::Stopped = self.away(pause.unwrap_or(BACK_OFF.longest)).await {
                return Ok(());
            }
        }
    }

    /// The time between two connections; tasks in progress continue.
    async fn away(&mut self, pause: Duration) -> Ended {
        let pause = sleep(pause);
        tokio::pin!(pause);
        loop {
            if self.stopping.is_some() && self.records.is_clear() {
                return Ended::Stopped;
            }
            tokio::select! {
                () = &mut pause => return Ended::Broken(interrupted()),
                Some(done) = self.work.join_next() => drop(self.finished(done)),
                () = &mut self.stop, if self.stopping.is_none() => drop(self.stopped()),
                () = drained(self.stopping) => return Ended::Stopped,
            }
        }
    }

    async fn session(&mut self) -> Ended {
        let (outbox, outgoing) = outbox();
        outbox.send(Request::Offer(self.present_offer()));
        self.records
            .unacknowledged()
            .for_each(|answer| outbox.send(answer.clone()));
        let mut outgoing = tonic::Request::new(outgoing);
        self.identity.put(outgoing.metadata_mut());
        let mut service =
            WorkersClient::new(self.channel.clone()).max_decoding_message_size(MAX_MESSAGE);
        let connected = tokio::select! {
            connected = service.stream_tasks(outgoing) => connected,
            ended = self.asked_to_stop_while_connecting() => return ended,
        };
        match connected {
            Ok(response) => self.converse(outbox, response.into_inner()).await,
            Err(status) => Ended::Broken(Error::from_status(&status)),
        }
    }

    /// Resolves when every answer is delivered.
    async fn asked_to_stop_while_connecting(&mut self) -> Ended {
        if self.stopping.is_none() {
            (&mut self.stop).await;
            drop(self.stopped());
        }
        while !self.records.is_clear() {
            tokio::select! {
                Some(done) = self.work.join_next() => drop(self.finished(done)),
                () = drained(self.stopping) => return Ended::Stopped,
            }
        }
        Ended::Stopped
    }

    async fn converse(
        &mut self,
        outbox: Outbox,
        mut incoming: Streaming<StreamTasksResponse>,
    ) -> Ended {
        let mut life = signs_of_life(LEASE);
        loop {
            self.begin();
            if self.stopping.is_some() && self.records.is_clear() {
                return goodbye(outbox, incoming).await;
            }
            tokio::select! {
                received = incoming.message() => match received {
                    Ok(Some(response)) => match self.receive(response, &outbox, &mut life) {
                        Some(error) => return Ended::Broken(error),
                        None => continue,
                    },
                    Ok(None) => return Ended::Broken(interrupted()),
                    Err(status) if status.code() == Code::Unauthenticated => {
                        return Ended::Outlived(Error::from_status(&status));
                    }
                    Err(status) => return Ended::Broken(Error::from_status(&status)),
                },
                Some(done) = self.work.join_next() => self.answer(done, &outbox),
                Some(heartbeat) = self.heartbeats.1.recv() => {
                    outbox.send(Request::Heartbeat(heartbeat));
                }
                _ = life.tick() => outbox.send(Request::Heartbeat(v1::TaskHeartbeat::default())),
                () = &mut self.stop, if self.stopping.is_none() => {
                    let given_back = self.stopped();
                    outbox.send(Request::Offer(self.present_offer()));
                    outbox.release(given_back, false);
                }
                () = drained(self.stopping) => {
                    outbox.release(self.records.give_back_ready(), false);
                    outbox.release(self.records.give_back_begun(), true);
                    return goodbye(outbox, incoming).await;
                }
            }
        }
    }

    /// Starts the tasks that are ready, each as a separate Tokio task.
    fn begin(&mut self) {
        while let Some(begun) = self.records.begin() {
            let Begun {
                arrival,
                task,
                signals,
            } = begun;
            let task = Task::new(task, signals, self.heartbeats.0.clone());
            let work = self.handlers.work_on(task);
            self.work.spawn(async move { (arrival, work.await) });
        }
    }

    /// Sends this answer and every other that is ready, so that they leave together.
    fn answer(&mut self, done: Result<(u64, Request), tokio::task::JoinError>, outbox: &Outbox) {
        let mut done = Some(done);
        while let Some(one) = done {
            if let Some(answer) = self.finished(one) {
                outbox.send(answer);
            }
            done = self.work.try_join_next();
        }
    }

    fn finished(
        &mut self,
        done: Result<(u64, Request), tokio::task::JoinError>,
    ) -> Option<Request> {
        // Handlers' panics are caught inside; what is left is a runtime that is being shut down.
        let (arrival, answer) = done.ok()?;
        self.records.finish(arrival, answer)
    }

    /// Takes in one message; an error ends the session.
    fn receive(
        &mut self,
        response: StreamTasksResponse,
        outbox: &Outbox,
        life: &mut Interval,
    ) -> Option<Error> {
        match response.message? {
            Response::Task(task) if self.stopping.is_some() => {
                outbox.release([task.task_token], false);
            }
            Response::Task(task) => self.records.take(task),
            Response::Accepted(accepted) => self.records.settle(&accepted.task_token),
            Response::Cancelled(cancelled) => {
                let not_begun = self.records.cancel(&cancelled.task_token);
                outbox.release(not_begun, false);
            }
            Response::Withdrawn(withdrawn) => self.records.withdraw(&withdrawn.task_token),
            Response::Refused(refused) => {
                self.records.settle(&refused.task_token);
                self.records.withdraw(&refused.task_token);
                (self.tell)(&WorkerNews::Refused {
                    task_token: refused.task_token,
                    reason: refused.reason,
                    message: refused.message,
                });
            }
            Response::Welcome(welcome) => {
                self.failures = 0;
                let lease = welcome
                    .lease_duration
                    .and_then(|lease| lease.try_into().ok());
                let lease = lease.unwrap_or(LEASE);
                *life = signs_of_life(lease);
                if !welcome.worker_id.is_empty() {
                    self.offer.worker_id.clone_from(&welcome.worker_id);
                }
                (self.tell)(&WorkerNews::Connected {
                    worker_id: welcome.worker_id,
                    lease,
                });
            }
            Response::Closed(closed) => return Some(Error::session_closed(&closed.reason)),
        }
        None
    }

    /// Notes that it was asked to stop; answers what is to be given back.
    fn stopped(&mut self) -> Vec<String> {
        self.stopping = Some(Instant::now() + self.drain);
        let given_back = self.records.give_back_ready();
        let under_way = self.records.busy();
        (self.tell)(&WorkerNews::Stopping { under_way });
        given_back
    }

    /// The offer of the worker: nothing while it stops.
    fn present_offer(&self) -> v1::Offer {
        let mut offer = self.offer.clone();
        if self.stopping.is_some() {
            offer.capacity = 0;
            offer.prefetch = 0;
        }
        offer
    }
}

/// Lets what was sent arrive before the connection ends.
async fn goodbye(outbox: Outbox, mut incoming: Streaming<StreamTasksResponse>) -> Ended {
    drop(outbox);
    let rest = async { while let Ok(Some(_)) = incoming.message().await {} };
    // Nothing follows, whether the stream ends in time or not.
    let _ = timeout(GOODBYE, rest).await;
    Ended::Stopped
}

async fn drained(until: Option<Instant>) {
    match until {
        Some(until) => sleep_until(until).await,
        None => std::future::pending().await,
    }
}

fn signs_of_life(lease: Duration) -> Interval {
    let mut life = interval((lease / 3).max(SHORTEST_LIFE));
    life.set_missed_tick_behavior(MissedTickBehavior::Delay);
    life
}

fn interrupted() -> Error {
    Error::from_status(&Status::unavailable("it closed the stream"))
}

/// Errors that a retry cannot repair.
fn is_final(error: &Error) -> bool {
    let refused = matches!(
        error.code(),
        Code::InvalidArgument
            | Code::NotFound
            | Code::PermissionDenied
            | Code::Unauthenticated
            | Code::Unimplemented
            | Code::FailedPrecondition
    );
    error.reason() == REPLACED || refused && error.is_from_gateway()
}
