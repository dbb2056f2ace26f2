//! `stateway history`: what happened, in the engine's own words.

use clap::Args;
use serde::Serialize;
use stateway_client as client;

use crate::context::{Context, talk};
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::resource;
use crate::screen::{Table, moment};
use crate::view::Event;

/// Shows a history.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  stateway history memory/order-17
  stateway history memory/order-17 --all -o json")]
pub struct History {
    /// provider/id, or the full name
    name: String,
    /// At most this many on a page
    #[arg(long, value_name = "COUNT", default_value_t = 100)]
    page_size: i32,
    /// The page after the one that gave this token
    #[arg(long, value_name = "TOKEN", allow_hyphen_values = true)]
    page_token: Option<String>,
    /// Every page, not just one
    #[arg(long)]
    all: bool,
}

/// What `-o json` prints.
#[derive(Debug, Default, Serialize)]
struct Listed {
    events: Vec<Event>,
    next_page_token: String,
}

impl History {
    pub(super) async fn run(self, context: &Context) -> Outcome {
        let listed = self.read(context).await?;
        context.show(&listed, || table(&listed, context))?;
        Ok(Exit::Ok)
    }

    async fn read(&self, context: &Context) -> Result<Listed, Failure> {
        let mut listed = Listed::default();
        let name = resource::execution(&self.name)?;
        let mut token = self.page_token.clone().unwrap_or_default();
        loop {
            let call = client::Events::new(&name)
                .page_size(self.page_size)
                .page_token(token);
            let page = context.client.events_page(context.call(call)).await?;
            listed.events.extend(page.events.iter().map(Event::from));
            listed.next_page_token = page.next_page_token;
            if !self.all || listed.next_page_token.is_empty() {
                return Ok(listed);
            }
            token = listed.next_page_token.clone();
        }
    }
}

fn table(listed: &Listed, context: &Context) -> String {
    if !listed.next_page_token.is_empty() {
        talk(&format!(
            "there is more: --page-token {}, or --all",
            listed.next_page_token
        ));
    }
    let mut table = Table::new(
        &["#", "TIME", "EVENT", "STEP", "ATTEMPT", "WHAT"],
        context.paint,
    );
    for event in &listed.events {
        table.row(vec![
            event.sequence.to_string(),
            event.time.map(moment).unwrap_or_default(),
            event.native_type.to_string(),
            event.step.to_string(),
            if event.attempt == 0 {
                String::new()
            } else {
                event.attempt.to_string()
            },
            event.summary.to_string(),
        ]);
    }
    table.text()
}
