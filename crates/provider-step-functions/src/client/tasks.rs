//! Tasks that wait for an answer.

use stateway_provider_api::Result;

use super::{Ask, Client, Turn};
use crate::quota::Api;

/// Who a history says has taken a task.
const WORKER: &str = "stateway";

impl Client {
    /// The next task of an activity: its token and its input. The service waits for one for a
    /// minute; then there is none.
    pub(crate) async fn next_task(
        &self,
        ask: Ask<'_>,
        activity: &str,
    ) -> Result<Option<(String, String)>> {
        let told = self
            .ask(ask, Turn::Of(Api::GetActivityTask), async |sdk| {
                let request = sdk.get_activity_task().activity_arn(activity);
                request.worker_name(WORKER).send().await
            })
            .await?;
        let token = told.task_token.filter(|token| !token.is_empty());
        Ok(token.map(|token| (token, told.input.unwrap_or_default())))
    }

    pub(crate) async fn heartbeat(&self, ask: Ask<'_>, token: &str) -> Result<()> {
        self.ask(ask, Turn::Of(Api::SendTaskHeartbeat), async |sdk| {
            sdk.send_task_heartbeat().task_token(token).send().await
        })
        .await
        .map(drop)
    }

    pub(crate) async fn succeed_task(&self, ask: Ask<'_>, token: &str, output: &str) -> Result<()> {
        self.ask(ask, Turn::Of(Api::SendTaskSuccess), async |sdk| {
            let request = sdk.send_task_success().task_token(token);
            request.output(output).send().await
        })
        .await
        .map(drop)
    }

    pub(crate) async fn fail_task(
        &self,
        ask: Ask<'_>,
        token: &str,
        (error, cause): (&str, &str),
    ) -> Result<()> {
        self.ask(ask, Turn::Of(Api::SendTaskFailure), async |sdk| {
            let request = sdk.send_task_failure().task_token(token);
            request.error(error).cause(cause).send().await
        })
        .await
        .map(drop)
    }
}
