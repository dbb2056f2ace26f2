//! HTTP/1.1 over one kept connection, and nothing else: whatever a client library does would be
//! measured along.

use std::net::SocketAddr;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use crate::Outcome;

pub(crate) struct Http {
    stream: BufReader<TcpStream>,
}

impl Http {
    pub(crate) async fn connect(address: SocketAddr) -> Outcome<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let stream = BufReader::new(stream);
        Ok(Self { stream })
    }

    pub(crate) async fn get(&mut self, path: &str) -> Outcome<String> {
        self.exchange("GET", path, "").await
    }

    pub(crate) async fn post(&mut self, path: &str, body: &str) -> Outcome<String> {
        self.exchange("POST", path, body).await
    }

    pub(crate) async fn patch(&mut self, path: &str) -> Outcome<String> {
        self.exchange("PATCH", path, "").await
    }

    /// The body of the answer, if it is a good one.
    async fn exchange(&mut self, method: &str, path: &str, body: &str) -> Outcome<String> {
        let length = body.len();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\naccept: application/json\r\n\
             content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        self.stream.get_mut().write_all(request.as_bytes()).await?;
        let status = self.line().await?;
        let (mut length, mut chunked) = (0, false);
        loop {
            let header = self.line().await?.to_ascii_lowercase();
            match header.split_once(": ") {
                None => break,
                Some(("content-length", value)) => length = value.parse()?,
                Some(("transfer-encoding", "chunked")) => chunked = true,
                Some(_) => {}
            }
        }
        let body = if chunked {
            self.chunks().await?
        } else {
            self.bytes(length).await?
        };
        let body = String::from_utf8(body)?;
        let good = status
            .split(' ')
            .nth(1)
            .is_some_and(|code| code.starts_with('2'));
        if good {
            Ok(body)
        } else {
            Err(format!("{method} {path}: {status}: {body}").into())
        }
    }

    async fn chunks(&mut self) -> Outcome<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let length = usize::from_str_radix(&self.line().await?, 16)?;
            body.extend(self.bytes(length).await?);
            self.line().await?;
            if length == 0 {
                return Ok(body);
            }
        }
    }

    async fn bytes(&mut self, length: usize) -> Outcome<Vec<u8>> {
        let mut bytes = vec![0; length];
        self.stream.read_exact(&mut bytes).await?;
        Ok(bytes)
    }

    async fn line(&mut self) -> Outcome<String> {
        let mut line = String::new();
        self.stream.read_line(&mut line).await?;
        Ok(line.trim_end().to_owned())
    }
}
