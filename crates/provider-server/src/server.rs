//! The server: its services, and how they are served.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use stateway_provider_api::Provider;
use stateway_wire::MAX_MESSAGE_BYTES;
use stateway_wire::v1::identity_server::IdentityServer;
use stateway_wire::v1::provider_server::ProviderServer as GeneratedServer;
use tonic::Request;
use tonic::service::{InterceptorLayer, Routes};
use tonic::transport::{Error, Server};

use crate::identity::IdentityService;
use crate::provider::ProviderService;
use crate::stop::Stop;
use crate::{Fixed, Listener, Source};

/// Maximum number of open calls and watches per gateway. A gateway uses one connection, with one stream
/// for each execution that is watched on its own.
const MAX_STREAMS: u32 = 100_000;

/// How long open calls may take after the server was asked to stop.
const GRACE: Duration = Duration::from_secs(10);

/// What a provider program calls itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct About {
    /// Its name, 1 to 64 bytes.
    pub name: String,
    /// Its version; at most 64 bytes, may be empty.
    pub version: String,
}

impl About {
    /// A program of this name and version.
    #[must_use]
    pub fn new(name: impl Into<String>, version: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            version: version.into(),
        }
    }
}

/// A provider that gateways in other processes can call.
pub struct ProviderServer {
    source: Arc<dyn Source>,
    about: About,
}

impl ProviderServer {
    /// Serves this provider.
    #[must_use]
    pub fn new(provider: Arc<dyn Provider>, about: About) -> Self {
        Self::of(Arc::new(Fixed::new(provider)), about)
    }

    /// Serves whichever provider the source names.
    #[must_use]
    pub fn of(source: Arc<dyn Source>, about: About) -> Self {
        Self { source, about }
    }

    /// The services Identity and Provider, and the standard health service. Further services, for example
    /// reflection, can be added to them.
    #[must_use]
    pub fn routes(&self) -> Routes {
        let identity = IdentityService {
            source: Arc::clone(&self.source),
            about: self.about.clone(),
        };
        let provider = ProviderService {
            source: Arc::clone(&self.source),
        };
        let provider = GeneratedServer::new(provider)
            .max_decoding_message_size(MAX_MESSAGE_BYTES)
            .max_encoding_message_size(MAX_MESSAGE_BYTES);
        // The overall health is SERVING as long as the server runs.
        let (_, health) = tonic_health::server::health_reporter();
        Routes::new(IdentityServer::new(identity))
            .add_service(provider)
            .add_service(health)
    }
}

/// Serves until the future ends. Then open watches end with the code UNAVAILABLE, so that the gateway opens
/// them at the process that comes next, and open calls have ten seconds to finish. A unix socket is removed
/// immediately.
///
/// # Errors
/// The transport fails.
pub async fn serve(
    listener: Listener,
    routes: Routes,
    shutdown: impl Future<Output = ()>,
) -> Result<(), Error> {
    let (stopping, stop) = Stop::new();
    let add_stop = InterceptorLayer::new(move |mut request: Request<()>| {
        request.extensions_mut().insert(stop.clone());
        Ok(request)
    });
    let stopped = stopping.subscribe();
    let own_socket = listener.own_socket();
    let shutdown = async move {
        shutdown.await;
        // The next process can listen before the last call of this one has ended.
        if let Some(own_socket) = own_socket {
            own_socket.remove();
        }
        stopping.send_replace(true);
    };
    let served = Server::builder()
        .max_concurrent_streams(MAX_STREAMS)
        .layer(add_stop)
        .add_routes(routes)
        .serve_with_incoming_shutdown(listener.incoming().boxed(), shutdown);
    let grace = async {
        Stop(stopped).requested().await;
        tokio::time::sleep(GRACE).await;
    };
    tokio::select! {
        served = served => served,
        () = grace => Ok(()),
    }
}
