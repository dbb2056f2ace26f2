//! Where a provider listens: a unix socket, TCP with mutual TLS, or plain TCP on this machine.

use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::stream;
use futures::{Stream, StreamExt};
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tonic::transport::server::Connected;

/// How long a client may take to prove who it is.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Maximum number of concurrent TLS handshakes.
const HANDSHAKES: usize = 64;
/// The pause after a failed accept, for example without file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Where a provider listens.
pub enum Listener {
    /// A unix socket.
    Unix(UnixListener),
    /// Plain TCP. For this machine only.
    Plain(TcpListener),
    /// TCP with mutual TLS.
    Tls(TcpListener, TlsAcceptor),
}

/// The certificates of a provider, PEM.
#[derive(Debug, Clone)]
pub struct TlsFiles {
    /// The provider's own certificate chain and key.
    pub identity: PathBuf,
    /// The authorities whose clients may connect.
    pub ca: PathBuf,
}

impl Listener {
    /// Listens on a unix socket. A socket that an earlier process left behind is replaced.
    ///
    /// # Errors
    /// The socket cannot be made.
    pub fn unix(path: impl AsRef<Path>) -> io::Result<Self> {
        let path = path.as_ref();
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(Self::Unix(UnixListener::bind(path)?)),
        }
    }

    /// Listens on TCP and takes only clients with a certificate of the given authorities.
    ///
    /// # Errors
    /// The certificates cannot be used.
    pub fn tls(listener: TcpListener, files: &TlsFiles) -> io::Result<Self> {
        let ring = Arc::new(rustls::crypto::ring::default_provider());
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_file_iter(&files.ca).map_err(io::Error::other)? {
            let certificate = certificate.map_err(io::Error::other)?;
            roots.add(certificate).map_err(io::Error::other)?;
        }
        let chain = CertificateDer::pem_file_iter(&files.identity).map_err(io::Error::other)?;
        let chain: Result<Vec<_>, _> = chain.collect();
        let key = PrivateKeyDer::from_pem_file(&files.identity).map_err(io::Error::other)?;
        let verifier =
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&ring))
                .build()
                .map_err(io::Error::other)?;
        let mut config = rustls::ServerConfig::builder_with_provider(ring)
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain.map_err(io::Error::other)?, key)
            .map_err(io::Error::other)?;
        config.alpn_protocols = vec![b"h2".to_vec()];
        Ok(Self::Tls(listener, TlsAcceptor::from(Arc::new(config))))
    }

    /// The connections, without end. A client that fails its handshake is no connection, and delays no
    /// other one.
    pub fn incoming(self) -> impl Stream<Item = io::Result<Connection>> + Send {
        let accepted = stream::unfold(self, |listener| async move {
            loop {
                match listener.accept().await {
                    Ok(accepted) => return Some((accepted, listener)),
                    Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
                }
            }
        });
        let connections = accepted.map(Accepted::connect).buffer_unordered(HANDSHAKES);
        connections.filter_map(|connection| async { connection.ok().map(Ok) })
    }

    async fn accept(&self) -> io::Result<Accepted> {
        let tcp = async |listener: &TcpListener| {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            io::Result::Ok(stream)
        };
        Ok(match self {
            Self::Unix(listener) => Accepted::Done(Connection::Unix(listener.accept().await?.0)),
            Self::Plain(listener) => Accepted::Done(Connection::Plain(tcp(listener).await?)),
            Self::Tls(listener, acceptor) => Accepted::Tls(tcp(listener).await?, acceptor.clone()),
        })
    }
}

/// A connection before its handshake.
enum Accepted {
    Done(Connection),
    Tls(TcpStream, TlsAcceptor),
}

impl Accepted {
    async fn connect(self) -> io::Result<Connection> {
        match self {
            Self::Done(connection) => Ok(connection),
            Self::Tls(stream, acceptor) => {
                let stream = tokio::time::timeout(HANDSHAKE, acceptor.accept(stream)).await??;
                Ok(Connection::Tls(Box::new(stream)))
            }
        }
    }
}

/// A connection of a gateway.
pub enum Connection {
    /// Over a unix socket.
    Unix(UnixStream),
    /// Over plain TCP.
    Plain(TcpStream),
    /// Over TLS.
    Tls(Box<TlsStream<TcpStream>>),
}

impl Connected for Connection {
    type ConnectInfo = ();

    fn connect_info(&self) {}
}

impl AsyncRead for Connection {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Unix(stream) => Pin::new(stream).poll_read(context, buffer),
            Self::Plain(stream) => Pin::new(stream).poll_read(context, buffer),
            Self::Tls(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Unix(stream) => Pin::new(stream).poll_write(context, bytes),
            Self::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            Self::Tls(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Unix(stream) => Pin::new(stream).poll_flush(context),
            Self::Plain(stream) => Pin::new(stream).poll_flush(context),
            Self::Tls(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Unix(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}
