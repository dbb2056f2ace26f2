//! Where a provider listens, and how a connection to it is made.

use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;

use crate::{Config, ConfigError};

/// Where a provider listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// A unix socket.
    Unix(PathBuf),
    /// Plain TCP on this machine.
    Plain(String),
    /// TCP with mutual TLS: host, and host with port.
    Tls {
        /// The name that the provider's certificate must have.
        host: String,
        /// Host and port.
        authority: String,
    },
}

impl FromStr for Address {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        let wrong = || ConfigError::Address(text.to_owned());
        if let Some(path) = text.strip_prefix("unix:") {
            let path = path.strip_prefix("//").unwrap_or(path);
            let path = Some(path).filter(|path| !path.is_empty());
            return Ok(Self::Unix(path.ok_or_else(wrong)?.into()));
        }
        let (scheme, authority) = text.split_once("://").ok_or_else(wrong)?;
        let authority = authority.strip_suffix('/').unwrap_or(authority);
        let (host, port) = authority.rsplit_once(':').ok_or_else(wrong)?;
        let host = host.trim_start_matches('[').trim_end_matches(']');
        if host.is_empty() || host.contains('/') || port.parse::<u16>().is_err() {
            return Err(wrong());
        }
        match scheme {
            "http" if is_loopback(host) => Ok(Self::Plain(authority.to_owned())),
            "http" => Err(ConfigError::NotLoopback(authority.to_owned())),
            "https" => Ok(Self::Tls {
                host: host.to_owned(),
                authority: authority.to_owned(),
            }),
            _ => Err(wrong()),
        }
    }
}

fn is_loopback(host: &str) -> bool {
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// A stream of bytes to a provider.
pub(crate) trait Line: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Line for T {}

/// Makes connections to one provider.
pub(crate) struct Dialer {
    address: Address,
    tls: Option<(TlsConnector, ServerName<'static>)>,
}

impl Dialer {
    /// Reads the certificates, once.
    pub(crate) fn new(config: &Config) -> Result<Self, ConfigError> {
        let address: Address = config.address.parse()?;
        let files = (&config.ca_file, &config.identity_file);
        let tls = match (&address, files) {
            (Address::Tls { host, .. }, (Some(ca), Some(identity))) => {
                let name = ServerName::try_from(host.clone());
                let name = name.map_err(|_| ConfigError::Address(config.address.clone()))?;
                Some((connector(ca, identity)?, name))
            }
            (Address::Tls { .. }, _) => {
                let why = "an `https` address needs `ca_file` and `identity_file`";
                return Err(ConfigError::Certificates(why));
            }
            (_, (None, None)) => None,
            _ => {
                let why = "`ca_file` and `identity_file` need an `https` address";
                return Err(ConfigError::Certificates(why));
            }
        };
        Ok(Self { address, tls })
    }

    pub(crate) async fn dial(&self) -> io::Result<Box<dyn Line>> {
        match &self.address {
            Address::Unix(path) => Ok(Box::new(UnixStream::connect(path).await?)),
            Address::Plain(authority) => Ok(Box::new(tcp(authority).await?)),
            Address::Tls { authority, .. } => {
                let stream = tcp(authority).await?;
                let missing = || io::Error::other("no certificates");
                let (connector, name) = self.tls.as_ref().ok_or_else(missing)?;
                Ok(Box::new(connector.connect(name.clone(), stream).await?))
            }
        }
    }
}

async fn tcp(authority: &str) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(authority).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

fn connector(ca: &Path, identity: &Path) -> Result<TlsConnector, ConfigError> {
    let of = |option, file: &Path, why: String| ConfigError::Certificate {
        option,
        file: file.display().to_string(),
        why,
    };
    let wrong_ca = |why: String| of("ca_file", ca, why);
    let wrong_identity = |why: String| of("identity_file", identity, why);
    let mut roots = RootCertStore::empty();
    for certificate in certificates(ca).map_err(wrong_ca)? {
        let added = roots.add(certificate);
        added.map_err(|error| wrong_ca(error.to_string()))?;
    }
    let chain = certificates(identity).map_err(wrong_identity)?;
    let key = PrivateKeyDer::from_pem_file(identity);
    let key = key.map_err(|error| wrong_identity(error.to_string()))?;
    let ring = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(ring)
        .with_safe_default_protocol_versions()
        .map_err(|error| wrong_identity(error.to_string()))?
        .with_root_certificates(roots)
        .with_client_auth_cert(chain, key);
    let mut config = config.map_err(|error| wrong_identity(error.to_string()))?;
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(TlsConnector::from(Arc::new(config)))
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let found = CertificateDer::pem_file_iter(file).map_err(|error| error.to_string())?;
    let found: Result<Vec<_>, _> = found.collect();
    let found = found.map_err(|error| error.to_string())?;
    if found.is_empty() {
        return Err("has no certificate".to_owned());
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_socket_or_a_host_with_a_port() {
        let parsed = |text: &str| text.parse::<Address>().unwrap();
        for text in ["unix:/run/a.sock", "unix:///run/a.sock"] {
            assert_eq!(parsed(text), Address::Unix("/run/a.sock".into()));
        }
        for host in ["127.0.0.1:7", "[::1]:7", "localhost:7"] {
            assert_eq!(
                parsed(&format!("http://{host}")),
                Address::Plain(host.into())
            );
        }
        let tls = Address::Tls {
            host: "jobs.internal".into(),
            authority: "jobs.internal:7443".into(),
        };
        assert_eq!(parsed("https://jobs.internal:7443/"), tls);
        for wrong in [
            "",
            "unix:",
            "jobs:7",
            "https://jobs",
            "ftp://a:1",
            "http://:1",
        ] {
            let error = wrong.parse::<Address>().unwrap_err();
            assert!(matches!(error, ConfigError::Address(_)), "{wrong}: {error}");
        }
    }

    #[test]
    fn plain_tcp_is_for_this_machine_only() {
        let error = "http://10.0.0.1:7000".parse::<Address>().unwrap_err();
        assert!(matches!(error, ConfigError::NotLoopback(_)), "{error}");
    }

    #[test]
    fn certificates_and_https_go_together() {
        let missing = Dialer::new(&Config::at("https://a:1"));
        assert!(matches!(missing, Err(ConfigError::Certificates(_))));
        let needless = Config {
            ca_file: Some("ca.pem".into()),
            ..Config::at("unix:/run/a.sock")
        };
        assert!(matches!(
            Dialer::new(&needless),
            Err(ConfigError::Certificates(_))
        ));
    }
}
