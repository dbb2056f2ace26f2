//! The worker against a gateway that the test plays by hand.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt};
use stateway_client::{
    Category, Code, Done, Error, Task, TaskError, Usage, Worker, WorkerNews, v1,
};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio_stream::wrappers::{TcpListenerStream, UnboundedReceiverStream};
use tonic::{Request, Response, Status, Streaming};
use tonic_types::StatusExt;
use v1::stream_tasks_request::Message as FromWorker;
use v1::stream_tasks_response::Message as ToWorker;
use v1::workers_server::{Workers, WorkersServer};

/// Longer than anything here takes, shorter than a person waits.
const LONG: Duration = Duration::from_secs(10);

/// Short enough to be seen.
const LEASE: Duration = Duration::from_millis(300);

/// A gateway whose side of every connection is handed to the test.
struct Played {
    connections: mpsc::UnboundedSender<Connection>,
    /// Answered to the next connections instead.
    refusals: Arc<std::sync::Mutex<Vec<Status>>>,
}

/// One connection, as the gateway sees it.
struct Connection {
    received: Streaming<v1::StreamTasksRequest>,
    send: mpsc::UnboundedSender<Result<v1::StreamTasksResponse, Status>>,
}

struct Gateway {
    url: String,
    connections: mpsc::UnboundedReceiver<Connection>,
    refusals: Arc<std::sync::Mutex<Vec<Status>>>,
    _server: JoinHandle<Result<(), tonic::transport::Error>>,
}

#[tonic::async_trait]
impl Workers for Played {
    async fn list_workers(
        &self,
        _: Request<v1::ListWorkersRequest>,
    ) -> Result<Response<v1::ListWorkersResponse>, Status> {
        Err(Status::unimplemented("not played"))
    }

    async fn get_queue(
        &self,
        _: Request<v1::GetQueueRequest>,
    ) -> Result<Response<v1::Queue>, Status> {
        Err(Status::unimplemented("not played"))
    }

    type StreamTasksStream = BoxStream<'static, Result<v1::StreamTasksResponse, Status>>;

    async fn stream_tasks(
        &self,
        request: Request<Streaming<v1::StreamTasksRequest>>,
    ) -> Result<Response<Self::StreamTasksStream>, Status> {
        if let Some(refusal) = self.refusals.lock().unwrap().pop() {
            return Err(refusal);
        }
        let (send, receive) = mpsc::unbounded_channel();
        let received = request.into_inner();
        self.connections
            .send(Connection { received, send })
            .unwrap();
        Ok(Response::new(UnboundedReceiverStream::new(receive).boxed()))
    }
}

impl Gateway {
    async fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (send, connections) = mpsc::unbounded_channel();
        let refusals = Arc::<std::sync::Mutex<Vec<Status>>>::default();
        let played = Played {
            connections: send,
            refusals: Arc::clone(&refusals),
        };
        let server = tonic::transport::Server::builder()
            .add_service(WorkersServer::new(played))
            .serve_with_incoming(TcpListenerStream::new(listener));
        Self {
            url,
            connections,
            refusals,
            _server: tokio::spawn(server),
        }
    }

    /// The next connection, welcomed, and what was offered over it.
    async fn welcome(&mut self) -> (Connection, v1::Offer) {
        let next = tokio::time::timeout(LONG, self.connections.recv());
        let mut connection = next.await.unwrap().unwrap();
        let FromWorker::Offer(offer) = connection.next().await else {
            panic!("a connection begins with an offer");
        };
        connection.tell(ToWorker::Welcome(v1::Welcome {
            worker_id: offer.worker_id.clone(),
            lease_duration: Some(LEASE.try_into().unwrap()),
            ..v1::Welcome::default()
        }));
        (connection, offer)
    }
}

impl Connection {
    fn tell(&self, message: ToWorker) {
        let message = Some(message);
        self.send
            .send(Ok(v1::StreamTasksResponse { message }))
            .unwrap();
    }

    fn cancel(&self, token: &str) {
        let task_token = token.into();
        self.tell(ToWorker::Cancelled(v1::TaskCancelled { task_token }));
    }

    fn task(&self, token: &str, action: &str, input: &str) {
        self.tell(ToWorker::Task(v1::Task {
            task_token: token.into(),
            execution: "providers/builtin/executions/e1".into(),
            step: "ship".into(),
            attempt: 1,
            action: action.into(),
            role: "shipping".into(),
            input: Some(v1::Payload {
                data: input.to_owned().into(),
                content_type: String::new(),
            }),
            ..v1::Task::default()
        }));
    }

    fn accept(&self, token: &str) {
        self.tell(ToWorker::Accepted(v1::TaskAccepted {
            task_token: token.into(),
        }));
    }

    /// The next message except heartbeats of the connection.
    async fn next(&mut self) -> FromWorker {
        loop {
            let next = tokio::time::timeout(LONG, self.received.message());
            let message = next.await.unwrap().unwrap().unwrap().message.unwrap();
            match message {
                FromWorker::Heartbeat(sign) if sign.task_token.is_empty() => {}
                message => return message,
            }
        }
    }

    async fn ends(&mut self) {
        let rest = async { while let Ok(Some(_)) = self.received.message().await {} };
        tokio::time::timeout(LONG, rest).await.unwrap();
    }
}

fn completed(token: &str, output: &str) -> FromWorker {
    FromWorker::Completed(v1::TaskCompleted {
        task_token: token.into(),
        output: Some(v1::Payload {
            data: output.to_owned().into(),
            content_type: String::new(),
        }),
        usage: None,
    })
}

fn failed(token: &str, category: Category, message: &str) -> FromWorker {
    FromWorker::Failed(v1::TaskFailed {
        task_token: token.into(),
        category: v1::ErrorCategory::from(category).into(),
        message: message.into(),
        ..v1::TaskFailed::default()
    })
}

fn released(token: &str) -> FromWorker {
    FromWorker::Released(v1::TaskReleased {
        begun: false,
        task_token: token.into(),
    })
}

/// A worker that runs until the returned sender says stop, or is dropped.
fn start(worker: Worker) -> (oneshot::Sender<()>, JoinHandle<Result<(), Error>>) {
    let (stop, stopped) = oneshot::channel();
    let worker = worker.until(stopped.map(drop));
    (stop, tokio::spawn(worker.serve()))
}

async fn ended(worker: JoinHandle<Result<(), Error>>) -> Result<(), Error> {
    tokio::time::timeout(LONG, worker).await.unwrap().unwrap()
}

async fn echo(task: Task) -> Result<serde_json::Value, TaskError> {
    task.input()
}

#[tokio::test]
async fn it_offers_what_it_was_told_to() {
    let mut gateway = Gateway::new().await;
    let worker = Worker::new(&gateway.url)
        .id("w1")
        .role("shipping")
        .skill("customs")
        .capacity(16)
        .prefetch(8)
        .tenant("acme")
        .provider("providers/builtin")
        .version("1.4")
        .on_role("packing", echo);
    let (_stop, _worker) = start(worker);
    let (_, offer) = gateway.welcome().await;
    let expected = v1::Offer {
        worker_id: "w1".into(),
        roles: vec!["shipping".into(), "packing".into()],
        skills: vec!["customs".into()],
        capacity: 16,
        tenant: "acme".into(),
        prefetch: 8,
        provider: "providers/builtin".into(),
        version: "1.4".into(),
        sdk: format!("stateway-rust/{}", env!("CARGO_PKG_VERSION")),
    };
    assert_eq!(offer, expected);
}

#[tokio::test]
async fn input_and_output_are_typed() {
    #[derive(serde::Deserialize)]
    struct Order {
        items: u32,
    }
    #[derive(serde::Serialize)]
    struct Label {
        parcels: u32,
    }
    let mut gateway = Gateway::new().await;
    let worker = Worker::new(&gateway.url).on("ship", |task: Task| async move {
        let order: Order = task.input()?;
        Ok(Label {
            parcels: order.items.div_ceil(2),
        })
    });
    let (_stop, _worker) = start(worker);
    let (mut connection, _) = gateway.welcome().await;
    connection.task("t1", "ship", r#"{"items":3}"#);
    assert_eq!(connection.next().await, completed("t1", r#"{"parcels":2}"#));
    connection.task("t2", "ship", r#"{"items":"three"}"#);
    let FromWorker::Failed(failed) = connection.next().await else {
        panic!("an input of another type is a failure");
    };
    assert_eq!(failed.category(), v1::ErrorCategory::Validation);
}

#[tokio::test]
async fn a_failure_has_its_category_its_pause_and_its_cost() {
    let mut gateway = Gateway::new().await;
    let usage = Usage {
        input_tokens: 10,
        output_tokens: 2,
        cost_micros: 7,
    };
    let worker = Worker::new(&gateway.url)
        .on("busy", move |_| async move {
            let pause = Duration::from_secs(3);
            Err::<(), _>(TaskError::transient("busy").retry_after(pause).usage(usage))
        })
        .on(
            "costly",
            move |_| async move { Ok(Done::new(&1)?.usage(usage)) },
        )
        .on("broken", |_| async {
            Err::<(), std::io::Error>(std::io::Error::other("disk"))?;
            Ok(())
        });
    let (_stop, _worker) = start(worker);
    let (mut connection, _) = gateway.welcome().await;
    connection.task("t1", "busy", "");
    let FromWorker::Failed(busy) = connection.next().await else {
        panic!("busy fails");
    };
    assert_eq!(
        (busy.category().label(), busy.retry_after.unwrap().seconds),
        ("transient", 3)
    );
    assert_eq!(busy.usage, Some(usage.into()));
    connection.task("t2", "costly", "");
    let FromWorker::Completed(costly) = connection.next().await else {
        panic!("costly completes");
    };
    assert_eq!(costly.usage, Some(usage.into()));
    connection.task("t3", "broken", "");
    let broken = failed("t3", Category::AgentError, "disk");
    assert_eq!(connection.next().await, broken);
}

#[tokio::test]
async fn a_panic_fails_the_task_and_nothing_else() {
    let mut gateway = Gateway::new().await;
    let worker = Worker::new(&gateway.url)
        .on("panic", |task: Task| {
            assert!(task.attempt() == 7, "attempt {}", task.attempt());
            async { Ok(()) }
        })
        .on("echo", echo);
    let (_stop, _worker) = start(worker);
    let (mut connection, _) = gateway.welcome().await;
    connection.task("t1", "panic", "");
    let expected = FromWorker::Failed(v1::TaskFailed {
        task_token: "t1".into(),
        category: v1::ErrorCategory::AgentError.into(),
        message: "the handler panicked: attempt 1".into(),
        // Nobody knows how far the handler got.
        effects_unknown: true,
        ..v1::TaskFailed::default()
    });
    assert_eq!(connection.next().await, expected);
    connection.task("t2", "echo", "1");
    assert_eq!(connection.next().await, completed("t2", "1"));
}

#[tokio::test]
async fn a_task_without_a_handler_fails_with_its_action() {
    let mut gateway = Gateway::new().await;
    let (_stop, _worker) = start(Worker::new(&gateway.url).on("echo", echo));
    let (mut connection, _) = gateway.welcome().await;
    connection.task("t1", "teleport", "");
    let message = "this worker has no handler for action `teleport`";
    let expected = failed("t1", Category::AgentError, message);
    assert_eq!(connection.next().await, expected);
}

#[tokio::test]
async fn it_says_that_it_lives_and_how_far_a_task_is() {
    let mut gateway = Gateway::new().await;
    let worker = Worker::new(&gateway.url).on("slow", |task: Task| async move {
        task.heartbeat(0.5, "half");
        std::future::pending::<()>().await;
        Ok(())
    });
    let (_stop, _worker) = start(worker);
    let (mut connection, _) = gateway.welcome().await;
    connection.task("t1", "slow", "");
    let FromWorker::Heartbeat(heartbeat) = connection.next().await else {
        panic!("the handler tells of its progress");
    };
    let expected = v1::TaskHeartbeat {
        task_token: "t1".into(),
        progress: 0.5,
        detail: "half".into(),
    };
    assert_eq!(heartbeat, expected);
    for _ in 0..3 {
        let sign = tokio::time::timeout(LEASE, connection.received.message());
        let sign = sign.await.expect("a sign of life before the lease is over");
        let sign = sign.unwrap().unwrap().message.unwrap();
        assert_eq!(sign, FromWorker::Heartbeat(v1::TaskHeartbeat::default()));
    }
}

#[tokio::test]
async fn no_more_is_worked_on_than_the_capacity() {
    let mut gateway = Gateway::new().await;
    let (at_once, most) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let seen = Arc::clone(&most);
    let worker = Worker::new(&gateway.url)
        .capacity(3)
        .prefetch(5)
        .on("count", move |_| {
            let (at_once, most) = (Arc::clone(&at_once), Arc::clone(&most));
            async move {
                most.fetch_max(at_once.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                tokio::task::yield_now().await;
                at_once.fetch_sub(1, Ordering::SeqCst);
                Ok(())
            }
        });
    let (_stop, _worker) = start(worker);
    let (mut connection, _) = gateway.welcome().await;
    (0..8).for_each(|n| connection.task(&format!("t{n}"), "count", ""));
    for _ in 0..8 {
        connection.next().await;
    }
    assert!((1..=3).contains(&seen.load(Ordering::SeqCst)));
}

#[tokio::test]
async fn an_answer_is_sent_again_under_the_same_id_until_it_is_acknowledged() {
    let mut gateway = Gateway::new().await;
    let worker = Worker::new(&gateway.url).capacity(4).on("echo", echo);
    let (_stop, _worker) = start(worker);
    let (mut first, offer) = gateway.welcome().await;
    first.task("t1", "echo", "1");
    first.task("t2", "echo", "2");
    let mut answers = [first.next().await, first.next().await];
    answers.sort_by_key(|answer| format!("{answer:?}"));
    assert_eq!(answers, [completed("t1", "1"), completed("t2", "2")]);
    first.accept("t1");
    // What follows the acceptance has been taken in after it.
    first.task("t3", "echo", "3");
    assert_eq!(first.next().await, completed("t3", "3"));
    first.accept("t3");
    first
        .send
        .send(Err(Status::unavailable("draining")))
        .unwrap();
    let (mut second, again) = gateway.welcome().await;
    assert_eq!(again, offer);
    assert_eq!(second.next().await, completed("t2", "2"));
    second.tell(ToWorker::Refused(v1::TaskRefused {
        task_token: "t2".into(),
        reason: "STALE_TASK".into(),
        message: "too late".into(),
    }));
    second.task("t4", "echo", "4");
    assert_eq!(second.next().await, completed("t4", "4"));
    second.accept("t4");
    second
        .send
        .send(Err(Status::unavailable("draining")))
        .unwrap();
    let (mut third, _) = gateway.welcome().await;
    third.task("t5", "echo", "5");
    assert_eq!(third.next().await, completed("t5", "5"), "nothing was left");
}

#[tokio::test]
async fn a_task_under_way_survives_a_broken_connection_and_is_not_done_twice() {
    let mut gateway = Gateway::new().await;
    let (go, gone) = tokio::sync::watch::channel(false);
    let done = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&done);
    let worker = Worker::new(&gateway.url).capacity(2).on("slow", move |_| {
        let (mut gone, count) = (gone.clone(), Arc::clone(&count));
        async move {
            gone.wait_for(|go| *go).await?;
            Ok(count.fetch_add(1, Ordering::SeqCst) + 1)
        }
    });
    let (_stop, _worker) = start(worker);
    let (first, _) = gateway.welcome().await;
    first.task("t1", "slow", "");
    first
        .send
        .send(Err(Status::unavailable("draining")))
        .unwrap();
    let (mut second, _) = gateway.welcome().await;
    second.task("t1", "slow", "");
    go.send(true).unwrap();
    assert_eq!(second.next().await, completed("t1", "1"));
    second.accept("t1");
    assert_eq!(done.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_withdrawn_task_is_cancelled_and_not_answered() {
    let mut gateway = Gateway::new().await;
    let worker = Worker::new(&gateway.url)
        .capacity(1)
        .on("slow", |task: Task| async move {
            task.cancelled().await;
            Ok("nobody wants this")
        })
        .on("echo", echo);
    let (_stop, _worker) = start(worker);
    let (mut connection, _) = gateway.welcome().await;
    connection.task("t1", "slow", "");
    connection.tell(ToWorker::Withdrawn(v1::TaskWithdrawn {
        task_token: "t1".into(),
        reason: v1::task_withdrawn::Reason::TimedOut.into(),
    }));
    connection.task("t2", "echo", "2");
    assert_eq!(connection.next().await, completed("t2", "2"));
}

#[tokio::test]
async fn a_cancelled_task_is_asked_to_stop_and_its_answer_is_sent() {
    let mut gateway = Gateway::new().await;
    let worker = Worker::new(&gateway.url)
        .on("stops", |task: Task| async move {
            task.cancelled().await;
            Err::<(), _>(TaskError::agent_error("stopped half-way").no_retry())
        })
        .on("finishes", |task: Task| async move {
            task.cancelled().await;
            Ok(7)
        });
    let (_stop, _worker) = start(worker);
    let (mut connection, _) = gateway.welcome().await;
    connection.task("t1", "stops", "");
    connection.cancel("t1");
    let FromWorker::Failed(failed) = connection.next().await else {
        panic!("the failure is sent");
    };
    assert_eq!(failed.message, "stopped half-way");
    assert!(failed.no_retry);
    connection.accept("t1");
    connection.task("t2", "finishes", "");
    connection.cancel("t2");
    assert_eq!(connection.next().await, completed("t2", "7"));
}

#[tokio::test]
async fn a_handler_that_ignores_a_cancellation_finishes_and_its_answer_is_sent() {
    let mut gateway = Gateway::new().await;
    let (go, gone) = tokio::sync::watch::channel(false);
    let worker = Worker::new(&gateway.url)
        .prefetch(1)
        .on("slow", move |task: Task| {
            let mut gone = gone.clone();
            async move {
                task.heartbeat(0.0, "");
                gone.wait_for(|go| *go).await?;
                Ok(task.outcome_unknown())
            }
        });
    let (_stop, _worker) = start(worker);
    let (mut connection, _) = gateway.welcome().await;
    connection.task("t1", "slow", "");
    connection.task("t2", "slow", "");
    assert!(matches!(connection.next().await, FromWorker::Heartbeat(_)));
    connection.cancel("t1");
    connection.cancel("t2");
    assert_eq!(connection.next().await, released("t2"), "it has not begun");
    go.send(true).unwrap();
    assert_eq!(connection.next().await, completed("t1", "false"));
}

#[tokio::test]
async fn a_stop_gives_back_what_has_not_begun_and_finishes_what_has() {
    let mut gateway = Gateway::new().await;
    let (go, gone) = tokio::sync::watch::channel(false);
    let worker = Worker::new(&gateway.url)
        .capacity(1)
        .prefetch(1)
        .on("slow", move |task: Task| {
            let mut gone = gone.clone();
            async move {
                task.heartbeat(0.0, "");
                gone.wait_for(|go| *go).await?;
                Ok(())
            }
        });
    let (stop, worker) = start(worker);
    let (mut connection, _) = gateway.welcome().await;
    connection.task("t1", "slow", "");
    connection.task("t2", "slow", "");
    assert!(matches!(connection.next().await, FromWorker::Heartbeat(_)));
    stop.send(()).unwrap();
    let FromWorker::Offer(offer) = connection.next().await else {
        panic!("nothing more is offered first");
    };
    assert_eq!((offer.capacity, offer.prefetch), (0, 0));
    assert_eq!(connection.next().await, released("t2"));
    connection.task("t3", "slow", "");
    assert_eq!(connection.next().await, released("t3"), "it came too late");
    go.send(true).unwrap();
    assert_eq!(connection.next().await, completed("t1", "null"));
    connection.accept("t1");
    connection.ends().await;
    drop(connection);
    ended(worker).await.unwrap();
}

#[tokio::test]
async fn what_outlasts_the_drain_is_given_back() {
    let mut gateway = Gateway::new().await;
    let worker = Worker::new(&gateway.url)
        .drain(Duration::from_millis(50))
        .on("endless", |task: Task| async move {
            task.heartbeat(0.0, "");
            std::future::pending::<()>().await;
            Ok(())
        });
    let (stop, worker) = start(worker);
    let (mut connection, _) = gateway.welcome().await;
    connection.task("t1", "endless", "");
    assert!(matches!(connection.next().await, FromWorker::Heartbeat(_)));
    stop.send(()).unwrap();
    assert!(matches!(connection.next().await, FromWorker::Offer(_)));
    let cut_off = FromWorker::Released(v1::TaskReleased {
        task_token: "t1".into(),
        begun: true,
    });
    assert_eq!(connection.next().await, cut_off);
    connection.ends().await;
    drop(connection);
    ended(worker).await.unwrap();
}

#[tokio::test]
async fn a_gateway_that_is_not_there_is_waited_for_and_a_stop_still_counts() {
    let (stop, worker) = start(Worker::new("http://127.0.0.1:1").on("echo", echo));
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(!worker.is_finished());
    stop.send(()).unwrap();
    ended(worker).await.unwrap();
}

#[tokio::test]
async fn what_the_gateway_will_never_take_ends_the_worker() {
    let gateway = Gateway::new().await;
    let details = tonic_types::ErrorDetails::with_error_info(
        "PROVIDER_WITHOUT_WORKERS",
        "stateway.dev",
        std::collections::HashMap::new(),
    );
    let refusal = Status::with_error_details(Code::InvalidArgument, "no", details);
    gateway.refusals.lock().unwrap().push(refusal);
    let (_stop, worker) = start(Worker::new(&gateway.url).on("echo", echo));
    let error = ended(worker).await.unwrap_err();
    assert_eq!(error.reason(), "PROVIDER_WITHOUT_WORKERS");
}

#[tokio::test]
async fn it_tells_what_happens_to_its_connection() {
    let mut gateway = Gateway::new().await;
    let (tell, mut told) = mpsc::unbounded_channel();
    let worker = Worker::new(&gateway.url).id("w1").on("echo", echo);
    let worker = worker.observe(move |news| {
        let word = match news {
            WorkerNews::Connected { worker_id, .. } => format!("connected {worker_id}"),
            WorkerNews::Interrupted(error) => format!("interrupted {}", error.code()),
            WorkerNews::Refused { reason, .. } => format!("refused {reason}"),
            WorkerNews::Stopping { under_way } => format!("stopping {under_way}"),
        };
        tell.send(word).unwrap();
    });
    let (stop, worker) = start(worker);
    let (first, _) = gateway.welcome().await;
    assert_eq!(told.recv().await.unwrap(), "connected w1");
    drop(first);
    assert_eq!(
        told.recv().await.unwrap(),
        format!("interrupted {}", Code::Unavailable)
    );
    let (second, _) = gateway.welcome().await;
    assert_eq!(told.recv().await.unwrap(), "connected w1");
    stop.send(()).unwrap();
    assert_eq!(told.recv().await.unwrap(), "stopping 0");
    drop(second);
    ended(worker).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_tasks_go_through_one_worker() {
    const TASKS: u32 = 10_000;
    const AHEAD: u32 = 256;
    let mut gateway = Gateway::new().await;
    let worker = Worker::new(&gateway.url).capacity(64).prefetch(AHEAD - 64);
    let (_stop, _worker) = start(worker.on("echo", echo));
    let (mut connection, _) = gateway.welcome().await;
    (0..AHEAD).for_each(|n| connection.task(&format!("t{n}"), "echo", "1"));
    for n in 0..TASKS {
        let FromWorker::Completed(done) = connection.next().await else {
            panic!("every task completes");
        };
        connection.accept(&done.task_token);
        if n + AHEAD < TASKS {
            connection.task(&format!("t{}", n + AHEAD), "echo", "1");
        }
    }
}
