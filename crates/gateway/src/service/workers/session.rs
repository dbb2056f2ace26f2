//! One worker's stream: what it says goes to the engine, what the engine says goes to it.
//!
//! Both directions run in the task that polls the answers, so a message needs no other task and no wake-up,
//! and everything that is ready leaves in one write.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::future::BoxFuture;
use futures::{FutureExt, Stream};
use stateway_model::ProviderId;
use stateway_proto::v1;
use stateway_proto::v1::stream_tasks_request::Message as Said;
use stateway_proto::v1::stream_tasks_response::Message;
use stateway_provider_api::{ANONYMOUS, TaskOutcome, WorkerMessage, WorkerSession};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tonic::{Code, Status, Streaming};

use super::activity::Activity;
use super::{message, offer, worker_name};
use crate::access::ApiCall;
use crate::convert;
use crate::status::Refusal;

/// The most messages that are taken in before answers get their turn, and the most answers that are sent before
/// messages do.
const TURN: usize = 128;

/// One worker's stream.
pub(crate) struct Session {
    provider: ProviderId,
    worker: Arc<str>,
    said: Streaming<v1::StreamTasksRequest>,
    connected: Box<dyn WorkerSession>,
    activity: Arc<Activity>,
    /// Sent before anything of the engine.
    welcome: Option<v1::Welcome>,
    /// Who the worker is, for the offers that follow.
    call: ApiCall,
    /// Resolves when the access rules have changed for the worker.
    changed: BoxFuture<'static, ()>,
    stop: Pin<Box<WaitForCancellationFutureOwned>>,
    ended: bool,
    /// Answers sent since the worker was last heard.
    sent: usize,
}

impl Session {
    pub(super) fn new(
        provider: ProviderId,
        said: Streaming<v1::StreamTasksRequest>,
        (connected, activity): (Box<dyn WorkerSession>, Arc<Activity>),
        worker: Arc<str>,
        welcome: v1::Welcome,
        (call, stop): (ApiCall, CancellationToken),
    ) -> Self {
        Self {
            provider,
            worker,
            said,
            connected,
            activity,
            welcome: Some(welcome),
            changed: call.access.clone().changed().boxed(),
            call,
            stop: Box::pin(stop.cancelled_owned()),
            ended: false,
            sent: 0,
        }
    }

    /// The resource name of the worker.
    pub(crate) fn name(&self) -> String {
        worker_name(&self.provider, &self.worker)
    }

    /// Reads the messages of the worker; whether more may be ready immediately.
    fn listen(&mut self, context: &mut Context<'_>) -> Result<Heard, Status> {
        for _ in 0..TURN {
            // A worker that sends faster than the engine reads waits for the engine.
            if self.connected.poll_ready(context).is_pending() {
                return Ok(Heard::All);
            }
            match Pin::new(&mut self.said).poll_next(context) {
                Poll::Pending => return Ok(Heard::All),
                Poll::Ready(None) => return Ok(Heard::End),
                Poll::Ready(Some(request)) => {
                    self.take(request.map_err(|status| broken(&status))?)?;
                }
            }
        }
        Ok(Heard::MaybeMore)
    }

    fn take(&mut self, request: v1::StreamTasksRequest) -> Result<(), Status> {
        let Some(said) = request.message else {
            let message = "this gateway does not support this kind of message";
            return Err(Refusal::invalid("message", message).into());
        };
        match said {
            Said::Completed(done) => {
                let outcome = TaskOutcome::Completed {
                    output: done.output.map(convert::payload_from),
                };
                self.settle(done.task_token, outcome, done.usage);
            }
            Said::Failed(failed) => {
                let outcome = TaskOutcome::Failed(message::failed(&failed));
                self.settle(failed.task_token, outcome, failed.usage);
            }
            Said::Released(released) => {
                let begun = released.begun;
                self.settle(released.task_token, TaskOutcome::Released { begun }, None);
            }
            Said::Heartbeat(beat) => {
                let progress = message::progress(&beat);
                let token = Some(beat.task_token).filter(|token| !token.is_empty());
                self.connected.heartbeat(token, progress);
            }
            Said::Offer(sent) => return self.offer(sent),
        }
        Ok(())
    }

    fn settle(&mut self, token: String, outcome: TaskOutcome, usage: Option<v1::Usage>) {
        self.activity.answered(&outcome);
        self.connected
            .settle(token, outcome, usage.map(message::usage));
    }

    fn offer(&mut self, sent: v1::Offer) -> Result<(), Status> {
        let software = offer::software(&sent)?;
        let offer = offer::checked(sent)?;
        let mut offer = self.call.workable(&self.provider, offer)?;
        if !offer.worker.is_empty() && offer.worker != self.worker {
            let message = "a worker cannot change its id on the same stream";
            return Err(Refusal::invalid("worker_id", message).into());
        }
        offer.worker = self.call.access.worker_id(&self.worker);
        if *self.call.actor != *ANONYMOUS {
            offer.identity = Arc::clone(&self.call.actor);
        }
        self.activity.offered(software);
        self.connected.offer(offer);
        Ok(())
    }

    /// The next message of the engine.
    fn answer(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<v1::StreamTasksResponse, Status>>> {
        match self.connected.poll_message(context) {
            Poll::Ready(Some(told)) => {
                if matches!(told, WorkerMessage::Refused { .. }) {
                    self.activity.refused();
                }
                let told = message::told(&self.provider, told);
                self.ended = matches!(told, Message::Closed(_));
                Poll::Ready(Some(Ok(wire(told))))
            }
            // The engine is gone, and every session with it.
            Poll::Ready(None) => self.end("ENGINE_STOPPED"),
            Poll::Pending => Poll::Pending,
        }
    }

    /// The last message, after which nothing follows.
    fn end(&mut self, reason: &str) -> Poll<Option<Result<v1::StreamTasksResponse, Status>>> {
        self.ended = true;
        Poll::Ready(Some(Ok(wire(message::closed(reason)))))
    }
}

/// What became of listening.
enum Heard {
    /// Everything there was; the worker will be heard when it says more.
    All,
    /// A turn's worth.
    MaybeMore,
    /// The worker has sent its last message.
    End,
}

impl Stream for Session {
    type Item = Result<v1::StreamTasksResponse, Status>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        if this.ended {
            return Poll::Ready(None);
        }
        if let Some(welcome) = this.welcome.take() {
            return Poll::Ready(Some(Ok(wire(Message::Welcome(welcome)))));
        }
        // All answers that are ready leave together, before the worker is heard again: one look at its side of the
        // stream costs more than an answer.
        if this.sent < TURN
            && let Poll::Ready(answer) = this.answer(context)
        {
            this.sent += 1;
            return Poll::Ready(answer);
        }
        this.sent = 0;
        let heard = match this.listen(context) {
            Ok(heard) => heard,
            Err(status) => {
                this.ended = true;
                return Poll::Ready(Some(Err(status)));
            }
        };
        if let Poll::Ready(answer) = this.answer(context) {
            return Poll::Ready(answer);
        }
        match heard {
            Heard::End => {
                this.ended = true;
                return Poll::Ready(None);
            }
            Heard::MaybeMore => context.waker().wake_by_ref(),
            Heard::All => {}
        }
        if this.changed.as_mut().poll(context).is_ready() {
            return this.end("ACCESS_CHANGED");
        }
        match this.stop.as_mut().poll(context) {
            Poll::Ready(()) => this.end("SHUTTING_DOWN"),
            Poll::Pending => Poll::Pending,
        }
    }
}

/// What tonic says of a stream that broke, or of a message that it would not read, has no reason.
/// `INTERNAL` is what it says of a message that is no protobuf.
fn broken(status: &Status) -> Status {
    let (code, reason) = match status.code() {
        Code::OutOfRange => (Code::OutOfRange, "MESSAGE_TOO_LARGE"),
        Code::Cancelled => (Code::Cancelled, "STREAM_CANCELLED"),
        Code::Internal => (Code::InvalidArgument, "INVALID_MESSAGE"),
        other => (other, "STREAM_BROKEN"),
    };
    Refusal::new(code, reason, status.message()).into()
}

const fn wire(message: Message) -> v1::StreamTasksResponse {
    v1::StreamTasksResponse {
        message: Some(message),
    }
}
