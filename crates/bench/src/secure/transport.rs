//! TLS on both sides: the empty service, and the channels to a server.

use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::StreamExt;
use hyper_util::rt::TokioIo;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::server::TlsStream;
use tokio_rustls::{TlsAcceptor, TlsConnector};
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::server::Connected;
use tonic::transport::{Channel, Endpoint, Server};

use crate::Outcome;
use crate::baseline::empty;

/// The certificates that the clients of the benchmark trust.
#[derive(Clone)]
pub(super) struct Trust(TlsConnector);

impl Trust {
    /// Makes an authority and a certificate of a server on this machine, in files.
    pub(super) fn new(folder: &Path) -> Outcome<Self> {
        let mut authority = CertificateParams::new(Vec::<String>::new())?;
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate()?)?;
        let names = vec!["127.0.0.1".to_owned(), "localhost".to_owned()];
        let key = KeyPair::generate()?;
        let server = CertificateParams::new(names)?.signed_by(&key, &authority)?;
        std::fs::write(folder.join("server.pem"), server.pem())?;
        std::fs::write(folder.join("server.key"), key.serialize_pem())?;
        let mut roots = rustls::RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(authority.pem().as_bytes())?)?;
        let ring = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = rustls::ClientConfig::builder_with_provider(ring)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"h2".to_vec()];
        Ok(Self(TlsConnector::from(Arc::new(config))))
    }

    /// A connection to a server.
    pub(super) async fn channel(&self, url: &str) -> Outcome<Channel> {
        let address = url.trim_start_matches("https://").to_owned();
        // The connector speaks TLS itself; the transport would refuse an https address.
        let endpoint = Endpoint::from_shared(format!("http://{address}"))?;
        let connector = self.0.clone();
        let connect = tower::service_fn(move |_| {
            let (connector, address) = (connector.clone(), address.clone());
            async move {
                let stream = TcpStream::connect(address).await?;
                stream.set_nodelay(true)?;
                let name = ServerName::try_from("localhost").map_err(io::Error::other)?;
                let stream = connector.connect(name, stream).await?;
                io::Result::Ok(TokioIo::new(stream))
            }
        });
        Ok(endpoint.connect_with_connector(connect).await?)
    }
}

/// Serves the empty service over TLS until it is ended.
pub(crate) async fn serve_empty(folder: PathBuf) -> Outcome<()> {
    let certificate = CertificateDer::from_pem_file(folder.join("server.pem"))?;
    let key = PrivateKeyDer::from_pem_file(folder.join("server.key"))?;
    let ring = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ServerConfig::builder_with_provider(ring)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)?;
    config.alpn_protocols = vec![b"h2".to_vec()];
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    eprintln!("listening on https://{}", listener.local_addr()?);
    let incoming = TcpListenerStream::new(listener).then(move |stream| {
        let acceptor = acceptor.clone();
        async move {
            let stream = stream?;
            stream.set_nodelay(true)?;
            acceptor.accept(stream).await.map(Secured)
        }
    });
    let server = Server::builder().add_service(empty());
    server.serve_with_incoming(incoming).await?;
    Ok(())
}

/// A connection as tonic takes it.
struct Secured(TlsStream<TcpStream>);

impl Connected for Secured {
    type ConnectInfo = ();

    fn connect_info(&self) {}
}

impl AsyncRead for Secured {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl AsyncWrite for Secured {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, buffer)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}
