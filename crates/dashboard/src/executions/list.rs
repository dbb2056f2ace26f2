//! The list as a page.

use std::time::{Duration, Instant};

use axum::extract::State;
use axum::response::Response;
use jiff::Timestamp;
use maud::{Markup, html};
use stateway_phrases::grouped;
use stateway_proto::v1::{
    CountExecutionsResponse, Execution, ListExecutionsRequest, ListExecutionsResponse,
};

use super::name::address;
use super::presets::presets;
use super::{counts, row, selected};
use crate::Site;
use crate::execution::quoted;
use crate::fields::{Fields, link};
use crate::layout::Section;
use crate::page::Page;
use crate::problem::Problem;
use crate::text::{lines, said};
use crate::time::{Now, moment};
use crate::visitor::Visitor;

/// Rows on a page: one look, and a first view that stays small.
pub(super) const ROWS: i32 = 30;

/// How long a page is filled with executions that pass the filter.
const SEARCH: Duration = Duration::from_millis(500);

/// What is asked for: by the address of the page and of its live updates.
#[derive(Debug, Clone)]
pub(super) struct ListAddress {
    pub(super) filter: String,
    pub(super) page: String,
}

impl ListAddress {
    pub(super) fn of(fields: &Fields) -> Self {
        Self {
            filter: fields.get("filter").to_owned(),
            page: fields.get("page").to_owned(),
        }
    }

    /// The rows of the page, from the API. A page of the API may have fewer rows than it could, because
    /// the gateway reads a limited number of executions for it: more pages are read until this one is
    /// full, within a limit of time.
    pub(super) async fn rows(
        &self,
        site: &Site,
        visitor: &Visitor,
    ) -> Result<ListExecutionsResponse, Problem> {
        let begun = Instant::now();
        let mut page = self.page_of(site, visitor, &self.page, ROWS).await?;
        loop {
            let found = i32::try_from(page.executions.len()).unwrap_or(ROWS);
            let is_full = found >= ROWS || page.next_page_token.is_empty();
            if is_full || begun.elapsed() >= SEARCH {
                break;
            }
            let token = &page.next_page_token;
            let next = self.page_of(site, visitor, token, ROWS - found).await?;
            page.executions.extend(next.executions);
            page.next_page_token = next.next_page_token;
            page.examined_count = page.examined_count.saturating_add(next.examined_count);
            // A provider that did not answer once answers on a later page.
            page.unreachable = next.unreachable;
        }
        Ok(page)
    }

    async fn page_of(
        &self,
        site: &Site,
        visitor: &Visitor,
        token: &str,
        rows: i32,
    ) -> Result<ListExecutionsResponse, Problem> {
        let request = ListExecutionsRequest {
            parent: "providers/-".into(),
            page_size: rows,
            page_token: token.to_owned(),
            filter: self.filter.clone(),
        };
        let mut api = site.api.executions();
        let answer = api.list_executions(visitor.request(request)).await?;
        Ok(answer.into_inner())
    }
}

pub(super) async fn show(State(site): State<Site>, visitor: Visitor, fields: Fields) -> Response {
    let asked = ListAddress::of(&fields);
    let now = Now::page();
    let (answer, counted) =
        futures::join!(asked.rows(&site, &visitor), counts::read(&site, &visitor));
    let live = answer.as_ref().map(|page| live_of(&asked, page));
    let page = Page {
        section: Section::Executions,
        title: "Executions",
        live: live.as_deref().ok(),
        content: content(&asked, &answer, counted.as_ref(), &visitor, now),
    };
    page.show(&visitor)
}

/// Where the page's live updates come from. It names the executions that the page shows, so that a
/// browser that reconnects later gets the changes of these executions, whatever the list contains
/// by then.
fn live_of(asked: &ListAddress, page: &ListExecutionsResponse) -> String {
    let oldest = if page.next_page_token.is_empty() {
        None
    } else {
        oldest(&page.executions)
    };
    let oldest = oldest.map_or_else(String::new, |time| time.as_nanosecond().to_string());
    let mut fields = vec![
        ("filter", asked.filter.as_str()),
        ("page", &asked.page),
        ("oldest", &oldest),
    ];
    let rows = page.executions.iter().map(|row| address(&row.name));
    let rows: Vec<_> = rows.collect();
    fields.extend(rows.iter().map(|row| ("row", row.as_str())));
    link("/executions/live", &fields)
}

/// When the oldest of these was made.
fn oldest(executions: &[Execution]) -> Option<Timestamp> {
    let times = executions
        .iter()
        .filter_map(|execution| moment(execution.create_time.as_ref()));
    times.min()
}

fn content(
    asked: &ListAddress,
    answer: &Result<ListExecutionsResponse, Problem>,
    counted: Option<&CountExecutionsResponse>,
    visitor: &Visitor,
    now: Now,
) -> Markup {
    html! {
        div.title {
            h1 { "Executions" }
            details.commands #list-command {
                summary { "On the command line" }
                pre.command tabindex="0" data-copy="the command" { (lines(&command(asked))) }
            }
        }
        (unreachable(answer.as_ref().map_or(&[], |page| &page.unreachable), "executions"))
        (counts::render(counted, &asked.filter))
        (filter_box(asked, answer.as_ref().err(), visitor, now))
        @if let Ok(page) = answer {
            @if page.executions.is_empty() && page.next_page_token.is_empty() {
                (fresh(asked, 0))
                (empty(asked))
            } @else {
                (fresh(asked, 0))
                (selected::bar(&asked.filter))
                @if !page.executions.is_empty() { (table(page, now)) }
                (looked(asked, page))
                (pager(asked, page))
            }
        }
    }
}

/// The command that lists the same.
fn command(asked: &ListAddress) -> String {
    match asked.filter.as_str() {
        "" => "stateway list".to_owned(),
        filter => format!("stateway list --filter {}", quoted(filter)),
    }
}

/// The providers that did not answer, by name, and what of theirs (`what`) is missing from the page.
pub(crate) fn unreachable(names: &[String], what: &str) -> Markup {
    let ids = names
        .iter()
        .map(|name| name.strip_prefix("providers/").unwrap_or(name));
    let ids: Vec<_> = ids.collect();
    html! {
        div #unreachable role="status" {
            @if !ids.is_empty() {
                div.note.warn {
                    p {
                        "No answer from " b { (said(&ids.join(", "))) }
                        ". Its " (what) " are missing here. "
                        a href="/providers" { "See providers" }
                    }
                }
            }
        }
    }
}

/// How far the search came, when it ended before the page was full.
fn looked(asked: &ListAddress, page: &ListExecutionsResponse) -> Markup {
    let most = usize::try_from(ROWS).unwrap_or(usize::MAX);
    let found = page.executions.len();
    html! {
        @if found < most && !page.next_page_token.is_empty() {
            div.note role="status" {
                p {
                    @match found {
                        0 => "No match so far",
                        1 => "One match so far",
                        found => { (found) " matches so far" }
                    }
                    @if page.examined_count > 0 {
                        ": the search went through " (grouped(page.examined_count.into())) " executions"
                    }
                    ". "
                    a href=(link("/executions", &[("filter", &asked.filter), ("page", &page.next_page_token)])) {
                        "Search further"
                    }
                }
            }
        }
    }
}

fn filter_box(
    asked: &ListAddress,
    problem: Option<&Problem>,
    visitor: &Visitor,
    now: Now,
) -> Markup {
    let wrong = problem.is_some();
    html! {
        form.filter role="search" action="/executions" {
            label.hidden for="filter" { "Search or filter" }
            input #filter type="search" name="filter" value=(asked.filter) maxlength="2000"
                placeholder="Beginning of an id, or a filter: sub_state = BACKING_OFF AND retry.attempt >= 3"
                spellcheck="false" autocomplete="off" autocapitalize="off"
                aria-invalid=[wrong.then_some("true")]
                aria-describedby=[wrong.then_some("filter-problem")];
            button { "Search" }
        }
        @if let Some(problem) = problem { div #filter-problem { (problem.render()) } }
        nav.presets aria-label="Ready-made filters" {
            a href="/executions" aria-current=[asked.filter.is_empty().then_some("true")] { "All" }
            @for preset in presets(now.timestamp()) {
                a href=(link("/executions", &[("filter", &preset.filter)]))
                    aria-current=[(asked.filter == preset.filter).then_some("true")] {
                    (preset.title)
                }
            }
            a href="/inbox?mine=1" { "Waiting for me" }
            (visitor.views.links(&asked.filter))
        }
        @if !wrong { (visitor.views.form(visitor, &asked.filter)) }
    }
}

/// How many have come since the page was made; a link instead of rows that jump.
pub(super) fn fresh(asked: &ListAddress, count: usize) -> Markup {
    let most = usize::try_from(ROWS).unwrap_or(usize::MAX);
    html! {
        div #fresh role="status" {
            @if count > 0 {
                a.fresh href=(link("/executions", &[("filter", &asked.filter)])) {
                    @if count >= most { (most) "+" } @else { (count) }
                    " new – show"
                }
            }
        }
    }
}

fn table(page: &ListExecutionsResponse, now: Now) -> Markup {
    html! {
        div.scroll {
            table.list {
                caption.hidden { "Executions, newest first" }
                thead {
                    tr {
                        th.select scope="col" { span.hidden { "Select" } }
                        th scope="col" { "State" }
                        th scope="col" { "Execution" }
                        th scope="col" { "Provider" }
                        th scope="col" { "Now" }
                        th scope="col" { "Changed" }
                        th scope="col" { "Created" }
                    }
                }
                tbody {
                    @for execution in &page.executions { (row::part(execution, now).html) }
                }
            }
        }
    }
}

fn pager(asked: &ListAddress, page: &ListExecutionsResponse) -> Markup {
    html! {
        nav.pager aria-label="Pages" {
            @if !asked.page.is_empty() {
                a.button href=(link("/executions", &[("filter", &asked.filter)])) rel="first" { "Newest" }
            }
            @if !page.next_page_token.is_empty() {
                a.button rel="next"
                    href=(link("/executions", &[("filter", &asked.filter), ("page", &page.next_page_token)])) {
                    "Older"
                }
            }
        }
    }
}

fn empty(asked: &ListAddress) -> Markup {
    html! {
        section.empty {
            @if asked.filter.is_empty() && asked.page.is_empty() {
                h2 { "No executions yet" }
                p { "Start the first execution:" }
                pre tabindex="0" { code { "stateway definitions apply order.yaml\nstateway start order-saga --input '{\"order\": 17}'" } }
                p { "To see example executions: " code { "stateway demo" } }
            } @else {
                h2 { "No match" }
                p { "No execution matches this filter. " a href="/executions" { "Show all" } }
            }
        }
    }
}
