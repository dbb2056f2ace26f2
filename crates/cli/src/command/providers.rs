//! `stateway providers`: the providers of the gateway, their capabilities and their health.

use clap::{Args, Subcommand};
use futures::TryStreamExt;
use serde::Serialize;
use stateway_client as client;
use stateway_provider_api::table::{self, Scope};

use crate::context::Context;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::resource;
use crate::screen::{Paint, Table};
use crate::view::{Health, Provider, Row, Text};

/// Shows providers.
#[derive(Debug, Subcommand)]
pub enum Providers {
    /// List the configured providers
    List,
    /// Show one provider with its capabilities and its health
    Get(Get),
    /// Show a state table: the sub-state of each native state
    #[command(after_help = "\
Examples:
  stateway providers table builtin
  stateway providers table step-functions -o json

For a configured provider, the table includes its overlays. For a kind that is not configured, the \
command shows the table of this build and needs no gateway.")]
    Table(Get),
}

/// Names a provider.
#[derive(Debug, Args)]
pub struct Get {
    /// The provider's id or full name; for `table` also a kind, for example restate
    name: String,
}

/// What `list -o json` prints.
#[derive(Debug, Serialize)]
struct Listed {
    providers: Vec<Provider>,
}

impl Providers {
    pub(super) async fn run(self, context: &Context) -> Outcome {
        match self {
            Self::List => list(context).await?,
            Self::Get(get) => {
                let provider = read(context, &get.name).await?;
                context.show(&provider, || described(&provider, context.paint))?;
            }
            Self::Table(get) => {
                let rows = rows(context, &get.name).await?;
                context.show(&rows, || rows_table(&rows, context.paint))?;
            }
        }
        Ok(Exit::Ok)
    }
}

async fn list(context: &Context) -> Result<(), Failure> {
    let found: Vec<_> = context.client.providers_all().try_collect().await?;
    let listed = Listed {
        providers: found.iter().map(Provider::from).collect(),
    };
    context.show(&listed, || {
        let headings = ["NAME", "KIND", "HEALTH", "BREAKER", "CALLS", "DETAIL"];
        let mut table = Table::new(&headings, context.paint);
        for provider in &listed.providers {
            let mut row = vec![bare(&provider.name), provider.kind.to_string()];
            if let Some(health) = &provider.health {
                row.extend([health.status.into(), health.breaker.into(), calls(health)]);
                row.push(shown(health.detail.as_ref()));
            }
            table.row(row);
        }
        table.text()
    })
}

async fn read(context: &Context, name: &str) -> Result<Provider, Failure> {
    let call = client::GetProvider::new(resource::provider(name)?);
    let provider = context.client.provider(context.call(call)).await?;
    Ok(Provider::from(&provider))
}

/// The table of a configured provider, or else of the kind of that name.
async fn rows(context: &Context, name: &str) -> Result<Vec<Row>, Failure> {
    let built_in = table::compiled_in(name);
    match (read(context, name).await, built_in) {
        (Ok(provider), _) => Ok(provider.table),
        (Err(failure), Some(table))
            if matches!(failure.exit, Exit::NotFound | Exit::Unreachable) =>
        {
            Ok(table.rows().iter().map(of_build).collect())
        }
        (Err(failure), _) => Err(failure),
    }
}

fn of_build(row: &table::Row) -> Row {
    Row {
        scope: match row.scope {
            Scope::Execution => "execution",
            Scope::Step => "step",
        },
        native_state: (&row.native).into(),
        when: row
            .when
            .iter()
            .map(|(name, value)| (name.into(), value.into()))
            .collect(),
        sub_state: row.sub_state.as_str(),
        reason: row.reason.map(|reason| reason.as_str()),
        terminal: row.terminal,
        refine: row.refine,
        source: (&row.source).into(),
        note: (&row.note).into(),
    }
}

fn described(provider: &Provider, paint: Paint) -> String {
    let mut table = Table::new(&[], paint);
    table.line("name", provider.name.to_string());
    table.line("kind", format!("{} ({})", provider.kind, provider.title));
    if let Some(health) = &provider.health {
        table.line("health", health.status.to_owned());
        table.line("breaker", health.breaker.to_owned());
        table.line("calls", calls(health));
        table.line("engine", shown(health.engine_version.as_ref()));
        table.line("detail", shown(health.detail.as_ref()));
    }
    let with = |wanted: bool| {
        let words = provider
            .capabilities
            .iter()
            .filter(|(_, on)| **on == wanted);
        words.map(|(word, _)| *word).collect::<Vec<_>>().join(" ")
    };
    table.line("can", with(true));
    table.line("cannot", with(false));
    table.line(
        "table",
        format!(
            "{} rows; see `stateway providers table`",
            provider.table.len()
        ),
    );
    table.text()
}

fn rows_table(rows: &[Row], paint: Paint) -> String {
    let headings = [
        "SCOPE",
        "NATIVE STATE",
        "WHEN",
        "SUB-STATE",
        "REASON",
        "FINAL",
        "REFINED",
    ];
    let mut table = Table::new(&headings, paint);
    let tick = |on: bool| if on { "yes".to_owned() } else { String::new() };
    for row in rows {
        let when: Vec<_> = row
            .when
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        table.row(vec![
            row.scope.to_owned(),
            row.native_state.to_string(),
            when.join(" "),
            row.sub_state.to_owned(),
            row.reason.unwrap_or_default().to_owned(),
            tick(row.terminal),
            tick(row.refine),
        ]);
    }
    table.text()
}

fn calls(health: &Health) -> String {
    format!("{}/{}", health.open_call_count, health.max_open_call_count)
}

fn bare(name: &Text) -> String {
    let name = name.to_string();
    name.strip_prefix("providers/").unwrap_or(&name).to_owned()
}

fn shown(text: Option<&Text>) -> String {
    text.map(ToString::to_string).unwrap_or_default()
}
