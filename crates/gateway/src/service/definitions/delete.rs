//! Deleting a portable definition on every provider.

use stateway_access::Permission;
use stateway_proto::v1;
use stateway_provider_api::{DeletePortableRequest, ErrorKind, Verb};
use tonic::Status;

use super::super::{triggers, validate};
use super::Definitions;
use crate::access::ApiCall;
use crate::convert;
use crate::upstream::Topic;

impl Definitions {
    /// Every provider has the same portable definitions. The provider with the most open executions is
    /// asked first, so that its refusal leaves the others as they are.
    pub(super) async fn delete(
        &self,
        call: ApiCall,
        request: v1::DeleteDefinitionRequest,
    ) -> Result<v1::DeleteDefinitionResponse, Status> {
        let upstreams = self
            .directory
            .all(&call.access, Topic::PORTABLE_DEFINITIONS)?;
        let name = triggers::portable(&request.name)?;
        for upstream in &upstreams {
            call.require_definition(Permission::Define, &upstream.id, &name)?;
        }
        let request_id = validate::request_id(&call, &request.request_id)?;
        let mut ordered = Vec::new();
        for upstream in upstreams {
            let guarded = upstream.within(&call);
            let open = guarded
                .portable_definitions(Verb::PortableDefinitions, |definitions, call| {
                    definitions.open_executions(call, &name.id)
                });
            ordered.push((open.await?, upstream));
        }
        ordered.sort_by_key(|(open, _)| std::cmp::Reverse(*open));
        let mut answer = v1::DeleteDefinitionResponse::default();
        let (mut found, mut missing) = (false, None);
        for (_, upstream) in ordered {
            let delete = DeletePortableRequest {
                name: name.id.to_string(),
                keep_running: request.keep_running,
                request_id: request_id.clone(),
            };
            let guarded = upstream.within(&call);
            let deleted = guarded
                .portable_definitions(Verb::DeletePortable, |definitions, call| {
                    definitions.delete_portable(call, delete)
                });
            match deleted.await {
                Ok(open) => {
                    found = true;
                    answer.open_execution_count += convert::int64(open);
                }
                Err(failed) if failed.error.kind == ErrorKind::NotFound => missing = Some(failed),
                Err(failed) => return Err(failed.into()),
            }
        }
        match missing.filter(|_| !found) {
            Some(missing) => Err(missing.into()),
            None => Ok(answer),
        }
    }
}
