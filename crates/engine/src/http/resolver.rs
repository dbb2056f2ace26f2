//! Names to addresses, each of them checked.
//!
//! The connection is made to what this returns and to nothing else, so there is no second look-up
//! that could answer otherwise.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use super::allow::AllowList;

/// The most addresses of one name that are tried.
const MOST_ADDRESSES: usize = 16;

/// Looks a name up.
pub(super) type Lookup = dyn Fn(String) -> Pin<Box<dyn Future<Output = std::io::Result<Vec<SocketAddr>>> + Send>>
    + Send
    + Sync;

/// Looks names up and lets only allowed addresses pass.
#[derive(Clone)]
pub(super) struct Resolver {
    pub(super) allow: Arc<AllowList>,
    pub(super) lookup: Arc<Lookup>,
}

impl Resolver {
    /// With the system's names.
    pub(super) fn system(allow: Arc<AllowList>) -> Self {
        let lookup = |host: String| {
            let found = async move {
                let found = tokio::net::lookup_host((host, 0)).await?;
                Ok(found.take(MOST_ADDRESSES).collect())
            };
            Box::pin(found) as Pin<Box<dyn Future<Output = _> + Send>>
        };
        Self {
            allow,
            lookup: Arc::new(lookup),
        }
    }
}

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let (allow, lookup) = (Arc::clone(&self.allow), Arc::clone(&self.lookup));
        Box::pin(async move {
            let host = name.as_str();
            let found = lookup(host.to_owned()).await?;
            // If any address is blocked, the name is refused: its DNS server cannot be trusted.
            for address in &found {
                allow.check_address(host, address.ip())?;
            }
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}
