//! New connections to the frontend. A connector that has made a connection keeps its certificates. Changed files are
//! read by a new connector, which replaces this one after its first successful call. Until then the files are read for
//! every connection, because nothing can be lost.

use std::fmt::Display;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::BoxFuture;
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::BuilderVerifierExt;
use stateway_provider_api::adapter::lock;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tonic::codegen::http::Uri;
use tonic::codegen::{Context, Poll, Service};

use super::stamp::Stamp;
use crate::config::Tls;
use crate::{Config, ConfigError};

/// How long a connection may take to come about, whatever the deadline of the call allows.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// What a connection is made of.
pub(crate) trait Io: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Connects to one frontend.
#[derive(Debug, Clone)]
pub(crate) struct Connector {
    host: Arc<str>,
    port: u16,
    /// `None` for an `http` address.
    tls: Option<Arc<Secured>>,
}

/// Files, and what was read of them last.
#[derive(Debug)]
struct Secured {
    tls: Tls,
    server_name: ServerName<'static>,
    known: Mutex<(Stamp, Arc<ClientConfig>)>,
    has_connected: AtomicBool,
}

impl Secured {
    fn new(tls: Tls, host: &str) -> Result<Self, ConfigError> {
        let name = tls.server_name.as_deref().unwrap_or(host);
        let server_name = ServerName::try_from(name.to_owned());
        let server_name = server_name.map_err(|error| ConfigError::Certificate {
            file: format!("`{name}`"),
            why: error.to_string(),
        })?;
        let known = (tls.stamp(), Arc::new(client_config(&tls)?));
        Ok(Self {
            tls,
            server_name,
            known: Mutex::new(known),
            has_connected: AtomicBool::new(false),
        })
    }

    /// Reads the files again if they changed.
    fn reload(&self) -> Result<(), ConfigError> {
        let stamp = self.tls.stamp();
        let mut known = lock(&self.known);
        if stamp != known.0 {
            *known = (stamp, Arc::new(client_config(&self.tls)?));
        }
        Ok(())
    }

    fn current(&self) -> Arc<ClientConfig> {
        let may_change = !self.has_connected.load(Ordering::Relaxed);
        if may_change && let Err(error) = self.reload() {
            tracing::warn!(%error, "certificates not read again");
        }
        Arc::clone(&lock(&self.known).1)
    }
}

impl Tls {
    fn stamp(&self) -> Stamp {
        let files = [&self.ca_file, &self.cert_file, &self.key_file];
        Stamp::of(files.into_iter().flatten().map(AsRef::as_ref))
    }
}

impl Connector {
    pub(crate) fn new(config: &Config) -> Result<Self, ConfigError> {
        let wrong = || ConfigError::Address(config.address.clone());
        let uri: Uri = config.address.parse().map_err(|_| wrong())?;
        let secure = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(wrong()),
        };
        let host = uri
            .host()
            .filter(|host| !host.is_empty())
            .ok_or_else(wrong)?;
        if !secure && config.tls != Tls::default() {
            return Err(ConfigError::CertificateWithoutTls);
        }
        if uri.authority().is_some_and(|it| it.as_str().contains('@')) {
            return Err(ConfigError::SecretInAddress);
        }
        let host: Arc<str> = host.trim_matches(['[', ']']).into();
        let tls = secure.then(|| Secured::new(config.tls.clone(), &host));
        Ok(Self {
            host,
            port: uri.port_u16().unwrap_or(7233),
            tls: tls.transpose()?.map(Arc::new),
        })
    }

    pub(crate) const fn is_secure(&self) -> bool {
        self.tls.is_some()
    }

    /// Whether connections depend on files.
    pub(super) fn has_files(&self) -> bool {
        self.stamp() != Stamp::default()
    }

    /// What the files are like.
    pub(super) fn stamp(&self) -> Stamp {
        let secured = self.tls.as_ref();
        secured.map(|it| it.tls.stamp()).unwrap_or_default()
    }

    /// Another connector to the same frontend, with the files as they are now.
    ///
    /// # Errors
    /// They cannot be used, for example because only one of two has been replaced yet.
    pub(super) fn renewed(&self) -> Result<Self, ConfigError> {
        let tls = self.tls.as_ref();
        let tls = tls.map(|it| Secured::new(it.tls.clone(), &self.host));
        Ok(Self {
            tls: tls.transpose()?.map(Arc::new),
            ..self.clone()
        })
    }

    async fn connect(self) -> Result<TokioIo<Box<dyn Io>>, Failure> {
        let tcp = TcpStream::connect((&*self.host, self.port)).await?;
        tcp.set_nodelay(true)?;
        let Some(tls) = self.tls.as_deref() else {
            return Ok(TokioIo::new(Box::new(tcp)));
        };
        let connector = TlsConnector::from(tls.current());
        let stream = connector.connect(tls.server_name.clone(), tcp).await?;
        tls.has_connected.store(true, Ordering::Relaxed);
        Ok(TokioIo::new(Box::new(stream)))
    }
}

impl Service<Uri> for Connector {
    type Response = TokioIo<Box<dyn Io>>;
    type Error = Failure;
    type Future = BoxFuture<'static, Result<Self::Response, Failure>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let connect = tokio::time::timeout(CONNECT_TIMEOUT, self.clone().connect());
        Box::pin(async move { connect.await? })
    }
}

/// What a connection trusts and shows, from the files as they are now.
fn client_config(tls: &Tls) -> Result<ClientConfig, ConfigError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let unusable = |error: rustls::Error| ConfigError::Certificate {
        file: "the certificates".to_owned(),
        why: error.to_string(),
    };
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(unusable)?;
    let builder = match &tls.ca_file {
        Some(file) => builder.with_root_certificates(Arc::new(roots(file)?)),
        None => builder.with_platform_verifier().map_err(unusable)?,
    };
    let mut config = match (&tls.cert_file, &tls.key_file) {
        (Some(cert), Some(key)) => {
            let certificates = certificates(cert)?;
            let key = PrivateKeyDer::from_pem_file(key).map_err(|error| wrong(key, error))?;
            builder
                .with_client_auth_cert(certificates, key)
                .map_err(|error| wrong(cert, error))?
        }
        (None, None) => builder.with_no_client_auth(),
        _ => return Err(ConfigError::HalfIdentity),
    };
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(config)
}

fn roots(file: &Path) -> Result<RootCertStore, ConfigError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(file)? {
        roots.add(certificate).map_err(|error| wrong(file, error))?;
    }
    Ok(roots)
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, ConfigError> {
    let certificates = CertificateDer::pem_file_iter(file).map_err(|error| wrong(file, error))?;
    let certificates: Vec<_> = certificates
        .collect::<Result<_, _>>()
        .map_err(|error| wrong(file, error))?;
    if certificates.is_empty() {
        return Err(wrong(file, "it has no certificate"));
    }
    Ok(certificates)
}

fn wrong(file: &Path, why: impl Display) -> ConfigError {
    ConfigError::Certificate {
        file: file.display().to_string(),
        why: format!("{why}"),
    }
}
