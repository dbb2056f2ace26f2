//! Everything between the port and the services: accepting connections, their limits, which
//! requests are refused before a service sees them, and the form of errors on the wire.
//!
//! `docs/security.md` says what is refused and why.

mod accept;
mod activity;
mod connection;
mod describe;
mod dispatch;
mod forward;
mod frames;
mod handshakes;
mod origin;
mod peer;
mod peer_tls;
mod people;
mod proven;
mod services;
mod shrink;
mod stream;
mod tls;

pub(crate) use accept::Acceptor;
pub(crate) use connection::{ConnectionLimits, Connections};
pub(crate) use describe::outcome_of;
pub(crate) use dispatch::{Front, no_page};
pub(crate) use forward::{Forward, Standby};
pub use origin::{Origin, OriginError};
pub(crate) use peer::{Peer, VisitorAddress};
pub(crate) use peer_tls::PeerTls;
pub use peer_tls::PeerTlsError;
pub(crate) use proven::ProvenWait;
pub(crate) use services::{NamedHandler, Services};
pub(crate) use tls::Tls;
pub use tls::TlsError;
