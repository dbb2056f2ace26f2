//! A provider over TCP with mutual TLS: real handshakes on loopback, with certificates made for the test.

#![allow(clippy::unwrap_used)]

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use stateway_provider_api::table::compiled_in;
use stateway_provider_api::{Call, ErrorKind, Provider, Result};
use stateway_provider_memory::MemoryProvider;
use stateway_provider_remote::{Config, RemoteProvider};
use stateway_provider_server::{About, Listener, ProviderServer, TlsFiles, serve};
use tempfile::TempDir;
use tokio::net::TcpListener;

/// An authority and what it signs.
struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        Self(CertifiedIssuer::self_signed(params, key).unwrap())
    }

    /// A certificate and its key, PEM.
    fn identity(&self, name: &str) -> String {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        format!("{}{}", certificate.pem(), key.serialize_pem())
    }
}

/// A provider behind TLS, and the files of both sides.
struct Served {
    address: SocketAddr,
    folder: TempDir,
}

impl Served {
    async fn new() -> Self {
        let (providers, gateways) = (Authority::new("providers"), Authority::new("gateways"));
        let folder = tempfile::tempdir().unwrap();
        for (file, text) in [
            ("providers-ca.pem", providers.0.pem()),
            ("gateways-ca.pem", gateways.0.pem()),
            ("provider.pem", providers.identity("127.0.0.1")),
            ("gateway.pem", gateways.identity("gateway")),
            (
                "stranger.pem",
                Authority::new("strangers").identity("gateway"),
            ),
        ] {
            std::fs::write(folder.path().join(file), text).unwrap();
        }
        let files = TlsFiles {
            identity: folder.path().join("provider.pem"),
            ca: folder.path().join("gateways-ca.pem"),
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let listener = Listener::tls(listener, &files).unwrap();
        let table = compiled_in("memory").unwrap();
        let provider = MemoryProvider::new("far".parse().unwrap(), &Default::default(), table);
        let server = ProviderServer::new(Arc::new(provider.unwrap()), About::new("tls", "1"));
        let routes = server.routes();
        tokio::spawn(async move { serve(listener, routes, std::future::pending()).await });
        Self { address, folder }
    }

    fn file(&self, name: &str) -> Option<PathBuf> {
        Some(self.folder.path().join(name))
    }

    async fn health(&self, ca: &str, identity: &str) -> Result<()> {
        let config = Config {
            address: format!("https://{}", self.address),
            ca_file: self.file(ca),
            identity_file: self.file(identity),
        };
        let provider = RemoteProvider::new("far".parse().unwrap(), &config, None).unwrap();
        let call = Call::within(Duration::from_secs(5));
        provider.health(&call).await.map(drop)
    }
}

#[tokio::test]
async fn both_sides_prove_who_they_are() {
    let served = Served::new().await;
    served
        .health("providers-ca.pem", "gateway.pem")
        .await
        .unwrap();
    // A gateway of another authority is refused by the provider, a provider of another one by the gateway.
    for (ca, identity) in [
        ("providers-ca.pem", "stranger.pem"),
        ("gateways-ca.pem", "gateway.pem"),
    ] {
        let refused = served.health(ca, identity).await.unwrap_err();
        assert_eq!(refused.kind, ErrorKind::Unavailable, "{refused}");
    }
    // A failed handshake keeps nobody else out.
    served
        .health("providers-ca.pem", "gateway.pem")
        .await
        .unwrap();
}

#[tokio::test]
async fn a_certificate_that_cannot_be_read_is_an_error_of_the_configuration() {
    let config = Config {
        address: "https://127.0.0.1:1".to_owned(),
        ca_file: Some("/nowhere/ca.pem".into()),
        identity_file: Some("/nowhere/gateway.pem".into()),
    };
    let refused = RemoteProvider::new("far".parse().unwrap(), &config, None);
    let refused = refused.err().unwrap().to_string();
    assert!(
        refused.starts_with("`ca_file`: /nowhere/ca.pem"),
        "{refused}"
    );
}
