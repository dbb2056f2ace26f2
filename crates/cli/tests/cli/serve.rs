//! `stateway serve`.

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::binary::{Gateway, Running, command, run};
use crate::scripts::WAITING;

fn http(url: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(url.trim_start_matches("http://")).unwrap();
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn one_line_says_where_and_what() {
    let gateway = Gateway::with(
        "[providers.a]\nkind = \"memory\"\n[providers.b]\nkind = \"memory\"\n",
        &[],
    );
    let line = gateway.process.line("stateway is listening");
    assert!(line.ends_with("(2 providers: a, b)"), "{line}");
}

#[test]
fn metrics_and_health_are_served_beside_grpc() {
    let gateway = Gateway::new();
    gateway.run(&["providers", "list"]).exits(0);
    assert!(http(&gateway.url, "/healthz").starts_with("HTTP/1.1 200"));
    let metrics = http(&gateway.url, "/metrics");
    assert!(metrics.contains("# TYPE stateway_"), "{metrics}");
    assert!(metrics.contains("method="), "{metrics}");
}

#[test]
fn a_signal_ends_it_in_good_order_and_tells_the_streams() {
    for signal in ["-INT", "-TERM"] {
        let mut gateway = Gateway::new();
        gateway.start("a", WAITING);
        let watch = Running::begin(&mut gateway.command(&["watch", "memory/a"]));
        watch.line("memory/a  waiting");
        gateway.process.signal(signal);
        watch.line("connection lost");
        assert_eq!(gateway.process.code(), 0, "{signal}");
        gateway.process.line("stateway has stopped");
    }
}

#[test]
fn a_port_that_is_taken_is_refused_with_a_hint() {
    let gateway = Gateway::new();
    let address = gateway.url.trim_start_matches("http://");
    let second = run(&["serve", "--listen", address]).exits(4);
    assert!(second.err.contains("cannot listen on"), "{}", second.err);
    assert!(
        second
            .err
            .contains("hint: Choose another address with --listen"),
        "{}",
        second.err
    );
}

#[test]
fn anything_but_loopback_is_refused_with_the_reason() {
    let answer = run(&["serve", "--listen", "0.0.0.0:0"]).exits(2);
    assert!(answer.err.contains("only loopback"), "{}", answer.err);
}

#[test]
fn a_wrong_configuration_is_refused_before_anything_starts() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("stateway.toml"), "[server]\nx = 1\n").unwrap();
    let answer = crate::binary::finish(command(directory.path()).arg("serve"), "").exits(2);
    assert!(
        answer
            .err
            .starts_with("error: stateway.toml:2:1: unknown field `x`"),
        "{}",
        answer.err
    );
}

#[test]
fn json_logs_are_an_object_per_line() {
    let gateway = Gateway::with("", &["--log-format", "json", "--log", "debug"]);
    gateway.run(&["get", "memory/nope"]).exits(3);
    let line = gateway.process.line("\"request_id\":");
    let parsed: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!(parsed["span"]["name"], "rpc");
    assert!(
        parsed["timestamp"].is_string() && parsed["message"].is_string(),
        "{line}"
    );
}
