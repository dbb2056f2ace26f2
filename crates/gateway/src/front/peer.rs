//! The other end of a connection, as the services see it: a key for limits per connection.

use std::net::SocketAddr;

use axum::http::Extensions;

/// The address of the other end. With its port it names one connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Peer(pub(crate) SocketAddr);

/// The connection of a request.
#[derive(Debug, Clone, Copy)]
pub(super) struct Link {
    pub(super) peer: Peer,
    pub(super) is_encrypted: bool,
}

impl Peer {
    /// The peer of a request. Calls from inside the process have none.
    pub(crate) fn of(extensions: &Extensions) -> Option<Self> {
        extensions.get().copied()
    }
}
