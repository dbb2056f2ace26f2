//! A server without a gRPC library: it describes itself, and sends the bytes that a test wants.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use h2::Reason;
use http::{HeaderMap, HeaderValue, Response};
use prost::Message;
use stateway_provider_api::table::MEMORY;
use stateway_wire::v1;
use tokio::net::{UnixListener, UnixStream};

/// What the server does with a call.
#[derive(Clone)]
pub(super) enum Reply {
    Reset(Reason),
    /// The frames of the answer.
    Body(Bytes),
}

/// The reply to each method of the service Provider.
pub(super) type Replying = Arc<dyn Fn(&str) -> Reply + Send + Sync>;

/// A message as gRPC frames it.
pub(super) fn framed(message: &impl Message) -> Bytes {
    frame(&message.encode_to_vec())
}

/// Bytes in a frame of gRPC.
pub(super) fn frame(body: &[u8]) -> Bytes {
    let mut frame = vec![0];
    frame.extend(u32::try_from(body.len()).unwrap().to_be_bytes());
    frame.extend(body);
    frame.into()
}

fn description() -> v1::DescribeResponse {
    v1::DescribeResponse {
        name: "raw".into(),
        min_contract_version: 1,
        max_contract_version: 1,
        instance_id: "one".into(),
        state_table: MEMORY.to_owned(),
        capabilities: stateway_wire::capability_names(stateway_wire::CAPABILITIES),
        ..v1::DescribeResponse::default()
    }
}

/// Serves one connection.
pub(super) async fn raw(stream: UnixStream, replying: Replying) {
    let mut connection = h2::server::handshake(stream).await.unwrap();
    while let Some(Ok((request, mut respond))) = connection.accept().await {
        let method = request.uri().path().rsplit('/').next();
        let reply = match method.unwrap_or_default() {
            "Describe" => Reply::Body(framed(&description())),
            method => replying(method),
        };
        let mut body = match reply {
            Reply::Body(body) => body,
            Reply::Reset(reason) => {
                respond.send_reset(reason);
                continue;
            }
        };
        let head = Response::builder().header("content-type", "application/grpc");
        let mut stream = respond
            .send_response(head.body(()).unwrap(), false)
            .unwrap();
        tokio::spawn(async move {
            while !body.is_empty() {
                stream.reserve_capacity(body.len());
                let ready = std::future::poll_fn(|context| stream.poll_capacity(context)).await;
                let Some(Ok(ready)) = ready else { return };
                stream
                    .send_data(body.split_to(ready.min(body.len())), false)
                    .ok();
            }
            let mut trailers = HeaderMap::new();
            trailers.insert("grpc-status", HeaderValue::from_static("0"));
            stream.send_trailers(trailers).ok();
        });
    }
}

/// Serves every connection. Returns the number of accepted ones.
pub(super) fn serve_raw(socket: &Path, replying: Replying) -> Arc<AtomicUsize> {
    accept(socket, move |stream| {
        tokio::spawn(raw(stream, Arc::clone(&replying)));
    })
}

/// Accepts connections. Returns their number.
pub(super) fn accept(
    socket: &Path,
    mut serve: impl FnMut(UnixStream) + Send + 'static,
) -> Arc<AtomicUsize> {
    let listener = UnixListener::bind(socket).unwrap();
    let accepted = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&accepted);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            counted.fetch_add(1, Ordering::Relaxed);
            serve(stream);
        }
    });
    accepted
}
