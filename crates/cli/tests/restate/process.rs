//! Processes that end with the test, and calls to them.

use std::io::{BufRead, BufReader, Read};
use std::net::{Ipv4Addr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use stateway_visitor::exchange_blocking;

/// How long anything may take before a test gives up on it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
/// How often is looked.
const LOOK: Duration = Duration::from_millis(25);

/// A process, killed when it is dropped.
pub(crate) struct Running {
    child: Child,
    said: Lines,
    talked: Lines,
}

type Lines = Arc<Mutex<Vec<String>>>;

impl Running {
    pub(crate) fn begin(command: &mut Command) -> Self {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{command:?} does not start: {error}"));
        let said = collect(child.stdout.take().unwrap());
        let talked = collect(child.stderr.take().unwrap());
        Self {
            child,
            said,
            talked,
        }
    }

    /// The lines that the process has printed so far.
    pub(crate) fn said(&self) -> Vec<String> {
        self.said.lock().unwrap().clone()
    }

    /// What it has said on the side.
    pub(crate) fn talked(&self) -> Vec<String> {
        self.talked.lock().unwrap().clone()
    }

    #[allow(dead_code, reason = "only stories that pause a process need it")]
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Asks it to end, and waits until it has; whether it ended well.
    #[allow(dead_code, reason = "only stories with a host need it")]
    pub(crate) fn terminate(&mut self) -> bool {
        let id = self.child.id().to_string();
        let sent = Command::new("kill").args(["-TERM", &id]).status();
        assert!(sent.unwrap().success());
        eventually("the process ends", || self.child.try_wait().unwrap()).success()
    }

    /// Ends it at once, without a chance to clean up.
    pub(crate) fn kill(&mut self) {
        // It may be gone already, and that is what is wanted.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
    }
}

fn collect(output: impl Read + Send + 'static) -> Lines {
    let lines = Lines::default();
    let collected = lines.clone();
    std::thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            collected.lock().unwrap().push(line);
        }
    });
    lines
}

/// What `look` finds, as soon as it finds something.
#[track_caller]
pub(crate) fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < until, "not within {PATIENCE:?}: {what}");
        std::thread::sleep(LOOK);
    }
}

/// A port of the loopback that nobody listens on.
pub(crate) fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

/// Posts JSON; the status and the body, unless nobody answers.
pub(crate) fn post(port: u16, path: &str, body: &str) -> Option<(u16, String)> {
    let address = (Ipv4Addr::LOCALHOST, port).into();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n\
         accept: application/json\r\n"
    );
    let answer = exchange_blocking(address, &head, body.as_bytes()).ok()?;
    let status = answer.split(' ').nth(1)?.parse().ok()?;
    Some((status, answer))
}

/// Publishes the event `placed` to every provider; the providers on which it started executions.
#[allow(dead_code, reason = "only stories with a host need it")]
pub(crate) fn publish(url: &str, request: &str) -> Vec<String> {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let answer = runtime.block_on(async {
        let client = stateway_client::Client::lazy(url).unwrap();
        let event = stateway_client::v1::PublishEventRequest {
            parent: "providers/-".to_owned(),
            event: "placed".to_owned(),
            request_id: request.to_owned(),
            ..Default::default()
        };
        let event = stateway_client::PublishEvent::from_message(event);
        client.publish(event).await.unwrap()
    });
    let names = answer.executions.iter();
    names
        .map(|name| name.split('/').nth(1).unwrap().to_owned())
        .collect()
}
