//! Lists that are read a page at a time: their options, their JSON and the messages about them.

use std::time::{Duration, Instant};

use clap::Args;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use stateway_phrases::grouped;

use crate::arguments::Output;
use crate::context::{Context, print_message};
use crate::failure::Failure;
use crate::progress::Progress;

/// How long a page is filled with results that match the filter. Then the command prints what it has found.
const SEARCH: Duration = Duration::from_secs(10);

/// Which part of a list is wanted.
#[derive(Debug, Clone, Args)]
pub struct Paging {
    /// Maximum number of results on a page (default: 50; of events and branches 100)
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

/// Something that is listed.
pub trait Listed: Serialize {
    /// Its plural: the field of the JSON, and the word in messages.
    const PLURAL: &'static str;
    /// Results on a page, unless the user chooses another number.
    const PAGE_SIZE: i32 = 50;
}

/// One page, or all pages that a command has read.
#[derive(Debug)]
pub struct List<T> {
    rows: Vec<T>,
    next_page_token: String,
    /// The providers that did not answer, for lists of several providers.
    unreachable: Option<Vec<String>>,
    /// How many results the gateway compared with the filter, for lists that report that.
    examined_count: Option<i64>,
    /// Whether a page could have more results.
    is_short: bool,
}

impl<T> List<T> {
    /// One page of the gateway.
    pub fn page(rows: impl IntoIterator<Item = T>, next_page_token: String) -> Self {
        Self {
            rows: rows.into_iter().collect(),
            next_page_token,
            unreachable: None,
            examined_count: None,
            is_short: false,
        }
    }

    /// With the providers that did not answer.
    #[must_use]
    pub fn unreachable(self, providers: Vec<String>) -> Self {
        Self {
            unreachable: Some(providers),
            ..self
        }
    }

    /// With the number of results that were compared with the filter.
    #[must_use]
    pub fn examined(self, count: i32) -> Self {
        Self {
            examined_count: Some(count.into()),
            ..self
        }
    }
}

impl Paging {
    /// Reads the wanted pages. `page` gets the size and the token of one page. The gateway answers with a short
    /// page if few results match the filter: `page` is called again until the page is full, for at most ten
    /// seconds.
    ///
    /// # Errors
    /// What `page` answers.
    pub async fn list<T: Listed>(
        self,
        page: impl AsyncFnMut(i32, String) -> Result<List<T>, Failure>,
    ) -> Result<List<T>, Failure> {
        self.list_within(SEARCH, page).await
    }

    async fn list_within<T: Listed>(
        self,
        limit: Duration,
        mut page: impl AsyncFnMut(i32, String) -> Result<List<T>, Failure>,
    ) -> Result<List<T>, Failure> {
        let (begin, mut progress) = (Instant::now(), Progress::new());
        // A negative size is refused by the gateway.
        let size = match self.page_size {
            0 => T::PAGE_SIZE,
            size => size,
        };
        let mut list = page(size, self.page_token.unwrap_or_default()).await?;
        loop {
            let found = i32::try_from(list.rows.len()).unwrap_or(i32::MAX);
            let missing = if self.all {
                size
            } else {
                size.saturating_sub(found)
            };
            list.is_short = missing > 0;
            let is_over = !self.all && begin.elapsed() >= limit;
            if list.next_page_token.is_empty() || !list.is_short || is_over {
                break;
            }
            progress.show(|| list.so_far());
            let token = std::mem::take(&mut list.next_page_token);
            list.add(page(missing, token).await?);
        }
        if let Some(unreachable) = &mut list.unreachable {
            unreachable.sort();
            unreachable.dedup();
        }
        Ok(list)
    }
}

impl<T: Listed> List<T> {
    fn add(&mut self, next: Self) {
        self.rows.extend(next.rows);
        self.next_page_token = next.next_page_token;
        if let Some(unreachable) = &mut self.unreachable {
            unreachable.extend(next.unreachable.unwrap_or_default());
        }
        if let Some(count) = &mut self.examined_count {
            *count = count.saturating_add(next.examined_count.unwrap_or_default());
        }
    }

    /// How far the search came.
    fn so_far(&self) -> String {
        let found = self.rows.len();
        let matches = if found == 1 { "match" } else { "matches" };
        let found = grouped(i64::try_from(found).unwrap_or(i64::MAX));
        let compared = self.examined_count;
        let compared = compared.map(|count| format!("; compared {} {}", grouped(count), T::PLURAL));
        format!("{found} {matches} so far{}", compared.unwrap_or_default())
    }

    /// The messages after the table: whether it is empty, how far the search came, and the next page.
    fn messages(&self) -> Vec<String> {
        let mut messages = Vec::new();
        if !self.next_page_token.is_empty() {
            messages.extend(self.is_short.then(|| self.so_far()));
            let token = &self.next_page_token;
            messages.push(format!("more results: --page-token {token}, or --all"));
        } else if self.rows.is_empty() {
            messages.push(format!("no {} on this page", T::PLURAL));
        }
        messages
    }
}

impl<T: Listed> Serialize for List<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry(T::PLURAL, &self.rows)?;
        map.serialize_entry("next_page_token", &self.next_page_token)?;
        if let Some(unreachable) = &self.unreachable {
            map.serialize_entry("unreachable", unreachable)?;
        }
        if let Some(count) = self.examined_count {
            map.serialize_entry("examined_count", &count)?;
        }
        map.end()
    }
}

impl Context {
    /// Shows a list: as JSON, or as a table with messages about it.
    ///
    /// # Errors
    /// Standard output cannot be written.
    pub fn show_list<T: Listed>(
        &self,
        list: &List<T>,
        table: impl FnOnce(&[T]) -> String,
    ) -> Result<(), Failure> {
        warn_unreachable(list.unreachable.as_deref().unwrap_or_default(), T::PLURAL);
        self.show(list, || table(&list.rows))?;
        if self.output == Output::Table {
            for message in list.messages() {
                print_message(&message);
            }
        }
        Ok(())
    }
}

/// Warns about the providers that did not answer, whose results (`what`) are missing from the list.
pub fn warn_unreachable(unreachable: &[String], what: &str) {
    for provider in unreachable {
        print_message(&format!(
            "warning: {provider} does not answer; its {what} are missing here"
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Serialize, PartialEq)]
    struct Row(u32);

    impl Listed for Row {
        const PLURAL: &'static str = "rows";
        const PAGE_SIZE: i32 = 3;
    }

    /// Ten rows are compared for each page; these match.
    const PAGES: [&[u32]; 4] = [&[1], &[], &[2, 3], &[4]];

    fn paging(page_size: i32, all: bool) -> Paging {
        Paging {
            page_size,
            page_token: None,
            all,
        }
    }

    /// The list, and the sizes of the pages that were read.
    async fn read(paging: Paging, limit: Duration) -> (List<Row>, Vec<i32>) {
        let mut sizes = Vec::new();
        let page = async |size, token: String| {
            sizes.push(size);
            let number: usize = token.parse().unwrap_or_default();
            let next = (number + 1 < PAGES.len()).then(|| (number + 1).to_string());
            let rows = PAGES[number].iter().copied().map(Row);
            Ok(List::page(rows, next.unwrap_or_default()).examined(10))
        };
        let list = paging.list_within(limit, page).await.expect("a list");
        (list, sizes)
    }

    fn json(list: &List<Row>) -> serde_json::Value {
        serde_json::to_value(list).expect("JSON")
    }

    #[tokio::test]
    async fn short_pages_are_read_until_the_page_is_full() {
        let (list, sizes) = read(paging(0, false), SEARCH).await;
        assert_eq!(sizes, [3, 2, 2], "each asks for what is missing");
        let expected =
            serde_json::json!({"rows": [1, 2, 3], "next_page_token": "3", "examined_count": 30});
        assert_eq!(json(&list), expected);
        assert_eq!(list.messages(), ["more results: --page-token 3, or --all"]);
    }

    #[tokio::test]
    async fn a_search_that_takes_too_long_says_how_far_it_came() {
        let (list, sizes) = read(paging(0, false), Duration::ZERO).await;
        assert_eq!(sizes, [3]);
        let expected = [
            "1 match so far; compared 10 rows",
            "more results: --page-token 1, or --all",
        ];
        assert_eq!(list.messages(), expected);
    }

    #[tokio::test]
    async fn all_pages_have_no_limit_of_time() {
        let (list, sizes) = read(paging(2, true), Duration::ZERO).await;
        assert_eq!(sizes, [2, 2, 2, 2]);
        assert_eq!(list.rows, [Row(1), Row(2), Row(3), Row(4)]);
        assert_eq!(list.messages(), [""; 0]);
    }

    #[test]
    fn an_empty_list_says_so() {
        let list = List::<Row>::page([], String::new());
        assert_eq!(list.messages(), ["no rows on this page"]);
    }
}
