//! The definitions that a schedule starts: when next, who disabled it, and what can be done.

use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use maud::{Markup, html};
use stateway_proto::v1::{Definition, ListDefinitionsRequest, Trigger};
use tonic::Code;

use crate::Site;
use crate::definitions::{DefinitionPath, disabled};
use crate::layout::Section;
use crate::page::Page;
use crate::problem::Problem;
use crate::text::said_within;
use crate::time::{Now, moment, until};
use crate::visitor::Visitor;

/// Definitions per call, and the maximum number of calls.
const ROWS: i32 = 1_000;
const MOST_PAGES: usize = 10;

pub(crate) fn routes() -> Router<Site> {
    Router::new().route("/schedules", get(show))
}

async fn show(State(site): State<Site>, visitor: Visitor) -> Response {
    let found = scheduled(&site, &visitor).await;
    let page = Page {
        section: Section::Schedules,
        title: "Schedules",
        live: None,
        content: html! {
            div.title { h1 { "Schedules" } p.muted { "Definitions that start at fixed times." } }
            @match &found {
                Err(problem) => (problem.render()),
                Ok(found) if found.is_empty() => (empty()),
                Ok(found) => (table(found, Now::page())),
            }
        },
    };
    page.show(&visitor)
}

/// The definitions with a schedule: the next start first, the disabled ones last.
async fn scheduled(site: &Site, visitor: &Visitor) -> Result<Vec<Definition>, Problem> {
    let mut found = Vec::new();
    let mut token = String::new();
    for _ in 0..MOST_PAGES {
        let request = ListDefinitionsRequest {
            page_size: ROWS,
            page_token: token,
            parent: String::new(),
        };
        let mut api = site.api.definitions();
        let page = match api.list_definitions(visitor.request(request)).await {
            Ok(page) => page.into_inner(),
            // Without an engine for portable definitions there are no schedules.
            Err(status) if status.code() == Code::Unimplemented => break,
            Err(status) => return Err(status.into()),
        };
        let with_schedule = |one: &Definition| trigger(one).is_some();
        found.extend(page.definitions.into_iter().filter(with_schedule));
        token = page.next_page_token;
        if token.is_empty() {
            break;
        }
    }
    found.sort_by_key(|one| {
        let next = trigger(one).and_then(|trigger| moment(trigger.next_start_time.as_ref()));
        (next.is_none(), next, one.name.clone())
    });
    Ok(found)
}

fn trigger(definition: &Definition) -> Option<&Trigger> {
    let trigger = definition.trigger.as_ref();
    trigger.filter(|trigger| !trigger.schedule.is_empty())
}

fn empty() -> Markup {
    html! {
        section.empty {
            h2 { "No schedule" }
            p { "A definition with a schedule starts executions automatically:" }
            pre tabindex="0" { code { "trigger:\n  schedule: \"0 3 * * *\"" } }
        }
    }
}

fn table(definitions: &[Definition], now: Now) -> Markup {
    html! {
        div.scroll {
            table.list.schedules {
                caption.hidden { "Schedules, the next start first" }
                thead {
                    tr {
                        th scope="col" { "Definition" }
                        th scope="col" { "Schedule" }
                        th scope="col" { "Next start" }
                        th scope="col" { span.hidden { "Actions" } }
                    }
                }
                tbody { @for definition in definitions { (row(definition, now)) } }
            }
        }
    }
}

fn row(definition: &Definition, now: Now) -> Markup {
    let path = DefinitionPath::of(&definition.name);
    let trigger = trigger(definition).cloned().unwrap_or_default();
    let disabled_by = trigger.disabled.as_ref();
    html! {
        tr.row {
            td data-label="Definition" { a href=(path.path()) { (said_within(&path.shown(), 80)) } }
            td data-label="Schedule" {
                code { (said_within(&trigger.schedule, 120)) } " "
                span.muted { @if trigger.timezone.is_empty() { "UTC" } @else { (said_within(&trigger.timezone, 60)) } }
            }
            td data-label="Next start" {
                @if let Some(mark) = disabled_by { span.lacking { "✕ " (disabled(mark, now)) } }
                @else if let Some(next) = moment(trigger.next_start_time.as_ref()) { (until(next, now)) }
            }
            td.do {
                (button(&path, "run-now", "Run now"))
                @if disabled_by.is_some() { (button(&path, "enable-trigger", "Enable")) }
                @else { (button(&path, "disable-trigger", "Disable")) }
            }
        }
    }
}

fn button(path: &DefinitionPath, action: &str, title: &str) -> Markup {
    html! {
        a.button.small href=(format!("{}/do/{action}", path.path())) data-dialog {
            (title) span.hidden { ": " (said_within(&path.shown(), 60)) }
        }
    }
}
