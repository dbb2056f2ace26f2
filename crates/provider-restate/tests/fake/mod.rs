//! A stand-in for a Restate server on wiremock: the admin and ingress answers that were recorded
//! on 1.7.12, over invocations that a test puts there.

#![allow(clippy::needless_pass_by_value, clippy::unwrap_used, dead_code)]

mod query;
mod world;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use stateway_provider_restate::Config;
use wiremock::matchers::any;
use wiremock::{Mock, MockServer, Request, Respond, ResponseTemplate};

pub(crate) use world::{Invocation, World, entry, id};

/// How the next request is failed.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Fault {
    Hang,
    Slow(Duration),
    Throttle(Duration),
    Unavailable,
    Malformed,
    Denied,
}

/// A server and the hand that moves it.
pub(crate) struct Fake {
    server: MockServer,
    pub(crate) world: Arc<Mutex<World>>,
}

impl Fake {
    pub(crate) async fn new() -> Self {
        let world = Arc::new(Mutex::new(World::default()));
        let server = MockServer::start().await;
        let answers = Answers(world.clone());
        Mock::given(any())
            .respond_with(answers)
            .mount(&server)
            .await;
        Self { server, world }
    }

    pub(crate) fn config(&self) -> Config {
        Config::at(self.server.uri(), self.server.uri())
    }

    pub(crate) fn put(&self, invocation: Invocation) -> String {
        self.world.lock().unwrap().put(invocation)
    }

    /// The queries that were asked, in their order.
    pub(crate) async fn queries(&self) -> Vec<String> {
        let requests = self.server.received_requests().await.unwrap_or_default();
        let queries = requests.iter().filter(|it| it.url.path() == "/query");
        let text = |request: &Request| {
            let body: Value = serde_json::from_slice(&request.body).unwrap();
            body["query"].as_str().unwrap().to_owned()
        };
        queries.map(text).collect()
    }

    /// Everything that was asked, as `METHOD path`.
    pub(crate) async fn requests(&self) -> Vec<Request> {
        self.server.received_requests().await.unwrap_or_default()
    }
}

struct Answers(Arc<Mutex<World>>);

impl Respond for Answers {
    fn respond(&self, request: &Request) -> ResponseTemplate {
        let mut world = self.0.lock().unwrap();
        match world.fault.take() {
            Some(Fault::Hang) => ResponseTemplate::new(200).set_delay(Duration::from_secs(3_600)),
            Some(Fault::Throttle(pause)) => ResponseTemplate::new(429)
                .insert_header("retry-after", pause.as_secs().to_string().as_str()),
            Some(Fault::Unavailable) => ResponseTemplate::new(503),
            Some(Fault::Denied) => ResponseTemplate::new(403),
            Some(Fault::Malformed) => ResponseTemplate::new(200).set_body_string("<html>"),
            Some(Fault::Slow(pause)) => answer(&mut world, request).set_delay(pause),
            None => answer(&mut world, request),
        }
    }
}

fn answer(world: &mut World, request: &Request) -> ResponseTemplate {
    let path: Vec<String> = request
        .url
        .path_segments()
        .unwrap()
        .map(|segment| segment.replace("%2F", "/"))
        .collect();
    let path: Vec<&str> = path.iter().map(String::as_str).collect();
    match (request.method.as_str(), path.as_slice()) {
        ("GET", ["version"]) => ok(json!({
            "version": world.version, "features": {"vqueues": world.vqueues},
        })),
        ("GET", ["services", name]) => match world.services.get(*name) {
            Some(service) => ok(service.clone()),
            None => refuse(404, "no such service"),
        },
        ("POST", ["query"]) => query::answer(world, request),
        ("PATCH", ["invocations", id, verb]) => world.patch(id, verb, request),
        ("POST", ["restate", "send", target @ ..]) => world.send(target, request),
        ("POST", [target @ .., "send"]) => world.send(target, request),
        ("GET", ["restate", "output", id]) => world.output(id),
        ("POST", ["restate", "awakeables", awakeable, action]) => {
            world.answered.push(format!("{awakeable} {action}"));
            ResponseTemplate::new(202)
        }
        (method, path) => refuse(405, &format!("{method} {path:?}")),
    }
}

pub(crate) fn ok(body: Value) -> ResponseTemplate {
    ResponseTemplate::new(200).set_body_json(body)
}

pub(crate) fn refuse(status: u16, message: &str) -> ResponseTemplate {
    ResponseTemplate::new(status).set_body_json(json!({"message": message, "restate_code": null}))
}
