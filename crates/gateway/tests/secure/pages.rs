//! Every way into the port asks for an identity: every method over gRPC and gRPC-Web, every page. Only
//! probes are exempt.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use prost::Message;
use prost_types::FileDescriptorSet;
use stateway_access::Rules;
use stateway_gateway::{RulesSource, Settings, StartError};
use stateway_identity::Secret;
use stateway_identity::api_key::{KeyFile, NewKey, RANDOM_BYTES};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::{Authority, Folder, Running, connect, get, settings};

fn guarded(folder: &Folder) -> (Settings, Secret) {
    let mut file = KeyFile::default();
    let new = NewKey {
        subject: "ada@example.org".into(),
        roles: vec!["ops".into()],
        tenant: None,
        expires: None,
    };
    let (_, key) = file
        .create(new, &[7; RANDOM_BYTES], Timestamp::now())
        .unwrap();
    let mut settings = settings(folder, &Authority::new("servers"));
    settings.authentication.api_keys = Some(folder.write("keys.json", &file.to_json()));
    (settings, key)
}

/// The path of every method of the API, and of reflection.
fn every_method() -> Vec<String> {
    let mut paths = vec!["/grpc.reflection.v1.ServerReflection/ServerReflectionInfo".to_owned()];
    let set = FileDescriptorSet::decode(stateway_proto::DESCRIPTORS).unwrap();
    for file in &set.file {
        for service in &file.service {
            let name = format!("{}.{}", file.package(), service.name());
            let methods = service.method.iter();
            paths.extend(methods.map(|method| format!("/{name}/{}", method.name())));
        }
    }
    assert!(paths.len() > 40, "{paths:?}");
    paths
}

/// The answer to an empty message over gRPC-Web.
async fn call(running: &Running, folder: &Folder, path: &str, headers: &str) -> String {
    let mut stream = connect(running.address, &folder.path("ca.pem")).await;
    let request = format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
         content-type: application/grpc-web+proto\r\ncontent-length: 5\r\n{headers}\r\n"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    stream.write_all(&[0; 5]).await.unwrap();
    let mut answer = vec![0; 4096];
    let read = tokio::time::timeout(Duration::from_secs(10), stream.read(&mut answer));
    let length = read.await.unwrap().unwrap();
    String::from_utf8_lossy(&answer[..length]).into_owned()
}

#[tokio::test]
async fn every_method_asks_for_an_identity_and_probes_do_not() {
    let folder = Folder::new();
    let (settings, key) = guarded(&folder);
    let running = Running::new(settings).await;
    let spoofed = "x-stateway-actor: root\r\nx-stateway-roles: admin\r\n";
    for path in every_method() {
        for headers in ["", spoofed] {
            let answer = call(&running, &folder, &path, headers).await;
            assert!(answer.contains("grpc-status: 16"), "{path}: {answer}");
            assert!(answer.contains("application/grpc-web"), "{path}: {answer}");
        }
    }
    let health = "/grpc.health.v1.Health/Check";
    let answer = call(&running, &folder, health, "").await;
    assert!(!answer.contains("grpc-status: 16"), "{answer}");
    let proof = format!("authorization: Bearer {}\r\n", key.expose());
    let list = "/stateway.v1.Providers/ListProviders";
    let answer = call(&running, &folder, list, &proof).await;
    assert!(answer.contains("providers/who"), "{answer}");
}

#[tokio::test]
async fn pages_ask_for_an_identity_and_show_it() {
    let folder = Folder::new();
    let (settings, key) = guarded(&folder);
    let running = Running::new(settings).await;
    let page = async |path: &str, headers: &str| {
        let mut stream = connect(running.address, &folder.path("ca.pem")).await;
        get(&mut stream, path, headers).await.unwrap()
    };
    for path in [
        "/",
        "/executions",
        "/metrics",
        "/acting",
        "/whoami",
        "/no-such-page",
    ] {
        let answer = page(path, "x-stateway-actor: root\r\n").await;
        assert!(answer.starts_with("HTTP/1.1 401"), "{path}: {answer}");
        let answer = page(path, "").await;
        assert!(answer.starts_with("HTTP/1.1 401"), "{path}: {answer}");
        assert!(answer.contains("www-authenticate: Basic"), "{answer}");
    }
    // A browser sends the key as the password of any name.
    let pair = STANDARD.encode(format!("whoever:{}", key.expose()));
    let signed_in = format!("authorization: Basic {pair}\r\n");
    let answer = page("/executions", &signed_in).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(answer.contains("ada@example.org"), "{answer}");
    // The cookie in which the dashboard remembers a typed name counts for nothing.
    let typed = format!("{signed_in}cookie: stateway_acting=actor%3Droot%26roles%3Dadmin\r\n");
    let answer = page("/executions", &typed).await;
    assert!(
        answer.contains("ada@example.org") && !answer.contains("root"),
        "{answer}"
    );
    let answer = page("/metrics", &signed_in).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let answer = page("/healthz", "").await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(!answer.contains("who"), "{answer}");
    assert!(!answer.contains(key.expose()));
}

#[tokio::test]
async fn another_address_than_loopback_needs_tls_and_authentication() {
    let folder = Folder::new();
    let (guarded, _) = guarded(&folder);
    let everywhere = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
    let with = |tls: bool, authentication: bool| {
        let mut settings = guarded.clone();
        settings.listen = everywhere;
        if !tls {
            settings.tls = None;
        }
        if !authentication {
            settings.authentication.api_keys = None;
        }
        settings
    };
    for (tls, authentication) in [(false, false), (true, false), (false, true)] {
        let Err(error) = Running::try_new(with(tls, authentication)).await else {
            panic!("it listens: {tls} {authentication}");
        };
        assert!(matches!(error, StartError::NotLoopback(_)), "{error}");
        for key in ["[server.tls]", "[authentication.api_keys]", "127.0.0.1"] {
            assert!(error.hint().contains(key), "{}", error.hint());
        }
    }
}

#[tokio::test]
async fn rules_without_authentication_are_refused_at_the_start() {
    let folder = Folder::new();
    let mut settings = settings(&folder, &Authority::new("servers"));
    settings.access.rules = RulesSource::Fixed(Rules::default());
    let Err(error) = Running::try_new(settings).await else {
        panic!("it listens");
    };
    assert!(matches!(error, StartError::Access(_)), "{error}");
    assert!(
        error.hint().contains("[authentication]"),
        "{}",
        error.hint()
    );
}
