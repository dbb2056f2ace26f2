//! Offering another revision of its definition to a running execution.

use std::sync::Arc;
use std::time::Instant;

use stateway_engine::AdoptDefinition;
use stateway_model::{DefinitionName, ExecutionName};
use stateway_proto::v1;
use stateway_provider_api::{Call, View};
use tonic::{Code, Status};

use super::super::{definitions, validate};
use super::Executions;
use crate::convert;
use crate::engines::{Chosen, request_key};
use crate::status::Refusal;
use crate::watch::Sighting;

const WHAT: &str = "adopting another revision";

impl Executions {
    pub(super) async fn adopt(
        &self,
        call: Call,
        mut request: v1::AdoptDefinitionRequest,
    ) -> Result<v1::Execution, Status> {
        let name = validate::execution_name("name", &request.name)?;
        let chosen = self.directory.of(&name.provider, WHAT)?;
        let request_id = validate::request_id(&std::mem::take(&mut request.request_id))?;
        let key = request_key(&request_id, "AdoptDefinition", &call, &request);
        let id: Arc<str> = name.id.as_str().into();
        let done = chosen.answer(&call, chosen.engine.was_asked(&key)).await?;
        if !request.etag.is_empty() && !done {
            self.same_etag(&call, &name, &request.etag).await?;
        }
        let adopt = AdoptDefinition {
            revision: revision(&call, chosen, &id, &request.revision).await?,
            actor: call.actor.clone(),
        };
        let adopted = chosen.engine.adopt_definition(id, adopt, key);
        chosen.answer(&call, adopted).await?;
        let asked = Instant::now();
        let execution = self.read(&call, &name, View::Full).await?;
        let answer = Sighting {
            execution,
            version: None,
        };
        self.hub.saw(&answer, asked);
        Ok(convert::execution(answer.execution))
    }

    async fn same_etag(&self, call: &Call, name: &ExecutionName, etag: &str) -> Result<(), Status> {
        let current = self.read(call, name, View::Basic).await?;
        if current.etag() == etag {
            return Ok(());
        }
        let message = format!(
            "the execution has changed meanwhile and is {} now",
            current.sub_state
        );
        Err(Refusal::new(Code::Aborted, "ETAG_MISMATCH", message)
            .with("provider", name.provider.to_string())
            .hint("Read the execution again, then decide.")
            .into())
    }
}

/// The whole revision that the digits stand for; none for the current one.
async fn revision(
    call: &Call,
    chosen: Chosen<'_>,
    id: &Arc<str>,
    digits: &str,
) -> Result<Option<Arc<str>>, Status> {
    if digits.is_empty() {
        return Ok(None);
    }
    definitions::check_revision("revision", digits)?;
    let view = chosen.engine.get(Arc::clone(id));
    let view = chosen.answer(call, view).await?;
    let name = DefinitionName {
        provider: None,
        id: view.definition,
    };
    let found = definitions::find(call, chosen, &name, Some(digits)).await?;
    Ok(Some(found.revision))
}
