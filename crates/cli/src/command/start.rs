//! `stateway start`: a new execution.

use clap::Args;
use futures::TryStreamExt;
use stateway_client as client;
use stateway_client::Code;
use stateway_client::v1;

use super::{wait, watch};
use crate::arguments::Output;
use crate::context::{Context, print, print_message};
use crate::duration::Span;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::resource::Startable;
use crate::write::RequestId;
use crate::{input, resource, screen, view};

/// Starts an execution.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  stateway start order-saga --input '{\"order\":\"o-17\"}' --label team=shop
  stateway start order-saga --input @order.json --id order-17 --request-id order-17
  stateway start order-saga --input @order.json --wait --timeout 30s
  stateway start payments/refund --input @refund.json

With --wait, --timeout limits the wait. A terminal shows the steps live. At the end the command prints \
the execution with its output and exits 1 if the execution failed.")]
pub struct Start {
    /// provider/definition, a full name, or a short name: with --provider, of the only provider, or
    /// of a portable definition
    definition: String,
    /// The provider that runs the execution
    #[arg(long, value_name = "PROVIDER")]
    provider: Option<String>,
    /// The input: JSON, @file, or - for standard input
    #[arg(long, value_name = "JSON|@FILE|-", allow_hyphen_values = true)]
    input: Option<String>,
    /// A label; may be given several times
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = label)]
    labels: Vec<(String, String)>,
    /// An option that only this kind of provider knows; may be given several times. A provider refuses
    /// an option that it does not know
    #[arg(long = "option", value_name = "NAME=VALUE", value_parser = label)]
    options: Vec<(String, String)>,
    /// Id of the execution (default: chosen by the provider)
    #[arg(long, value_parser = input::non_empty)]
    id: Option<String>,
    #[command(flatten)]
    key: RequestId,
    /// Delay the start, for example by 10m
    #[arg(long, value_name = "DURATION")]
    delay: Option<Span>,
    /// Wait until the execution has finished; exits 1 if it failed
    #[arg(long)]
    wait: bool,
}

impl Start {
    pub(super) async fn run(self, context: &Context) -> Outcome {
        let call = self.call(context).await?;
        // With --wait the timeout is for the wait; the start has the client's own limit.
        if !self.wait {
            context.show_execution(&context.client.start(context.call(call)).await?)?;
            return Ok(Exit::Ok);
        }
        let limit = context.timeout.unwrap_or(client::DEFAULT_TIMEOUT);
        let call = call.timeout(limit.max(client::DEFAULT_TIMEOUT));
        let started = context.client.start(call).await?;
        print_message(&format!("started {}", started.name));
        if context.terminal && context.output == Output::Table {
            watch_to_the_end(context, &started.name).await
        } else {
            wait::until_finished(context, &started.name).await
        }
    }

    /// Whether the name does not contain a provider.
    fn is_bare(&self) -> bool {
        self.provider.is_none() && !self.definition.contains('/') && !self.definition.is_empty()
    }

    async fn call(&self, context: &Context) -> Result<client::Start, Failure> {
        let input = self.input.as_deref().map(input::json).transpose()?;
        let what = if self.is_bare() {
            only(context, &self.definition).await?
        } else {
            resource::definition(&self.definition, self.provider.as_deref())?
        };
        let mut call = client::Start::new(what.definition).on(what.parent);
        for (name, value) in &self.labels {
            call = call.label(name, value);
        }
        for (name, value) in &self.options {
            call = call.option(name, value);
        }
        if let Some(input) = input {
            call = call.json(input);
        }
        if let Some(id) = &self.id {
            call = call.id(id);
        }
        call = self.key.clone().apply(call);
        if let Some(delay) = self.delay {
            call = call.delay(delay.into());
        }
        Ok(call)
    }
}

/// The meaning of a name without a provider. With one provider: a definition of that provider. With
/// several: a portable definition, which the gateway gives to the only provider that can run it.
async fn only(context: &Context, name: &str) -> Result<Startable, Failure> {
    let providers: Vec<_> = context.client.providers_all().try_collect().await?;
    if let [provider] = &providers[..] {
        return resource::definition(name, Some(&provider.name));
    }
    let portable = resource::definition(&format!("definitions/{name}"), None)?;
    let get = client::GetDefinition::from_message(v1::GetDefinitionRequest {
        name: portable.definition.clone(),
    });
    let error = match context.client.definition(context.call(get)).await {
        Ok(_) => return Ok(portable),
        Err(error) => error,
    };
    // A name that is similar to a known one is misspelt. Any other name may be known to a provider
    // whose definitions cannot be listed.
    let is_misspelt = error.metadata().contains_key("suggestion");
    if is_misspelt || !error.is_from_gateway() {
        return Err(error.into());
    }
    let ids: Vec<_> = providers
        .iter()
        .map(|provider| provider.name.trim_start_matches("providers/"))
        .collect();
    let ids = ids.join(", ");
    if error.code() == Code::NotFound {
        let hint = format!("If a provider has a definition of this name, add --provider: {ids}.");
        Err(Failure::from(error).hint(hint))
    } else {
        let message = format!("`{name}` does not name the provider that runs it");
        Err(Failure::usage(message).hint(format!("Add --provider: {ids}.")))
    }
}

/// On a terminal: the live view, then the result.
async fn watch_to_the_end(context: &Context, name: &str) -> Outcome {
    let Some(execution) = watch::live(context, name).await? else {
        return wait::until_finished(context, name).await;
    };
    let full = wait::with_payloads(context, &execution).await;
    print(&screen::result(
        &view::Execution::from(&full),
        context.paint,
    ))?;
    Ok(wait::ended(&full))
}

pub(super) fn label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("write name=value".into()),
    }
}
