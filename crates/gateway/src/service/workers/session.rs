//! One worker's stream: what it says goes to the engine, what the engine says goes to it.
//!
//! Both directions are driven by whoever polls the answers, so a message costs no task, no lock and
//! no wake-up of its own, and everything that is ready leaves in one write.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::Stream;
use stateway_engine::{Answers, Outcome, WorkerSession};
use stateway_model::ProviderId;
use stateway_proto::v1;
use stateway_proto::v1::work_request::Message as Said;
use stateway_proto::v1::work_response::Message;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tonic::{Code, Status, Streaming};

use super::message::{self, Unusable};
use super::offer;
use crate::status::Refusal;

/// The most messages that are taken in before answers get their turn.
const TURN: usize = 128;

/// The most that may wait to be told to a worker before it is listened to again.
const MOST_UNSAID: usize = 256;

/// One worker's stream.
pub(crate) struct Session {
    provider: ProviderId,
    worker: Arc<str>,
    said: Streaming<v1::WorkRequest>,
    connected: WorkerSession,
    answers: Answers,
    /// What the gateway itself has to say.
    own: VecDeque<Message>,
    stop: Pin<Box<WaitForCancellationFutureOwned>>,
    ended: bool,
}

impl Session {
    pub(super) fn new(
        provider: ProviderId,
        said: Streaming<v1::WorkRequest>,
        connected: WorkerSession,
        worker: Arc<str>,
        welcome: v1::Welcome,
        stop: CancellationToken,
    ) -> Self {
        let answers = connected.answers();
        Self {
            provider,
            worker,
            said,
            connected,
            answers,
            own: VecDeque::from([Message::Welcome(welcome)]),
            stop: Box::pin(stop.cancelled_owned()),
            ended: false,
        }
    }

    /// Takes in what the worker has said; whether there may be more at once.
    fn listen(&mut self, context: &mut Context<'_>) -> Result<Heard, Status> {
        for _ in 0..TURN {
            // A worker that does not read what it is told is not listened to meanwhile.
            if self.own.len() >= MOST_UNSAID {
                return Ok(Heard::MaybeMore);
            }
            // A worker that sends faster than the engine reads waits for the engine.
            if self.answers.poll_ready(context).is_pending() {
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

    fn take(&mut self, request: v1::WorkRequest) -> Result<(), Status> {
        let Some(said) = request.message else {
            let message = "a message of a kind that this gateway does not know";
            return Err(Refusal::invalid("message", message).into());
        };
        match said {
            Said::Completed(done) => {
                let outcome = message::completed(done.output);
                self.settle(done.task_token, outcome, done.usage);
            }
            Said::Failed(failed) => {
                let outcome = message::failed(&failed);
                self.settle(failed.task_token, Ok(outcome), failed.usage);
            }
            Said::Released(released) => {
                let begun = released.begun;
                self.settle(released.task_token, Ok(Outcome::Released { begun }), None);
            }
            Said::Heartbeat(beat) => self.heartbeat(beat),
            Said::Offer(sent) => return self.offer(sent),
        }
        Ok(())
    }

    fn settle(
        &mut self,
        token: String,
        outcome: Result<Outcome, Unusable>,
        usage: Option<v1::Usage>,
    ) {
        let usage = usage.map(message::usage);
        let parsed = match message::token(&token) {
            Ok(parsed) => parsed,
            Err(unusable) => return self.refuse(token, &unusable),
        };
        match outcome {
            Ok(outcome) => self.answers.settle(parsed, outcome, usage),
            Err(mut unusable) => {
                if let Some(outcome) = unusable.outcome.take() {
                    self.answers.settle(parsed, outcome, usage);
                }
                self.refuse(token, &unusable);
            }
        }
    }

    fn heartbeat(&mut self, beat: v1::TaskHeartbeat) {
        if beat.task_token.is_empty() {
            return self.answers.heartbeat(None, None);
        }
        match message::token(&beat.task_token) {
            Ok(token) => self
                .answers
                .heartbeat(Some(token), message::progress(&beat)),
            Err(unusable) => self.refuse(beat.task_token, &unusable),
        }
    }

    fn offer(&mut self, sent: v1::Offer) -> Result<(), Status> {
        let mut offer = offer::checked(sent)?;
        if !offer.worker.is_empty() && offer.worker != self.worker {
            let message = "a worker cannot become another one on the same stream";
            return Err(Refusal::invalid("worker_id", message).into());
        }
        offer.worker = Arc::clone(&self.worker);
        self.answers.offer(offer);
        Ok(())
    }

    fn refuse(&mut self, token: String, unusable: &Unusable) {
        let refused = message::refused(token, unusable.reason, &unusable.message);
        self.own.push_back(refused);
    }

    /// The last message, after which nothing follows.
    fn end(&mut self, reason: &str) -> Poll<Option<Result<v1::WorkResponse, Status>>> {
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
    /// The worker has said its last.
    End,
}

impl Stream for Session {
    type Item = Result<v1::WorkResponse, Status>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        if this.ended {
            return Poll::Ready(None);
        }
        let heard = match this.listen(context) {
            Ok(heard) => heard,
            Err(status) => {
                this.ended = true;
                return Poll::Ready(Some(Err(status)));
            }
        };
        if let Some(own) = this.own.pop_front() {
            return Poll::Ready(Some(Ok(wire(own))));
        }
        match this.connected.messages.poll_recv(context) {
            Poll::Ready(Some(told)) => {
                let told = message::told(&this.provider, told);
                this.ended = matches!(told, Message::Closed(_));
                return Poll::Ready(Some(Ok(wire(told))));
            }
            // The engine is gone, and every session with it.
            Poll::Ready(None) => return this.end("ENGINE_STOPPED"),
            Poll::Pending => {}
        }
        match heard {
            Heard::End => {
                this.ended = true;
                return Poll::Ready(None);
            }
            Heard::MaybeMore => context.waker().wake_by_ref(),
            Heard::All => {}
        }
        match this.stop.as_mut().poll(context) {
            Poll::Ready(()) => this.end("SHUTTING_DOWN"),
            Poll::Pending => Poll::Pending,
        }
    }
}

/// What tonic says of a stream that broke, or of a message that it would not read, has no reason.
fn broken(status: &Status) -> Status {
    let reason = match status.code() {
        Code::OutOfRange => "MESSAGE_TOO_LARGE",
        Code::Cancelled => "STREAM_CANCELLED",
        _ => "STREAM_BROKEN",
    };
    Refusal::new(status.code(), reason, status.message()).into()
}

const fn wire(message: Message) -> v1::WorkResponse {
    v1::WorkResponse {
        message: Some(message),
    }
}
