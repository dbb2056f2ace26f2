//! The few messages of Temporal's API that the benchmark sends itself. Answers are decoded and dropped.

use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};
use tonic_prost::ProstCodec;

use crate::Outcome;

#[derive(Clone, PartialEq, prost::Message)]
struct Execution {
    #[prost(string, tag = "1")]
    workflow_id: String,
    #[prost(string, tag = "2")]
    run_id: String,
}

/// The common beginning of both requests.
#[derive(Clone, PartialEq, prost::Message)]
struct AboutExecution {
    #[prost(string, tag = "1")]
    namespace: String,
    #[prost(message, optional, tag = "2")]
    execution: Option<Execution>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Answer {}

/// The server without the gateway.
#[derive(Clone)]
pub(crate) struct Frontend {
    channel: Channel,
}

impl Frontend {
    pub(crate) async fn connect(address: &str) -> Outcome<Self> {
        let endpoint = Endpoint::from_shared(address.to_owned())?.tcp_nodelay(true);
        Ok(Self {
            channel: endpoint.connect().await?,
        })
    }

    pub(super) async fn describe(&self, id: &str) -> Outcome<()> {
        self.send("DescribeWorkflowExecution", id).await
    }

    pub(super) async fn terminate(&self, id: &str) -> Outcome<()> {
        self.send("TerminateWorkflowExecution", id).await
    }

    pub(super) async fn send(&self, method: &str, id: &str) -> Outcome<()> {
        let message = AboutExecution {
            namespace: "default".to_owned(),
            execution: Some(Execution {
                workflow_id: id.to_owned(),
                run_id: String::new(),
            }),
        };
        self.call(method, message).await
    }

    /// Sends any request.
    pub(crate) async fn call<M: prost::Message + 'static>(
        &self,
        method: &str,
        message: M,
    ) -> Outcome<()> {
        let path = format!("/temporal.api.workflowservice.v1.WorkflowService/{method}");
        let mut grpc = Grpc::new(self.channel.clone());
        grpc.ready().await?;
        let codec = ProstCodec::<M, Answer>::default();
        let path: PathAndQuery = path.parse()?;
        grpc.unary(tonic::Request::new(message), path, codec)
            .await?;
        Ok(())
    }
}
