//! Where a provider listens: a unix socket, TCP with mutual TLS, or plain TCP on this machine.

use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, mpsc};
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

/// How long the process at the other end of a socket may take to accept a connection.
const ACCEPT: Duration = Duration::from_secs(1);

/// Where a provider listens.
pub struct Listener(Kind);

/// A socket that this process made: path, and what identifies the file.
#[derive(Debug, Clone)]
pub(crate) struct OwnSocket {
    path: PathBuf,
    identity: (u64, u64),
}

impl OwnSocket {
    fn at(path: &Path) -> io::Result<Self> {
        let found = std::fs::symlink_metadata(path)?;
        Ok(Self {
            path: path.to_owned(),
            identity: (found.dev(), found.ino()),
        })
    }

    /// Removes the socket, unless another process has replaced it.
    pub(crate) fn remove(&self) {
        let is_own = Self::at(&self.path).is_ok_and(|found| found.identity == self.identity);
        if is_own {
            // A socket that stays is replaced by the next process.
            std::fs::remove_file(&self.path).ok();
        }
    }
}

enum Kind {
    Unix(UnixListener, OwnSocket),
    Plain(TcpListener),
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
    /// The socket cannot be made, another process serves it, or the path is that of another file.
    pub fn unix(path: impl AsRef<Path>) -> io::Result<Self> {
        let path = path.as_ref();
        remove_stale(path)?;
        let listener = UnixListener::bind(path)?;
        Ok(Self(Kind::Unix(listener, OwnSocket::at(path)?)))
    }

    /// The socket to remove when the provider stops.
    pub(crate) fn own_socket(&self) -> Option<OwnSocket> {
        match &self.0 {
            Kind::Unix(_, own) => Some(own.clone()),
            Kind::Plain(_) | Kind::Tls(..) => None,
        }
    }

    /// Listens on TCP without TLS, for gateways on this machine: every process that can connect can control the engine.
    ///
    /// # Errors
    /// The address can be reached from other machines.
    pub fn plain(listener: TcpListener) -> io::Result<Self> {
        let address = listener.local_addr()?;
        if address.ip().is_loopback() {
            return Ok(Self(Kind::Plain(listener)));
        }
        let message = format!("{address} can be reached from other machines; use `Listener::tls`");
        Err(io::Error::new(io::ErrorKind::InvalidInput, message))
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
        let acceptor = TlsAcceptor::from(Arc::new(config));
        Ok(Self(Kind::Tls(listener, acceptor)))
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
        Ok(match &self.0 {
            Kind::Unix(listener, _) => Accepted::Done(Connection::Unix(listener.accept().await?.0)),
            Kind::Plain(listener) => Accepted::Done(Connection::Plain(tcp(listener).await?)),
            Kind::Tls(listener, acceptor) => Accepted::Tls(tcp(listener).await?, acceptor.clone()),
        })
    }
}

/// Removes a socket without a listening process. Anything else at the path stays.
fn remove_stale(path: &Path) -> io::Result<()> {
    let found = match std::fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    let shown = path.display();
    if !found.file_type().is_socket() {
        let message = format!("`{shown}` is not a socket; remove it, or listen at another path");
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, message));
    }
    if is_served(path) {
        let message = format!("another process serves `{shown}`; stop that process first");
        return Err(io::Error::new(io::ErrorKind::AddrInUse, message));
    }
    std::fs::remove_file(path)
}

/// Whether a process accepts connections at the socket. A process that is too busy to accept, or that
/// belongs to another user, is one too.
fn is_served(path: &Path) -> bool {
    let (sender, receiver) = mpsc::channel();
    let path = path.to_owned();
    // Connecting blocks while the queue of the socket is full.
    std::thread::spawn(move || sender.send(std::os::unix::net::UnixStream::connect(path)));
    match receiver.recv_timeout(ACCEPT) {
        Ok(Err(error)) => {
            let kinds = [io::ErrorKind::ConnectionRefused, io::ErrorKind::NotFound];
            !kinds.contains(&error.kind())
        }
        Ok(Ok(_)) | Err(_) => true,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_a_socket_that_nobody_serves_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.sock");
        let first = Listener::unix(&path).unwrap();
        let taken = Listener::unix(&path).err().expect("the socket is served");
        assert_eq!(taken.kind(), io::ErrorKind::AddrInUse);
        drop(first);
        assert!(path.exists() && Listener::unix(&path).is_ok());

        let file = folder.path().join("file");
        std::fs::write(&file, "precious").unwrap();
        let refused = Listener::unix(&file).err().expect("a file is no socket");
        assert_eq!(refused.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "precious");
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&file, &link).unwrap();
        assert!(Listener::unix(&link).is_err() && link.is_symlink());
    }

    #[tokio::test]
    async fn plain_tcp_is_for_this_machine_only() {
        let near = TcpListener::bind("127.0.0.1:0").await.unwrap();
        assert!(Listener::plain(near).is_ok());
        let far = TcpListener::bind("0.0.0.0:0").await.unwrap();
        let refused = Listener::plain(far).err().expect("other machines reach it");
        assert!(refused.to_string().contains("Listener::tls"), "{refused}");
    }
}
