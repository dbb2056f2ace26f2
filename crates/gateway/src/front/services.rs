//! The gRPC services of the port, found by the name in the path.
//!
//! A general router matches patterns, keeps what they matched, clones a boxed service and boxes both
//! bodies again. A gRPC path is `/package.Service/Method` and nothing else, so that a comparison
//! of names is enough, and the services decide about their methods themselves.

use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use axum::Router;
use axum::http::{Request, Response};
use futures::future::{self, BoxFuture, FutureExt};
use tonic::Status;
use tonic::body::Body;
use tonic::server::NamedService;
use tonic::service::Routes;
use tower::{Service, ServiceExt};

use super::forward::{Forward, Unsent};
use super::peer::{Peer, VisitorAddress};
use super::proven::{self, ProvenWait};
use crate::audit::Auditor;
use crate::authentication::StreamProof;
use crate::quota::{CallKind, CallerQuota, Exceeded};

/// What a service answers, as the generated services return it.
type Answer = BoxFuture<'static, Result<Response<Body>, Infallible>>;

/// One service of the port.
pub(crate) struct NamedHandler {
    name: &'static str,
    answer: Box<dyn Fn(Request<Body>) -> Answer + Send + Sync>,
}

impl NamedHandler {
    pub(crate) fn new<S>(service: S) -> Self
    where
        S: Service<Request<Body>, Response = Response<Body>, Error = Infallible, Future = Answer>,
        S: NamedService + Clone + Send + Sync + 'static,
    {
        Self {
            name: S::NAME,
            // A generated service is a shared pointer and its limits, and it is always ready.
            answer: Box::new(move |request| service.clone().call(request)),
        }
    }
}

/// Every service of the port.
#[derive(Clone)]
pub(crate) struct Services {
    handlers: Arc<[NamedHandler]>,
    audit: Option<Arc<Auditor>>,
    /// The way to the gateway that owns a shared store.
    forward: Option<Arc<Forward>>,
}

impl Services {
    pub(crate) fn new(services: Vec<NamedHandler>, audit: Option<Arc<Auditor>>) -> Self {
        Self {
            handlers: services.into(),
            audit,
            forward: None,
        }
    }

    /// The same, while another gateway may own the store and answer the calls.
    pub(crate) fn with_forward(mut self, forward: Option<Arc<Forward>>) -> Self {
        self.forward = forward;
        self
    }

    /// The same services for callers inside the process.
    pub(crate) fn routes(&self) -> Routes {
        let services = self.clone();
        let services = services.map_request(|mut request: Request<axum::body::Body>| {
            // The calls of a page share a connection with nothing. Records still name the visitor.
            if let Some(peer) = request.extensions_mut().remove::<Peer>() {
                request.extensions_mut().insert(VisitorAddress(peer.0));
            }
            request.map(Body::new)
        });
        Routes::from(Router::new().fallback_service(services))
    }

    /// The answer of the service that the path names.
    pub(super) fn answer(&self, mut request: Request<Body>) -> Answer {
        let kind = CallKind::of(request.uri().path());
        if kind == CallKind::Start
            && let Some(quota) = request.extensions().get::<CallerQuota>()
            && let Err(exceeded) = quota.start(Instant::now())
        {
            return self.beyond_quota(request, exceeded);
        }
        let proof = request.extensions_mut().remove::<StreamProof>();
        let Some(proof) = proof else {
            return self.serve(request);
        };
        let audit = self.audit.clone();
        let record = audit.map(|audit| audit.stream_refusal(&request));
        if kind == CallKind::Start && self.forward_of(&request).is_none() {
            // The start itself has an answer, whatever becomes of the proof.
            request
                .extensions_mut()
                .insert(ProvenWait::new(proof, record));
            return self.serve(request);
        }
        let served = self.serve(request);
        proven::until_proof_ends(served, proof, record)
            .map(Ok)
            .boxed()
    }

    /// Refuses a start, and records that.
    fn beyond_quota(&self, request: Request<Body>, exceeded: Exceeded) -> Answer {
        let audit = self.audit.clone();
        async move {
            let status = exceeded.status();
            if let Some(audit) = audit {
                let recorded = audit.refused(&request, status.code(), exceeded.reason);
                recorded.await;
            }
            Ok(status.into_http())
        }
        .boxed()
    }

    /// Answers here, or by the gateway that owns the store. That gateway then writes the audit record.
    fn serve(&self, request: Request<Body>) -> Answer {
        let Some(forward) = self.forward_of(&request).cloned() else {
            return self.serve_here(request);
        };
        let services = self.clone();
        async move {
            match forward.send(request).await {
                Ok(response) => Ok(response),
                Err(unsent) => {
                    let Unsent(request) = *unsent;
                    services.serve_here(request).await
                }
            }
        }
        .boxed()
    }

    /// The way to the gateway that answers a call, if another one does.
    fn forward_of(&self, request: &Request<Body>) -> Option<&Arc<Forward>> {
        let forward = self.forward.as_ref();
        forward.filter(|forward| forward.takes(request))
    }

    fn serve_here(&self, request: Request<Body>) -> Answer {
        match self.find(request.uri().path()) {
            Some(at) => {
                let Some(audit) = self.audit.clone() else {
                    return (self.handlers[at].answer)(request);
                };
                let handlers = self.handlers.clone();
                let served = audit.around(request, async move |request| {
                    let answered = (handlers[at].answer)(request).await;
                    answered.unwrap_or_else(|never| match never {})
                });
                served.map(Ok).boxed()
            }
            None => future::ready(Ok(Status::unimplemented("").into_http())).boxed(),
        }
    }

    fn find(&self, path: &str) -> Option<usize> {
        let (name, _method) = path.strip_prefix('/')?.split_once('/')?;
        self.handlers
            .iter()
            .position(|service| service.name == name)
    }
}

impl Service<Request<Body>> for Services {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Answer;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Answer {
        self.answer(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn services() -> Services {
        let (_, health) = tonic_health::server::health_reporter();
        Services::new(vec![NamedHandler::new(health)], None)
    }

    #[test]
    fn a_service_is_found_by_its_whole_name() {
        let services = services();
        let found = |path| services.find(path).is_some();
        assert!(found("/grpc.health.v1.Health/Check"));
        assert!(found("/grpc.health.v1.Health/NoSuchMethod"));
        for other in [
            "",
            "/",
            "/grpc.health.v1.Health",
            "grpc.health.v1.Health/Check",
            "//grpc.health.v1.Health/Check",
            "/grpc.health.v1.Healthy/Check",
            "/grpc.health.v1/Health/Check",
            "/GRPC.health.v1.Health/Check",
        ] {
            assert!(!found(other), "{other}");
        }
    }

    #[tokio::test]
    async fn an_unknown_service_is_not_implemented() {
        let mut request = Request::new(Body::empty());
        *request.uri_mut() = "/no.such.Service/Method".parse().unwrap();
        let answer = services().call(request).await.unwrap();
        assert_eq!(answer.headers()[Status::GRPC_STATUS], "12");
    }
}
