//! Clients that prove nothing: their connections are bounded in number, time and bytes.

use std::time::Duration;

use jiff::Timestamp;
use stateway_client::Security;
use stateway_identity::api_key::{KeyFile, NewKey, RANDOM_BYTES};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use crate::support::{Authority, Folder, PATIENCE, Running, connect, settings, who};

async fn gateway(
    change: impl FnOnce(&mut stateway_gateway::Settings),
) -> (Folder, Running, String) {
    let (folder, mut file) = (Folder::new(), KeyFile::default());
    let new = NewKey {
        subject: "ada".into(),
        roles: Vec::new(),
        tenant: None,
        expires: Some(Timestamp::now() + Duration::from_secs(3600)),
    };
    let (_, key) = file
        .create(new, &[1; RANDOM_BYTES], Timestamp::now())
        .unwrap();
    let mut settings = settings(&folder, &Authority::new("servers"));
    settings.authentication.api_keys = Some(folder.write("keys.json", &file.to_json()));
    settings.handshake_timeout = Duration::from_secs(600);
    settings.authentication_timeout = Duration::from_secs(600);
    change(&mut settings);
    (
        folder,
        Running::new(settings).await,
        key.expose().to_owned(),
    )
}

/// Sends a request and leaves the connection open. True if the answer begins with this status.
async fn ask(stream: &mut TlsStream<TcpStream>, headers: &str, status: &str) -> bool {
    let request = format!("GET /metrics HTTP/1.1\r\nhost: localhost\r\n{headers}\r\n");
    if stream.write_all(request.as_bytes()).await.is_err() {
        return false;
    }
    let mut answer = vec![0; 64 * 1024];
    let read = tokio::time::timeout(PATIENCE, stream.read(&mut answer)).await;
    matches!(read, Ok(Ok(read)) if answer[..read].starts_with(status.as_bytes()))
}

async fn is_closed(stream: &mut TlsStream<TcpStream>) -> bool {
    let mut rest = Vec::new();
    let read = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut rest));
    read.await.is_ok()
}

#[tokio::test]
async fn beyond_the_limit_the_oldest_stranger_goes_and_proven_clients_stay() {
    let (folder, running, key) =
        gateway(|settings| settings.max_unauthenticated_connections = 4).await;
    let ca = folder.path("ca.pem");
    let proof = format!("authorization: Bearer {key}\r\n");
    let mut proven = connect(running.address, &ca).await;
    assert!(ask(&mut proven, &proof, "HTTP/1.1 200").await);
    let mut strangers = Vec::new();
    for _ in 0..12 {
        let mut stranger = connect(running.address, &ca).await;
        // A refused request makes nobody known.
        assert!(ask(&mut stranger, "", "HTTP/1.1 401").await);
        strangers.push(stranger);
    }
    for gone in &mut strangers[..8] {
        assert!(is_closed(gone).await);
    }
    for stays in &mut strangers[8..] {
        assert!(ask(stays, "", "HTTP/1.1 401").await);
    }
    assert!(ask(&mut proven, &proof, "HTTP/1.1 200").await);
    // A new client that proves who it is gets in.
    let security = Security::default().ca(ca).token(&key).unwrap();
    who(&running.client(&security)).await.unwrap();
}

#[tokio::test]
async fn a_stranger_that_keeps_asking_is_cut_off_in_time_and_a_proven_client_is_not() {
    let time = Duration::from_millis(1500);
    let (folder, running, key) = gateway(|settings| settings.authentication_timeout = time).await;
    let ca = folder.path("ca.pem");
    let proof = format!("authorization: Bearer {key}\r\n");
    let mut proven = connect(running.address, &ca).await;
    assert!(ask(&mut proven, &proof, "HTTP/1.1 200").await);
    let mut stranger = connect(running.address, &ca).await;
    let asking = async {
        while ask(&mut stranger, "", "HTTP/1.1 401").await {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(PATIENCE, asking)
        .await
        .expect("it is cut off");
    assert!(ask(&mut proven, &proof, "HTTP/1.1 200").await);
}

#[tokio::test]
async fn slow_headers_of_a_stranger_are_cut_off() {
    let time = Duration::from_millis(1500);
    let (folder, running, _) = gateway(|settings| settings.authentication_timeout = time).await;
    for begin in [
        &b"GET /metrics HTTP/1.1\r\nhost: localhost\r\n"[..],
        // A request over HTTP/2 whose headers do not end.
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00\x00\x00\x03\x01\x01\x00\x00\x00\x01\x82\x84\x86",
    ] {
        let mut slow = connect(running.address, &folder.path("ca.pem")).await;
        slow.write_all(begin).await.unwrap();
        let dripping = async {
            let (mut read, mut write) = tokio::io::split(&mut slow);
            let mut sink = [0; 1024];
            loop {
                tokio::select! {
                    read = read.read(&mut sink) => if !matches!(read, Ok(1..)) { return },
                    () = tokio::time::sleep(Duration::from_millis(100)) => {
                        if begin.starts_with(b"GET") && write.write_all(b"x-a: b\r\n").await.is_err() {
                            return;
                        }
                    }
                }
            }
        };
        tokio::time::timeout(PATIENCE, dripping).await.expect("it is cut off");
    }
}

/// Each request is small enough; together they are more than a stranger may send.
#[tokio::test]
async fn a_stranger_cannot_send_without_end() {
    let (folder, running, key) = gateway(|_| {}).await;
    let ca = folder.path("ca.pem");
    let large = format!("x-large: {}\r\n", "x".repeat(48 * 1024));
    let mut stranger = connect(running.address, &ca).await;
    let mut answered = 0;
    while answered < 200 && ask(&mut stranger, &large, "HTTP/1.1 401").await {
        answered += 1;
    }
    // 2 MiB.
    assert!((40..=43).contains(&answered), "{answered}");
    let mut proven = connect(running.address, &ca).await;
    let headers = format!("authorization: Bearer {key}\r\n{large}");
    for _ in 0..60 {
        assert!(ask(&mut proven, &headers, "HTTP/1.1 200").await);
    }
}
