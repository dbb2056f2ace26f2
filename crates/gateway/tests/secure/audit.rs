//! Records of authenticated callers, and of callers that are not authenticated.

use std::time::Duration;

use jiff::Timestamp;
use stateway_audit::{ChainKey, Record, parse};
use stateway_client::{Cancel, Security, Start};
use stateway_gateway::{AuditLog, AuditSettings, JwksSource};
use stateway_identity::Glob;
use stateway_identity::api_key::{KeyFile, NewKey, RANDOM_BYTES};
use stateway_identity::certificate::Grant;

use crate::support::{Authority, Folder, Running, connect, get, settings};
use crate::tokens::{Issuer, accepting};

pub(crate) fn records(folder: &Folder) -> Vec<Record> {
    let log = AuditLog::new(folder.path("audit.jsonl"), ChainKey::default());
    assert!(log.verify(Vec::new()).unwrap().is_intact());
    let mut found = Vec::new();
    log.each(|line| {
        found.push(parse(&ChainKey::default(), line.text).unwrap().record);
    })
    .unwrap();
    found
}

#[tokio::test]
async fn mutations_and_refusals_are_recorded_with_their_proof_and_without_secrets() {
    let (folder, mut file) = (Folder::new(), KeyFile::default());
    let new = NewKey {
        subject: "ci".into(),
        roles: vec!["operator".into()],
        tenant: Some("acme".into()),
        expires: Some(Timestamp::now() + Duration::from_secs(3600)),
    };
    let (_, key) = file
        .create(new, &[7; RANDOM_BYTES], Timestamp::now())
        .unwrap();
    let mut settings = settings(&folder, &Authority::new("servers"));
    settings.authentication.api_keys = Some(folder.write("keys.json", &file.to_json()));
    settings.audit = Some(AuditSettings::new(folder.path("audit.jsonl")));
    let running = Running::new(settings).await;
    let trusting = Security::default().ca(folder.path("ca.pem"));
    let name = "providers/who/executions/me";

    let security = trusting.clone().token(key.expose()).unwrap();
    running
        .client(&security)
        .cancel(Cancel::new(name))
        .await
        .unwrap_err();
    let forged = format!("{}sentinel", key.expose());
    let security = trusting.clone().token(&forged).unwrap();
    running.who(&security).await.unwrap_err();
    let mut stream = connect(running.address, &folder.path("ca.pem")).await;
    let page = get(&mut stream, "/executions", "").await.unwrap();
    assert!(page.starts_with("HTTP/1.1 401"), "{page}");
    let foreign = "origin: https://evil.example\r\nsec-fetch-site: cross-site\r\n";
    let mut stream = connect(running.address, &folder.path("ca.pem")).await;
    let page = get(&mut stream, "/metrics", foreign).await.unwrap();
    assert!(page.starts_with("HTTP/1.1 403"), "{page}");

    let records = records(&folder);
    let [_, cancel, get, page, site] = &records[..] else {
        panic!("{records:#?}");
    };
    assert_eq!((&*cancel.verb, &*cancel.object), ("CancelExecution", name));
    assert_eq!((&*cancel.actor, &*cancel.proof), ("ci", "api-key"));
    assert_eq!(
        (&*cancel.tenant, &cancel.roles[..]),
        ("acme", &["operator".to_owned()][..])
    );
    assert!(!cancel.request_id.is_empty() && cancel.address.starts_with("127.0.0.1:"));
    assert_eq!(
        (&*get.verb, &*get.outcome),
        ("GetExecution", "UNAUTHENTICATED")
    );
    assert_eq!((&*get.reason, &*get.actor), ("API_KEY_UNKNOWN", ""));
    assert_eq!((&*page.verb, &*page.object), ("page", "/executions"));
    assert_eq!(page.reason, "CREDENTIALS_MISSING");
    assert_eq!(
        (&*site.outcome, &*site.reason),
        ("PERMISSION_DENIED", "OTHER_SITE")
    );
    let text = std::fs::read_to_string(folder.path("audit.jsonl")).unwrap();
    assert!(!text.contains(key.expose()) && !text.contains("sentinel"));
}

/// A session is in `sign_in.rs`.
#[tokio::test]
async fn a_mutation_is_recorded_with_its_method_of_authentication() {
    let (folder, mut file) = (Folder::new(), KeyFile::default());
    let (clients, issuer) = (Authority::new("clients"), Issuer::new("a"));
    let new = NewKey {
        subject: "ci".into(),
        roles: Vec::new(),
        tenant: None,
        expires: None,
    };
    let made = file.create(new, &[7; RANDOM_BYTES], Timestamp::now());
    let (_, key) = made.unwrap();
    let mut settings = settings(&folder, &Authority::new("servers"));
    let tls = settings.tls.as_mut().unwrap();
    tls.client_ca = Some(folder.write("clients.pem", &clients.pem()));
    let authentication = &mut settings.authentication;
    authentication.api_keys = Some(folder.write("keys.json", &file.to_json()));
    let keys = JwksSource::File(folder.write("jwks.json", &issuer.set()));
    authentication.jwt = Some(accepting(keys));
    authentication.certificates = Some(vec![Grant {
        subject: Glob::new("spiffe://prod/*"),
        roles: vec!["worker".into()],
        tenant: None,
    }]);
    authentication.proxies = vec![Glob::new("spiffe://prod/proxy")];
    settings.audit = Some(AuditSettings::new(folder.path("audit.jsonl")));
    let running = Running::new(settings).await;
    let trusting = || Security::default().ca(folder.path("ca.pem"));
    let with_certificate = |name: &str| {
        let id = format!("spiffe://prod/{name}");
        let (certificate, key) = folder.signed(name, &clients.client(&id));
        running.client(&trusting().certificate(certificate, key))
    };
    let with_token = |token: &str| running.client(&trusting().token(token).unwrap());
    let proxy = with_certificate("proxy").acting_as("bob", ["ops"]).unwrap();
    for (client, actor, proof) in [
        (
            with_certificate("billing"),
            "spiffe://prod/billing",
            "certificate",
        ),
        (
            with_token(&issuer.token("ada", &serde_json::json!({}))),
            "ada",
            "jwt",
        ),
        (with_token(key.expose()), "ci", "api-key"),
        (proxy, "bob", "proxy"),
    ] {
        let cancel = Cancel::new("providers/who/executions/me");
        client.cancel(cancel).await.unwrap_err();
        let record = records(&folder).pop().unwrap();
        assert_eq!(record.verb, "CancelExecution");
        assert_eq!((&*record.actor, &*record.proof), (actor, proof));
    }
}

#[tokio::test]
async fn records_name_the_owner_of_a_former_key_and_what_was_asked_for() {
    let (folder, mut file) = (Folder::new(), KeyFile::default());
    let mut key = |number: u8, subject: &str, lifetime: Duration| {
        let new = NewKey {
            subject: subject.into(),
            roles: Vec::new(),
            tenant: Some("acme".into()),
            expires: Some(Timestamp::now() + lifetime),
        };
        let random = [number; RANDOM_BYTES];
        file.create(new, &random, Timestamp::now()).unwrap()
    };
    let hour = Duration::from_secs(3600);
    let (_, expired) = key(1, "old", Duration::ZERO);
    let (id, revoked) = key(2, "gone", hour);
    let (_, valid) = key(3, "ada", hour);
    file.revoke(&id, Timestamp::now()).unwrap();
    let mut settings = settings(&folder, &Authority::new("servers"));
    settings.authentication.api_keys = Some(folder.write("keys.json", &file.to_json()));
    settings.audit = Some(AuditSettings::new(folder.path("audit.jsonl")));
    let running = Running::new(settings).await;
    let trusting = Security::default().ca(folder.path("ca.pem"));
    let client = |key: &str| running.client(&trusting.clone().token(key).unwrap());
    for key in [&expired, &revoked] {
        let cancel = Cancel::new("providers/who/executions/me");
        client(key.expose()).cancel(cancel).await.unwrap_err();
    }
    let start = Start::new("providers/who/definitions/order").id("order-17");
    client(valid.expose()).start(start).await.unwrap_err();

    let records = records(&folder);
    let [_, first, second, start] = &records[..] else {
        panic!("{records:#?}");
    };
    for (record, reason, actor) in [
        (first, "API_KEY_EXPIRED", "old"),
        (second, "API_KEY_REVOKED", "gone"),
    ] {
        assert_eq!((&*record.reason, &*record.actor), (reason, actor));
        assert_eq!((&*record.tenant, &*record.proof), ("acme", "api-key"));
    }
    assert_eq!(start.object, "providers/who/definitions/order");
    assert_eq!(start.execution_id, "order-17");
}

#[tokio::test]
async fn a_flood_of_refusals_takes_bounded_space_and_is_counted() {
    let folder = Folder::new();
    let mut settings = settings(&folder, &Authority::new("servers"));
    settings.authentication.api_keys =
        Some(folder.write("keys.json", &KeyFile::default().to_json()));
    let mut audit = AuditSettings::new(folder.path("audit.jsonl"));
    audit.max_refusals = 3;
    settings.audit = Some(audit);
    let running = Running::new(settings).await;
    let client = running.client(&Security::default().ca(folder.path("ca.pem")));
    for _ in 0..60 {
        crate::support::who(&client).await.unwrap_err();
    }
    running.stopped().await;
    let records = records(&folder);
    let counted: u64 = records.iter().map(|record| record.count).sum();
    let single = records
        .iter()
        .filter(|record| record.verb == "GetExecution")
        .count();
    assert_eq!(single as u64 + counted, 60);
    assert!(single <= 45, "{single}");
}
