//! The public API, called in process.

use std::time::Duration;

use stateway_proto::v1::approvals_client::ApprovalsClient;
use stateway_proto::v1::definitions_client::DefinitionsClient;
use stateway_proto::v1::executions_client::ExecutionsClient;
use stateway_proto::v1::providers_client::ProvidersClient;
use stateway_proto::v1::recovery_client::RecoveryClient;
use stateway_proto::v1::triggers_client::TriggersClient;
use stateway_proto::v1::workers_client::WorkersClient;
use tonic::service::Routes;

/// No page waits longer than this for an answer.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// The largest answer taken; the gateway's own limit is below it.
const LARGEST_ANSWER: usize = 64 * 1024 * 1024;

/// Clients over the gateway's own routes: no connection, no serialised loopback.
#[derive(Clone)]
pub(crate) struct Api(Routes);

impl Api {
    pub(crate) fn over(routes: Routes) -> Self {
        Self(routes.prepare())
    }

    pub(crate) fn executions(&self) -> ExecutionsClient<Routes> {
        ExecutionsClient::new(self.0.clone()).max_decoding_message_size(LARGEST_ANSWER)
    }

    pub(crate) fn providers(&self) -> ProvidersClient<Routes> {
        ProvidersClient::new(self.0.clone()).max_decoding_message_size(LARGEST_ANSWER)
    }

    pub(crate) fn definitions(&self) -> DefinitionsClient<Routes> {
        DefinitionsClient::new(self.0.clone()).max_decoding_message_size(LARGEST_ANSWER)
    }

    pub(crate) fn approvals(&self) -> ApprovalsClient<Routes> {
        ApprovalsClient::new(self.0.clone()).max_decoding_message_size(LARGEST_ANSWER)
    }

    pub(crate) fn triggers(&self) -> TriggersClient<Routes> {
        TriggersClient::new(self.0.clone()).max_decoding_message_size(LARGEST_ANSWER)
    }

    pub(crate) fn workers(&self) -> WorkersClient<Routes> {
        WorkersClient::new(self.0.clone()).max_decoding_message_size(LARGEST_ANSWER)
    }

    pub(crate) fn recovery(&self) -> RecoveryClient<Routes> {
        RecoveryClient::new(self.0.clone()).max_decoding_message_size(LARGEST_ANSWER)
    }
}
