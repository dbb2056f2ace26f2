//! Connections over TLS. Certificates are read for every new connection.

use std::fmt::Display;
use std::path::Path;
use std::sync::Arc;

use futures::future::BoxFuture;
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::BuilderVerifierExt;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tonic::codegen::http::Uri;
use tonic::codegen::{Context, Poll, Service};

use crate::client::CONNECT_TIMEOUT;
use crate::{Error, Security};

/// The port of an `https` address without one.
const HTTPS_PORT: u16 = 443;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Connects to one gateway over TLS.
#[derive(Debug, Clone)]
pub(crate) struct Connector {
    host: Arc<str>,
    port: u16,
    name: ServerName<'static>,
    security: Arc<Security>,
}

impl Connector {
    /// Reads the certificates once, to report what is wrong with them before the first call.
    pub(crate) fn new(uri: &Uri, security: &Security) -> Result<Self, Error> {
        let wrong = |why: &str| Error::address(&uri.to_string(), why);
        let host = uri.host().filter(|host| !host.is_empty());
        let host = host.ok_or_else(|| wrong("it has no host"))?;
        let host = host.trim_matches(['[', ']']);
        let name = ServerName::try_from(host.to_owned());
        client_config(security)?;
        Ok(Self {
            host: host.into(),
            port: uri.port_u16().unwrap_or(HTTPS_PORT),
            name: name.map_err(|error| wrong(&error.to_string()))?,
            security: Arc::new(security.clone()),
        })
    }

    async fn connect(self) -> Result<TokioIo<TlsStream<TcpStream>>, Failure> {
        let tcp = TcpStream::connect((&*self.host, self.port)).await?;
        tcp.set_nodelay(true)?;
        let connector = TlsConnector::from(Arc::new(client_config(&self.security)?));
        let stream = connector.connect(self.name, tcp).await?;
        Ok(TokioIo::new(stream))
    }
}

impl Service<Uri> for Connector {
    type Response = TokioIo<TlsStream<TcpStream>>;
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

/// What a connection trusts and presents, from the files as they are now.
fn client_config(security: &Security) -> Result<ClientConfig, Error> {
    let ring = Arc::new(rustls::crypto::ring::default_provider());
    let unusable = |error: rustls::Error| Error::credentials(format!("TLS: {error}"));
    let builder = ClientConfig::builder_with_provider(ring)
        .with_safe_default_protocol_versions()
        .map_err(unusable)?;
    let builder = match &security.ca {
        Some(file) => builder.with_root_certificates(Arc::new(roots(file)?)),
        None => builder.with_platform_verifier().map_err(unusable)?,
    };
    let mut config = match &security.certificate {
        Some((chain, key)) => {
            let certificates = certificates(chain)?;
            // The error never quotes the file.
            let key = PrivateKeyDer::from_pem_file(key)
                .map_err(|_| wrong(key, "it cannot be read or has no private key in PEM"))?;
            builder
                .with_client_auth_cert(certificates, key)
                .map_err(|error| wrong(chain, error))?
        }
        None => builder.with_no_client_auth(),
    };
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(config)
}

fn roots(file: &Path) -> Result<RootCertStore, Error> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(file)? {
        roots.add(certificate).map_err(|error| wrong(file, error))?;
    }
    Ok(roots)
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
    let found = CertificateDer::pem_file_iter(file).map_err(|error| wrong(file, error))?;
    let found: Result<Vec<_>, _> = found.collect();
    let found = found.map_err(|error| wrong(file, error))?;
    if found.is_empty() {
        return Err(wrong(file, "it has no certificate in PEM"));
    }
    Ok(found)
}

fn wrong(file: &Path, why: impl Display) -> Error {
    Error::credentials(format!("`{}` cannot be used: {why}", file.display()))
}
