//! `stateway definitions migrate`.

use clap::Args;
use serde::Serialize;
use stateway_client as client;
use stateway_phrases::visible;

use super::full_name;
use crate::context::{Context, print_message};
use crate::exit::Exit;
use crate::failure::Outcome;
use crate::view;
use crate::write::RequestId;

/// Makes another provider the default of a definition.
#[derive(Debug, Args)]
pub struct Migrate {
    /// The definition, in full or without `definitions/`
    name: String,
    /// The provider on which new executions start
    #[arg(long, value_name = "PROVIDER")]
    to: String,
    /// Check and show what would happen; change nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    key: RequestId,
}

/// What `-o json` prints.
#[derive(Serialize)]
struct Migrated {
    definition: String,
    revision: String,
    from: String,
    to: String,
    dry_run: bool,
    portability: view::Portability,
    children: Vec<String>,
    open_executions: Vec<Open>,
}

#[derive(Serialize)]
struct Open {
    provider: String,
    count: i64,
}

impl Migrate {
    pub(super) async fn run(self, context: &Context) -> Outcome {
        let name = full_name(&self.name)?;
        let to = match self.to.strip_prefix("providers/") {
            Some(_) => self.to,
            None => format!("providers/{}", self.to),
        };
        let call = client::MigrateDefinition::new(&name, &to).validate_only(self.dry_run);
        let call = self.key.apply(call);
        let answer = context
            .client
            .migrate_definition(context.call(call))
            .await?;
        let portability = answer.portability.unwrap_or_default();
        let migrated = Migrated {
            definition: name,
            revision: answer.definition.map(|it| it.revision).unwrap_or_default(),
            from: answer.previous_provider,
            to,
            dry_run: self.dry_run,
            portability: (&portability).into(),
            children: answer.children,
            open_executions: answer
                .open_executions
                .into_iter()
                .map(|open| Open {
                    provider: open.provider,
                    count: open.count,
                })
                .collect(),
        };
        context.show(&migrated, || migrated.text())?;
        Ok(Exit::Ok)
    }
}

impl Migrated {
    fn text(&self) -> String {
        let (definition, to) = (visible(&self.definition), visible(&self.to));
        for line in self.portability.lines(&definition) {
            print_message(&line);
        }
        for child in &self.children {
            print_message(&format!(
                "{} is started by it and applied too",
                visible(child)
            ));
        }
        for open in &self.open_executions {
            let (provider, count) = (visible(&open.provider), open.count);
            print_message(&format!("{provider}: {count} open executions finish there"));
        }
        let from = visible(&self.from);
        match (self.dry_run, self.from == self.to) {
            (_, true) => format!("{definition}: new executions start on {to} already"),
            (true, false) => {
                format!("{definition}: new executions would start on {to} instead of {from}")
            }
            (false, false) => {
                format!("{definition}: new executions start on {to} instead of {from}")
            }
        }
    }
}
