//! TLS on the port: versions, protocols, certificates that change, handshakes that never end.

use std::time::Duration;

use stateway_client::{Code, ListProviders, Security};
use stateway_gateway::{Settings, StartError};
use stateway_identity::api_key::{KeyFile, NewKey, RANDOM_BYTES};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::{
    Authority, Folder, PATIENCE, Running, config, config_of, connect, connect_with, eventually,
    get, settings,
};

async fn secure() -> (Folder, Authority, Running) {
    let (folder, authority) = (Folder::new(), Authority::new("servers"));
    let running = Running::new(settings(&folder, &authority)).await;
    (folder, authority, running)
}

/// The name in the certificate that the gateway presents.
async fn presented(folder: &Folder, running: &Running) -> Vec<u8> {
    let stream = connect(running.address, &folder.path("ca.pem")).await;
    let chain = stream.get_ref().1.peer_certificates().unwrap();
    chain[0].to_vec()
}

#[tokio::test]
async fn one_port_serves_grpc_pages_and_metrics_over_tls() {
    let (folder, _, running) = secure().await;
    let security = Security::default().ca(folder.path("ca.pem"));
    let client = running.client(&security);
    let page = client.providers_page(ListProviders::new()).await.unwrap();
    assert_eq!(page.providers.len(), 1);
    for (path, content) in [
        ("/healthz", "ok"),
        ("/metrics", "metrics page"),
        ("/executions", "<html"),
    ] {
        let mut stream = connect(running.address, &folder.path("ca.pem")).await;
        let answer = get(&mut stream, path, "").await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{path}: {answer}");
        assert!(answer.contains(content), "{path}: {answer}");
    }
    running.stopped().await;
}

#[tokio::test]
async fn every_interface_is_served_with_tls_and_a_key() {
    let (folder, mut file) = (Folder::new(), KeyFile::default());
    let new = NewKey {
        subject: "ci".into(),
        roles: vec!["dev".into()],
        tenant: None,
        expires: None,
    };
    let made = file.create(new, &[7; RANDOM_BYTES], jiff::Timestamp::now());
    let (_, key) = made.unwrap();
    let mut settings = settings(&folder, &Authority::new("servers"));
    settings.listen = "0.0.0.0:0".parse().unwrap();
    settings.authentication.api_keys = Some(folder.write("keys.json", &file.to_json()));
    let mut running = Running::new(settings).await;
    assert!(running.address.ip().is_unspecified());
    running.address.set_ip("127.0.0.1".parse().unwrap());
    let trusting = Security::default().ca(folder.path("ca.pem"));
    let nobody = running.who(&trusting).await;
    assert_eq!(nobody.unwrap_err(), "CREDENTIALS_MISSING");
    let security = trusting.token(key.expose()).unwrap();
    assert_eq!(running.who(&security).await.unwrap(), "ci dev");
}

#[tokio::test]
async fn the_dashboard_sets_secure_cookies_over_tls() {
    let (folder, _, running) = secure().await;
    let mut stream = connect(running.address, &folder.path("ca.pem")).await;
    let answer = get(&mut stream, "/executions", "").await.unwrap();
    let cookies: Vec<_> = answer
        .lines()
        .filter(|line| line.to_ascii_lowercase().starts_with("set-cookie:"))
        .collect();
    assert!(!cookies.is_empty(), "{answer}");
    for cookie in cookies {
        assert!(cookie.contains("; Secure"), "{cookie}");
        assert!(cookie.contains("HttpOnly"), "{cookie}");
    }
}

#[tokio::test]
async fn the_oldest_version_is_1_2_and_the_protocol_is_negotiated() {
    let (folder, _, running) = secure().await;
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        for protocol in [&b"h2"[..], b"http/1.1"] {
            let mut config = config_of(&folder.path("ca.pem"), &[version], None);
            config.alpn_protocols = vec![protocol.to_vec()];
            let stream = connect_with(running.address, config).await.unwrap();
            let session = stream.get_ref().1;
            assert_eq!(session.protocol_version(), Some(version.version));
            assert_eq!(session.alpn_protocol(), Some(protocol));
        }
    }
    // TLS 1.1: a client hello that offers nothing newer gets an alert and no handshake.
    let mut old = TcpStream::connect(running.address).await.unwrap();
    old.write_all(&client_hello_of_tls_1_1()).await.unwrap();
    let mut answer = Vec::new();
    let read = tokio::time::timeout(PATIENCE, old.read_to_end(&mut answer)).await;
    assert!(read.is_ok(), "the connection stays open");
    // Record type 21 is an alert, description 70 `protocol_version`.
    assert_eq!(
        (answer.first(), answer.get(6)),
        (Some(&21), Some(&70)),
        "{answer:?}"
    );
}

fn client_hello_of_tls_1_1() -> Vec<u8> {
    let mut body = vec![3, 2];
    body.extend([7; 32]);
    body.push(0);
    // Two cipher suites that newer versions have too, no compression.
    body.extend([0, 4, 0xc0, 0x2b, 0xc0, 0x2f, 1, 0]);
    // Curves, point formats and signatures, as every client sends them.
    let extensions = [
        0, 10, 0, 4, 0, 2, 0, 23, 0, 11, 0, 2, 1, 0, 0, 13, 0, 4, 0, 2, 4, 3,
    ];
    body.extend([0, u8::try_from(extensions.len()).unwrap()]);
    body.extend(extensions);
    let mut handshake = vec![1, 0, 0, u8::try_from(body.len()).unwrap()];
    handshake.extend(body);
    let mut record = vec![22, 3, 1, 0, u8::try_from(handshake.len()).unwrap()];
    record.extend(handshake);
    record
}

#[tokio::test]
async fn a_client_that_trusts_another_authority_does_not_connect() {
    let (folder, _, running) = secure().await;
    let other = folder.write("other.pem", &Authority::new("others").pem());
    let error = running
        .client(&Security::default().ca(other))
        .providers_page(ListProviders::new())
        .await
        .unwrap_err();
    assert_eq!(error.code(), Code::Unavailable);
    assert!(error.message().contains("certificate"), "{error}");
    assert!(error.hint().contains("--tls-ca"), "{}", error.hint());
}

#[tokio::test]
async fn http_without_tls_is_not_answered() {
    let (_folder, _, running) = secure().await;
    let mut plain = TcpStream::connect(running.address).await.unwrap();
    let request = b"GET /metrics HTTP/1.1\r\nhost: localhost\r\n\r\n";
    plain.write_all(request).await.unwrap();
    let mut answer = Vec::new();
    let _ = tokio::time::timeout(PATIENCE, plain.read_to_end(&mut answer)).await;
    assert!(!answer.starts_with(b"HTTP"), "{answer:?}");
}

#[tokio::test]
async fn a_new_certificate_is_used_without_dropping_open_connections() {
    let (folder, authority, running) = secure().await;
    let first = presented(&folder, &running).await;
    let security = Security::default().ca(folder.path("ca.pem"));
    let client = running.client(&security);
    client.providers_page(ListProviders::new()).await.unwrap();
    let mut open = connect(running.address, &folder.path("ca.pem")).await;

    folder.signed("server", &authority.server("second"));
    eventually(async || presented(&folder, &running).await != first).await;

    let answer = get(&mut open, "/healthz", "").await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    client.providers_page(ListProviders::new()).await.unwrap();
}

#[tokio::test]
async fn a_broken_certificate_keeps_the_old_one_and_a_repaired_one_replaces_it() {
    let (folder, authority, running) = secure().await;
    let first = presented(&folder, &running).await;
    let second = authority.server("second");
    // A certificate without its key, garbage, and no file at all.
    folder.write("server.pem", &second.certificate);
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(presented(&folder, &running).await, first);
    folder.write("server.pem", "garbage");
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(presented(&folder, &running).await, first);
    std::fs::remove_file(folder.path("server.pem")).unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(presented(&folder, &running).await, first);
    folder.signed("server", &second);
    eventually(async || presented(&folder, &running).await != first).await;
}

#[tokio::test]
async fn a_certificate_that_cannot_be_used_is_reported_at_the_start() {
    let (folder, authority) = (Folder::new(), Authority::new("servers"));
    let good = settings(&folder, &authority);
    let with = |change: &dyn Fn(&mut stateway_gateway::TlsSettings)| {
        let mut settings: Settings = good.clone();
        change(settings.tls.as_mut().unwrap());
        settings
    };
    let other = folder.write("other.key", &authority.server("other").key);
    let empty = folder.write("empty.pem", "");
    for (settings, key) in [
        (
            with(&|tls| tls.cert = folder.path("missing")),
            "server.tls.cert",
        ),
        (with(&|tls| tls.cert = empty.clone()), "server.tls.cert"),
        (with(&|tls| tls.key = other.clone()), "server.tls.key"),
        (with(&|tls| tls.key = empty.clone()), "server.tls.key"),
        (
            with(&|tls| tls.client_ca = Some(empty.clone())),
            "server.tls.client_ca",
        ),
    ] {
        let Err(error) = Running::try_new(settings).await else {
            panic!("{key} is used");
        };
        assert!(matches!(error, StartError::Tls(_)), "{error}");
        assert!(error.to_string().contains(key), "{error}");
        assert!(!error.to_string().contains("PRIVATE"), "{error}");
    }
}

#[tokio::test]
async fn a_handshake_that_stalls_is_cut_off_in_time() {
    let (folder, authority) = (Folder::new(), Authority::new("servers"));
    let mut settings = settings(&folder, &authority);
    settings.handshake_timeout = Duration::from_millis(300);
    let running = Running::new(settings).await;
    for said in [&b""[..], &[22, 3, 1, 2, 0, 1]] {
        let mut silent = TcpStream::connect(running.address).await.unwrap();
        silent.write_all(said).await.unwrap();
        let mut rest = Vec::new();
        let ended = tokio::time::timeout(PATIENCE, silent.read_to_end(&mut rest)).await;
        assert!(ended.is_ok(), "{said:?}");
    }
}

#[tokio::test]
async fn handshakes_that_never_end_do_not_keep_others_out() {
    let (folder, authority) = (Folder::new(), Authority::new("servers"));
    let mut settings = settings(&folder, &authority);
    settings.handshake_timeout = Duration::from_secs(600);
    settings.tls.as_mut().unwrap().max_handshakes = 8;
    let running = Running::new(settings).await;
    let mut stalled = Vec::new();
    for _ in 0..40 {
        let mut stream = TcpStream::connect(running.address).await.unwrap();
        stream.write_all(&[22, 3, 1, 2, 0]).await.unwrap();
        stalled.push(stream);
    }
    let mut stream = connect_with(running.address, config(&folder.path("ca.pem")))
        .await
        .unwrap();
    let answer = get(&mut stream, "/healthz", "").await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    // The oldest handshakes were cut off to make room.
    let mut rest = Vec::new();
    let first = stalled[0].read_to_end(&mut rest);
    assert!(tokio::time::timeout(PATIENCE, first).await.is_ok());
}
