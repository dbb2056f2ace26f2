//! State machines: read, made, changed, tagged and checked.

use aws_sdk_sfn::operation::describe_state_machine::DescribeStateMachineOutput;
use aws_sdk_sfn::operation::validate_state_machine_definition::ValidateStateMachineDefinitionOutput;
use aws_sdk_sfn::types::{StateMachineType, Tag, ValidateStateMachineDefinitionSeverity};
use stateway_provider_api::Result;

use super::{Ask, Client, NewMachine, Turn};
use crate::quota::Api;

impl Client {
    /// A state machine, or one version of it.
    pub(crate) async fn machine(
        &self,
        ask: Ask<'_>,
        arn: &str,
    ) -> Result<DescribeStateMachineOutput> {
        self.ask(ask, Turn::Of(Api::DescribeStateMachine), async |sdk| {
            let request = sdk.describe_state_machine();
            request.state_machine_arn(arn).send().await
        })
        .await
    }

    /// The versions of a state machine by their ARNs, newest first.
    pub(crate) async fn versions(&self, ask: Ask<'_>, arn: &str, size: i32) -> Result<Vec<String>> {
        let told = self
            .ask(ask, Turn::Of(Api::ListStateMachineVersions), async |sdk| {
                let request = sdk.list_state_machine_versions().max_results(size);
                request.state_machine_arn(arn).send().await
            })
            .await?;
        let versions = told.state_machine_versions.into_iter();
        Ok(versions
            .map(|version| version.state_machine_version_arn)
            .collect())
    }

    pub(crate) async fn tags(&self, ask: Ask<'_>, arn: &str) -> Result<Vec<Tag>> {
        let told = self
            .ask(ask, Turn::Of(Api::ListTagsForResource), async |sdk| {
                let request = sdk.list_tags_for_resource();
                request.resource_arn(arn).send().await
            })
            .await?;
        Ok(told.tags.unwrap_or_default())
    }

    pub(crate) async fn tag(&self, ask: Ask<'_>, arn: &str, tags: Vec<Tag>) -> Result<()> {
        self.ask(ask, Turn::Of(Api::TagResource), async |sdk| {
            let request = sdk.tag_resource().resource_arn(arn);
            request.set_tags(Some(tags)).send().await
        })
        .await
        .map(drop)
    }

    /// Makes a state machine and its first version; the ARNs of both.
    pub(crate) async fn create(
        &self,
        ask: Ask<'_>,
        machine: NewMachine<'_>,
    ) -> Result<(String, Option<String>)> {
        let told = self
            .ask(ask, Turn::Of(Api::CreateStateMachine), async |sdk| {
                sdk.create_state_machine()
                    .name(machine.name)
                    .definition(machine.source)
                    .role_arn(machine.role)
                    .r#type(if machine.express {
                        StateMachineType::Express
                    } else {
                        StateMachineType::Standard
                    })
                    .set_tags(Some(machine.tags))
                    .publish(true)
                    .send()
                    .await
            })
            .await?;
        Ok((told.state_machine_arn, told.state_machine_version_arn))
    }

    /// Changes a state machine and publishes that as a version; the version's ARN.
    pub(crate) async fn update(
        &self,
        ask: Ask<'_>,
        arn: &str,
        source: &str,
    ) -> Result<Option<String>> {
        let told = self
            .ask(ask, Turn::Of(Api::UpdateStateMachine), async |sdk| {
                let request = sdk.update_state_machine().state_machine_arn(arn);
                request.definition(source).publish(true).send().await
            })
            .await?;
        Ok(told.state_machine_version_arn)
    }

    pub(crate) async fn validate(
        &self,
        ask: Ask<'_>,
        source: &str,
        express: bool,
    ) -> Result<ValidateStateMachineDefinitionOutput> {
        let api = Api::ValidateStateMachineDefinition;
        self.ask(ask, Turn::Of(api), async |sdk| {
            let request = sdk.validate_state_machine_definition();
            let request = request.definition(source).r#type(if express {
                StateMachineType::Express
            } else {
                StateMachineType::Standard
            });
            let severity = ValidateStateMachineDefinitionSeverity::Warning;
            request.severity(severity).send().await
        })
        .await
    }
}
