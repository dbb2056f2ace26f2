//! `stateway.provider.v1.Identity`.

use std::sync::Arc;

use stateway_wire::v1::identity_server::Identity;
use stateway_wire::{CONTRACT_VERSION, capability_names, convert, table_text, v1};
use tonic::{Request, Response, Status};

use crate::{About, Source};

pub(crate) struct IdentityService {
    pub(crate) source: Arc<dyn Source>,
    pub(crate) about: About,
}

#[tonic::async_trait]
impl Identity for IdentityService {
    async fn describe(
        &self,
        _: Request<v1::DescribeRequest>,
    ) -> Result<Response<v1::DescribeResponse>, Status> {
        let description = self.source.provider().describe();
        if description.generation == 0 {
            return Err(Status::unavailable(
                "the provider has not reported its capabilities yet",
            ));
        }
        Ok(Response::new(v1::DescribeResponse {
            name: self.about.name.clone(),
            version: self.about.version.clone(),
            min_contract_version: CONTRACT_VERSION,
            max_contract_version: CONTRACT_VERSION,
            capabilities: capability_names(description.capabilities),
            instance_id: self.source.instance_id(),
            start_time: Some(convert::timestamp(self.source.start_time())),
            state_table: table_text(&description.table),
        }))
    }
}
