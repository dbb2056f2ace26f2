//! Connections to the frontend. Certificates are read for every new connection, so that renewed files
//! are used without a restart.

use std::fmt::Display;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::BuilderVerifierExt;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tonic::codegen::http::Uri;
use tonic::codegen::{Context, Poll, Service};

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
    tls: Option<Arc<Tls>>,
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
        let connector = Self {
            host: host.trim_matches(['[', ']']).into(),
            port: uri.port_u16().unwrap_or(7233),
            tls: secure.then(|| Arc::new(config.tls.clone())),
        };
        if let Some(tls) = &connector.tls {
            client_config(tls)?;
            connector.server_name(tls)?;
        }
        Ok(connector)
    }

    pub(crate) const fn is_secure(&self) -> bool {
        self.tls.is_some()
    }

    fn server_name(&self, tls: &Tls) -> Result<ServerName<'static>, ConfigError> {
        let name = tls.server_name.as_deref().unwrap_or(&self.host);
        ServerName::try_from(name.to_owned()).map_err(|error| ConfigError::Certificate {
            file: format!("`{name}`"),
            why: error.to_string(),
        })
    }

    async fn connect(self) -> Result<TokioIo<Box<dyn Io>>, Failure> {
        let tcp = TcpStream::connect((&*self.host, self.port)).await?;
        tcp.set_nodelay(true)?;
        let Some(tls) = self.tls.as_deref() else {
            return Ok(TokioIo::new(Box::new(tcp)));
        };
        let connector = TlsConnector::from(Arc::new(client_config(tls)?));
        let stream = connector.connect(self.server_name(tls)?, tcp).await?;
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
