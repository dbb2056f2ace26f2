//! Gateways that call each other: a gateway that stands by forwards its calls to the active one.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustix::process::Signal;
use stateway_visitor::exchange_blocking;

use crate::process::{Running, eventually, free_port};
use crate::{Gateway, Lab, binary};

const DEFINITIONS: [(&str, &str); 3] = [
    ("gate", "name: gate\nsteps: [{name: a, signal: go}]\n"),
    (
        "release",
        "name: release\nsteps: [{name: sign, approval: {role: boss}}]\n",
    ),
    (
        "hand",
        "name: hand\nsteps: [{name: work, agent: hands, timeout: 5m}]\n",
    ),
];

fn prepared(lab: &Lab, gateway: &Gateway) {
    for (name, source) in DEFINITIONS {
        let file = lab.folder.path().join(format!("{name}.yaml"));
        std::fs::write(&file, source).unwrap();
        let apply = ["definitions", "apply", file.to_str().unwrap()];
        eventually("a definition is applied", || gateway.run(&apply).ok());
    }
}

/// A page of a gateway.
fn page(gateway: &Gateway, path: &str) -> String {
    let head = format!("GET {path} HTTP/1.1\r\nhost: 127.0.0.1\r\n");
    exchange_blocking(([127, 0, 0, 1], gateway.port).into(), &head, b"").unwrap()
}

fn forwards(gateway: &Gateway) {
    eventually("the gateway forwards calls", || {
        gateway.run(&["list", "--all"]).ok()
    });
}

fn state(gateway: &Gateway, id: &str) -> Option<String> {
    let shown = gateway.run(&["get", id]).ok()?;
    Some(shown["sub_state"].as_str()?.to_owned())
}

/// What a worker does: it notes that it has begun, and takes its time.
fn slow_work(begun: &Path) -> String {
    format!("touch {}; sleep 5; echo 1", begun.display())
}

#[test]
fn every_call_to_a_gateway_that_stands_by_is_answered_by_the_active_one() {
    let lab = Lab::new();
    let first = lab.reachable();
    prepared(&lab, &first);
    let second = lab.reachable();
    forwards(&second);
    second.run(&["start", "main/gate", "--id", "g"]).unwrap();
    assert_eq!(
        (first.ids(), second.ids()),
        (vec!["g".to_owned()], vec!["g".to_owned()])
    );
    assert_eq!(
        second.run(&["get", "main/g"]).unwrap(),
        first.run(&["get", "main/g"]).unwrap()
    );
    // A watch sees a change that is made at the other gateway.
    let watch = Running::begin(&mut second.command(&["watch", "main/g", "-o", "json"]));
    eventually("the watch has begun", || {
        (!watch.said().is_empty()).then_some(())
    });
    first.run(&["signal", "main/g", "go"]).unwrap();
    eventually("the watch reports the end", || {
        watch
            .said()
            .iter()
            .any(|line| line.contains("succeeded"))
            .then_some(())
    });
    // An approval.
    second.run(&["start", "main/release", "--id", "r"]).unwrap();
    let approvals = second.run(&["approvals", "list"]).unwrap();
    assert!(
        approvals
            .to_string()
            .contains("main/executions/r/approvals/sign~1"),
        "{approvals}"
    );
    let grant = [
        "approvals",
        "grant",
        "main/r/sign~1",
        "--as",
        "eve",
        "--role",
        "boss",
    ];
    let granted = second.run(&grant).unwrap();
    assert!(granted.to_string().contains("eve"), "{granted}");
    // A worker.
    let work = [
        "worker",
        "--role",
        "hands",
        "--exec",
        "cat >/dev/null; echo 1",
    ];
    let worker = Running::begin(&mut second.command(&work));
    second.run(&["start", "main/hand", "--id", "h"]).unwrap();
    eventually("the worker has done its task", || {
        (state(&second, "main/h")? == "succeeded").then_some(())
    });
    drop(worker);
    // Pages call the API in the same way.
    let shown = page(&second, "/executions/main/r");
    assert!(
        shown.starts_with("HTTP/1.1 200") && shown.contains("succeeded"),
        "{shown}"
    );
    // The gateway serves, and reports how.
    eventually("the gateway is healthy", || {
        let health = page(&second, "/healthz");
        let address = format!("the active gateway at http://127.0.0.1:{}", first.port);
        (health.starts_with("HTTP/1.1 200") && health.contains(&address)).then_some(())
    });
}

#[test]
fn a_watch_and_a_worker_continue_at_one_gateway_after_the_active_one_is_killed() {
    let lab = Lab::new();
    let mut first = lab.reachable();
    prepared(&lab, &first);
    let second = lab.reachable();
    forwards(&second);
    let begun = lab.folder.path().join("begun");
    let program = slow_work(&begun);
    let work = ["worker", "--role", "hands", "--exec", &program];
    let worker = Running::begin(&mut second.command(&work));
    second.run(&["start", "main/hand", "--id", "h"]).unwrap();
    second.run(&["start", "main/gate", "--id", "g"]).unwrap();
    let watch = Running::begin(&mut second.command(&["watch", "main/g", "-o", "json"]));
    eventually("the watch has begun", || {
        (!watch.said().is_empty()).then_some(())
    });
    eventually("the worker has its task", || begun.exists().then_some(()));
    let killed = Instant::now();
    first.process.kill();
    eventually("another gateway takes over", || second.start("later").ok());
    println!(
        "summary: calls are answered {:?} after a kill with a lease of 2s",
        killed.elapsed()
    );
    second.run(&["signal", "main/g", "go"]).unwrap();
    eventually("the watch reports the end", || {
        watch
            .said()
            .iter()
            .any(|line| line.contains("succeeded"))
            .then_some(())
    });
    eventually("the worker has done its task", || {
        (state(&second, "main/h")? == "succeeded").then_some(())
    });
    drop(worker);
}

#[test]
fn an_active_gateway_that_is_paused_delays_calls_no_longer_than_its_lease() {
    let lab = Lab::new();
    let first = lab.reachable();
    prepared(&lab, &first);
    let second = lab.reachable();
    forwards(&second);
    let watch = Running::begin(&mut second.command(&["watch", "-o", "json"]));
    first.signal(Signal::STOP);
    let paused = Instant::now();
    eventually("another gateway takes over", || second.start("later").ok());
    println!(
        "summary: calls are answered {:?} after a pause with a lease of 2s",
        paused.elapsed()
    );
    eventually("the watch has the new execution", || {
        watch
            .said()
            .iter()
            .any(|line| line.contains("later"))
            .then_some(())
    });
    first.signal(Signal::CONT);
    // Now the first one stands by, and forwards.
    eventually("the first gateway forwards", || {
        (state(&first, "main/later")? == "waiting").then_some(())
    });
    assert_eq!(first.ids(), ["later"]);
}

fn sign(authority: &CertifiedIssuer<'static, KeyPair>, name: &str) -> (String, String) {
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
    (
        params.signed_by(&key, authority).unwrap().pem(),
        key.serialize_pem(),
    )
}

/// An authority, the certificate of this machine, and the client certificates of a gateway and of another program.
fn certificates(folder: &Path) {
    let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
    params.distinguished_name.push(DnType::CommonName, "test");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    std::fs::write(folder.join("ca.pem"), authority.pem()).unwrap();
    for (file, name) in [
        ("server", "127.0.0.1"),
        ("peer", "gateway.example"),
        ("other", "other.example"),
    ] {
        let (certificate, key) = sign(&authority, name);
        std::fs::write(folder.join(format!("{file}.pem")), certificate).unwrap();
        std::fs::write(folder.join(format!("{file}.key")), key).unwrap();
    }
}

/// An API key of this person.
fn key(folder: &Path, subject: &str, role: &str) -> String {
    let file = folder.join("keys.json");
    let mut create = Command::new(binary());
    create
        .args(["keys", "create", "-o", "json", "--file"])
        .arg(file);
    create.args(["--subject", subject, "--key-role", role]);
    let created = create.output().unwrap();
    assert!(created.status.success(), "{created:?}");
    let created: serde_json::Value = serde_json::from_slice(&created.stdout).unwrap();
    created["key"].as_str().unwrap().to_owned()
}

/// A gateway with authentication that calls others with this certificate.
fn guarded(lab: &Lab, certificate: &str, key: &str) -> Gateway {
    let folder = lab.folder.path().display();
    let port = free_port();
    let sections = format!(
        "[server.tls]\ncert = \"{folder}/server.pem\"\nkey = \"{folder}/server.key\"\nclient_ca = \"{folder}/ca.pem\"\n\
         [server.peers]\nca_file = \"{folder}/ca.pem\"\ncert = \"{folder}/{certificate}.pem\"\n\
         key = \"{folder}/{certificate}.key\"\n\
         [authentication.api_keys]\nfile = \"{folder}/keys.json\"\n\
         [authentication.proxy]\nsubjects = [\"gateway.example\"]\n\
         [[access.rules]]\nname = \"admins\"\nwho = {{ role = \"admin\" }}\nmay = \"admin\"\n"
    );
    let provider = format!("store_lease = \"2s\"\nstore_address = \"https://127.0.0.1:{port}\"\n");
    let mut gateway = lab.begin(port, &sections, &provider);
    gateway.url = format!("https://127.0.0.1:{port}");
    gateway.variables = vec![
        ("STATEWAY_TOKEN", key.to_owned()),
        ("STATEWAY_TLS_CA", format!("{folder}/ca.pem")),
    ];
    gateway
}

#[test]
fn with_authentication_the_caller_crosses_to_the_active_gateway_and_nobody_else_does() {
    let lab = Lab::new();
    certificates(lab.folder.path());
    let ada = key(lab.folder.path(), "ada", "admin");
    let eve = key(lab.folder.path(), "eve", "nobody");
    let first = guarded(&lab, "peer", &ada);
    prepared(&lab, &first);
    let mut second = guarded(&lab, "peer", &ada);
    forwards(&second);
    second.run(&["start", "main/gate", "--id", "g"]).unwrap();
    // The event has the name of the caller, not that of the gateway.
    let history = first
        .run(&["history", "main/g", "--full"])
        .unwrap()
        .to_string();
    assert!(history.contains("ada"), "{history}");
    assert!(!history.contains("gateway.example"), "{history}");
    // A caller without permission has none behind the other gateway either, whatever its headers say.
    second.variables[0].1 = eve;
    second
        .run(&["start", "main/gate", "--id", "x"])
        .unwrap_err();
    second.run(&["get", "main/g"]).unwrap_err();
    second.variables[0].1 = ada.clone();
    assert_eq!(second.ids(), ["g"]);
    // A gateway whose certificate is not listed is refused, and answers by itself.
    let other = guarded(&lab, "other", &ada);
    std::thread::sleep(Duration::from_secs(2));
    let refused = other.run(&["get", "main/g"]).unwrap_err().to_string();
    assert!(refused.contains("STORE_STANDBY"), "{refused}");
}
