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

/// What the server saw of a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Sent {
    namespace: String,
    authorization: String,
    certificate: Vec<u8>,
}

type Seen = Arc<Mutex<Vec<Sent>>>;

/// A server that answers health checks only, and refuses the keys that were revoked.
struct Frontend {
    seen: Seen,
    revoked: Arc<Mutex<Vec<String>>>,
}

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
        let sent = Sent {
            namespace: header("temporal-namespace"),
            authorization: header("authorization"),
            certificate: request.extensions().get().cloned().unwrap_or_default(),
        };
        if self.revoked.lock().unwrap().contains(&sent.authorization) {
            return Err(Status::unauthenticated("the key was revoked"));
        }
        self.seen.lock().unwrap().push(sent);
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
    /// The connections that were accepted.
    sockets: Arc<Mutex<Vec<std::net::TcpStream>>>,
    folder: TempDir,
    seen: Seen,
    revoked: Arc<Mutex<Vec<String>>>,
    client_ca: Authority,
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
        let (seen, revoked) = (Seen::default(), Arc::default());
        let sockets: Arc<Mutex<Vec<std::net::TcpStream>>> = Arc::default();
        let kept = Arc::clone(&sockets);
        let incoming =
            futures::stream::unfold((listener, acceptor), move |(listener, acceptor)| {
                let kept = Arc::clone(&kept);
                async move {
                    loop {
                        let (stream, _) = listener.accept().await.ok()?;
                        let stream = stream.into_std().ok()?;
                        kept.lock().unwrap().push(stream.try_clone().ok()?);
                        let stream = tokio::net::TcpStream::from_std(stream).ok()?;
                        // A handshake that fails is the other end's to report.
                        if let Ok(stream) = acceptor.accept(stream).await {
                            let accepted = Ok::<_, std::io::Error>(Accepted(stream));
                            return Some((accepted, (listener, acceptor)));
                        }
                    }
                }
            });
        let service = WorkflowServiceServer::new(Frontend {
            seen: seen.clone(),
            revoked: Arc::clone(&revoked),
        });
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
            sockets,
            folder,
            seen,
            revoked,
            client_ca,
        }
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.folder.path().join(name), text).unwrap();
    }

    /// Closes every connection. Returns how many there were.
    fn close_connections(&self) -> usize {
        let mut sockets = self.sockets.lock().unwrap();
        for socket in sockets.iter() {
            // One that the client has closed already is closed.
            let _ = socket.shutdown(std::net::Shutdown::Both);
        }
        std::mem::take(&mut *sockets).len()
    }

    fn last(&self) -> Sent {
        self.seen.lock().unwrap().last().cloned().unwrap()
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
        seen.iter().map(|sent| sent.authorization.clone()).collect()
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
        type ConnectInfo = Vec<u8>;

        fn connect_info(&self) -> Vec<u8> {
            let (_, session) = self.0.get_ref();
            let certificates = session.peer_certificates().unwrap();
            certificates[0].to_vec()
        }
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
    let sent = world.last();
    assert_eq!(
        (&*sent.namespace, &*sent.authorization),
        ("shop", "Bearer first")
    );
    assert!(!sent.certificate.is_empty());
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
async fn a_key_that_was_revoked_is_replaced_within_the_same_call() {
    let world = World::new().await;
    let provider = provider(&world.config()).unwrap();
    health(&provider).await.unwrap();
    world.write("api.key", "second key");
    world
        .revoked
        .lock()
        .unwrap()
        .push("Bearer first".to_owned());
    health(&provider).await.unwrap();
    assert_eq!(world.last().authorization, "Bearer second key");
}

/// Makes calls, which must all succeed, until one of them shows something.
async fn call_until(
    world: &World,
    provider: &TemporalProvider,
    wanted: impl Fn(&Sent) -> bool,
) -> bool {
    for _ in 0..60 {
        health(provider).await.unwrap();
        if wanted(&world.last()) {
            return true;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    false
}

#[tokio::test]
async fn a_renewed_certificate_replaces_the_connection_and_no_call_fails() {
    let world = World::new().await;
    let provider = provider(&world.config()).unwrap();
    health(&provider).await.unwrap();
    let first = world.last().certificate;
    let (renewed, key) = world.client_ca.sign("gateway");
    // For a moment the files do not belong together.
    world.write("cert.pem", &renewed.pem());
    let is_other = |sent: &Sent| sent.certificate != first;
    assert!(!call_until(&world, &provider, is_other).await);
    world.write("key.pem", &key.serialize_pem());
    let mut was_replaced = false;
    for _ in 0..3 {
        was_replaced = was_replaced || call_until(&world, &provider, is_other).await;
    }
    assert!(was_replaced, "the old certificate is still used");
    assert_eq!(world.last().certificate, renewed.der().to_vec());
}

#[tokio::test]
async fn a_certificate_that_the_server_refuses_replaces_nothing() {
    let world = World::new().await;
    let provider = provider(&world.config()).unwrap();
    health(&provider).await.unwrap();
    let first = world.last().certificate;
    let (wrong, key) = Authority::new("strangers").sign("gateway");
    world.write("cert.pem", &wrong.pem());
    world.write("key.pem", &key.serialize_pem());
    assert!(!call_until(&world, &provider, |sent| sent.certificate != first).await);
    // The first connection and the one that was refused.
    assert!(world.close_connections() >= 2);
    world.seen.lock().unwrap().clear();
    let answered = async {
        // A call that was made before the client noticed the end of its connection fails.
        while health(&provider).await.is_err() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let patience = Duration::from_secs(30);
    tokio::time::timeout(patience, answered).await.unwrap();
    assert_eq!(world.last().certificate, first);
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
    let secret = Config::at("https://me:hunter2@temporal.example");
    assert_eq!(refused(secret), ConfigError::SecretInAddress);
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
    let mut stingy = plain();
    stingy.quotas.reads.burst = 2;
    assert_eq!(refused(stingy), ConfigError::Quota("reads"));
    let nameless = Config {
        namespace: String::new(),
        ..plain()
    };
    assert_eq!(refused(nameless), ConfigError::Namespace);
}
