//! TLS to other gateways: the certificate of this gateway, and the authorities that it trusts. The files are read again
//! for each connection.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use thiserror::Error;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::settings::PeerSettings;

/// A file of `[server.peers]` that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`server.peers.{key}` ({}) cannot be used: {why}", file.display())]
pub struct PeerTlsError {
    key: &'static str,
    file: PathBuf,
    why: String,
}

fn wrong(key: &'static str, file: &Path, why: &dyn std::fmt::Display) -> PeerTlsError {
    PeerTlsError {
        key,
        file: file.to_owned(),
        why: why.to_string(),
    }
}

/// TLS to other gateways.
#[derive(Debug)]
pub(crate) struct PeerTls(PeerSettings);

impl PeerTls {
    /// Reads the files for the first time.
    pub(crate) fn load(settings: &PeerSettings) -> Result<Self, PeerTlsError> {
        client(settings)?;
        Ok(Self(settings.clone()))
    }

    /// Makes a connection secure. The caller bounds the time.
    pub(super) async fn connect(
        &self,
        host: &str,
        stream: TcpStream,
    ) -> Result<TlsStream<TcpStream>, String> {
        let server = ServerName::try_from(host.to_owned()).map_err(|error| error.to_string())?;
        let settings = self.0.clone();
        let client = tokio::task::spawn_blocking(move || client(&settings)).await;
        let client = client.map_err(|error| error.to_string())?;
        let client = client.map_err(|error| error.to_string())?;
        let connector = TlsConnector::from(Arc::new(client));
        let connected = connector.connect(server, stream).await;
        connected.map_err(|error| error.to_string())
    }
}

fn client(settings: &PeerSettings) -> Result<ClientConfig, PeerTlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates("ca_file", &settings.ca_file)? {
        let added = roots.add(certificate);
        added.map_err(|error| wrong("ca_file", &settings.ca_file, &error))?;
    }
    let chain = certificates("cert", &settings.cert)?;
    // The error never quotes the file.
    let key = PrivateKeyDer::from_pem_file(&settings.key).map_err(|_| {
        wrong(
            "key",
            &settings.key,
            &"it has no readable private key in PEM",
        )
    })?;
    let ring = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(ring)
        .with_safe_default_protocol_versions()
        .map_err(|error| wrong("cert", &settings.cert, &error))?;
    let mut client = builder
        .with_root_certificates(roots)
        .with_client_auth_cert(chain, key)
        .map_err(|error| wrong("key", &settings.key, &error))?;
    client.alpn_protocols = vec![b"h2".to_vec()];
    Ok(client)
}

fn certificates(
    key: &'static str,
    file: &Path,
) -> Result<Vec<CertificateDer<'static>>, PeerTlsError> {
    let found = CertificateDer::pem_file_iter(file).map_err(|error| wrong(key, file, &error))?;
    let found: Result<Vec<_>, _> = found.collect();
    let found = found.map_err(|error| wrong(key, file, &error))?;
    if found.is_empty() {
        return Err(wrong(key, file, &"it has no certificate in PEM"));
    }
    Ok(found)
}
