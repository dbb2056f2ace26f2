//! Offering another revision of its definition to a running execution.

use stateway_proto::v1;
use stateway_provider_api::{AdoptRequest, Call, Verb, View};
use tonic::Status;

use super::super::{definitions, validate};
use super::Executions;
use crate::convert;
use crate::upstream::Topic;
use crate::watch::Sighting;

impl Executions {
    pub(super) async fn adopt(
        &self,
        call: Call,
        request: v1::AdoptDefinitionRequest,
    ) -> Result<v1::Execution, Status> {
        let name = validate::execution_name("name", &request.name)?;
        let upstream = self
            .directory
            .of(&name.provider, Topic::PORTABLE_DEFINITIONS)?;
        let request_id = validate::request_id(&request.request_id)?;
        let revision = Some(request.revision).filter(|digits| !digits.is_empty());
        if let Some(digits) = &revision {
            definitions::check_revision("revision", digits)?;
        }
        let adopt = AdoptRequest {
            precondition: self.precondition(&call, &name, &request.etag).await?,
            id: name.id.clone(),
            revision,
            request_id,
        };
        let guarded = upstream.within(&call);
        let adopted = guarded.portable_definitions(Verb::AdoptDefinition, |definitions, call| {
            definitions.adopt(call, adopt)
        });
        adopted.await?;
        let asked = upstream.asked();
        let execution = self.read(&call, &name, View::Full).await?;
        let answer = Sighting {
            execution,
            version: None,
        };
        self.hub.saw(&answer, asked);
        Ok(convert::execution(answer.execution))
    }
}
