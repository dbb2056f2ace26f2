//! Repairing an execution.

use stateway_access::Permission;
use stateway_proto::v1;
use stateway_provider_api::{Precondition, RecoverRequest, Verb, View};
use tonic::{Code, Status};

use super::super::validate;
use super::Recovery;
use super::verify::finding;
use crate::access::ApiCall;
use crate::branch::branch_name;
use crate::convert;
use crate::upstream::Topic;

impl Recovery {
    pub(super) async fn recover(
        &self,
        call: ApiCall,
        request: v1::RecoverExecutionRequest,
    ) -> Result<v1::RecoverExecutionResponse, Status> {
        let name = validate::execution_name("name", &request.name)?;
        let upstream = self
            .directory
            .of(&call.access, &name.provider, Topic::RECOVERY)?;
        let authorized = self.executions.authorize(&call, &name, Permission::Operate);
        authorized.await?;
        let guarded = upstream.until_deadline(&call);
        let mut recover = RecoverRequest {
            id: name.id.clone(),
            repair_only: request.repair_only,
            expected: None,
            precondition: Precondition::None,
            request_id: validate::request_id(&call, &request.request_id)?,
        };
        if !request.etag.is_empty() {
            // The engine has to find what the etag was compared with.
            let found = guarded.recovery(Verb::Verify, |recovery, call| {
                recovery.verify(call, &name.id)
            });
            let found = found.await?;
            let compared = self.executions.precondition(&call, &name, &request.etag);
            recover.precondition = match compared.await {
                // An execution that cannot be read has no etag; the verification decides.
                Err(status) if matches!(status.code(), Code::DataLoss | Code::Internal) => {
                    Precondition::Holds
                }
                compared => compared?,
            };
            if recover.precondition == Precondition::Holds {
                recover.expected = Some((found.branch, found.sequence));
            }
        }
        let recovered = guarded.recovery(Verb::Recover, |recovery, call| {
            recovery.recover(call, recover)
        });
        let recovered = recovered.await?;
        let shown = self.executions.read(&call, &name, View::Full).await?;
        Ok(v1::RecoverExecutionResponse {
            execution: Some(call.show_written(shown)),
            repaired: recovered.repaired.into_iter().map(finding).collect(),
            branch: match recovered.new_branch {
                Some(branch) => branch_name(&name, branch),
                None => String::new(),
            },
            repeated_steps: recovered.repeated_steps,
            previous_branch: branch_name(&name, recovered.previous_branch),
            cutoff_sequence: convert::int64(recovered.cutoff),
        })
    }
}
