//! Unary gRPC calls over one kept HTTP/2 connection, and nothing else: whatever a client library does would be measured
//! along.

use bytes::{BufMut as _, Bytes, BytesMut};
use h2::client::SendRequest;
use http::{HeaderMap, HeaderValue, Request, Uri, header};
use prost::Message;
use tokio::net::TcpStream;

use crate::Outcome;

/// The bytes that the gateway may send before they are read.
const WINDOW: u32 = 1024 * 1024;

/// A connection. Clones share it.
#[derive(Clone)]
pub(crate) struct Grpc {
    send: SendRequest<Bytes>,
    url: String,
}

/// A method and where it is.
#[derive(Clone)]
pub(crate) struct Method(Uri);

impl Grpc {
    pub(crate) async fn connect(url: &str) -> Outcome<Self> {
        let stream = TcpStream::connect(url.trim_start_matches("http://")).await?;
        stream.set_nodelay(true)?;
        let handshake = h2::client::Builder::new()
            .initial_window_size(WINDOW)
            .initial_connection_window_size(WINDOW)
            .handshake(stream);
        let (send, connection) = handshake.await?;
        // Ends with the last handle.
        tokio::spawn(connection);
        let url = url.to_owned();
        Ok(Self { send, url })
    }

    /// A method such as `Executions/StartExecution`.
    pub(crate) fn method(&self, name: &str) -> Outcome<Method> {
        Ok(Method(format!("{}/stateway.v1.{name}", self.url).parse()?))
    }

    pub(crate) async fn call<Q: Message, A: Message + Default>(
        &self,
        method: &Method,
        message: &Q,
    ) -> Outcome<A> {
        let mut send = self.send.clone().ready().await?;
        let mut request = Request::post(method.0.clone()).body(())?;
        let headers = request.headers_mut();
        let grpc = HeaderValue::from_static("application/grpc");
        headers.insert(header::CONTENT_TYPE, grpc);
        headers.insert(header::TE, HeaderValue::from_static("trailers"));
        let (response, mut body) = send.send_request(request, false)?;
        body.send_data(framed(message)?, true)?;
        let response = response.await?;
        check(response.headers())?;
        let mut body = response.into_body();
        let mut answer = BytesMut::new();
        while let Some(data) = body.data().await {
            let data = data?;
            body.flow_control().release_capacity(data.len())?;
            answer.extend_from_slice(&data);
        }
        if let Some(trailers) = body.trailers().await? {
            check(&trailers)?;
        }
        let message = answer.get(PREFIX..).ok_or("an answer without a message")?;
        Ok(A::decode(message)?)
    }
}

/// One byte for the compression, four for the length.
const PREFIX: usize = 5;

fn framed<Q: Message>(message: &Q) -> Outcome<Bytes> {
    let length = message.encoded_len();
    let mut frame = BytesMut::with_capacity(PREFIX + length);
    frame.put_u8(0);
    frame.put_u32(u32::try_from(length)?);
    message.encode(&mut frame)?;
    Ok(frame.freeze())
}

fn check(headers: &HeaderMap) -> Outcome<()> {
    match headers.get("grpc-status") {
        Some(status) if status != "0" => {
            let message = headers.get("grpc-message");
            Err(format!("status {status:?}: {message:?}").into())
        }
        _ => Ok(()),
    }
}
