//! The other end of a connection, as the services see it: a key for limits per connection.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::http::Extensions;

use super::tls::{ClientCertificate, Tls};
use crate::authentication::Unauthenticated;

/// The address of the other end. With its port it names one connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Peer(pub(crate) SocketAddr);

/// The connection of a request.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) peer: Peer,
    /// None without TLS.
    pub(super) tls: Option<Arc<Tls>>,
    pub(super) certificate: Option<ClientCertificate>,
}

impl Link {
    pub(super) const fn is_encrypted(&self) -> bool {
        self.tls.is_some()
    }

    /// Who the client certificate names, if the client presented one.
    pub(super) fn subject(&self) -> Result<Option<&str>, Unauthenticated> {
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
}

impl Peer {
    /// The peer of a request. Calls from inside the process have none.
    pub(crate) fn of(extensions: &Extensions) -> Option<Self> {
        extensions.get().copied()
    }
}
