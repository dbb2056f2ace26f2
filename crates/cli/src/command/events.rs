//! `stateway events`: events of the outside that start executions.

use clap::{Args, Subcommand};
use serde::Serialize;
use stateway_client::{Call, v1};

use super::start::label;
use crate::context::{Context, print_message};
use crate::exit::Exit;
use crate::failure::Outcome;
use crate::{input, resource, view};

/// External events that start executions.
#[derive(Debug, Subcommand)]
pub enum Events {
    /// Publish an event; starts every definition whose trigger matches the event
    #[command(after_help = "\
Examples:
  stateway events publish order.created --data '{\"total\": 120}' --id order-17")]
    Publish(Publish),
}

/// Publishes an event.
#[derive(Debug, Args)]
pub struct Publish {
    /// Name of the event
    event: String,
    /// Input of the started executions: JSON, @file, or - for standard input
    #[arg(long, value_name = "JSON|@FILE|-", allow_hyphen_values = true)]
    data: Option<String>,
    /// Idempotency key: publishing again with the same id has no further effect
    #[arg(long, value_name = "ID", value_parser = input::non_empty)]
    id: Option<String>,
    /// Label of the started executions; may be given several times
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = label)]
    labels: Vec<(String, String)>,
    /// The provider (default: the only provider with triggers)
    #[arg(long, value_name = "PROVIDER")]
    provider: Option<String>,
}

/// What `-o json` prints.
#[derive(Debug, Serialize)]
struct Published {
    executions: Vec<view::Text>,
}

impl Events {
    pub(super) async fn run(self, context: &Context) -> Outcome {
        let Self::Publish(publish) = self;
        let payload = match &publish.data {
            Some(argument) => Some(v1::Payload {
                data: input::json(argument)?.into(),
                content_type: "application/json".into(),
            }),
            None => None,
        };
        let provider = match &publish.provider {
            Some(provider) => resource::provider(provider)?,
            None => "providers/-".to_owned(),
        };
        let call = Call::from_message(v1::PublishEventRequest {
            parent: provider,
            event: publish.event,
            payload,
            request_id: publish.id.unwrap_or_default(),
            labels: publish.labels.into_iter().collect(),
        });
        let answer = context.client.publish(context.call(call)).await?;
        let published = Published {
            executions: answer.executions.iter().map(view::Text::from).collect(),
        };
        for refused in &answer.refused {
            print_message(&format!(
                "warning: {} was not started: {}",
                refused.definition, refused.message
            ));
        }
        context.show(&published, || {
            if published.executions.is_empty() && answer.refused.is_empty() {
                print_message("no trigger matches this event");
            }
            let names = published.executions.iter().map(ToString::to_string);
            names.collect::<Vec<_>>().join("\n")
        })?;
        Ok(Exit::Ok)
    }
}
