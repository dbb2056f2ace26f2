//! Something between an engine and its server that delays, swallows or ends what passes.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::Duration;

const PASS: u8 = 0;
const HOLD: u8 = 1;
const SWALLOW: u8 = 2;
const SWALLOW_AND_HOLD: u8 = 3;

/// A proxy on a port of its own.
pub(crate) struct Proxy {
    pub(crate) port: u16,
    mode: Arc<AtomicU8>,
    swallowed: Arc<AtomicBool>,
}

impl Proxy {
    pub(crate) fn to(server: u16) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let proxy = Self {
            port: listener.local_addr().unwrap().port(),
            mode: Arc::default(),
            swallowed: Arc::default(),
        };
        let (mode, swallowed) = (Arc::clone(&proxy.mode), Arc::clone(&proxy.swallowed));
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let Ok(upstream) = TcpStream::connect(("127.0.0.1", server)) else {
                    continue;
                };
                let link = Link {
                    mode: Arc::clone(&mode),
                    swallowed: Arc::clone(&swallowed),
                    marked: Arc::default(),
                };
                link.carry(client.unwrap(), upstream);
            }
        });
        proxy
    }

    /// Nothing passes until [`Proxy::pass`].
    pub(crate) fn hold(&self) {
        self.mode.store(HOLD, Ordering::SeqCst);
    }

    pub(crate) fn pass(&self) {
        self.mode.store(PASS, Ordering::SeqCst);
    }

    /// The next commit reaches the server, and its answer does not reach the client.
    pub(crate) fn swallow_next_commit(&self) {
        self.mode.store(SWALLOW, Ordering::SeqCst);
    }

    /// Likewise, and nothing else passes until [`Proxy::pass`].
    pub(crate) fn swallow_next_commit_and_hold(&self) {
        self.mode.store(SWALLOW_AND_HOLD, Ordering::SeqCst);
    }

    pub(crate) fn has_swallowed(&self) -> bool {
        self.swallowed.load(Ordering::SeqCst)
    }
}

#[derive(Clone)]
struct Link {
    mode: Arc<AtomicU8>,
    swallowed: Arc<AtomicBool>,
    /// The answers of this connection are swallowed.
    marked: Arc<AtomicBool>,
}

fn has(bytes: &[u8], word: &[u8]) -> bool {
    bytes.windows(word.len()).any(|part| part == word)
}

impl Link {
    fn carry(self, client: TcpStream, server: TcpStream) {
        let (from_client, to_server) = (client.try_clone().unwrap(), server.try_clone().unwrap());
        let forth = self.clone();
        std::thread::spawn(move || forth.copy(from_client, to_server, true));
        std::thread::spawn(move || self.copy(server, client, false));
    }

    fn copy(&self, mut from: TcpStream, mut to: TcpStream, forth: bool) {
        let mut buffer = vec![0; 64 * 1024];
        while let Ok(count @ 1..) = from.read(&mut buffer) {
            let bytes = &buffer[..count];
            while self.mode.load(Ordering::SeqCst) == HOLD {
                std::thread::sleep(Duration::from_millis(5));
            }
            let next = match self.mode.load(Ordering::SeqCst) {
                SWALLOW => Some(PASS),
                SWALLOW_AND_HOLD => Some(HOLD),
                _ => None,
            };
            if let Some(next) = next.filter(|_| forth && has(bytes, b"COMMIT\0")) {
                self.mode.store(next, Ordering::SeqCst);
                self.marked.store(true, Ordering::SeqCst);
            }
            if !forth && self.marked.load(Ordering::SeqCst) {
                if has(bytes, b"COMMIT\0") {
                    self.swallowed.store(true, Ordering::SeqCst);
                    break;
                }
                continue;
            }
            if to.write_all(bytes).is_err() {
                break;
            }
        }
        let _ = from.shutdown(Shutdown::Both);
        let _ = to.shutdown(Shutdown::Both);
    }
}
