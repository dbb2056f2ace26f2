//! A provider's state table: the engine's words, and ours for them.

use maud::{Markup, html};
use stateway_proto::v1::TableRow;
use stateway_proto::v1::table_row::Scope;

use crate::executions::reason;
use crate::sub_state::badge;
use crate::text::{said, said_within};

pub(super) fn render(rows: &[TableRow]) -> Markup {
    let of = |scope| rows.iter().filter(move |row| row.scope() == scope);
    html! {
        @if rows.is_empty() { p.nothing { "The provider has no state table." } }
        @for (scope, title) in [(Scope::Execution, "Executions"), (Scope::Step, "Steps")] {
            @if of(scope).next().is_some() {
                h3 { (title) }
                div.scroll tabindex="0" role="region" aria-label=(title) {
                    table.states {
                        thead {
                            tr {
                                th scope="col" { "Native state" }
                                th scope="col" { "Shown as" }
                                th scope="col" { "Reason" }
                                th scope="col" { "Note" }
                                th scope="col" { "Source" }
                            }
                        }
                        tbody { @for row in of(scope) { (line(row)) } }
                    }
                }
            }
        }
    }
}

fn line(row: &TableRow) -> Markup {
    let mut when: Vec<_> = row.when.iter().collect();
    when.sort();
    html! {
        tr {
            td {
                code { (said_within(&row.native_state, 80)) }
                @for (key, value) in when {
                    span.definition { "when " (said_within(key, 60)) " is " code { (said_within(value, 60)) } }
                }
            }
            td {
                (badge(row.sub_state()))
                @if row.refine {
                    span.definition { "refined by steps, attempts and waits" }
                }
                @if row.terminal { span.definition { "final" } }
            }
            td { @if !row.reason().label().is_empty() { (reason(row.reason().label())) } }
            td { (said(&row.note)) }
            td.muted { (said(&row.source)) }
        }
    }
}
