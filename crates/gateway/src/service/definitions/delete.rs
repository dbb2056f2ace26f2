//! Deleting a definition on every engine.

use std::sync::Arc;

use stateway_engine::{DeleteDefinition, RequestKey};
use stateway_model::DefinitionName;
use stateway_proto::v1;
use stateway_provider_api::Call;
use tonic::{Code, Status};

use super::super::{triggers, validate};
use super::{Definitions, WHAT};
use crate::engines::{Chosen, request_key};

impl Definitions {
    /// Engines have the same definitions. The one with open executions answers first, so that its
    /// refusal leaves the others as they are.
    pub(super) async fn delete(
        &self,
        call: Call,
        mut request: v1::DeleteDefinitionRequest,
    ) -> Result<v1::DeleteDefinitionResponse, Status> {
        let engines = self.directory.all(WHAT)?;
        let name = triggers::portable(&request.name)?;
        let id = validate::request_id(&std::mem::take(&mut request.request_id))?;
        let key = request_key(&id, "DeleteDefinition", &call, &request);
        let mut ordered = Vec::new();
        for chosen in engines {
            let open = chosen.engine.open_executions(Arc::clone(&name.id));
            ordered.push((chosen.answer(&call, open).await?, chosen));
        }
        ordered.sort_by_key(|(open, _)| std::cmp::Reverse(*open));
        let mut answer = v1::DeleteDefinitionResponse::default();
        let (mut found, mut missing) = (false, None);
        for (_, chosen) in ordered {
            match delete_on(&call, chosen, &name, (&key, request.keep_running)).await {
                Ok(open) => {
                    found = true;
                    answer.open_executions += open;
                }
                Err(status) if status.code() == Code::NotFound => missing = Some(status),
                Err(status) => return Err(status),
            }
        }
        match missing.filter(|_| !found) {
            Some(missing) => Err(missing),
            None => Ok(answer),
        }
    }
}

async fn delete_on(
    call: &Call,
    chosen: Chosen<'_>,
    name: &DefinitionName,
    (key, keep_running): (&RequestKey, bool),
) -> Result<u64, Status> {
    let delete = DeleteDefinition {
        name: Arc::clone(&name.id),
        keep_running,
        request: key.clone(),
    };
    let deleted = chosen.engine.delete_definition(delete);
    Ok(chosen.answer(call, deleted).await?.open_executions)
}
