//! TLS for connections, by rustls. Written here because the crate that does the same brings a parser of certificates
//! along, only to bind the password to the connection; the certificate is checked in any case.

use std::future::Future;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::BuilderVerifierExt as _;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio_rustls::TlsConnector;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// What every connection trusts.
#[derive(Clone)]
pub(super) struct Tls {
    connector: TlsConnector,
}

impl Tls {
    /// Trusts the certificates of a file, or those of the system.
    pub(super) fn new(ca_file: Option<&Path>) -> Result<Self, String> {
        let ring = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(ring)
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?;
        let builder = match ca_file {
            Some(file) => builder.with_root_certificates(roots(file)?),
            None => builder
                .with_platform_verifier()
                .map_err(|error| error.to_string())?,
        };
        let config = builder.with_no_client_auth();
        Ok(Self {
            connector: TlsConnector::from(Arc::new(config)),
        })
    }
}

fn roots(file: &Path) -> Result<RootCertStore, String> {
    let wrong = |why: &dyn std::fmt::Display| format!("`{}` cannot be used: {why}", file.display());
    let mut roots = RootCertStore::empty();
    for found in CertificateDer::pem_file_iter(file).map_err(|error| wrong(&error))? {
        let certificate = found.map_err(|error| wrong(&error))?;
        roots.add(certificate).map_err(|error| wrong(&error))?;
    }
    if roots.is_empty() {
        return Err(wrong(&"it has no certificate in PEM"));
    }
    Ok(roots)
}

impl<S> MakeTlsConnect<S> for Tls
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    type Stream = Encrypted<S>;
    type TlsConnect = Handshake;
    type Error = Failure;

    fn make_tls_connect(&mut self, host: &str) -> Result<Handshake, Failure> {
        Ok(Handshake {
            connector: self.connector.clone(),
            server: ServerName::try_from(host.to_owned())?,
        })
    }
}

/// A handshake with one server.
pub(super) struct Handshake {
    connector: TlsConnector,
    server: ServerName<'static>,
}

impl<S> TlsConnect<S> for Handshake
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    type Stream = Encrypted<S>;
    type Error = Failure;
    type Future = Pin<Box<dyn Future<Output = Result<Encrypted<S>, Failure>> + Send>>;

    fn connect(self, stream: S) -> Self::Future {
        Box::pin(async move {
            let stream = self.connector.connect(self.server, stream).await;
            Ok(Encrypted(Box::new(stream.map_err(failure)?)))
        })
    }
}

/// The two sides cannot agree, or the certificate of the server is not trusted. Another attempt has the same end.
#[derive(Debug, thiserror::Error)]
#[error("TLS: {0}")]
pub(super) struct NotAgreed(rustls::Error);

/// What a failed handshake means: a connection that was lost may be made again.
fn failure(error: io::Error) -> Failure {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
    match inner {
        Some(
            lasting @ (rustls::Error::InvalidCertificate(_)
            | rustls::Error::NoCertificatesPresented
            | rustls::Error::UnsupportedNameType
            | rustls::Error::PeerIncompatible(_)),
        ) => Box::new(NotAgreed(lasting.clone())),
        _ => Box::new(error),
    }
}

/// An encrypted connection.
pub(super) struct Encrypted<S>(Box<tokio_rustls::client::TlsStream<S>>);

impl<S> TlsStream for Encrypted<S>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Encrypted<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0).poll_read(context, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Encrypted<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0).poll_shutdown(context)
    }
}
