//! Mending an execution.

use std::sync::Arc;

use stateway_engine::recovery::Recover;
use stateway_model::ExecutionName;
use stateway_proto::v1;
use stateway_provider_api::{Call, View};
use tonic::{Code, Status};

use super::super::validate;
use super::verify::finding;
use super::{RECOVERY, Recovery, branch_name};
use crate::convert;
use crate::engines::request_key;
use crate::status::Refusal;

impl Recovery {
    pub(super) async fn recover(
        &self,
        call: Call,
        mut request: v1::RecoverExecutionRequest,
    ) -> Result<v1::RecoverExecutionResponse, Status> {
        let name = validate::execution_name("name", &request.name)?;
        let chosen = self.directory.of(&name.provider, RECOVERY)?;
        let request_id = validate::request_id(&std::mem::take(&mut request.request_id))?;
        let key = request_key(&request_id, "RecoverExecution", &call, &request);
        let id: Arc<str> = name.id.as_str().into();
        let mut ask = Recover {
            repair_only: request.repair_only,
            ..Recover::default()
        };
        let done = chosen.engine.was_asked(&key);
        let done = chosen.answer(&call, done).await?;
        if !request.etag.is_empty() && !done {
            // What the etag was checked against is what the engine then has to find.
            let verdict = chosen
                .answer(&call, chosen.engine.verify(id.clone()))
                .await?;
            self.check_etag(&call, &name, &request.etag).await?;
            ask.expected = Some((verdict.branch, verdict.sequence));
        }
        let mended = chosen.engine.recover(id, ask, Arc::clone(&call.actor), key);
        let mended = chosen.answer(&call, mended).await?;
        let shown = self.executions.read(&call, &name, View::Full).await?;
        Ok(v1::RecoverExecutionResponse {
            execution: Some(convert::execution(shown)),
            repaired: mended.repaired.into_iter().map(finding).collect(),
            branch: if mended.branched {
                branch_name(&name, mended.view.branch)
            } else {
                String::new()
            },
            repeated_steps: mended.again.iter().map(ToString::to_string).collect(),
            previous_branch: branch_name(&name, mended.from),
            cutoff_sequence: mended.cutoff,
        })
    }

    async fn check_etag(
        &self,
        call: &Call,
        name: &ExecutionName,
        etag: &str,
    ) -> Result<(), Status> {
        let current = match self.executions.read(call, name, View::Basic).await {
            Ok(current) => current,
            // One that cannot be read has no etag to compare; what was verified has to be there.
            Err(status) if matches!(status.code(), Code::DataLoss | Code::Internal) => {
                return Ok(());
            }
            Err(status) => return Err(status),
        };
        if current.etag() == etag {
            return Ok(());
        }
        let message = format!("it has changed meanwhile and is {} now", current.sub_state);
        Err(Refusal::new(Code::Aborted, "ETAG_MISMATCH", message)
            .with("provider", name.provider.to_string())
            .hint("Read it again, then decide.")
            .into())
    }
}
