//! The other end of a connection, as the services see it: a key for limits per connection.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use axum::http::Extensions;
use tokio::sync::watch;

use super::activity::Activity;
use super::handshakes::Handshake;
use super::tls::{ClientCertificate, Tls};
use crate::authentication::{PeerCertificate, Unauthenticated};

/// The address of the other end. With its port it names one connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Peer(pub(crate) SocketAddr);

/// The address of the visitor of a page, for the calls that the page makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct VisitorAddress(pub(crate) SocketAddr);

/// The connection of a request.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) peer: Peer,
    /// None without TLS.
    pub(super) tls: Option<Arc<Tls>>,
    pub(super) certificate: Option<ClientCertificate>,
    pub(super) activity: Arc<Activity>,
    /// The place among the connections whose client has proved nothing. None if it has, or need not.
    pub(super) unauthenticated: Mutex<Option<Handshake>>,
}

impl Link {
    pub(super) const fn is_encrypted(&self) -> bool {
        self.tls.is_some()
    }

    /// The client has proved who it is: the limits of strangers do not count for it any more.
    pub(super) fn prove(&self) {
        if !self.activity.is_proven() {
            self.activity.note_proof();
            drop(
                self.unauthenticated
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .take(),
            );
        }
    }
}

impl PeerCertificate for Link {
    fn subject(&self) -> Result<Option<&str>, Unauthenticated> {
        let Some(certificate) = &self.certificate else {
            return Ok(None);
        };
        let is_accepted = self
            .tls
            .as_ref()
            .is_some_and(|tls| tls.accepts(certificate));
        match &certificate.subject {
            Ok(subject) if is_accepted => Ok(Some(subject)),
            _ => Err(Unauthenticated::Certificate),
        }
    }

    fn changes(&self) -> Option<watch::Receiver<u64>> {
        // Without a certificate the authorities mean nothing to this connection.
        self.certificate.as_ref()?;
        self.tls.as_ref().map(|tls| tls.changes())
    }
}

impl Peer {
    /// The peer of a request. Calls from inside the process have none.
    pub(crate) fn of(extensions: &Extensions) -> Option<Self> {
        extensions.get().copied()
    }
}
