//! TLS of the port: certificate, key and client authorities from files that are read again when they
//! change.
//!
//! An open connection keeps the certificate of its handshake; new connections get the new one. Files
//! that cannot be used keep the old certificate, and the log says so.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{RootCertStore, ServerConfig};
use sha2::{Digest, Sha256};
use stateway_identity::certificate::{CertificateError, subject_of};
use thiserror::Error;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;

use super::handshakes::Handshakes;
use crate::settings::TlsSettings;

/// The most bytes of each file. Larger files are not certificates.
const MOST_BYTES: u64 = 1024 * 1024;

/// A file of `[server.tls]` that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`server.tls.{key}` ({}) cannot be used: {why}", file.display())]
pub struct TlsError {
    key: &'static str,
    file: PathBuf,
    why: String,
}

/// What connections are encrypted with, and whose certificates are accepted.
struct Material {
    config: Arc<ServerConfig>,
    verifier: Option<Arc<dyn ClientCertVerifier>>,
    /// The contents of the files.
    digest: [u8; 32],
    /// Counts the materials of this process.
    generation: u64,
}

/// How long a client certificate counts as verified. It may expire while its connection is open.
const VERIFIED_FOR: Duration = Duration::from_secs(30);

/// The certificate that a client presented.
#[derive(Debug)]
pub(crate) struct ClientCertificate {
    chain: Vec<CertificateDer<'static>>,
    /// Who it names.
    pub(crate) subject: Result<String, CertificateError>,
    /// By which material, and when, the chain was last verified.
    verified: Mutex<Option<(u64, Instant)>>,
}

impl ClientCertificate {
    /// The certificate of a connection, if the client presented one. The handshake has verified it.
    pub(super) fn of(stream: &TlsStream<TcpStream>) -> Option<Self> {
        let chain = stream.get_ref().1.peer_certificates()?;
        let subject = subject_of(chain.first()?);
        Some(Self {
            chain: chain.iter().map(|it| it.clone().into_owned()).collect(),
            subject,
            verified: Mutex::default(),
        })
    }
}

/// TLS of one port.
pub(crate) struct Tls {
    settings: TlsSettings,
    current: RwLock<Arc<Material>>,
    handshakes: Arc<Handshakes>,
    /// Counts the changes of the files.
    changed: watch::Sender<u64>,
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls")
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

/// Why a handshake failed.
#[derive(Debug)]
pub(super) enum Broken {
    /// Newer handshakes needed its room.
    CutOff,
    /// The client, or the connection to it.
    Failed(io::Error),
}

impl Tls {
    /// Reads the files for the first time.
    pub(crate) fn load(settings: &TlsSettings) -> Result<Self, TlsError> {
        let material = Material::read(&Files::read(settings)?, settings, 0)?;
        Ok(Self {
            handshakes: Handshakes::new(settings.max_handshakes),
            settings: settings.clone(),
            current: RwLock::new(Arc::new(material)),
            changed: watch::Sender::new(0),
        })
    }

    /// Every reason why the files cannot be used.
    pub(crate) fn check(settings: &TlsSettings) -> Vec<TlsError> {
        let cert = contents("cert", &settings.cert)
            .and_then(|text| certificates("cert", &settings.cert, &text));
        let key = contents("key", &settings.key);
        let ca = settings.client_ca.as_deref().map(|file| {
            let ring = Arc::new(rustls::crypto::ring::default_provider());
            contents("client_ca", file).and_then(|text| verifier(file, &text, ring))
        });
        let mut found: Vec<TlsError> = cert.err().into_iter().collect();
        found.extend(key.err());
        found.extend(ca.and_then(Result::err));
        // Whether key and certificate belong together.
        match Self::load(settings) {
            Err(error) if !found.contains(&error) => found.push(error),
            _ => {}
        }
        found
    }

    /// Makes a connection secure. The caller bounds the time.
    pub(super) async fn accept(&self, stream: TcpStream) -> Result<TlsStream<TcpStream>, Broken> {
        let handshake = self.handshakes.begin();
        let acceptor = TlsAcceptor::from(self.current().config.clone());
        tokio::select! {
            accepted = acceptor.accept(stream) => accepted.map_err(Broken::Failed),
            () = handshake.cut_off() => Err(Broken::CutOff),
        }
    }

    /// Whether a client certificate is accepted at this moment. The handshake was enough for its
    /// connection; since then the certificate may have expired, or its authority may have been removed.
    pub(super) fn accepts(&self, certificate: &ClientCertificate) -> bool {
        let current = self.current();
        let mut verified = certificate.verified.lock();
        let verified = verified.as_deref_mut().ok();
        let Some(verified) = verified else {
            return false;
        };
        let is_recent = |(generation, at): &(u64, Instant)| {
            *generation == current.generation && at.elapsed() < VERIFIED_FOR
        };
        if verified.as_ref().is_some_and(is_recent) {
            return true;
        }
        let (Some(verifier), Some((own, intermediates))) =
            (&current.verifier, certificate.chain.split_first())
        else {
            return false;
        };
        let checked = verifier.verify_client_cert(own, intermediates, UnixTime::now());
        *verified = checked
            .is_ok()
            .then(|| (current.generation, Instant::now()));
        verified.is_some()
    }

    /// Reads the files again. True if they have changed and are used from now on.
    fn reload(&self) -> Result<bool, TlsError> {
        let files = Files::read(&self.settings)?;
        let current = self.current();
        if files.digest() == current.digest {
            return Ok(false);
        }
        let material = Material::read(&files, &self.settings, current.generation + 1)?;
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(material);
        self.changed.send_modify(|count| *count += 1);
        Ok(true)
    }

    /// Reports every change of the files from now on.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// Reads the files again and again, and reports each change and each failure once.
    pub(crate) async fn keep_current(self: Arc<Self>, stop: CancellationToken) {
        let mut reported: Option<TlsError> = None;
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(self.settings.reload_interval) => {}
            }
            let this = self.clone();
            let reloaded = tokio::task::spawn_blocking(move || this.reload()).await;
            match reloaded {
                Ok(Ok(true)) => {
                    reported = None;
                    tracing::info!("TLS certificates reloaded");
                }
                Ok(Ok(false)) => reported = None,
                Ok(Err(error)) => {
                    if reported.as_ref() != Some(&error) {
                        tracing::error!(
                            "TLS certificates not reloaded, the old ones stay in use: {error}"
                        );
                        reported = Some(error);
                    }
                }
                // Only at the end of the process.
                Err(_) => return,
            }
        }
    }

    fn current(&self) -> Arc<Material> {
        let current = self.current.read();
        current.unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The contents of the files.
struct Files {
    cert: Vec<u8>,
    key: Vec<u8>,
    client_ca: Option<Vec<u8>>,
}

impl Files {
    fn read(settings: &TlsSettings) -> Result<Self, TlsError> {
        let client_ca = settings.client_ca.as_deref();
        Ok(Self {
            cert: contents("cert", &settings.cert)?,
            key: contents("key", &settings.key)?,
            client_ca: client_ca
                .map(|file| contents("client_ca", file))
                .transpose()?,
        })
    }

    fn digest(&self) -> [u8; 32] {
        let mut digest = Sha256::new();
        for part in [
            &self.cert,
            &self.key,
            self.client_ca.as_ref().unwrap_or(&Vec::new()),
        ] {
            digest.update(part.len().to_be_bytes());
            digest.update(part);
        }
        digest.finalize().into()
    }
}

fn contents(key: &'static str, file: &Path) -> Result<Vec<u8>, TlsError> {
    let wrong = |why: String| wrong(key, file, why);
    let metadata = std::fs::metadata(file).map_err(|error| wrong(error.to_string()))?;
    if metadata.len() > MOST_BYTES {
        return Err(wrong("it is larger than 1 MiB".to_owned()));
    }
    std::fs::read(file).map_err(|error| wrong(error.to_string()))
}

fn wrong(key: &'static str, file: &Path, why: impl Into<String>) -> TlsError {
    TlsError {
        key,
        file: file.to_owned(),
        why: why.into(),
    }
}

impl Material {
    fn read(files: &Files, settings: &TlsSettings, generation: u64) -> Result<Self, TlsError> {
        let ring = Arc::new(rustls::crypto::ring::default_provider());
        let chain = certificates("cert", &settings.cert, &files.cert)?;
        let of_key = |why: String| wrong("key", &settings.key, why);
        // The error never quotes the file.
        let key = PrivateKeyDer::from_pem_slice(&files.key)
            .map_err(|_| of_key("it has no private key in PEM".to_owned()))?;
        let of_cert = |error: rustls::Error| wrong("cert", &settings.cert, error.to_string());
        let builder = ServerConfig::builder_with_provider(ring.clone())
            // TLS 1.2 and 1.3.
            .with_safe_default_protocol_versions()
            .map_err(of_cert)?;
        let verifier = match (&settings.client_ca, &files.client_ca) {
            (Some(file), Some(contents)) => Some(verifier(file, contents, ring)?),
            _ => None,
        };
        let builder = match &verifier {
            Some(verifier) => builder.with_client_cert_verifier(verifier.clone()),
            None => builder.with_no_client_auth(),
        };
        let mut config = builder.with_single_cert(chain, key).map_err(|error| {
            let why = match error {
                rustls::Error::InconsistentKeys(_) => {
                    "it does not belong to the certificate in `server.tls.cert`".to_owned()
                }
                other => other.to_string(),
            };
            of_key(why)
        })?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        if verifier.is_some() {
            // A resumed session would keep a client's certificate beyond its end.
            config.session_storage = Arc::new(NoServerSessionStorage {});
            config.send_tls13_tickets = 0;
        }
        Ok(Self {
            config: Arc::new(config),
            verifier,
            digest: files.digest(),
            generation,
        })
    }
}

/// Accepts certificates of the authorities in a file, and clients without any: they may have another
/// proof of their identity.
fn verifier(
    file: &Path,
    contents: &[u8],
    ring: Arc<rustls::crypto::CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
    let of_ca = |why: String| wrong("client_ca", file, why);
    let mut roots = RootCertStore::empty();
    for certificate in certificates("client_ca", file, contents)? {
        let added = roots.add(certificate);
        added.map_err(|error| of_ca(error.to_string()))?;
    }
    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), ring)
        .allow_unauthenticated()
        .build()
        .map_err(|error| of_ca(error.to_string()))
}

fn certificates(
    key: &'static str,
    file: &Path,
    contents: &[u8],
) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(contents).collect();
    let found = found.map_err(|error| wrong(key, file, error.to_string()))?;
    if found.is_empty() {
        return Err(wrong(key, file, "it has no certificate in PEM"));
    }
    Ok(found)
}
