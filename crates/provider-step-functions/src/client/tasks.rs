//! Tasks that wait for an answer.

use stateway_provider_api::Result;

use super::{Ask, Client, Turn};
use crate::quota::Api;

impl Client {
    pub(crate) async fn answer_token(&self, ask: Ask<'_>, token: &str, output: &str) -> Result<()> {
        self.ask(ask, Turn::Of(Api::SendTaskSuccess), async |sdk| {
            let request = sdk.send_task_success().task_token(token);
            request.output(output).send().await
        })
        .await
        .map(drop)
    }
}
