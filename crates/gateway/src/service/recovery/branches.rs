//! The branches of an execution's log.

use std::sync::Arc;

use stateway_engine::BranchRecord;
use stateway_model::ExecutionName;
use stateway_proto::v1;
use stateway_provider_api::Call;
use tonic::Status;

use super::super::executions::page_token_refused;
use super::super::validate;
use super::{BRANCHES, Recovery, branch_name};
use crate::convert;

const BRANCHES_PER_PAGE: usize = 100;

impl Recovery {
    pub(super) async fn branches(
        &self,
        call: Call,
        request: v1::ListBranchesRequest,
    ) -> Result<v1::ListBranchesResponse, Status> {
        let name = validate::execution_name("parent", &request.parent)?;
        let chosen = self.directory.of(&name.provider, BRANCHES)?;
        let page_size = validate::page_size(request.page_size, BRANCHES_PER_PAGE)?;
        let purpose = format!("branches|{name}");
        let after = match request.page_token.as_str() {
            "" => None,
            token => Some(
                self.sealer
                    .open::<u32>(&purpose, token)
                    .map_err(page_token_refused)?,
            ),
        };
        let id: Arc<str> = name.id.as_str().into();
        // One more than wanted says whether there is more.
        let asked = chosen.engine.branches(id, after, page_size + 1);
        let mut found = chosen.answer(&call, asked).await?;
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

fn branch(execution: &ExecutionName, from: BranchRecord) -> v1::Branch {
    v1::Branch {
        name: branch_name(execution, from.branch),
        parent: from
            .parent
            .map(|parent| branch_name(execution, parent))
            .unwrap_or_default(),
        cutoff_sequence: from.cutoff,
        current: from.current,
        cause: from.cause,
        create_time: from.created.map(convert::timestamp),
        created_by: from.by.to_string(),
        usage: Some(from.usage)
            .filter(|usage| !usage.is_zero())
            .map(convert::usage),
    }
}
