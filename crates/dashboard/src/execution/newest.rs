//! The newest events of a history, which the API tells from the beginning.

use std::collections::VecDeque;

use stateway_proto::v1::{Event, ExecutionView, ListEventsRequest};

use crate::Site;
use crate::problem::Problem;
use crate::visitor::Visitor;

/// Events that are asked for at once; the API gives no more.
const PAGE: i32 = 1_000;
/// Pages that are read. What comes after them is not among the newest: the history's own pages show it.
const MOST_PAGES: usize = 10;

/// The end of a history.
#[derive(Debug, Default)]
pub(crate) struct Newest {
    /// Oldest first.
    pub(crate) events: Vec<Event>,
    /// Some came before these.
    pub(crate) more_before: bool,
    /// Some come after these: the history is too long to be read to its end.
    pub(crate) more_after: bool,
}

/// The newest events of an execution that are wanted, at most so many.
pub(super) async fn newest(
    site: &Site,
    visitor: &Visitor,
    execution: &str,
    most: usize,
    wanted: impl Fn(&Event) -> bool,
) -> Result<Newest, Problem> {
    let mut kept = VecDeque::new();
    let mut more_before = false;
    let mut token = String::new();
    for _ in 0..MOST_PAGES {
        let request = ListEventsRequest {
            parent: execution.to_owned(),
            page_size: PAGE,
            page_token: token,
            branch: String::new(),
            view: ExecutionView::Basic.into(),
        };
        let mut api = site.api.executions();
        let page = api.list_events(visitor.request(request)).await?;
        let page = page.into_inner();
        kept.extend(page.events.into_iter().filter(|event| wanted(event)));
        let over = kept.len().saturating_sub(most);
        kept.drain(..over);
        more_before |= over > 0;
        token = page.next_page_token;
        if token.is_empty() {
            break;
        }
    }
    Ok(Newest {
        events: kept.into(),
        more_before,
        more_after: !token.is_empty(),
    })
}
