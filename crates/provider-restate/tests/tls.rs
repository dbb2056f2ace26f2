//! Restate behind a proxy that speaks TLS: real handshakes on loopback, with certificates made for the
//! test. And a bearer token that is sent and told to nobody else.

#![allow(clippy::unwrap_used)]

use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::RootCertStore;
use rustls::pki_types::PrivateKeyDer;
use rustls::server::WebPkiClientVerifier;
use stateway_provider_api::table::compiled_in;
use stateway_provider_api::{Call, Error, ErrorKind, Health, Provider, Result};
use stateway_provider_restate::{Config, RestateProvider};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

const TOKEN: &str = "a-token-that-nobody-may-read";

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

    fn sign(&self, name: &str) -> (rcgen::Certificate, KeyPair) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        (params.signed_by(&key, &self.0).unwrap(), key)
    }
}

/// What came in: whether the other end showed a certificate, and the head of its request.
#[derive(Debug, Clone)]
struct Seen {
    certificates: usize,
    head: String,
}

/// A proxy in front of a server that has just started, and the files that a gateway needs for it.
struct Proxy {
    address: SocketAddr,
    folder: TempDir,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Proxy {
    async fn new(asks_for_certificate: bool) -> Self {
        let (server_ca, client_ca) = (Authority::new("servers"), Authority::new("clients"));
        let (certificate, key) = server_ca.sign("127.0.0.1");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = rustls::ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .unwrap();
        let builder = if asks_for_certificate {
            let mut roots = RootCertStore::empty();
            roots.add(client_ca.0.der().clone()).unwrap();
            let verifier =
                WebPkiClientVerifier::builder_with_provider(roots.into(), provider).build();
            builder.with_client_cert_verifier(verifier.unwrap())
        } else {
            builder.with_no_client_auth()
        };
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let config = builder.with_single_cert(vec![certificate.der().clone()], key);
        let acceptor = TlsAcceptor::from(Arc::new(config.unwrap()));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::<Mutex<Vec<Seen>>>::default();
        let told = seen.clone();
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                // A handshake that fails is the other end's to report.
                if let Ok(stream) = acceptor.accept(stream).await {
                    let _ = answer(stream, &told).await;
                }
            }
        });
        let folder = tempfile::tempdir().unwrap();
        let (certificate, key) = client_ca.sign("gateway");
        let identity = format!("{}{}", certificate.pem(), key.serialize_pem());
        std::fs::write(folder.path().join("ca.pem"), server_ca.0.pem()).unwrap();
        std::fs::write(folder.path().join("other.pem"), client_ca.0.pem()).unwrap();
        std::fs::write(folder.path().join("identity.pem"), identity).unwrap();
        std::fs::write(folder.path().join("token"), TOKEN).unwrap();
        Self {
            address,
            folder,
            seen,
        }
    }

    fn file(&self, name: &str) -> Option<PathBuf> {
        Some(self.folder.path().join(name))
    }

    fn config(&self) -> Config {
        let url = format!("https://{}", self.address);
        let mut config = Config::at(url.clone(), url);
        config.admin.ca_file = self.file("ca.pem");
        config
    }

    fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }
}

/// One request of a connection, answered as a server without invocations would.
async fn answer(
    mut stream: tokio_rustls::server::TlsStream<tokio::net::TcpStream>,
    told: &Mutex<Vec<Seen>>,
) -> std::io::Result<()> {
    let certificates = stream.get_ref().1.peer_certificates();
    let certificates = certificates.map_or(0, <[_]>::len);
    let mut request = Vec::new();
    while !is_whole(&request) {
        if stream.read_buf(&mut request).await? == 0 {
            return Ok(());
        }
    }
    let head = String::from_utf8_lossy(&request).into_owned();
    let body = if head.starts_with("GET /version") {
        r#"{"version":"1.7.12","features":{}}"#
    } else {
        r#"{"rows":[{"table_name":"sys_invocation","column_name":"status"}]}"#
    };
    told.lock().unwrap().push(Seen { certificates, head });
    let answer = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\
         connection: close\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(answer.as_bytes()).await?;
    stream.shutdown().await
}

fn is_whole(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request).to_ascii_lowercase();
    let Some((head, body)) = text.split_once("\r\n\r\n") else {
        return false;
    };
    let length = head.split("content-length: ").nth(1);
    let length = length.and_then(|rest| rest.lines().next()?.trim().parse::<usize>().ok());
    body.len() >= length.unwrap_or(0)
}

async fn health(config: &Config) -> Result<Health> {
    let provider = RestateProvider::new(
        "restate".parse().unwrap(),
        config,
        compiled_in("restate").unwrap(),
    )
    .unwrap();
    provider
        .health(&Call::within(Duration::from_secs(10)))
        .await
}

fn hint(error: &Error) -> &str {
    &error.hint
}

#[tokio::test]
async fn an_authority_of_ones_own_is_trusted() {
    let proxy = Proxy::new(false).await;
    let healthy = health(&proxy.config()).await.unwrap();
    assert_eq!(healthy.engine_version, "1.7.12");
    assert!(proxy.seen().iter().all(|it| it.certificates == 0));
}

#[tokio::test]
async fn a_certificate_of_an_unknown_authority_is_refused_in_words() {
    let proxy = Proxy::new(false).await;
    let mut config = proxy.config();
    config.admin.ca_file = proxy.file("other.pem");
    let refused = health(&config).await.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Unavailable);
    assert_eq!(
        refused.message,
        "the admin API's certificate is not trusted: UnknownIssuer"
    );
    assert!(hint(&refused).contains("`admin.ca_file`"), "{refused:?}");
    assert!(proxy.seen().is_empty());
}

#[tokio::test]
async fn a_proxy_that_asks_who_the_gateway_is_gets_its_certificate() {
    let proxy = Proxy::new(true).await;
    let mut config = proxy.config();
    config.admin.identity_file = proxy.file("identity.pem");
    health(&config).await.unwrap();
    let seen = proxy.seen();
    assert!(!seen.is_empty() && seen.iter().all(|it| it.certificates == 1));
}

#[tokio::test]
async fn a_gateway_without_a_certificate_is_told_what_is_asked_for() {
    let proxy = Proxy::new(true).await;
    let refused = health(&proxy.config()).await.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Unavailable);
    assert_eq!(
        refused.message,
        "the admin API ended the TLS connection: CertificateRequired"
    );
    assert!(
        hint(&refused).contains("`admin.identity_file`"),
        "{refused:?}"
    );
    assert!(proxy.seen().is_empty());
}

/// Everything that this process logs, at the finest level.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn a_bearer_token_is_sent_and_stands_in_no_log_and_no_error() {
    let log = Log::default();
    let writer = log.clone();
    tracing_subscriber::fmt()
        .with_max_level(tracing_subscriber::filter::LevelFilter::TRACE)
        .with_writer(move || writer.clone())
        .init();
    let proxy = Proxy::new(false).await;
    let mut config = proxy.config();
    config.admin.bearer_file = proxy.file("token");
    health(&config).await.unwrap();
    let sent = format!("authorization: Bearer {TOKEN}");
    assert!(proxy.seen().iter().all(|it| it.head.contains(&sent)));
    config.admin.ca_file = proxy.file("other.pem");
    let refused = health(&config).await.unwrap_err();
    let told = format!("{refused} {refused:?} {config:?}");
    let logged = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    assert!(
        logged.contains("hyper") || logged.contains("reqwest"),
        "{logged}"
    );
    for text in [told, logged] {
        assert!(!text.contains(TOKEN), "{text}");
    }
}
