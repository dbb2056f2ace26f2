//! A frontend that speaks TLS and asks for a certificate and an API key: real handshakes on loopback, with
//! certificates made for the test.

#![allow(clippy::unwrap_used)]

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::RootCertStore;
use rustls::pki_types::PrivateKeyDer;
use rustls::server::WebPkiClientVerifier;
use stateway_provider_api::table::compiled_in;
use stateway_provider_api::{Call, ErrorKind, Health, Provider, Result};
use stateway_provider_temporal::api::workflowservice::v1 as rpc;
use stateway_provider_temporal::api::workflowservice::v1::workflow_service_server::{
    WorkflowService, WorkflowServiceServer,
};
use stateway_provider_temporal::{Config, ConfigError, TemporalProvider, Tls};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tonic::{Request, Response, Status};

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

/// The headers of each request: namespace and authorization.
type Seen = Arc<Mutex<Vec<(String, String)>>>;

/// A server that answers health checks only.
struct Frontend(Seen);

#[tonic::async_trait]
impl WorkflowService for Frontend {
    async fn describe_namespace(
        &self,
        request: Request<rpc::DescribeNamespaceRequest>,
    ) -> std::result::Result<Response<rpc::DescribeNamespaceResponse>, Status> {
        let header = |name: &str| {
            let value = request.metadata().get(name);
            value
                .map(|value| value.to_str().unwrap().to_owned())
                .unwrap_or_default()
        };
        let seen = (header("temporal-namespace"), header("authorization"));
        self.0.lock().unwrap().push(seen);
        Ok(Response::new(Default::default()))
    }

    async fn get_system_info(
        &self,
        _: Request<rpc::GetSystemInfoRequest>,
    ) -> std::result::Result<Response<rpc::GetSystemInfoResponse>, Status> {
        Ok(Response::new(Default::default()))
    }
}

struct World {
    address: String,
    folder: TempDir,
    seen: Seen,
}

impl World {
    async fn new() -> Self {
        let (server_ca, client_ca) = (Authority::new("servers"), Authority::new("clients"));
        let (certificate, key) = server_ca.sign("127.0.0.1");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut roots = RootCertStore::empty();
        roots.add(client_ca.0.der().clone()).unwrap();
        let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider.clone());
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let mut config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_client_cert_verifier(verifier.build().unwrap())
            .with_single_cert(vec![certificate.der().clone()], key)
            .unwrap();
        config.alpn_protocols = vec![b"h2".to_vec()];
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("https://{}", listener.local_addr().unwrap());
        let seen = Seen::default();
        let incoming =
            futures::stream::unfold((listener, acceptor), |(listener, acceptor)| async {
                loop {
                    let (stream, _) = listener.accept().await.ok()?;
                    // A handshake that fails is the other end's to report.
                    if let Ok(stream) = acceptor.accept(stream).await {
                        let accepted = Ok::<_, std::io::Error>(Accepted(stream));
                        return Some((accepted, (listener, acceptor)));
                    }
                }
            });
        let service = WorkflowServiceServer::new(Frontend(seen.clone()));
        let server = tonic::transport::Server::builder().add_service(service);
        tokio::spawn(server.serve_with_incoming(incoming));
        let folder = tempfile::tempdir().unwrap();
        let (certificate, key) = client_ca.sign("gateway");
        for (name, text) in [
            ("ca.pem", server_ca.0.pem()),
            ("other.pem", client_ca.0.pem()),
            ("cert.pem", certificate.pem()),
            ("key.pem", key.serialize_pem()),
            ("api.key", "first\n".to_owned()),
        ] {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
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
        Config {
            namespace: "shop".to_owned(),
            api_key_file: self.file("api.key"),
            tls: Tls {
                ca_file: self.file("ca.pem"),
                cert_file: self.file("cert.pem"),
                key_file: self.file("key.pem"),
                server_name: None,
            },
            ..Config::at(&self.address)
        }
    }

    fn keys(&self) -> Vec<String> {
        let seen = self.seen.lock().unwrap();
        seen.iter().map(|(_, key)| key.clone()).collect()
    }
}

fn provider(config: &Config) -> std::result::Result<TemporalProvider, ConfigError> {
    let table = compiled_in("temporal").unwrap();
    TemporalProvider::new("shop".parse().unwrap(), config, table)
}

async fn health(provider: &TemporalProvider) -> Result<Health> {
    provider.health(&Call::within(Duration::from_secs(5))).await
}

/// A TLS stream that tonic takes.
struct Accepted(tokio_rustls::server::TlsStream<tokio::net::TcpStream>);

mod accepted {
    use std::io;
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
    use tonic::transport::server::Connected;

    use super::Accepted;

    impl Connected for Accepted {
        type ConnectInfo = ();

        fn connect_info(&self) {}
    }

    impl AsyncRead for Accepted {
        fn poll_read(
            mut self: Pin<&mut Self>,
            context: &mut Context<'_>,
            buffer: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            Pin::new(&mut self.0).poll_read(context, buffer)
        }
    }

    impl AsyncWrite for Accepted {
        fn poll_write(
            mut self: Pin<&mut Self>,
            context: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            Pin::new(&mut self.0).poll_write(context, bytes)
        }

        fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
            Pin::new(&mut self.0).poll_flush(context)
        }

        fn poll_shutdown(
            mut self: Pin<&mut Self>,
            context: &mut Context<'_>,
        ) -> Poll<io::Result<()>> {
            Pin::new(&mut self.0).poll_shutdown(context)
        }
    }
}

#[tokio::test]
async fn certificate_key_and_namespace_are_sent() {
    let world = World::new().await;
    let provider = provider(&world.config()).unwrap();
    health(&provider).await.unwrap();
    let seen = world.seen.lock().unwrap().clone();
    assert_eq!(seen, [("shop".to_owned(), "Bearer first".to_owned())]);
}

#[tokio::test]
async fn a_changed_key_file_is_used_without_a_restart() {
    let world = World::new().await;
    let provider = provider(&world.config()).unwrap();
    health(&provider).await.unwrap();
    let path = world.file("api.key").unwrap();
    std::fs::write(&path, "second").unwrap();
    let file = std::fs::File::options().write(true).open(&path).unwrap();
    file.set_modified(SystemTime::now() + Duration::from_secs(5))
        .unwrap();
    for _ in 0..40 {
        health(&provider).await.unwrap();
        if world
            .keys()
            .last()
            .is_some_and(|key| key == "Bearer second")
        {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("still {:?}", world.keys().last());
}

#[tokio::test]
async fn a_server_that_no_authority_signed_is_not_trusted() {
    let world = World::new().await;
    let mut config = world.config();
    config.tls.ca_file = world.file("other.pem");
    let refused = health(&provider(&config).unwrap()).await.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Unavailable);
    assert!(world.keys().is_empty(), "the key was sent to a stranger");
}

#[tokio::test]
async fn a_renewed_certificate_is_used_for_the_next_connection() {
    let world = World::new().await;
    let mut config = world.config();
    // The gateway begins with the wrong authority, and the file is repaired.
    std::fs::copy(
        world.file("other.pem").unwrap(),
        world.file("mine.pem").unwrap(),
    )
    .unwrap();
    config.tls.ca_file = world.file("mine.pem");
    let provider = provider(&config).unwrap();
    health(&provider).await.unwrap_err();
    std::fs::copy(
        world.file("ca.pem").unwrap(),
        world.file("mine.pem").unwrap(),
    )
    .unwrap();
    health(&provider).await.unwrap();
}

#[test]
fn a_configuration_that_cannot_be_used_is_refused_at_start() {
    let refused = |config: Config| provider(&config).err().unwrap();
    let plain = || Config::at("http://127.0.0.1:1");
    assert_eq!(
        refused(Config::at("ftp://x")),
        ConfigError::Address("ftp://x".to_owned())
    );
    let with_key = Config {
        api_key_env: Some("PATH".to_owned()),
        ..plain()
    };
    assert_eq!(refused(with_key), ConfigError::KeyWithoutTls);
    let with_tls = Config {
        tls: Tls {
            server_name: Some("x".to_owned()),
            ..Tls::default()
        },
        ..plain()
    };
    assert_eq!(refused(with_tls), ConfigError::CertificateWithoutTls);
    let nameless = Config {
        namespace: String::new(),
        ..plain()
    };
    assert_eq!(refused(nameless), ConfigError::Namespace);
}
