//! The port of the gateway, taken before anything else happens. A process that cannot have its port
//! must not open stores or start engines first.

use std::net::SocketAddr;

use tokio::net::TcpListener;

use crate::server::StartError;

/// A port that this process listens on. Connections wait until [`Gateway::serve`](crate::Gateway::serve).
#[derive(Debug)]
pub struct Port {
    pub(crate) listener: TcpListener,
    pub(crate) address: SocketAddr,
}

impl Port {
    /// Takes the port; 0 takes any free port.
    ///
    /// # Errors
    /// The address is not loopback, or another process uses it.
    pub async fn open(address: SocketAddr) -> Result<Self, StartError> {
        if !address.ip().is_loopback() {
            return Err(StartError::NotLoopback(address));
        }
        let refuse = |source| StartError::Bind { address, source };
        let listener = TcpListener::bind(address).await.map_err(refuse)?;
        let address = listener.local_addr().map_err(refuse)?;
        Ok(Self { listener, address })
    }
}
