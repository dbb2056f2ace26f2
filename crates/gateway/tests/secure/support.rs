//! An authority, a gateway over TLS, and clients that bring whatever a test wants.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, SanType};
use rustls::pki_types::{PrivateKeyDer, ServerName};
use stateway_access::{Place, Rules};
use stateway_client::{Client, Code, Get, Security};
use stateway_gateway::{AccessSettings, Gateway, RulesSource, Settings, StartError, TlsSettings};
use stateway_model::ExecutionId;
use stateway_provider_api::table::compiled_in;
use stateway_provider_api::{
    Call, Capabilities, Description, Error, ErrorKind, Health, ListPage, ListRequest, Observation,
    Provider, Registration, Registry, Result, Verb, View,
};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// How long anything may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// An authority that signs certificates.
pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate and its key, PEM.
pub(crate) struct Signed {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        Self(CertifiedIssuer::self_signed(params, key).unwrap())
    }

    pub(crate) fn pem(&self) -> String {
        self.0.pem()
    }

    /// A certificate for a server on this machine.
    pub(crate) fn server(&self, name: &str) -> Signed {
        let names = vec!["127.0.0.1".to_owned(), "localhost".to_owned()];
        let mut params = CertificateParams::new(names).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        self.sign(&params)
    }

    /// A certificate with one URI as its name.
    pub(crate) fn client(&self, uri: &str) -> Signed {
        let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
        params
            .subject_alt_names
            .push(SanType::URI(uri.try_into().unwrap()));
        self.sign(&params)
    }

    pub(crate) fn sign(&self, params: &CertificateParams) -> Signed {
        let key = KeyPair::generate().unwrap();
        Signed {
            certificate: params.signed_by(&key, &self.0).unwrap().pem(),
            key: key.serialize_pem(),
        }
    }
}

/// A folder with the files of a test.
pub(crate) struct Folder(TempDir);

impl Folder {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Writes a file in one step, as tools that renew certificates do.
    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let (path, new) = (self.path(name), self.path(&format!("{name}.new")));
        std::fs::write(&new, text).unwrap();
        std::fs::rename(&new, &path).unwrap();
        path
    }

    pub(crate) fn signed(&self, name: &str, signed: &Signed) -> (PathBuf, PathBuf) {
        let certificate = self.write(&format!("{name}.pem"), &signed.certificate);
        (certificate, self.write(&format!("{name}.key"), &signed.key))
    }
}

/// The settings of a gateway over TLS, with files that an authority has signed.
pub(crate) fn settings(folder: &Folder, authority: &Authority) -> Settings {
    folder.write("ca.pem", &authority.pem());
    let (cert, key) = folder.signed("server", &authority.server("first"));
    let mut tls = TlsSettings::new(cert, key);
    tls.reload_interval = Duration::from_millis(20);
    Settings {
        listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
        drain: Duration::from_secs(2),
        tls: Some(tls),
        ..Settings::default()
    }
}

/// The rule of these tests, which are about who a caller is: whoever has proved it may do everything.
fn everything() -> AccessSettings {
    let rules = "[[rules]]\nname = \"all\"\nwho = { subject = \"*\" }\nmay = \"admin\"\n";
    AccessSettings {
        rules: RulesSource::Fixed(Rules::parse(rules, Place::OwnFile).unwrap()),
        ..AccessSettings::default()
    }
}

/// A provider that answers who asks.
struct WhoAmI;

impl WhoAmI {
    fn answer(call: &Call) -> Error {
        let roles = call.roles.join(",");
        let message = format!("<{} {roles}>", call.actor);
        Error::new(ErrorKind::NotFound, Verb::Get, message)
    }
}

#[async_trait]
impl Provider for WhoAmI {
    fn describe(&self) -> Arc<Description> {
        let capabilities = Capabilities {
            list: true,
            ..Capabilities::NONE
        };
        Description::fixed(capabilities, compiled_in("memory").unwrap())
    }

    /// There is nothing, which can be watched.
    async fn list(&self, _: &Call, _: ListRequest) -> Result<ListPage> {
        Ok(ListPage::default())
    }

    async fn health(&self, _: &Call) -> Result<Health> {
        Ok(Health::default())
    }

    async fn get(&self, call: &Call, _: &ExecutionId, _: View) -> Result<Observation> {
        Err(Self::answer(call))
    }

    async fn observe(&self, call: &Call, ids: &[ExecutionId]) -> Vec<Result<Observation>> {
        ids.iter().map(|_| Err(Self::answer(call))).collect()
    }
}

/// Who the gateway takes a client for: `name role,role`; or the reason why it takes it for nobody.
pub(crate) async fn who(client: &Client) -> std::result::Result<String, String> {
    let error = client
        .get(Get::new("providers/who/executions/me"))
        .await
        .unwrap_err();
    let named = error.message().split_once('<');
    match (error.code(), named) {
        (Code::NotFound, Some((_, named))) => Ok(named.trim_end_matches('>').to_owned()),
        (Code::Unauthenticated, _) => Err(error.reason().to_owned()),
        _ => Err(format!("{:?} {error}", error.code())),
    }
}

/// A gateway with one provider, which serves until it is dropped.
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    serving: JoinHandle<std::result::Result<(), StartError>>,
}

impl Running {
    pub(crate) async fn new(settings: Settings) -> Self {
        Self::try_new(settings).await.unwrap()
    }

    pub(crate) async fn try_new(mut settings: Settings) -> std::result::Result<Self, StartError> {
        if settings.authentication.is_required() {
            settings.access = everything();
        }
        let mut registry = Registry::default();
        let registration = Registration {
            id: "who".parse().unwrap(),
            kind: "memory".to_owned(),
            provider: Arc::new(WhoAmI),
        };
        registry.register(registration).unwrap();
        let page = Arc::new(|| "# the metrics page\n".to_owned());
        let gateway = Gateway::bind(registry, settings, page).await?;
        let gateway = gateway.with_pages(stateway_dashboard::router);
        let address = gateway.local_addr();
        let (stop, stopped) = oneshot::channel::<()>();
        let serving = tokio::spawn(gateway.serve(async move {
            let _ = stopped.await;
        }));
        Ok(Self {
            address,
            stop: Some(stop),
            serving,
        })
    }

    /// Who the gateway takes a client with these credentials for.
    pub(crate) async fn who(&self, security: &Security) -> std::result::Result<String, String> {
        who(&self.client(security)).await
    }

    pub(crate) fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    /// A client that does not try again.
    pub(crate) fn client(&self, security: &Security) -> Client {
        let client = Client::lazy_with(&self.url(), security).unwrap();
        client.without_retries().with_timeout(PATIENCE)
    }

    pub(crate) async fn stopped(mut self) {
        self.stop.take();
        self.serving.await.unwrap().unwrap();
    }
}

/// A TLS connection that speaks HTTP/1.1.
pub(crate) async fn connect(address: SocketAddr, ca: &Path) -> TlsStream<TcpStream> {
    connect_with(address, config(ca)).await.unwrap()
}

pub(crate) async fn connect_with(
    address: SocketAddr,
    config: rustls::ClientConfig,
) -> std::io::Result<TlsStream<TcpStream>> {
    let stream = TcpStream::connect(address).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    TlsConnector::from(Arc::new(config))
        .connect(name, stream)
        .await
}

/// Trusts one authority, and presents nothing.
pub(crate) fn config(ca: &Path) -> rustls::ClientConfig {
    config_of(
        ca,
        &[&rustls::version::TLS13, &rustls::version::TLS12],
        None,
    )
}

pub(crate) fn config_of(
    ca: &Path,
    versions: &[&'static rustls::SupportedProtocolVersion],
    signed: Option<&Signed>,
) -> rustls::ClientConfig {
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject;
    let mut roots = rustls::RootCertStore::empty();
    let authority = CertificateDer::from_pem_file(ca).unwrap();
    roots.add(authority).unwrap();
    let ring = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(ring)
        .with_protocol_versions(versions)
        .unwrap()
        .with_root_certificates(roots);
    let Some(signed) = signed else {
        return builder.with_no_client_auth();
    };
    let chain = vec![CertificateDer::from_pem_slice(signed.certificate.as_bytes()).unwrap()];
    let key = PrivateKeyDer::from_pem_slice(signed.key.as_bytes()).unwrap();
    builder.with_client_auth_cert(chain, key).unwrap()
}

/// The answer to one request over HTTP/1.1, which closes the connection.
pub(crate) async fn get(
    stream: &mut TlsStream<TcpStream>,
    path: &str,
    headers: &str,
) -> std::io::Result<String> {
    let request = format!(
        "GET {path} HTTP/1.1\r\nhost: stateway.example.org\r\nconnection: close\r\n{headers}\r\n"
    );
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// Waits until a condition holds.
pub(crate) async fn eventually<F: Future<Output = bool>>(mut condition: impl FnMut() -> F) {
    let waiting = async {
        while !condition().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting)
        .await
        .expect("the condition holds in time");
}
