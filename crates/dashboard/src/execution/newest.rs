//! The newest events of a history.

use stateway_proto::v1::{Event, ExecutionView, ListEventsRequest};

use crate::Site;
use crate::problem::Problem;
use crate::visitor::Visitor;

/// The end of a history.
#[derive(Debug, Default)]
pub(crate) struct Newest {
    /// Oldest first.
    pub(crate) events: Vec<Event>,
    /// Some came before these.
    pub(crate) more_before: bool,
}

/// The newest events of an execution, up to a maximum; the API returns at most 1000.
pub(super) async fn newest(
    site: &Site,
    visitor: &Visitor,
    execution: &str,
    most: i32,
) -> Result<Newest, Problem> {
    let request = ListEventsRequest {
        parent: execution.to_owned(),
        page_size: most,
        view: ExecutionView::Basic.into(),
        order_by: "sequence desc".to_owned(),
        ..ListEventsRequest::default()
    };
    let mut api = site.api.executions();
    let page = api.list_events(visitor.request(request)).await?;
    let mut page = page.into_inner();
    page.events.reverse();
    Ok(Newest {
        events: page.events,
        more_before: !page.next_page_token.is_empty(),
    })
}
