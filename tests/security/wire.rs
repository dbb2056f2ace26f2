//! Requests as bytes: HTTP/1.1 as text, HTTP/2 by its library or frame by frame, and every method
//! of the API by the gateway's own description.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use prost::Message;
use prost_types::FileDescriptorSet;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// How long anything may take.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// What a browser is told that may read a response.
pub(super) const ALLOW_ORIGIN: &str = "access-control-allow-origin";

/// The path of every method of every service, those of health and reflection included.
pub(crate) fn every_method() -> Vec<String> {
    let sets = [
        stateway_proto::DESCRIPTORS,
        tonic_health::pb::FILE_DESCRIPTOR_SET,
        tonic_reflection::pb::v1::FILE_DESCRIPTOR_SET,
        tonic_reflection::pb::v1alpha::FILE_DESCRIPTOR_SET,
    ];
    let mut paths = Vec::new();
    for set in sets {
        let set = FileDescriptorSet::decode(set).expect("descriptors");
        for file in &set.file {
            for service in &file.service {
                let service_name = format!("{}.{}", file.package(), service.name());
                let methods = service.method.iter();
                paths.extend(methods.map(|method| format!("/{service_name}/{}", method.name())));
            }
        }
    }
    assert!(paths.len() > 45, "{paths:?}");
    paths
}

/// An answer to a request over HTTP/1.1 or HTTP/2.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(super) status: u16,
    pub(super) headers: BTreeMap<String, String>,
    pub(super) body: Vec<u8>,
}

/// A request.
pub(crate) struct Ask<'a> {
    pub(super) method: &'a str,
    pub(super) path: &'a str,
    pub(super) host: &'a str,
    pub(super) headers: &'a [(&'a str, &'a str)],
    pub(super) body: &'a [u8],
}

impl<'a> Ask<'a> {
    /// A request for this machine.
    pub(crate) fn new(method: &'a str, path: &'a str, headers: &'a [(&'a str, &'a str)]) -> Self {
        Self {
            method,
            path,
            host: "localhost",
            headers,
            body: b"",
        }
    }

    pub(crate) fn body(self, body: &'a [u8]) -> Self {
        Self { body, ..self }
    }

    pub(super) fn host(self, host: &'a str) -> Self {
        Self { host, ..self }
    }

    /// Over HTTP/1.1, on a connection of its own.
    pub(super) async fn http1(&self, address: SocketAddr) -> Answer {
        let mut text = format!(
            "{} {} HTTP/1.1\r\nhost: {}\r\n",
            self.method, self.path, self.host
        );
        for (name, value) in self.headers {
            text += &format!("{name}: {value}\r\n");
        }
        let length = self.body.len();
        text += &format!("connection: close\r\ncontent-length: {length}\r\n\r\n");
        let mut stream = TcpStream::connect(address).await.expect("it listens");
        let exchange = async {
            stream.write_all(text.as_bytes()).await.expect("it reads");
            stream.write_all(self.body).await.expect("it reads");
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer).await.expect("it answers");
            answer
        };
        let answer = tokio::time::timeout(PATIENCE, exchange).await;
        parse(&answer.expect("an answer in time"))
    }

    /// Over HTTP/2, on a connection of its own.
    pub(crate) async fn http2(&self, address: SocketAddr) -> Answer {
        let stream = TcpStream::connect(address).await.expect("it listens");
        let (mut send, connection) = h2::client::handshake(stream).await.expect("HTTP/2");
        tokio::spawn(connection);
        let uri = format!("http://{}{}", self.host, self.path);
        let mut request = http::Request::builder().method(self.method).uri(uri);
        for (name, value) in self.headers {
            request = request.header(*name, *value);
        }
        let exchange = async {
            let request = request.body(()).expect("a request");
            let (response, mut body) = send.send_request(request, false).expect("it is open");
            body.send_data(self.body.to_vec().into(), true)
                .expect("it is open");
            let (head, mut received) = response.await.expect("an answer").into_parts();
            let mut whole = Vec::new();
            while let Some(part) = received.data().await {
                let part = part.expect("a whole answer");
                let _ = received.flow_control().release_capacity(part.len());
                whole.extend_from_slice(&part);
            }
            let mut headers = head.headers;
            let trailers = received.trailers().await.expect("a whole answer");
            headers.extend(trailers.unwrap_or_default());
            Answer {
                status: head.status.as_u16(),
                headers: headers
                    .iter()
                    .map(|(name, value)| {
                        let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
                        (name.to_string(), value)
                    })
                    .collect(),
                body: whole,
            }
        };
        let answer = tokio::time::timeout(PATIENCE, exchange).await;
        answer.expect("an answer in time")
    }
}

fn parse(answer: &[u8]) -> Answer {
    let end = answer.windows(4).position(|at| at == b"\r\n\r\n");
    let end = end.expect("the end of the headers");
    let head = String::from_utf8_lossy(&answer[..end]).into_owned();
    let mut lines = head.lines();
    let status = lines.next().and_then(|line| line.split(' ').nth(1));
    let headers = lines.filter_map(|line| line.split_once(": "));
    Answer {
        status: status.and_then(|code| code.parse().ok()).expect("a status"),
        headers: headers
            .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
            .collect(),
        body: answer[end + 4..].to_vec(),
    }
}

/// A message in the framing of gRPC.
pub(crate) fn framed(message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len()).expect("a short message");
    [&[0], &length.to_be_bytes()[..], message].concat()
}

/// A client that speaks HTTP/2 frame by frame.
pub(super) struct RawClient {
    pub(super) stream: TcpStream,
}

impl RawClient {
    /// Connects and sends the preface and empty settings.
    pub(super) async fn connect(address: SocketAddr) -> Self {
        let mut stream = TcpStream::connect(address).await.expect("it listens");
        let begin = [
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(),
            frame(4, 0, 0, &[]),
        ]
        .concat();
        stream.write_all(&begin).await.expect("it reads");
        Self { stream }
    }

    /// Whether the gateway closes the connection within this time, whatever it sends before.
    pub(super) async fn is_closed_within(&mut self, time: Duration) -> bool {
        let mut buffer = [0; 4_096];
        let reading = async {
            loop {
                match self.stream.read(&mut buffer).await {
                    Ok(0) | Err(_) => return,
                    Ok(_) => {}
                }
            }
        };
        tokio::time::timeout(time, reading).await.is_ok()
    }
}

/// An HTTP/2 frame.
pub(super) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("a short frame");
    let mut frame = length.to_be_bytes()[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}
