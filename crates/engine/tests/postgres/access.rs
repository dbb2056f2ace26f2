//! Databases and connections as their administrators set them up: rights, encodings and certificates.

use stateway_engine::{Config, Engine, EngineError, PostgresConfig};
use stateway_postgres_peer::{PostgresPeer, Protection, VARIABLE, programs};
use tokio_postgres::NoTls;

use crate::place;
use crate::shared::{applied, ids, server, start_as};

async fn run_sql(url: &str, statements: &[&str]) {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    let driven = tokio::spawn(connection);
    for sql in statements {
        client.batch_execute(sql).await.unwrap();
    }
    drop(client);
    driven.await.unwrap().unwrap();
}

fn opened(url: &str, schema: &str) -> Result<Engine, EngineError> {
    Engine::open(&place::at(url, schema))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_role_without_the_right_to_create_schemas_uses_the_schema_that_exists() {
    let server = server();
    let setup = [
        "CREATE ROLE limited LOGIN",
        "CREATE SCHEMA flows AUTHORIZATION limited",
    ];
    run_sql(&server.url(), &setup).await;
    let url = format!("postgres://limited@127.0.0.1:{}/postgres", server.port());
    let engine = opened(&url, "flows").unwrap();
    applied(&engine).await;
    engine.start(start_as("one")).await.unwrap();
    assert_eq!(ids(&engine).await, ["one".into()]);
    // Without the schema, someone else must create it.
    let refused = opened(&url, "missing").unwrap_err();
    assert_eq!(refused.reason, "STORE_NOT_OPENED", "{refused:?}");
    let what = ["the schema `missing`", "CREATE SCHEMA missing"];
    assert!(
        what.iter().all(|what| refused.message.contains(what)),
        "{refused:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_cannot_store_every_text_is_refused() {
    let server = server();
    let create = "CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0";
    run_sql(&server.url(), &[create]).await;
    let url = server.url().replace("/postgres", "/latin");
    let refused = opened(&url, "flows").unwrap_err();
    assert_eq!(refused.reason, "STORE_NOT_OPENED", "{refused:?}");
    assert!(refused.message.contains("LATIN1"), "{refused:?}");
    assert!(refused.message.contains("UTF8"), "{refused:?}");
}

/// A server with a certificate that nobody vouches for.
fn certified() -> PostgresPeer {
    let own = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let protection = Protection {
        certificate: Some((own.cert.pem(), own.signing_key.serialize_pem())),
        ..Protection::default()
    };
    PostgresPeer::start_protected(&programs(VARIABLE).unwrap(), &protection)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_on_this_machine_needs_no_certificate_that_can_be_checked() {
    let server = certified();
    let engine = opened(&server.url(), "local").unwrap();
    applied(&engine).await;
    engine.start(start_as("one")).await.unwrap();
    assert_eq!(ids(&engine).await, ["one".into()]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_that_is_not_trusted_ends_the_start() {
    let server = certified();
    let other = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("other.pem");
    std::fs::write(&file, other.cert.pem()).unwrap();
    let with_ca = |url: &str| {
        let mut postgres = PostgresConfig::new(url).unwrap();
        postgres.ca_file = Some(file.clone());
        let mut config = Config::new("unused");
        config.postgres = Some(postgres);
        Engine::open(&config)
    };
    let plain = format!("postgres://stateway@localhost:{}/postgres", server.port());
    // The certificates of a file are trusted only for TLS, so that a file asks for TLS.
    for url in [plain.clone(), format!("{plain}?sslmode=require")] {
        let refused = with_ca(&url).unwrap_err();
        assert_eq!(refused.reason, "STORE_NOT_OPENED", "{refused:?}");
        assert!(refused.message.contains("certificate"), "{refused:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_tls_ends_the_start_if_tls_is_required() {
    let server = server();
    let url = format!("{}?sslmode=require", server.url());
    let refused = opened(&url, "plain").unwrap_err();
    assert_eq!(refused.reason, "STORE_NOT_OPENED", "{refused:?}");
    assert!(refused.message.contains("TLS"), "{refused:?}");
}
