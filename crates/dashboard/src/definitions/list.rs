//! All definitions: the portable ones, and those of engines that show theirs.

use axum::extract::State;
use axum::response::Response;
use maud::{Markup, html};
use stateway_proto::v1::{Definition, ListDefinitionsRequest, ListDefinitionsResponse};
use tonic::Code;

use super::name::DefinitionPath;
use super::revisions::short;
use super::trigger::disabled;
use crate::Site;
use crate::fields::{Fields, link};
use crate::layout::Section;
use crate::page::Page;
use crate::problem::Problem;
use crate::providers::{self, id_of};
use crate::text::{said, said_within};
use crate::time::{Now, ago, moment};
use crate::visitor::Visitor;

/// Definitions on a page.
const ROWS: i32 = 50;

/// Whose definitions, and a page of them.
struct Shelf {
    /// Empty for the portable ones.
    parent: String,
    page: Result<ListDefinitionsResponse, Problem>,
}

pub(super) async fn show(
    State(site): State<Site>,
    visitor: Visitor,
    fields: Fields,
) -> Result<Response, Problem> {
    let shelves = shelves(&site, &visitor, &fields).await?;
    let now = Now::page();
    let page = Page {
        section: Section::Definitions,
        title: "Definitions",
        live: None,
        content: html! {
            div.title { h1 { "Definitions" } p.muted { "The definitions that executions run." } }
            @for shelf in &shelves { (section(shelf, now)) }
        },
    };
    Ok(page.show(&visitor))
}

/// One shelf, if the address asks for a further page of it; otherwise the first page of each.
async fn shelves(site: &Site, visitor: &Visitor, fields: &Fields) -> Result<Vec<Shelf>, Problem> {
    let token = fields.get("page");
    let mut parents = vec![String::new()];
    let providers = providers::all(site, visitor).await?;
    let own = providers
        .into_iter()
        .filter(|provider| provider.capabilities.is_some_and(|can| can.definitions));
    parents.extend(own.map(|provider| provider.name));
    if !token.is_empty() {
        parents.retain(|parent| parent == fields.get("of"));
    }
    let mut shelves = Vec::new();
    for parent in parents {
        let request = ListDefinitionsRequest {
            page_size: ROWS,
            page_token: token.to_owned(),
            parent: parent.clone(),
        };
        let mut api = site.api.definitions();
        let page = api.list_definitions(visitor.request(request)).await;
        let page = match page {
            // Without a built-in engine there are no portable definitions, and that is no trouble.
            Err(status) if status.code() == Code::Unimplemented => continue,
            other => other
                .map(tonic::Response::into_inner)
                .map_err(Problem::from),
        };
        shelves.push(Shelf { parent, page });
    }
    Ok(shelves)
}

fn section(shelf: &Shelf, now: Now) -> Markup {
    let of = id_of(&shelf.parent);
    let title = format!("shelf-{of}");
    html! {
        section aria-labelledby=(title) {
            h2 id=(title) {
                @if of.is_empty() { "Portable" } @else { "Of " (said_within(of, 60)) }
            }
            @match &shelf.page {
                Err(problem) => (problem.render()),
                Ok(page) if page.definitions.is_empty() => {
                    p.nothing {
                        "None yet. "
                        @if of.is_empty() { "Apply one: " code { "stateway definitions apply order.yaml" } }
                    }
                }
                Ok(page) => {
                    (table(&page.definitions, now))
                    @if !page.next_page_token.is_empty() {
                        nav.pager aria-label="Pages" {
                            a.button rel="next" href=(link("/definitions", &[
                                ("of", &shelf.parent), ("page", &page.next_page_token),
                            ])) { "More" }
                        }
                    }
                }
            }
        }
    }
}

fn table(definitions: &[Definition], now: Now) -> Markup {
    html! {
        div.scroll {
            table.list {
                caption.hidden { "Definitions by name" }
                thead {
                    tr {
                        th scope="col" { "Name" }
                        th scope="col" { "Description" }
                        th scope="col" { "Revision" }
                        th scope="col" { "Since" }
                    }
                }
                tbody { @for definition in definitions { (row(definition, now)) } }
            }
        }
    }
}

fn row(definition: &Definition, now: Now) -> Markup {
    let path = DefinitionPath::of(&definition.name);
    html! {
        tr.row {
            td data-label="Name" { a.go href=(path.path()) { (said_within(&path.shown(), 80)) } }
            td data-label="Description" {
                (said(&definition.description))
                @if let Some(mark) = definition.trigger.as_ref().and_then(|trigger| trigger.disabled.as_ref()) {
                    span.definition { "Trigger " (disabled(mark, now)) }
                }
            }
            td data-label="Revision" { code { (said_within(short(&definition.revision), 20)) } }
            td.time data-label="Since" {
                @if let Some(time) = moment(definition.create_time.as_ref()) { (ago(time, now)) }
            }
        }
    }
}
