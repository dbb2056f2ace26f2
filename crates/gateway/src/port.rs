//! The port of the gateway, taken before anything else happens. A process that cannot have its port
//! must not open stores or start engines first.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::TcpListener;

use crate::access::AccessControl;
use crate::audit::Auditor;
use crate::authentication::Authentication;
use crate::front::{PeerTls, Tls};
use crate::server::StartError;
use crate::settings::Settings;

/// A port that this process listens on. Connections wait until [`Gateway::serve`](crate::Gateway::serve).
#[derive(Debug)]
pub struct Port {
    pub(crate) listener: TcpListener,
    pub(crate) address: SocketAddr,
    pub(crate) tls: Option<Arc<Tls>>,
    pub(crate) peers: Option<PeerTls>,
    pub(crate) authentication: Option<Arc<Authentication>>,
    pub(crate) access: Option<Arc<AccessControl>>,
    pub(crate) audit: Option<Arc<Auditor>>,
    pub(crate) monitoring: Option<Monitoring>,
}

/// The second port, for probes and scrapers.
#[derive(Debug)]
pub(crate) struct Monitoring {
    pub(crate) listener: TcpListener,
    pub(crate) address: SocketAddr,
}

impl Port {
    /// Takes the port of the settings; 0 takes any free port. Reads the certificates, keys and rules.
    ///
    /// # Errors
    /// The address is not loopback and TLS or authentication is missing, another process uses it, or a
    /// file cannot be used.
    pub async fn open(settings: &Settings) -> Result<Self, StartError> {
        let address = settings.listen;
        let is_guarded = settings.tls.is_some() && settings.authentication.is_required();
        if !address.ip().is_loopback() && !is_guarded {
            return Err(StartError::NotLoopback(address));
        }
        let authentication = Authentication::load(settings)?;
        let access = AccessControl::load(&settings.access, authentication.is_some())?;
        let tls = settings.tls.as_ref().map(Tls::load).transpose()?;
        let peers = settings.peers.as_ref().map(PeerTls::load).transpose()?;
        let (listener, address) = bound(address).await?;
        let monitoring = match settings.monitoring_listen {
            Some(address) => {
                let (listener, address) = bound(address).await?;
                Some(Monitoring { listener, address })
            }
            None => None,
        };
        // After the port: the process that has the port writes the log.
        let audit = settings.audit.as_ref().map(Auditor::open).transpose()?;
        Ok(Self {
            listener,
            address,
            tls: tls.map(Arc::new),
            peers,
            authentication: authentication.map(Arc::new),
            access,
            audit,
            monitoring,
        })
    }
}

async fn bound(address: SocketAddr) -> Result<(TcpListener, SocketAddr), StartError> {
    let refuse = |source| StartError::Bind { address, source };
    let listener = TcpListener::bind(address).await.map_err(refuse)?;
    let address = listener.local_addr().map_err(refuse)?;
    Ok((listener, address))
}
