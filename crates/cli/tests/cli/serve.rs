//! `stateway serve`.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use stateway_visitor::exchange_blocking;

use crate::binary::{Gateway, PATIENCE, Running, command, finish, run, silent};
use crate::scripts::WAITING;

pub(crate) fn http(url: &str, path: &str) -> String {
    let address = url.trim_start_matches("http://");
    let head = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\n");
    exchange_blocking(address.parse().unwrap(), &head, b"").unwrap()
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

/// Every figure of `/metrics`, by name and labels in the order of their names.
fn figures(gateway: &Gateway) -> BTreeMap<String, f64> {
    let page = http(&gateway.url, "/metrics");
    let lines = page.lines().filter(|line| line.starts_with("stateway_"));
    lines
        .map(|line| {
            let (key, value) = line.rsplit_once(' ').unwrap();
            let (name, labels) = key.split_once('{').unwrap_or((key, "}"));
            let mut labels: Vec<&str> = labels.trim_end_matches('}').split(',').collect();
            labels.sort_unstable();
            let key = format!("{name}{{{}}}", labels.join(","));
            (key, value.parse().unwrap())
        })
        .collect()
}

#[test]
fn health_is_served_beside_grpc() {
    let gateway = Gateway::new();
    assert!(http(&gateway.url, "/healthz").starts_with("HTTP/1.1 200"));
}

/// Compares the figures named, all at once.
#[track_caller]
fn shows(gateway: &Gateway, expected: &[(&str, f64)]) {
    let shown = figures(gateway);
    let found: Vec<_> = expected
        .iter()
        .map(|(key, _)| (*key, shown.get(*key).copied()))
        .collect();
    let expected: Vec<_> = expected.iter().map(|(key, n)| (*key, Some(*n))).collect();
    assert_eq!(found, expected);
}

#[test]
fn metrics_count_requests_upstream_calls_and_unmapped_states() {
    let gateway = Gateway::new();
    gateway.start("odd", r#"{"pose": {"state": "WARPED"}}"#);
    gateway.run(&["get", "memory/odd"]).exits(0);
    gateway.run(&["get", "memory/nope"]).exits(3);
    let expected = [
        (
            r#"stateway_requests_total{code="OK",method="StartExecution"}"#,
            1.0,
        ),
        (
            r#"stateway_requests_total{code="OK",method="GetExecution"}"#,
            1.0,
        ),
        (
            r#"stateway_requests_total{code="NOT_FOUND",method="GetExecution"}"#,
            1.0,
        ),
        (
            r#"stateway_requests_total{code="OK",method="ListExecutions"}"#,
            0.0,
        ),
        (
            r#"stateway_request_seconds_count{method="StartExecution"}"#,
            1.0,
        ),
        (
            r#"stateway_request_seconds_count{method="GetExecution"}"#,
            2.0,
        ),
        (
            r#"stateway_request_seconds_bucket{le="+Inf",method="GetExecution"}"#,
            2.0,
        ),
        (
            r#"stateway_upstream_calls_total{outcome="ok",provider="memory",verb="start"}"#,
            1.0,
        ),
        (
            r#"stateway_upstream_calls_total{outcome="ok",provider="memory",verb="get"}"#,
            1.0,
        ),
        (
            r#"stateway_upstream_calls_total{outcome="EXECUTION_NOT_FOUND",provider="memory",verb="get"}"#,
            1.0,
        ),
        (
            r#"stateway_upstream_seconds_count{provider="memory",verb="start"}"#,
            1.0,
        ),
        (
            r#"stateway_upstream_seconds_count{provider="memory",verb="get"}"#,
            2.0,
        ),
        // Once as it was started, once as it was read.
        (
            r#"stateway_unmapped_states_total{provider="memory",scope="execution"}"#,
            2.0,
        ),
        (r#"stateway_breaker_open{provider="memory"}"#, 0.0),
    ];
    shows(&gateway, &expected);
    let shown = figures(&gateway);
    for seconds in [
        r#"stateway_request_seconds_sum{method="GetExecution"}"#,
        r#"stateway_upstream_seconds_sum{provider="memory",verb="get"}"#,
    ] {
        assert!(shown[seconds] > 0.0, "{seconds}");
    }
}

#[test]
fn metrics_count_watchers_while_they_watch() {
    let gateway = Gateway::new();
    gateway.start("a", WAITING);
    let first = Running::begin(&mut gateway.command(&["watch", "memory/a"]));
    let second = Running::begin(&mut gateway.command(&["watch", "memory/a"]));
    first.line("memory/a  waiting");
    second.line("memory/a  waiting");
    let expected = [
        ("stateway_watchers{}", 2.0),
        (
            r#"stateway_requests_total{code="OK",method="WatchExecutions"}"#,
            2.0,
        ),
        (
            r#"stateway_request_seconds_count{method="WatchExecutions"}"#,
            2.0,
        ),
        // Both read the same topic.
        (
            r#"stateway_upstream_calls_total{outcome="ok",provider="memory",verb="watch-one"}"#,
            1.0,
        ),
        (
            r#"stateway_upstream_seconds_count{provider="memory",verb="watch-one"}"#,
            1.0,
        ),
    ];
    shows(&gateway, &expected);
    drop(first);
    let left = || figures(&gateway)["stateway_watchers{}"];
    let begin = Instant::now();
    while left() > 1.0 && begin.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!((left() - 1.0).abs() < f64::EPSILON);
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
fn a_gateway_without_its_port_creates_no_store() {
    let (taken, url) = silent();
    let address = url.trim_start_matches("http://");
    for (address, exit) in [(address, 4), ("192.0.2.1:1", 2)] {
        let folder = tempfile::tempdir().unwrap();
        let mut serve = command(folder.path());
        finish(serve.args(["serve", "--listen", address]), "").exits(exit);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
    drop(taken);
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

/// The processor time of a process in clock ticks, of which a second has 100.
#[cfg(target_os = "linux")]
fn ticks(id: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap();
    let fields: Vec<&str> = text
        .rsplit(')')
        .next()
        .unwrap()
        .split_whitespace()
        .collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

#[cfg(target_os = "linux")]
#[test]
fn without_file_descriptors_the_gateway_waits_says_so_and_serves_those_it_has() {
    let directory = tempfile::tempdir().unwrap();
    let config = "[server]\nhandshake_timeout = \"60s\"\n[providers.memory]\nkind = \"memory\"\n";
    std::fs::write(directory.path().join("stateway.toml"), config).unwrap();
    let mut limited = std::process::Command::new("sh");
    limited
        .current_dir(directory.path())
        .env_clear()
        .args(["-c", "ulimit -n 64; exec \"$0\" \"$@\""])
        .arg(env!("CARGO_BIN_EXE_stateway"))
        .args(["serve", "--listen", "127.0.0.1:0"]);
    let process = Running::begin(&mut limited);
    let ready = process.line("stateway is listening on http://");
    let (_, rest) = ready.split_once("http://").unwrap();
    let address = rest.split_whitespace().next().unwrap().to_owned();
    let mut old = TcpStream::connect(&address).unwrap();
    let mut is_served = || {
        write!(old, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        let mut answer = [0; 512];
        let read = old.read(&mut answer).unwrap();
        String::from_utf8_lossy(&answer[..read]).starts_with("HTTP/1.1 200")
    };
    assert!(is_served());
    let taken: Vec<_> = (0..100).map(|_| TcpStream::connect(&address)).collect();
    process.line("cannot accept connections");
    let before = ticks(process.id());
    std::thread::sleep(Duration::from_secs(2));
    let used = ticks(process.id()) - before;
    assert!(used < 50, "{used} ticks in two seconds");
    let lines = process.said();
    let lines = lines.iter().filter(|line| line.contains("cannot accept"));
    assert_eq!(lines.count(), 1);
    assert!(is_served());
    drop(taken);
    assert!(http(&format!("http://{address}"), "/healthz").starts_with("HTTP/1.1 200"));
}
