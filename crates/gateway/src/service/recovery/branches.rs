//! The branches of an execution's log.

use stateway_access::Permission;
use stateway_model::ExecutionName;
use stateway_proto::v1;
use stateway_provider_api::{Branch, Verb};
use tonic::Status;

use super::super::executions::page_token_refused;
use super::super::validate;
use super::Recovery;
use crate::access::ApiCall;
use crate::branch::branch_name;
use crate::convert;
use crate::upstream::Topic;

const BRANCHES_PER_PAGE: usize = 100;

impl Recovery {
    pub(super) async fn branches(
        &self,
        call: ApiCall,
        request: v1::ListBranchesRequest,
    ) -> Result<v1::ListBranchesResponse, Status> {
        let name = validate::execution_name("parent", &request.parent)?;
        let upstream = self
            .directory
            .of(&call.access, &name.provider, Topic::EVENT_LOG)?;
        let authorized = self.executions.authorize(&call, &name, Permission::Read);
        authorized.await?;
        let page_size = validate::page_size(request.page_size, BRANCHES_PER_PAGE)?;
        let purpose = call.access.bound(format!("branches|{name}"));
        let after = match request.page_token.as_str() {
            "" => None,
            token => Some(
                self.sealer
                    .open::<u32>(&purpose, token)
                    .map_err(page_token_refused)?,
            ),
        };
        let guarded = upstream.within(&call);
        // One more than wanted shows whether there is more.
        let found = guarded.event_log(Verb::Branches, |log, call| {
            log.branches(call, &name.id, after, page_size + 1)
        });
        let mut found = found.await?;
        let more = found.len() > page_size;
        found.truncate(page_size);
        let last = found.last().filter(|_| more).map(|last| last.branch);
        Ok(v1::ListBranchesResponse {
            branches: found
                .into_iter()
                .map(|found| branch(&name, found))
                .collect(),
            next_page_token: last
                .map(|last| self.sealer.seal(&purpose, last))
                .unwrap_or_default(),
        })
    }
}

fn branch(execution: &ExecutionName, from: Branch) -> v1::Branch {
    v1::Branch {
        name: branch_name(execution, from.branch),
        parent_branch: from
            .parent
            .map(|parent| branch_name(execution, parent))
            .unwrap_or_default(),
        cutoff_sequence: convert::int64(from.cutoff),
        current: from.current,
        cause: from.cause,
        create_time: from.create_time.map(convert::timestamp),
        created_by: from.created_by,
        usage: Some(from.usage)
            .filter(|usage| !usage.is_zero())
            .map(convert::usage),
    }
}
