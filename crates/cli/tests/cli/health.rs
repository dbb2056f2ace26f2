//! `stateway health` of gateways with and without TLS, and of the port for probes and scrapers.

use std::io::Write as _;
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;

use stateway_visitor::exchange_blocking;

use crate::binary::{command, finish};
use crate::tls::{TLS, ask, certificates, serve};

/// A port that was free a moment ago.
pub(crate) fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

pub(crate) fn get(port: u16, path: &str, headers: &str) -> String {
    let address = (Ipv4Addr::LOCALHOST, port).into();
    let head = format!("GET {path} HTTP/1.1\r\n{headers}");
    exchange_blocking(address, &head, b"").unwrap()
}

/// The configuration that the gateway of [`serve`] runs with, as its own machine sees it.
fn at(folder: &Path, listen: &str) {
    let text = std::fs::read_to_string(folder.join("stateway.toml")).unwrap();
    let text = format!("server.listen = \"{listen}\"\n{text}");
    std::fs::write(folder.join("local.toml"), text).unwrap();
}

#[test]
fn a_gateway_and_its_providers_are_asked_by_their_address() {
    let folder = tempfile::tempdir().unwrap();
    certificates(folder.path());
    let (_gateway, url) = serve(folder.path(), TLS);
    let health = ["health", "--tls-ca", "ca.pem"];
    let answer = ask(folder.path(), &url, &health).exits(0);
    assert_eq!(answer.out, "serving\n");
    let json = [&health[..], &["-o", "json", "--provider", "memory"]].concat();
    let answer = ask(folder.path(), &url, &json).exits(0);
    assert_eq!(answer.json()["serving"], true);
    let unknown = [&health[..], &["--provider", "other"]].concat();
    ask(folder.path(), &url, &unknown).exits(3);
    // Another authority: the answer could come from anybody.
    ask(folder.path(), &url, &["health"]).exits(6);
}

#[test]
fn a_configuration_leads_to_the_gateway_of_this_machine_over_tls_without_credentials() {
    let folder = tempfile::tempdir().unwrap();
    certificates(folder.path());
    let keys = "[authentication.api_keys]\nfile = \"keys.json\"\n";
    let create = ["keys", "create", "--file", "keys.json", "--subject", "ci"];
    finish(command(folder.path()).args(create), "").exits(0);
    let (gateway, url) = serve(folder.path(), &format!("{TLS}{keys}"));
    let listen = url.strip_prefix("https://").unwrap();
    at(folder.path(), listen);
    let check = ["health", "--config", "local.toml"];
    let answer = finish(command(folder.path()).args(check), "").exits(0);
    assert_eq!(answer.out, "serving\n");
    drop(gateway);
    let answer = finish(command(folder.path()).args(check), "").exits(6);
    assert!(answer.err.contains(listen), "{}", answer.err);
}

#[test]
fn the_port_for_probes_serves_health_and_metrics_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    certificates(folder.path());
    let keys = "[authentication.api_keys]\nfile = \"keys.json\"\n";
    let create = ["keys", "create", "--file", "keys.json", "--subject", "ci"];
    finish(command(folder.path()).args(create), "").exits(0);
    let port = free_port();
    let probes = format!("server.monitoring_listen = \"127.0.0.1:{port}\"\n");
    let (gateway, _) = serve(folder.path(), &format!("{probes}{TLS}{keys}"));
    let line = gateway.line("health and metrics are also at");
    assert!(
        line.ends_with(&format!("http://127.0.0.1:{port}")),
        "{line}"
    );

    let local = "host: localhost\r\n";
    assert!(get(port, "/healthz", local).starts_with("HTTP/1.1 200"));
    let metrics = get(port, "/metrics", local);
    assert!(metrics.starts_with("HTTP/1.1 200"), "{metrics}");
    for path in ["/", "/executions", "/stateway.v1.Providers/ListProviders"] {
        let answer = get(port, path, local);
        assert!(answer.starts_with("HTTP/1.1 404"), "{path}: {answer}");
    }
    // A page of another site, and a name of another site that leads here.
    let cross = "host: localhost\r\nsec-fetch-site: cross-site\r\n";
    assert!(get(port, "/metrics", cross).starts_with("HTTP/1.1 403"));
    let rebound = "host: evil.example\r\n";
    assert!(get(port, "/metrics", rebound).starts_with("HTTP/1.1 421"));

    let plain = format!("http://127.0.0.1:{port}");
    ask(folder.path(), &plain, &["health"]).exits(0);
    let answer = ask(folder.path(), &plain, &["providers", "list"]).exits(5);
    assert!(!answer.out.contains("memory"), "{}", answer.out);
    // The address of the gateway is not in the file: only the port for probes can have answered.
    let check = ["health", "--config", "stateway.toml", "-o", "json"];
    let answer = finish(command(folder.path()).args(check), "").exits(0);
    assert_eq!(answer.json()["address"], plain);
}

#[test]
fn beyond_loopback_probes_may_use_any_host_name() {
    let folder = tempfile::tempdir().unwrap();
    let port = free_port();
    let probes = format!("server.monitoring_listen = \"0.0.0.0:{port}\"\n");
    let (_gateway, _) = serve(folder.path(), &probes);
    let scraper = "host: 10.2.3.4:7381\r\n";
    assert!(get(port, "/metrics", scraper).starts_with("HTTP/1.1 200"));
    let page = "host: 10.2.3.4:7381\r\norigin: http://evil.example\r\n";
    assert!(get(port, "/metrics", page).starts_with("HTTP/1.1 403"));
}

#[test]
fn something_else_than_a_gateway_is_not_healthy() {
    let folder = tempfile::tempdir().unwrap();
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = other.local_addr().unwrap();
    let config = format!("server.listen = \"{address}\"\n");
    std::fs::write(folder.path().join("other.toml"), config).unwrap();
    let answering = std::thread::spawn(move || {
        let (mut stream, _) = other.accept().unwrap();
        stream.write_all(b"SSH-2.0-OpenSSH_9.2p1\r\n").unwrap();
    });
    let check = ["health", "--config", "other.toml"];
    let answer = finish(command(folder.path()).args(check), "").exits(6);
    assert!(answer.err.contains("does not answer"), "{}", answer.err);
    answering.join().unwrap();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap();
    let config = format!("server.listen = \"{address}\"\n");
    std::fs::write(folder.path().join("other.toml"), config).unwrap();
    let check = ["health", "--config", "other.toml", "--timeout", "200ms"];
    let answer = finish(command(folder.path()).args(check), "").exits(6);
    assert!(answer.err.contains("timeout"), "{}", answer.err);
}
