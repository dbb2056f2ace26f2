//! How many executions show each sub-state, as links to them.

use maud::{Markup, html};
use stateway_phrases::grouped;
use stateway_proto::v1::{CountExecutionsRequest, CountExecutionsResponse, SubState};

use super::presets::by_sub_state;
use crate::Site;
use crate::fields::link;
use crate::sub_state::{ALL, icon, word};
use crate::text::said;
use crate::visitor::Visitor;

/// The counts of all providers; none when nothing counts.
pub(super) async fn read(site: &Site, visitor: &Visitor) -> Option<CountExecutionsResponse> {
    let request = CountExecutionsRequest {
        parent: "providers/-".into(),
    };
    let mut api = site.api.executions();
    let answer = api.count_executions(visitor.request(request)).await.ok()?;
    Some(answer.into_inner())
}

/// The strip above the list.
pub(super) fn render(counted: Option<&CountExecutionsResponse>, filter: &str) -> Markup {
    html! {
        div #counts {
            @if let Some(counted) = counted {
                ul.counts aria-label="Executions by sub-state" {
                    @for sub_state in ALL { li { (chip(counted, sub_state, filter)) } }
                }
                @if !counted.uncounted.is_empty() {
                    p.muted.small-print { "Not counted: " (said(&ids(&counted.uncounted))) "." }
                }
            }
        }
    }
}

fn chip(counted: &CountExecutionsResponse, sub_state: SubState, filter: &str) -> Markup {
    let found = counted
        .counts
        .iter()
        .find(|count| count.sub_state() == sub_state);
    let (count, more) = found.map_or((0, false), |found| (found.execution_count, found.at_least));
    let own = by_sub_state(sub_state);
    html! {
        a.(word(sub_state)).(if count == 0 { "none" } else { "" })
            href=(link("/executions", &[("filter", &own)]))
            aria-current=[(filter == own).then_some("true")] {
            b { (grouped(count)) @if more { "+" } }
            span { (icon(sub_state)) (word(sub_state)) }
        }
    }
}

fn ids(names: &[String]) -> String {
    let ids = names
        .iter()
        .map(|name| name.strip_prefix("providers/").unwrap_or(name));
    ids.collect::<Vec<_>>().join(", ")
}
