//! A watch on approvals reconnects automatically, and reports when it starts again from the beginning.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use futures::future::BoxFuture;
use futures::stream::{self, BoxStream, StreamExt};
use stateway_client::v1;
use stateway_client::v1::approvals_server::{Approvals, ApprovalsServer};
use stateway_client::v1::watch_approvals_response::Kind;
use stateway_client::{Change, Client, Code, WatchApprovals};
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::Server;
use tonic::{Request, Response, Status};

use crate::fake::Proxy;

type Message = Result<v1::WatchApprovalsResponse, Status>;

/// One list per stream; each list keeps its stream open.
#[derive(Clone, Default)]
struct Fake {
    streams: Arc<Mutex<VecDeque<Vec<Message>>>>,
    asked: Arc<Mutex<Vec<v1::WatchApprovalsRequest>>>,
}

/// Methods that no test asks for.
macro_rules! not_scripted {
    ($($method:ident($request:ident) -> $answer:ident;)+) => { $(
        // As the attribute on the trait writes it: it does not reach into this macro.
        fn $method<'s, 'a>(
            &'s self,
            _: Request<v1::$request>,
        ) -> BoxFuture<'a, Result<Response<v1::$answer>, Status>>
        where
            's: 'a,
            Self: 'a,
        {
            Box::pin(async { Err(Status::unimplemented("not scripted")) })
        }
    )+ };
}

#[tonic::async_trait]
impl Approvals for Fake {
    type WatchApprovalsStream = BoxStream<'static, Message>;

    async fn watch_approvals(
        &self,
        request: Request<v1::WatchApprovalsRequest>,
    ) -> Result<Response<Self::WatchApprovalsStream>, Status> {
        self.asked.lock().unwrap().push(request.into_inner());
        let messages = self.streams.lock().unwrap().pop_front();
        let messages = messages.ok_or_else(|| Status::invalid_argument("no further stream"))?;
        let messages = stream::iter(messages).chain(stream::pending());
        Ok(Response::new(messages.boxed()))
    }

    not_scripted! {
        list_approvals(ListApprovalsRequest) -> ListApprovalsResponse;
        get_approval(GetApprovalRequest) -> Approval;
        decide_approval(DecideApprovalRequest) -> Approval;
        list_escalations(ListEscalationsRequest) -> ListEscalationsResponse;
        get_escalation(GetEscalationRequest) -> Escalation;
        resolve_escalation(ResolveEscalationRequest) -> Escalation;
    }
}

async fn serve(fake: &Fake) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let serving = Server::builder().add_service(ApprovalsServer::new(fake.clone()));
    tokio::spawn(serving.serve_with_incoming(TcpListenerStream::new(listener)));
    address
}

fn message(kind: Kind, name: &str) -> Message {
    let approval = v1::Approval {
        name: name.into(),
        ..Default::default()
    };
    Ok(v1::WatchApprovalsResponse {
        kind: kind.into(),
        approval: (!name.is_empty()).then_some(approval),
        unreachable: Vec::new(),
    })
}

/// A change as one word, so that whole sequences can be compared.
fn short(change: &Change<v1::Approval>) -> String {
    match change {
        Change::Added(approval) => format!("added {}", approval.name),
        Change::Modified(approval) => format!("modified {}", approval.name),
        Change::Removed(approval) => format!("removed {}", approval.name),
        Change::Bookmark { .. } => "bookmark".into(),
        Change::Resync => "resync".into(),
        Change::Interrupted(_) => "interrupted".into(),
    }
}

#[tokio::test]
async fn after_a_cut_connection_the_pending_ones_come_again_and_the_reader_knows() {
    let fake = Fake::default();
    *fake.streams.lock().unwrap() = VecDeque::from([
        vec![message(Kind::Added, "a"), message(Kind::Bookmark, "")],
        vec![
            message(Kind::Added, "b"),
            message(Kind::Bookmark, ""),
            message(Kind::Removed, "b"),
        ],
    ]);
    let proxy = Proxy::to(serve(&fake).await).await;
    let client = Client::connect(&format!("http://{}", proxy.address))
        .await
        .unwrap();
    let mut watch = client.watch_approvals(WatchApprovals::new("providers/-").filter("role = ops"));
    let mut changes = Vec::new();
    for _ in 0..2 {
        changes.push(short(&watch.next().await.unwrap().unwrap()));
    }
    proxy.cut();
    for _ in 0..5 {
        changes.push(short(&watch.next().await.unwrap().unwrap()));
    }
    assert_eq!(
        changes,
        [
            "added a",
            "bookmark",
            "interrupted",
            "resync",
            "added b",
            "bookmark",
            "removed b"
        ]
    );
    assert_eq!(watch.cursor(), "");
    let asked = fake.asked.lock().unwrap();
    assert_eq!(asked.len(), 2);
    assert!(asked.iter().all(|one| one.filter == "role = ops"));
}

#[tokio::test]
async fn a_refusal_ends_the_watch() {
    let address = format!("http://{}", serve(&Fake::default()).await);
    let client = Client::connect(&address).await.unwrap();
    let mut watch = client.watch_approvals(WatchApprovals::new("providers/-"));
    let refused = watch.next().await.unwrap().unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
    assert!(watch.next().await.is_none());
}
