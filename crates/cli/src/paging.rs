//! The flags of everything that is listed a page at a time.

use clap::Args;

use crate::context::print_message;
use crate::failure::Failure;

/// Which part of a list is wanted.
#[derive(Debug, Clone, Args)]
pub struct Paging {
    /// Maximum number of results on a page (default: chosen by the gateway)
    #[arg(
        long,
        value_name = "COUNT",
        default_value_t = 0,
        hide_default_value = true
    )]
    page_size: i32,
    /// Token of the previous page
    #[arg(long, value_name = "TOKEN", allow_hyphen_values = true)]
    page_token: Option<String>,
    /// Read all pages
    #[arg(long)]
    all: bool,
}

impl Paging {
    /// Reads the pages that are wanted. `page` gets the size and the token of one page and returns
    /// the token of the next page. Returns the token of the page that follows the last one read.
    ///
    /// # Errors
    /// What `page` answers.
    pub async fn read(
        self,
        mut page: impl AsyncFnMut(i32, String) -> Result<String, Failure>,
    ) -> Result<String, Failure> {
        let mut token = self.page_token.unwrap_or_default();
        loop {
            token = page(self.page_size, token).await?;
            if !self.all || token.is_empty() {
                return Ok(token);
            }
        }
    }
}

/// Prints how to get the next page, if there is one.
pub fn more(token: &str) {
    if !token.is_empty() {
        print_message(&format!("more results: --page-token {token}, or --all"));
    }
}

/// Warns about the providers that did not answer, whose results (`what`) are missing from the list.
pub fn warn_unreachable(unreachable: &mut Vec<String>, what: &str) {
    unreachable.sort();
    unreachable.dedup();
    for provider in unreachable {
        print_message(&format!(
            "warning: {provider} does not answer; its {what} are missing here"
        ));
    }
}
