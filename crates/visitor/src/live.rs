//! The live updates of a page, as they come.

use std::net::SocketAddr;
use std::time::Instant;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::PATIENCE;

/// A stream of live updates.
#[derive(Debug)]
pub struct Live {
    stream: TcpStream,
    /// Everything that has come.
    pub heard: String,
    /// How much of it [`Live::line`] has passed.
    passed: usize,
}

impl Live {
    pub(crate) async fn open(at: SocketAddr, head: &str) -> Self {
        let mut stream = TcpStream::connect(at).await.expect("it listens");
        let request = format!("{head}\r\n");
        stream.write_all(request.as_bytes()).await.expect("sent");
        Self {
            stream,
            heard: String::new(),
            passed: 0,
        }
    }

    /// Reads until everything that has come satisfies.
    pub async fn until(&mut self, satisfies: impl Fn(&str) -> bool) {
        let begun = Instant::now();
        while !satisfies(&self.heard) {
            self.read(begun).await;
        }
    }

    /// Reads until a line has this text, and returns the line. The next search begins after it.
    pub async fn line(&mut self, text: &str) -> String {
        self.line_that(|line| line.contains(text)).await
    }

    /// Reads until a line is as wanted, and returns the line. The next search begins after it.
    pub async fn line_that(&mut self, is_wanted: impl Fn(&str) -> bool) -> String {
        let begun = Instant::now();
        loop {
            while let Some(length) = self.heard[self.passed..].find('\n') {
                let line = &self.heard[self.passed..=self.passed + length];
                self.passed += length + 1;
                if is_wanted(line) {
                    return line.to_owned();
                }
            }
            self.read(begun).await;
        }
    }

    /// Waits for the end of the stream.
    pub async fn ended(&mut self) {
        let mut rest = Vec::new();
        let read = tokio::time::timeout(PATIENCE, self.stream.read_to_end(&mut rest));
        read.await.expect("an end in time").expect("a clean end");
    }

    async fn read(&mut self, begun: Instant) {
        let mut buffer = vec![0; 64 * 1_024];
        let left = PATIENCE.saturating_sub(begun.elapsed());
        let read = tokio::time::timeout(left, self.stream.read(&mut buffer)).await;
        let read = read.unwrap_or_else(|_| panic!("only {} came", self.heard));
        let count = read.expect("a stream");
        assert!(count > 0, "the stream ended after {}", self.heard);
        let text = String::from_utf8_lossy(&buffer[..count]);
        self.heard.push_str(&text);
    }
}
