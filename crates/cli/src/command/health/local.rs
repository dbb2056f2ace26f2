//! Asks the gateway of a configuration on this machine for `/healthz`.
//!
//! The certificate of the gateway names the hosts that clients use, and `client_ca` does not name the
//! authority that signed it, so that it cannot be verified here. A request without credentials for one status
//! needs no proof of the identity of the gateway.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
use stateway_gateway::Settings;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::exit::Exit;
use crate::failure::Failure;

/// `localhost` is a name of every gateway.
const REQUEST: &[u8] = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";

/// The part of an answer that is read: the status line and more.
const ENOUGH: usize = 64;

/// Where the gateway of this machine answers.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Local {
    address: SocketAddr,
    is_encrypted: bool,
}

impl fmt::Display for Local {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_encrypted { "https" } else { "http" };
        write!(f, "{scheme}://{}", self.address)
    }
}

impl Local {
    pub(super) fn of(settings: &Settings) -> Self {
        let (address, is_encrypted) = match settings.monitoring_listen {
            Some(address) => (address, false),
            None => (settings.listen, settings.tls.is_some()),
        };
        // Every address means this machine too.
        let ip = match address.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
            ip => ip,
        };
        Self {
            address: SocketAddr::new(ip, address.port()),
            is_encrypted,
        }
    }

    /// Whether the gateway serves.
    ///
    /// # Errors
    /// Nothing answers there in time, or something else than a gateway.
    pub(super) async fn is_serving(&self, timeout: Duration) -> Result<bool, Failure> {
        let unreachable = |why: String| {
            Failure::new(Exit::Unreachable, format!("{self} does not answer: {why}"))
                .hint("Is the gateway running (`stateway serve`), with this configuration?")
        };
        let answer = tokio::time::timeout(timeout, self.ask());
        let answer = answer
            .await
            .map_err(|_| unreachable("the timeout expired".to_owned()))?;
        let answer = answer.map_err(|error| unreachable(error.to_string()))?;
        match status(&answer) {
            Some(200) => Ok(true),
            Some(503) => Ok(false),
            _ => Err(unreachable(
                "the answer is not that of a gateway".to_owned(),
            )),
        }
    }

    async fn ask(&self) -> std::io::Result<Vec<u8>> {
        let stream = TcpStream::connect(self.address).await?;
        if !self.is_encrypted {
            return exchange(stream).await;
        }
        let connector = TlsConnector::from(Arc::new(config().map_err(std::io::Error::other)?));
        let name = ServerName::from(self.address.ip());
        exchange(connector.connect(name, stream).await?).await
    }
}

async fn exchange(mut stream: impl AsyncRead + AsyncWrite + Unpin) -> std::io::Result<Vec<u8>> {
    stream.write_all(REQUEST).await?;
    stream.flush().await?;
    let mut answer = Vec::new();
    stream.take(ENOUGH as u64).read_to_end(&mut answer).await?;
    Ok(answer)
}

/// The status of an answer over HTTP/1.1.
fn status(answer: &[u8]) -> Option<u16> {
    let line = std::str::from_utf8(answer.get(..12)?).ok()?;
    line.strip_prefix("HTTP/1.1 ")?.parse().ok()
}

fn config() -> Result<ClientConfig, rustls::Error> {
    let ring = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(ring.clone())
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyCertificate(ring)))
        .with_no_client_auth();
    Ok(config)
}

/// Accepts every certificate whose key the other end has.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, cert, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, cert, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use stateway_gateway::TlsSettings;

    use super::*;

    #[test]
    fn the_port_for_probes_comes_first_and_every_address_means_this_machine() {
        let mut settings = Settings {
            listen: "0.0.0.0:7380".parse().unwrap(),
            tls: Some(TlsSettings::new("server.pem", "server.key")),
            ..Settings::default()
        };
        assert_eq!(Local::of(&settings).to_string(), "https://127.0.0.1:7380");
        settings.monitoring_listen = Some("[::]:7381".parse().unwrap());
        assert_eq!(Local::of(&settings).to_string(), "http://[::1]:7381");
        settings.monitoring_listen = Some("10.0.0.5:7381".parse().unwrap());
        assert_eq!(Local::of(&settings).to_string(), "http://10.0.0.5:7381");
    }

    #[test]
    fn only_an_answer_of_http_has_a_status() {
        assert_eq!(status(b"HTTP/1.1 503 Service Unavailable"), Some(503));
        for other in [
            "",
            "HTTP/1.1 20",
            "SSH-2.0-OpenSSH_9.2p1",
            "HTTP/1.1 two hundred",
        ] {
            assert_eq!(status(other.as_bytes()), None, "{other}");
        }
    }
}
