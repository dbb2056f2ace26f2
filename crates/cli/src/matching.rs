//! The executions that match a filter, for commands that change many of them.

use clap::Args;
use futures::TryStreamExt;
use stateway_client as client;
use stateway_client::v1;
use stateway_phrases::moment;

use crate::context::Context;
use crate::failure::Failure;
use crate::paging::warn_unreachable;
use crate::{input, resource};

/// The most executions of one command.
pub const MOST: usize = 10_000;
/// The most executions that a preview shows.
pub const MOST_PREVIEWED: usize = 20;
/// Executions of one page.
const PAGE: i32 = 1_000;
/// The executions that have not finished.
pub const OPEN: &str = "NOT (sub_state = succeeded OR sub_state = failed)";

/// Which executions to change.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Many executions")]
pub struct Matching {
    /// Change every execution that matches this filter, after a preview and a confirmation
    #[arg(long, value_name = "FILTER", allow_hyphen_values = true, value_parser = input::non_empty)]
    #[arg(conflicts_with_all = ["request_id", "etag"])]
    pub filter: Option<String>,
    /// Only executions of this provider (default: all providers)
    // `requires` alone is not enough: clap drops it when a name is given, which excludes a filter.
    #[arg(
        long,
        value_name = "PROVIDER",
        requires = "filter",
        conflicts_with = "name"
    )]
    provider: Option<String>,
    /// Only list the executions that would be changed
    #[arg(long, requires = "filter", conflicts_with = "name")]
    pub dry_run: bool,
    /// Do not ask for confirmation; required without a terminal
    #[arg(long)]
    pub yes: bool,
}

impl Matching {
    /// The executions that match the filter and this condition, and the providers that did not
    /// answer.
    ///
    /// # Errors
    /// A wrong filter, or too many executions.
    pub async fn find(
        &self,
        context: &Context,
        condition: &str,
    ) -> Result<(Vec<v1::Execution>, Vec<String>), Failure> {
        let parent = resource::parent(self.provider.as_deref())?;
        let (mut found, mut unreachable) = (Vec::new(), Vec::new());
        let mut token = String::new();
        loop {
            let list = client::List::new(&parent)
                .filter(self.with(condition))
                .page_size(PAGE)
                .page_token(token);
            let page = match context.client.list_page(context.call(list)).await {
                Ok(page) => page,
                Err(error) => return Err(self.of_filter(context, error).await),
            };
            found.extend(page.executions);
            unreachable.extend(page.unreachable);
            if found.len() > MOST {
                let message = format!("more than {MOST} executions match the filter");
                return Err(Failure::usage(message).hint("Narrow the filter."));
            }
            token = page.next_page_token;
            if token.is_empty() {
                unreachable.sort();
                unreachable.dedup();
                warn_unreachable(&unreachable, "executions");
                return Ok((found, unreachable));
            }
        }
    }

    /// An execution as it is now; none when it does not match any more.
    ///
    /// # Errors
    /// The gateway or the provider does not answer.
    pub async fn again(
        &self,
        context: &Context,
        before: &v1::Execution,
        condition: &str,
    ) -> Result<Option<v1::Execution>, client::Error> {
        let name = &before.name;
        let (parent, _) = name.split_once("/executions/").unwrap_or((name, ""));
        let mut filter = format!(
            "name = {} AND {}",
            client::quoted(name),
            self.with(condition)
        );
        // Engines find the execution by its start time, which is faster than the other conditions.
        if let Some(start) = moment(before.start_time.as_ref()) {
            filter.push_str(&format!(
                " AND start_time >= {start} AND start_time <= {start}"
            ));
        }
        let list = client::List::new(parent).filter(filter).page_size(1);
        let found = context.client.list(context.call(list));
        std::pin::pin!(found).try_next().await
    }

    fn with(&self, condition: &str) -> String {
        let filter = self.filter.as_deref().unwrap_or_default();
        if condition.is_empty() {
            format!("({filter})")
        } else {
            format!("({filter}) AND {condition}")
        }
    }

    /// Sends the caller's filter alone, so that a filter error names the columns that the caller wrote.
    /// Returns `error` if that filter is valid.
    async fn of_filter(&self, context: &Context, error: client::Error) -> Failure {
        let filter = self.filter.as_deref().unwrap_or_default();
        let Ok(parent) = resource::parent(self.provider.as_deref()) else {
            return error.into();
        };
        let list = client::List::new(parent).filter(filter).page_size(1);
        let alone = context.client.list(context.call(list));
        match std::pin::pin!(alone).try_next().await {
            Ok(_) => error.into(),
            Err(alone) => alone.into(),
        }
    }
}
