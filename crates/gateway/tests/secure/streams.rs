//! Streams that end with the proof of their caller, and the record of it. The other proofs are in
//! `tests/access/streams.rs`.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::json;
use stateway_client::{Change, Client, Code, Error, Security, WatchRequest};
use stateway_gateway::{AuditSettings, JwksSource, Settings};
use stateway_identity::Glob;
use stateway_identity::certificate::Grant;

use crate::support::{Authority, Folder, PATIENCE, Running, connect, get, settings};
use crate::tokens::{Issuer, accepting};

/// Opens a watch and returns how it ends.
async fn ended(client: &Client, meanwhile: impl AsyncFnOnce()) -> Error {
    let mut watch = client.watch(WatchRequest::new("providers/who"));
    let opened = tokio::time::timeout(PATIENCE, watch.next()).await;
    let opened = opened.expect("the watch opens in time").unwrap();
    assert!(opened.is_ok(), "{opened:?}");
    meanwhile().await;
    let reading = async {
        loop {
            match watch.next().await {
                Some(Ok(Change::Interrupted(error))) | Some(Err(error)) => return error,
                Some(Ok(_)) => {}
                None => panic!("the stream ended without an error"),
            }
        }
    };
    let ended = tokio::time::timeout(PATIENCE, reading).await;
    ended.expect("the stream ends in time")
}

fn with_tokens(folder: &Folder, issuer: &Issuer) -> Settings {
    let mut settings = settings(folder, &Authority::new("servers"));
    let keys = folder.write("jwks.json", &issuer.set());
    settings.authentication.jwt = Some(accepting(JwksSource::File(keys)));
    settings.authentication.reload_interval = Duration::from_millis(20);
    settings
}

#[tokio::test]
async fn a_stream_ends_when_its_token_expires_and_that_is_recorded() {
    let (folder, issuer) = (Folder::new(), Issuer::new("a"));
    let mut settings = with_tokens(&folder, &issuer);
    let log = folder.path("audit.jsonl");
    settings.audit = Some(AuditSettings::new(log.clone()));
    let running = Running::new(settings).await;
    let expires = Timestamp::now().as_second() + 2;
    let token = issuer.token("ada", &json!({"exp": expires}));
    let security = Security::default().ca(folder.path("ca.pem"));
    let client = running.client(&security.token(&token).unwrap());
    let error = ended(&client, async || ()).await;
    assert_eq!(error.code(), Code::Unauthenticated);
    assert_eq!(error.reason(), "TOKEN_EXPIRED");
    let late = Timestamp::now().as_second() - expires;
    assert!((0..=5).contains(&late), "{late} seconds late");
    drop(client);
    running.stopped().await;
    let text = std::fs::read_to_string(log).unwrap();
    let record = text.lines().find(|line| line.contains("TOKEN_EXPIRED"));
    let record = record.expect("the end of the stream is recorded");
    for part in ["WatchExecutions", "\"ada\"", "UNAUTHENTICATED", "\"jwt\""] {
        assert!(record.contains(part), "{part} in {record}");
    }
    assert!(!text.contains(&token));
}

#[tokio::test]
async fn a_live_page_ends_when_its_token_expires_and_that_is_recorded() {
    let (folder, issuer) = (Folder::new(), Issuer::new("a"));
    let mut settings = with_tokens(&folder, &issuer);
    let log = folder.path("audit.jsonl");
    settings.audit = Some(AuditSettings::new(log.clone()));
    let running = Running::new(settings).await;
    let expires = Timestamp::now().as_second() + 2;
    let token = issuer.token("ada", &json!({"exp": expires}));
    let mut stream = connect(running.address, &folder.path("ca.pem")).await;
    let headers = format!("authorization: Bearer {token}\r\naccept: text/event-stream\r\n");
    let reading = get(&mut stream, "/executions/live", &headers);
    let page = tokio::time::timeout(PATIENCE, reading).await;
    let page = page.expect("the page ends in time").unwrap();
    assert!(page.starts_with("HTTP/1.1 200"), "{page}");
    assert!(Timestamp::now().as_second() >= expires, "{page}");
    running.stopped().await;
    let text = std::fs::read_to_string(log).unwrap();
    let records: Vec<_> = text.lines().filter(|it| it.contains("EXPIRED")).collect();
    let [record] = records[..] else {
        panic!("one record: {text}");
    };
    for part in [
        "\"page\"",
        "/executions/live",
        "\"ada\"",
        "UNAUTHENTICATED",
        "TOKEN_EXPIRED",
        "\"jwt\"",
    ] {
        assert!(record.contains(part), "{part} in {record}");
    }
    assert!(!text.contains(&token));
}

#[tokio::test]
async fn a_stream_ends_when_the_key_of_its_token_is_removed() {
    let (folder, issuer) = (Folder::new(), Issuer::new("a"));
    let running = Running::new(with_tokens(&folder, &issuer)).await;
    let security = Security::default().ca(folder.path("ca.pem"));
    let token = issuer.token("ada", &json!({}));
    let client = running.client(&security.token(&token).unwrap());
    let other = Issuer::new("b").set();
    let error = ended(&client, async || {
        folder.write("jwks.json", &other);
    })
    .await;
    assert_eq!(error.code(), Code::Unauthenticated);
    assert_eq!(error.reason(), "TOKEN_KEY_UNKNOWN");
}

#[tokio::test]
async fn a_stream_ends_when_the_authority_of_its_certificate_is_removed() {
    let (folder, clients) = (Folder::new(), Authority::new("clients"));
    let mut settings = settings(&folder, &Authority::new("servers"));
    let tls = settings.tls.as_mut().unwrap();
    tls.client_ca = Some(folder.write("clients.pem", &clients.pem()));
    settings.authentication.certificates = Some(vec![Grant {
        subject: Glob::new("spiffe://prod/*"),
        roles: vec!["worker".into()],
        tenant: None,
    }]);
    let running = Running::new(settings).await;
    let (certificate, key) = folder.signed("a", &clients.client("spiffe://prod/a"));
    let security = Security::default().ca(folder.path("ca.pem"));
    let client = running.client(&security.certificate(certificate, key));
    let others = Authority::new("others").pem();
    let error = ended(&client, async || {
        folder.write("clients.pem", &others);
    })
    .await;
    assert_eq!(error.code(), Code::Unauthenticated);
    assert_eq!(error.reason(), "CERTIFICATE_NOT_ACCEPTED");
}

#[tokio::test]
async fn a_watch_continues_with_the_token_that_its_file_has_by_then() {
    let (folder, issuer) = (Folder::new(), Issuer::new("a"));
    let running = Running::new(with_tokens(&folder, &issuer)).await;
    let expires = Timestamp::now().as_second() + 3;
    let first = issuer.token("ada", &json!({"exp": expires}));
    let file = folder.write("token", &first);
    let security = Security::default().ca(folder.path("ca.pem"));
    let client = running.client(&security.token_file(file).unwrap());
    let mut watch = client.watch(WatchRequest::new("providers/who"));
    assert!(watch.next().await.unwrap().is_ok());
    folder.write("token", &issuer.token("ada", &json!({})));
    let follow = async {
        let mut was_interrupted = false;
        loop {
            match watch.next().await.unwrap().unwrap() {
                Change::Interrupted(error) => {
                    assert_eq!(error.reason(), "TOKEN_EXPIRED");
                    was_interrupted = true;
                }
                _ if was_interrupted => return,
                _ => {}
            }
        }
    };
    let followed = tokio::time::timeout(PATIENCE, follow).await;
    followed.expect("the watch continues in time");
}
