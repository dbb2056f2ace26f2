//! `stateway worker` with real shell commands, against a gateway that the test plays by hand.

use std::time::{Duration, Instant, SystemTime};

use futures::StreamExt;
use futures::stream::BoxStream;
use stateway_client::v1;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_stream::wrappers::{TcpListenerStream, UnboundedReceiverStream};
use tonic::{Request, Response, Status, Streaming};
use v1::stream_tasks_request::Message as FromWorker;
use v1::stream_tasks_response::Message as ToWorker;
use v1::workers_server::{Workers, WorkersServer};

use crate::binary::{PATIENCE, Running, command, run};

struct Played(mpsc::UnboundedSender<Connection>);

struct Connection {
    /// What proved who the worker is.
    authorization: String,
    received: Streaming<v1::StreamTasksRequest>,
    send: mpsc::UnboundedSender<Result<v1::StreamTasksResponse, Status>>,
}

#[tonic::async_trait]
impl Workers for Played {
    type StreamTasksStream = BoxStream<'static, Result<v1::StreamTasksResponse, Status>>;

    async fn stream_tasks(
        &self,
        request: Request<Streaming<v1::StreamTasksRequest>>,
    ) -> Result<Response<Self::StreamTasksStream>, Status> {
        let (send, receive) = mpsc::unbounded_channel();
        let authorization = request.metadata().get("authorization");
        let authorization = authorization.map(|it| it.to_str().unwrap().to_owned());
        let connection = Connection {
            authorization: authorization.unwrap_or_default(),
            received: request.into_inner(),
            send,
        };
        self.0.send(connection).unwrap();
        Ok(Response::new(UnboundedReceiverStream::new(receive).boxed()))
    }

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
}

/// A worker process with this program, connected and welcomed, and what it offered.
struct Lab {
    connection: Connection,
    /// Those that follow.
    connections: mpsc::UnboundedReceiver<Connection>,
    offer: v1::Offer,
    worker: Running,
    directory: tempfile::TempDir,
}

impl Lab {
    async fn with(arguments: &[&str]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (send, mut connections) = mpsc::unbounded_channel();
        let server = tonic::transport::Server::builder()
            .add_service(WorkersServer::new(Played(send)))
            .serve_with_incoming(TcpListenerStream::new(listener));
        tokio::spawn(server);
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("token"), "first\n").unwrap();
        let mut process = command(directory.path());
        process.args(["worker", "--server", &url, "--role", "billing"]);
        let path = std::env::var_os("PATH").unwrap_or_default();
        let worker = Running::begin(process.args(arguments).env("PATH", path));
        let mut connection = connections.recv().await.unwrap();
        let FromWorker::Offer(offer) = connection.next().await else {
            panic!("a connection begins with an offer");
        };
        connection.tell(ToWorker::Welcome(v1::Welcome {
            worker_id: offer.worker_id.clone(),
            ..v1::Welcome::default()
        }));
        Self {
            connection,
            connections,
            offer,
            worker,
            directory,
        }
    }

    async fn answer(&mut self, task: v1::Task) -> FromWorker {
        let token = task.task_token.clone();
        self.connection.tell(ToWorker::Task(task));
        let answer = self.connection.next().await;
        let task_token = token;
        self.connection
            .tell(ToWorker::Accepted(v1::TaskAccepted { task_token }));
        answer
    }

    /// Whether a file of this name comes to be; it is what a program leaves behind.
    fn has(&self, file: &str) -> bool {
        self.directory.path().join(file).exists()
    }

    /// Waits until the process has ended whose id a program has written to this file.
    fn wait_for_end(&self, file: &str) {
        let begin = Instant::now();
        let path = self.directory.path().join(file);
        let has_ended = || {
            let id = std::fs::read_to_string(&path).unwrap_or_default();
            let Ok(id) = id.trim().parse::<u32>() else {
                return false;
            };
            // A process without a parent that waits for it stays as a zombie (Z).
            let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
            let state = stat.rsplit(") ").next().unwrap_or_default();
            state.is_empty() || state.starts_with('Z')
        };
        while !has_ended() {
            assert!(
                begin.elapsed() < PATIENCE,
                "the process of {file} still runs"
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn wait_for(&self, file: &str) {
        let begin = Instant::now();
        while !self.has(file) {
            assert!(begin.elapsed() < PATIENCE, "{file} never came");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Connection {
    fn tell(&self, message: ToWorker) {
        let message = Some(message);
        self.send
            .send(Ok(v1::StreamTasksResponse { message }))
            .unwrap();
    }

    async fn next(&mut self) -> FromWorker {
        loop {
            let next = tokio::time::timeout(PATIENCE, self.received.message());
            let message = next.await.unwrap().unwrap().unwrap().message.unwrap();
            match message {
                FromWorker::Heartbeat(sign) if sign.task_token.is_empty() => {}
                message => return message,
            }
        }
    }
}

fn task(input: &str) -> v1::Task {
    v1::Task {
        task_token: "t1".into(),
        execution: "providers/builtin/executions/order-17".into(),
        step: "charge".into(),
        attempt: 2,
        action: "charge card".into(),
        role: "billing".into(),
        input: Some(v1::Payload {
            data: input.to_owned().into(),
            content_type: String::new(),
        }),
        ..v1::Task::default()
    }
}

#[track_caller]
fn output(answer: FromWorker) -> String {
    let FromWorker::Completed(done) = answer else {
        panic!("not completed: {answer:?}");
    };
    String::from_utf8(done.output.unwrap().data.to_vec()).unwrap()
}

#[track_caller]
fn failure(answer: FromWorker) -> (String, String) {
    let FromWorker::Failed(failed) = answer else {
        panic!("not failed: {answer:?}");
    };
    (failed.category().label().to_owned(), failed.message)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_gets_the_input_and_gives_the_output() {
    let arguments = ["--capacity", "4", "--skill", "cards", "--prefetch", "2"];
    let version = ["--program-version", "1.4", "--exec", "cat"];
    let mut lab = Lab::with(&[&arguments[..], &version].concat()).await;
    assert_eq!(lab.offer.version, "1.4");
    assert_eq!((lab.offer.capacity, lab.offer.prefetch), (4, 2));
    assert_eq!(lab.offer.roles, ["billing"]);
    assert_eq!(lab.offer.skills, ["cards"]);
    let answer = lab.answer(task(r#"{"amount": 7}"#)).await;
    assert_eq!(output(answer), r#"{"amount": 7}"#);
    lab.worker.line("charge attempt 2 of order-17: done");
}

#[tokio::test(flavor = "multi_thread")]
async fn its_environment_says_what_the_task_is() {
    let program = r#"printf '"%s|%s|%s|%s|%s|%s|%s|%s|%s"' "$STATEWAY_EXECUTION" "$STATEWAY_STEP" \
        "$STATEWAY_ATTEMPT" "$STATEWAY_ACTION" "$STATEWAY_ROLE" "$STATEWAY_FEEDBACK" \
        "$STATEWAY_COMPENSATION" "$STATEWAY_OUTCOME_UNKNOWN" "$STATEWAY_TASK""#;
    let mut lab = Lab::with(&["--exec", program]).await;
    let mut undo = task("");
    undo.compensation = true;
    undo.feedback = "too short".into();
    let before = "providers/builtin/executions/order-17|charge|2|charge card|billing|too short";
    let known = lab.answer(undo.clone()).await;
    assert_eq!(output(known), format!("\"{before}|1||t1\""));
    undo.outcome_unknown = true;
    let unknown = lab.answer(undo).await;
    assert_eq!(output(unknown), format!("\"{before}|1|1|t1\""));
}

#[tokio::test(flavor = "multi_thread")]
async fn how_it_ends_says_how_it_went() {
    let mut lab = Lab::with(&["--exec", "read code; echo no >&2; exit $code"]).await;
    for (code, category) in [
        (1, "agent_error"),
        (65, "validation"),
        (69, "external"),
        (75, "transient"),
        (77, "governance"),
        (124, "timeout"),
        (127, "agent_error"),
    ] {
        let expected = (category.to_owned(), format!("no (exit code {code})"));
        assert_eq!(
            failure(lab.answer(task(&format!("{code}\n"))).await),
            expected
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn exit_code_78_rules_out_another_attempt() {
    let mut lab = Lab::with(&["--exec", "read code; exit $code"]).await;
    for (code, no_retry) in [("78\n", true), ("1\n", false)] {
        let FromWorker::Failed(failed) = lab.answer(task(code)).await else {
            panic!("not failed");
        };
        assert_eq!(
            (failed.category().label(), failed.no_retry),
            ("agent_error", no_retry)
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_lines_of_standard_error_are_the_message() {
    let program = "for i in $(seq 1 500); do echo line $i >&2; done; exit 75";
    let mut lab = Lab::with(&["--exec", program]).await;
    let (_, message) = failure(lab.answer(task("")).await);
    let expected = "line 496\nline 497\nline 498\nline 499\nline 500 (exit code 75)";
    assert_eq!(message, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_is_not_json_or_too_long_is_a_failure_and_silence_is_null() {
    let mut lab = Lab::with(&["--exec", "read what; eval \"$what\""]).await;
    let (category, message) = failure(lab.answer(task("echo hello\n")).await);
    assert_eq!(category, "agent_error");
    assert!(message.contains("not JSON"), "{message}");
    let (_, message) = failure(lab.answer(task("yes 1\n")).await);
    assert_eq!(message, "the program printed more than 1024 KiB");
    assert_eq!(output(lab.answer(task("true\n")).await), "null");
    let (category, message) = failure(lab.answer(task("kill -9 $$\n")).await);
    assert_eq!(category, "agent_error");
    assert!(message.contains("signal: 9"), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_deadline_ends_the_program_and_all_it_started() {
    let program = "sleep 600 & echo $! > begun; wait";
    let mut lab = Lab::with(&["--exec", program]).await;
    let mut short = task("");
    short.expire_time = Some((SystemTime::now() + Duration::from_secs(2)).into());
    let (category, _) = failure(lab.answer(short).await);
    assert_eq!(category, "timeout");
    lab.wait_for_end("begun");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_withdrawn_task_ends_the_program_and_is_not_answered() {
    let program = "[ $STATEWAY_TASK = t2 ] && { echo 8; exit; }; \
                   trap 'touch asked; echo 7; exit 0' TERM; touch begun; sleep 60 & wait";
    let mut lab = Lab::with(&["--exec", program]).await;
    lab.connection.tell(ToWorker::Task(task("")));
    lab.wait_for("begun");
    lab.connection.tell(ToWorker::Withdrawn(v1::TaskWithdrawn {
        task_token: "t1".into(),
        reason: v1::task_withdrawn::Reason::TimedOut.into(),
    }));
    lab.wait_for("asked");
    // The next answer is that of the next task.
    let second = v1::Task {
        task_token: "t2".into(),
        ..task("")
    };
    assert_eq!(output(lab.answer(second).await), "8");
}

fn cancel(lab: &Lab) {
    let task_token = "t1".into();
    lab.connection
        .tell(ToWorker::Cancelled(v1::TaskCancelled { task_token }));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_program_gets_sigterm_and_its_output_counts() {
    let program = "trap 'echo 7; exit 0' TERM; touch begun; sleep 60 & wait";
    let mut lab = Lab::with(&["--exec", program]).await;
    lab.connection.tell(ToWorker::Task(task("")));
    lab.wait_for("begun");
    cancel(&lab);
    assert_eq!(output(lab.connection.next().await), "7");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_program_that_ignores_sigterm_completes_with_its_output() {
    // A second process of the group shows that the signal has arrived.
    let script = "(trap 'touch asked; exit' TERM; touch armed; sleep 60 & wait) &\n\
         trap '' TERM\n\
         while [ ! -e armed ]; do sleep 0.02; done\n\
         touch begun\n\
         while [ ! -e asked ]; do sleep 0.02; done\n\
         echo 7\n";
    let mut lab = Lab::with(&["--exec", "sh trap.sh"]).await;
    std::fs::write(lab.directory.path().join("trap.sh"), script).unwrap();
    lab.connection.tell(ToWorker::Task(task("")));
    lab.wait_for("begun");
    cancel(&lab);
    assert_eq!(output(lab.connection.next().await), "7");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_program_does_not_continue_with_its_next_command() {
    let program = "touch begun; sleep 60; touch next; echo 7";
    let mut lab = Lab::with(&["--exec", program]).await;
    lab.connection.tell(ToWorker::Task(task("")));
    lab.wait_for("begun");
    cancel(&lab);
    failure(lab.connection.next().await);
    assert!(!lab.has("next"), "the next command has run");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_a_cancelled_program_leaves_behind_does_not_hold_up_its_outcome() {
    let left = "(trap '' TERM; touch begun; sleep 20) &";
    let program = format!("trap 'echo 7; exit 0' TERM; {left} wait");
    let mut lab = Lab::with(&["--exec", &program]).await;
    lab.connection.tell(ToWorker::Task(task("")));
    lab.wait_for("begun");
    cancel(&lab);
    assert_eq!(output(lab.connection.next().await), "7");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_program_that_ends_by_the_signal_has_failed() {
    // One command of the shell, so that the signal never arrives between two commands.
    let program = "sh -c 'touch begun; exec sleep 60'";
    let mut lab = Lab::with(&["--exec", program]).await;
    lab.connection.tell(ToWorker::Task(task("")));
    lab.wait_for("begun");
    cancel(&lab);
    let FromWorker::Failed(failed) = lab.connection.next().await else {
        panic!("the program has failed");
    };
    assert_eq!(failed.category().label(), "agent_error");
    assert!(failed.message.contains("signal: 15"), "{}", failed.message);
    assert!(failed.effects_unknown, "nobody knows how far it got");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_program_that_does_not_end_is_killed_with_all_it_started() {
    let program = "trap '' TERM; sleep 600 & echo $! > child; echo $$ > begun; wait";
    let mut lab = Lab::with(&["--drain", "100ms", "--exec", program]).await;
    lab.connection.tell(ToWorker::Task(task("")));
    lab.wait_for("begun");
    cancel(&lab);
    let (_, message) = failure(lab.connection.next().await);
    assert!(message.contains("was killed"), "{message}");
    lab.wait_for_end("begun");
    lab.wait_for_end("child");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_is_said_to_be_alive_while_it_runs() {
    let mut lab = Lab::with(&["--exec", "sleep 60"]).await;
    let mut watched = task("");
    watched.heartbeat_timeout = Some(Duration::from_millis(300).try_into().unwrap());
    lab.connection.tell(ToWorker::Task(watched));
    let FromWorker::Heartbeat(heartbeat) = lab.connection.next().await else {
        panic!("a heartbeat comes first");
    };
    assert_eq!(heartbeat.task_token, "t1");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_lets_the_program_finish() {
    let program = "touch begun; while [ ! -e go ]; do sleep 0.02; done; echo 1";
    let mut lab = Lab::with(&["--exec", program]).await;
    lab.connection.tell(ToWorker::Task(task("")));
    lab.wait_for("begun");
    lab.worker.signal("-TERM");
    assert!(matches!(lab.connection.next().await, FromWorker::Offer(_)));
    lab.worker.line("stopping; running tasks: 1");
    std::fs::write(lab.directory.path().join("go"), "").unwrap();
    assert_eq!(output(lab.connection.next().await), "1");
    lab.connection.tell(ToWorker::Accepted(v1::TaskAccepted {
        task_token: "t1".into(),
    }));
    assert_eq!(lab.worker.code(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_signal_ends_it_and_the_program() {
    let program = "trap '' TERM INT; sleep 600 & echo $! > child; echo $$ > begun; wait";
    let mut lab = Lab::with(&["--exec", program]).await;
    lab.connection.tell(ToWorker::Task(task("")));
    lab.wait_for("begun");
    lab.worker.signal("-INT");
    lab.worker.line("stopping");
    lab.worker.signal("-INT");
    assert_eq!(lab.worker.code(), 130);
    lab.wait_for_end("begun");
    lab.wait_for_end("child");
}

#[test]
fn a_worker_needs_a_role_and_a_program() {
    let answer = run(&["worker", "--role", "billing"]).exits(2);
    assert!(answer.err.contains("--exec"), "{answer:?}");
    let answer = run(&["worker", "--exec", "cat"]).exits(2);
    assert!(answer.err.contains("--role"), "{answer:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_whose_token_has_expired_connects_again_with_the_renewed_one() {
    let mut lab = Lab::with(&["--token-file", "token", "--exec", "cat"]).await;
    assert_eq!(lab.connection.authorization, "Bearer first");
    std::fs::write(lab.directory.path().join("token"), "second\n").unwrap();
    // A token file is checked every second: until then, the worker connects with the first token.
    let renewed = async {
        let mut to_worker = lab.connection.send.clone();
        loop {
            let expired = Err(Status::unauthenticated("the token has expired"));
            to_worker.send(expired).unwrap();
            let next = lab.connections.recv().await.unwrap();
            if next.authorization != "Bearer first" {
                break next;
            }
            to_worker = next.send;
        }
    };
    let mut next = tokio::time::timeout(PATIENCE, renewed).await.unwrap();
    assert_eq!(next.authorization, "Bearer second");
    let FromWorker::Offer(offer) = next.next().await else {
        panic!("a connection begins with an offer");
    };
    // The same worker, so that its tasks stay with it.
    assert_eq!(offer.worker_id, lab.offer.worker_id);
}
