//! A gateway with the pages, and a browser without a script.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use stateway_engine::{Config as EngineConfig, Engine};
use stateway_gateway::{Gateway, Settings};
use stateway_proto::v1;
use stateway_proto::v1::definitions_client::DefinitionsClient;
use stateway_proto::v1::executions_client::ExecutionsClient;
use stateway_provider_api::table::compiled_in;
use stateway_provider_api::{Capabilities, Limited, Provider, Registration, Registry};
use stateway_provider_builtin::BuiltinProvider;
use stateway_provider_memory::{Clock, Config, LineFault, MemoryProvider, Upstream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tonic::transport::{Channel, Endpoint};

/// How long anything may take before a test gives up on it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// Three steps that a worker would do, two of which can be undone; a signal; a yes or no.
pub(crate) const SAGA: &str = "\
name: saga
failurePolicy: compensate
steps:
  - {name: reserve, agent: warehouse, action: reserve}
  - {name: go, kind: signal, signal: go, dependsOn: [reserve]}
  - {name: ship, agent: shipping, action: ship, dependsOn: [go]}
compensation:
  - {step: reserve, agent: warehouse, action: release}
";
/// Waits for a signal and is done.
pub(crate) const GATE: &str = "name: gate\nsteps:\n  - {name: wait, kind: signal, signal: go}\n";

/// A gateway with the providers `m` (in memory, its time stands still) and `b` (built in).
pub(crate) struct Rig {
    pub(crate) address: SocketAddr,
    pub(crate) clock: Clock,
    memory: Arc<Upstream>,
    _stop: oneshot::Sender<()>,
    _directory: tempfile::TempDir,
}

impl Rig {
    pub(crate) async fn start() -> Self {
        Self::with(Capabilities::ALL, |_| ()).await
    }

    /// With a built-in provider that can do only this, and other settings.
    pub(crate) async fn with(can: Capabilities, set: impl FnOnce(&mut Settings)) -> Self {
        Self::build(can, Capabilities::ALL, set).await
    }

    /// A gateway that polls the provider `m`: its stream of changes would survive a refused call.
    pub(crate) async fn polled() -> Self {
        let polled = Capabilities {
            watch_one: false,
            watch_end: false,
            watch_all: false,
            ..Capabilities::ALL
        };
        Self::build(Capabilities::ALL, polled, |_| ()).await
    }

    async fn build(
        can: Capabilities,
        memory_can: Capabilities,
        set: impl FnOnce(&mut Settings),
    ) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let engine = Engine::open(&EngineConfig::new(directory.path().join("store.db"))).unwrap();
        let clock = Clock::manual(jiff::Timestamp::now());
        let memory = Upstream::new(clock.clone());
        let provider = MemoryProvider::on(
            memory.clone(),
            "m".parse().unwrap(),
            &Config::default(),
            compiled_in("memory").unwrap(),
        );
        let mut registry = Registry::default();
        let provider = Limited::to(Arc::new(provider.unwrap()), memory_can);
        register(&mut registry, "m", "memory", Arc::new(provider));
        let built_in = BuiltinProvider::over(engine, compiled_in("builtin").unwrap());
        let built_in = Limited::to(Arc::new(built_in), can);
        register(&mut registry, "b", "builtin", Arc::new(built_in));
        let mut settings = Settings {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            drain: Duration::from_secs(2),
            ..Settings::default()
        };
        settings.default_upstream.health_interval = Duration::from_millis(50);
        settings.default_upstream.breaker_cool_down = Duration::from_millis(100);
        set(&mut settings);
        let page = Arc::new(String::new);
        let gateway = Gateway::bind(registry, settings, page).await.unwrap();
        let gateway = gateway.with_pages(stateway_dashboard::router);
        let address = gateway.local_addr();
        let (stop, stopped) = oneshot::channel::<()>();
        tokio::spawn(gateway.serve(async move {
            let _ = stopped.await;
        }));
        Self {
            address,
            clock,
            memory,
            _stop: stop,
            _directory: directory,
        }
    }

    /// Nobody answers the next calls to the provider `m`.
    pub(crate) fn take_down(&self, calls: usize) {
        for _ in 0..calls {
            self.memory.inject(LineFault::Refuse);
        }
    }

    pub(crate) fn browser(&self) -> Browser {
        Browser {
            address: self.address,
            cookies: BTreeMap::new(),
        }
    }

    async fn channel(&self) -> Channel {
        let endpoint = Endpoint::from_shared(format!("http://{}", self.address)).unwrap();
        endpoint.connect().await.unwrap()
    }

    pub(crate) async fn api(&self) -> ExecutionsClient<Channel> {
        ExecutionsClient::new(self.channel().await)
    }

    pub(crate) async fn apply(&self, source: &str) {
        let request = v1::ApplyDefinitionRequest {
            source: source.into(),
            ..Default::default()
        };
        let mut client = DefinitionsClient::new(self.channel().await);
        client.apply_definition(request).await.expect("it is valid");
    }

    /// Starts an execution: `m/flaky` in memory, `gate` on the built-in engine.
    pub(crate) async fn begin(&self, what: &str, id: &str, input: &str) -> String {
        let (parent, definition) = match what.strip_prefix("m/") {
            Some(own) => ("providers/m", format!("providers/m/definitions/{own}")),
            None => ("providers/b", format!("definitions/{what}")),
        };
        let request = v1::StartExecutionRequest {
            parent: parent.into(),
            definition,
            execution_id: id.into(),
            input: (!input.is_empty()).then(|| v1::Payload {
                data: input.to_owned().into(),
                content_type: String::new(),
            }),
            ..Default::default()
        };
        let started = self.api().await.start_execution(request).await;
        started.expect("it starts").into_inner().name
    }

    pub(crate) async fn get(&self, name: &str) -> v1::Execution {
        let request = v1::GetExecutionRequest {
            name: name.into(),
            ..Default::default()
        };
        let got = self.api().await.get_execution(request).await;
        got.expect("it is there").into_inner()
    }

    /// Waits until an execution shows something.
    pub(crate) async fn until(&self, name: &str, shows: impl Fn(&v1::Execution) -> bool) {
        let begun = Instant::now();
        loop {
            let seen = self.get(name).await;
            if shows(&seen) {
                return;
            }
            assert!(begun.elapsed() < PATIENCE, "{name} shows {seen:#?}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

fn register(registry: &mut Registry, id: &str, kind: &str, provider: Arc<dyn Provider>) {
    let registration = Registration {
        id: id.parse().unwrap(),
        kind: kind.to_owned(),
        provider,
    };
    registry.register(registration).unwrap();
}

/// Keeps cookies, follows no redirect, runs no script.
#[derive(Clone)]
pub(crate) struct Browser {
    address: SocketAddr,
    pub(crate) cookies: BTreeMap<String, String>,
}

/// What came back.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> &str {
        let found = self.headers.iter().find(|(key, _)| key == name);
        found.map_or("", |(_, value)| value)
    }

    /// The value of the first hidden field of this name.
    pub(crate) fn field(&self, name: &str) -> String {
        let start = format!("name=\"{name}\" value=\"");
        let (_, rest) = self
            .body
            .split_once(&start)
            .unwrap_or_else(|| panic!("no field {name} in {}", self.body));
        let value = rest.split('"').next().unwrap();
        value.replace("&quot;", "\"").replace("&amp;", "&")
    }
}

impl Browser {
    pub(crate) async fn get(&mut self, path: &str) -> Answer {
        self.send(&format!("GET {path} HTTP/1.1\r\n"), "").await
    }

    /// Sends a head of the test's own.
    pub(crate) async fn raw(&mut self, head: &str) -> Answer {
        self.send(head, "").await
    }

    /// Sends a form as a page of ours would.
    pub(crate) async fn post(&mut self, path: &str, fields: &[(&str, &str)]) -> Answer {
        self.post_with(path, fields, "sec-fetch-site: same-origin\r\n")
            .await
    }

    pub(crate) async fn post_with(
        &mut self,
        path: &str,
        fields: &[(&str, &str)],
        headers: &str,
    ) -> Answer {
        let mut body = form_urlencoded::Serializer::new(String::new());
        body.extend_pairs(fields);
        let head = format!(
            "POST {path} HTTP/1.1\r\ncontent-type: application/x-www-form-urlencoded\r\n{headers}"
        );
        self.send(&head, &body.finish()).await
    }

    /// Answers a question as it is asked, with these fields filled in.
    pub(crate) async fn answer(&mut self, path: &str, filled: &[(&str, &str)]) -> Answer {
        let question = self.get(path).await;
        assert_eq!(question.status, 200, "{}", question.body);
        let kept: Vec<_> = ["csrf", "request_id", "etag", "step"]
            .into_iter()
            .filter(|name| !filled.iter().any(|(filled, _)| filled == name))
            .map(|name| (name, question.field(name)))
            .collect();
        let mut fields: Vec<_> = kept
            .iter()
            .map(|(name, value)| (*name, value.as_str()))
            .collect();
        fields.extend(filled);
        let path = path.split('?').next().unwrap();
        self.post(path, &fields).await
    }

    /// Answers a question that has no execution, with these fields filled in.
    pub(crate) async fn answer_fields(&mut self, path: &str, filled: &[(&str, &str)]) -> Answer {
        let question = self.get(path).await;
        assert_eq!(question.status, 200, "{}", question.body);
        let (token, id) = (question.field("csrf"), question.field("request_id"));
        let mut fields = vec![("csrf", token.as_str()), ("request_id", id.as_str())];
        fields.extend(filled);
        self.post(path, &fields).await
    }

    async fn send(&mut self, head: &str, body: &str) -> Answer {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let request = format!(
            "{head}host: {}\r\ncookie: {}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
            self.address,
            self.cookie_line(),
            body.len()
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).await.unwrap();
        let answer = parse(&bytes);
        self.keep(&answer);
        answer
    }

    /// Opens a stream of live updates; reads until its text satisfies.
    pub(crate) async fn listen(&self, path: &str) -> Listener {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let request = format!(
            "GET {path} HTTP/1.1\r\nhost: {}\r\ncookie: {}\r\n\r\n",
            self.address,
            self.cookie_line()
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        Listener {
            stream,
            heard: String::new(),
        }
    }

    fn cookie_line(&self) -> String {
        let pairs = self
            .cookies
            .iter()
            .map(|(name, value)| format!("{name}={value}"));
        pairs.collect::<Vec<_>>().join("; ")
    }

    fn keep(&mut self, answer: &Answer) {
        let set = answer
            .headers
            .iter()
            .filter(|(name, _)| name == "set-cookie");
        for (_, line) in set {
            let (name, value) = line.split(';').next().unwrap().split_once('=').unwrap();
            match line.contains("Max-Age=0") {
                true => self.cookies.remove(name),
                false => self.cookies.insert(name.to_owned(), value.to_owned()),
            };
        }
    }
}

/// A stream of live updates.
pub(crate) struct Listener {
    stream: TcpStream,
    pub(crate) heard: String,
}

impl Listener {
    /// Reads on until what was heard so far satisfies.
    pub(crate) async fn until(&mut self, satisfies: impl Fn(&str) -> bool) {
        let begun = Instant::now();
        let mut buffer = vec![0; 64 * 1024];
        while !satisfies(&self.heard) {
            let left = PATIENCE.saturating_sub(begun.elapsed());
            let read = tokio::time::timeout(left, self.stream.read(&mut buffer)).await;
            let count = read
                .unwrap_or_else(|_| panic!("heard only {}", self.heard))
                .unwrap();
            assert!(count > 0, "it ended after {}", self.heard);
            self.heard
                .push_str(&String::from_utf8_lossy(&buffer[..count]));
        }
    }

    /// Waits for the end of the stream.
    pub(crate) async fn ended(&mut self) {
        let mut rest = Vec::new();
        let read = self.stream.read_to_end(&mut rest);
        tokio::time::timeout(PATIENCE, read).await.unwrap().unwrap();
    }
}

fn parse(bytes: &[u8]) -> Answer {
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n");
    let (head, body) = bytes.split_at(end.expect("an answer"));
    let head = String::from_utf8_lossy(head);
    let body = &body[4..];
    let body = if head.to_lowercase().contains("transfer-encoding: chunked") {
        joined(body)
    } else {
        body.to_vec()
    };
    let mut lines = head.lines();
    let status = lines.next().unwrap().split(' ').nth(1).unwrap();
    let headers = lines.filter_map(|line| line.split_once(": "));
    Answer {
        status: status.parse().unwrap(),
        headers: headers
            .map(|(name, value)| (name.to_lowercase(), value.to_owned()))
            .collect(),
        body: String::from_utf8_lossy(&body).into_owned(),
    }
}

/// A body without the lengths of its chunks.
fn joined(mut rest: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    loop {
        let end = rest.windows(2).position(|two| two == b"\r\n").unwrap();
        let size = std::str::from_utf8(&rest[..end]).unwrap();
        let size = usize::from_str_radix(size, 16).unwrap();
        if size == 0 {
            return body;
        }
        body.extend_from_slice(&rest[end + 2..end + 2 + size]);
        rest = &rest[end + 2 + size + 2..];
    }
}
