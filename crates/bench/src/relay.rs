//! Stands between the gateway and the admin API and counts the queries that pass.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::Outcome;

/// The relay, and how many queries have passed.
#[derive(Clone)]
pub(crate) struct Relay {
    pub(crate) address: SocketAddr,
    queries: Arc<AtomicU64>,
}

impl Relay {
    pub(crate) async fn to(admin: SocketAddr) -> Outcome<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let relay = Self {
            address: listener.local_addr()?,
            queries: Arc::default(),
        };
        let counted = relay.clone();
        tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                let counted = counted.clone();
                // Both ends report a broken connection themselves.
                tokio::spawn(async move { counted.pass(near, admin).await });
            }
        });
        Ok(relay)
    }

    pub(crate) fn queries(&self) -> u64 {
        self.queries.load(Ordering::Relaxed)
    }

    async fn pass(&self, near: TcpStream, admin: SocketAddr) -> std::io::Result<()> {
        let far = TcpStream::connect(admin).await?;
        near.set_nodelay(true)?;
        far.set_nodelay(true)?;
        let ((mut asks, mut hears), (mut answers, mut takes)) =
            (near.into_split(), far.into_split());
        let there = async {
            let mut bytes = vec![0; 64 << 10];
            loop {
                let length = asks.read(&mut bytes).await?;
                if length == 0 {
                    return takes.shutdown().await;
                }
                // The gateway asks one thing at a time on a connection, each in one write.
                if bytes[..length].starts_with(b"POST /query") {
                    self.queries.fetch_add(1, Ordering::Relaxed);
                }
                takes.write_all(&bytes[..length]).await?;
            }
        };
        let back = tokio::io::copy(&mut answers, &mut hears);
        tokio::try_join!(there, back).map(|_| ())
    }
}
