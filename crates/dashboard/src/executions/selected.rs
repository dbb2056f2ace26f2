//! One action on several executions: the preview, and the result for each.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use futures::stream::{self, StreamExt};
use maud::{Markup, html};
use stateway_proto::v1::{Capabilities, Execution, GetExecutionRequest, ListExecutionsRequest};

use super::name::{ExecutionPath, address, path_of, short_name, shown};
use crate::Site;
use crate::compensation;
use crate::execution::{Action, Answer, perform};
use crate::fields::{Fields, link};
use crate::form::{Submitted, hidden_again, name_field};
use crate::layout::Section;
use crate::page::Page;
use crate::problem::Problem;
use crate::providers;
use crate::sub_state::badge;
use crate::text::{said, said_within};
use crate::visitor::{Visitor, request_id};

/// The most executions of one action.
const MOST: usize = 150;
/// Calls at the same time.
const AT_ONCE: usize = 8;

/// One of the chosen executions: as it is now, or why it cannot be read.
struct Candidate {
    path: ExecutionPath,
    found: Result<Box<Execution>, Problem>,
}

impl Candidate {
    /// Why the action does nothing to it; none when it fits.
    fn obstacle(&self, action: Action, can: &[(String, Capabilities)]) -> Option<String> {
        let execution = match &self.found {
            Ok(execution) => execution,
            Err(problem) => return Some(problem.message.clone()),
        };
        let provider = can.iter().find(|(id, _)| *id == self.path.provider);
        let offered = provider.is_some_and(|(_, can)| action.offered(can));
        if !offered {
            return Some("its provider does not support it".to_owned());
        }
        (!action.fits(execution)).then(|| "its state does not allow it".to_owned())
    }
}

/// The question: which executions, which action, and what it needs.
pub(super) async fn ask(
    State(site): State<Site>,
    visitor: Visitor,
    fields: Fields,
) -> Result<Response, Problem> {
    let action = wanted(&fields)?;
    let chosen = chosen(&site, &visitor, &fields).await?;
    if chosen.paths.is_empty() {
        return Err(Problem::invalid(
            "No execution is selected.",
            "Tick the executions in the list, then choose the action.",
        ));
    }
    let candidates = read(&site, &visitor, chosen.paths).await;
    let can = capabilities(&site, &visitor).await?;
    let preview = Preview {
        action,
        can: &can,
        candidates: &candidates,
        is_cut: chosen.is_cut,
        fields: &fields,
        request_id: request_id(),
        problem: None,
    };
    Ok(preview.page(&visitor))
}

/// Does it, and shows what came of each.
pub(super) async fn send(
    State(site): State<Site>,
    submitted: Submitted,
) -> Result<Response, Problem> {
    let fields = &submitted.fields;
    let action = wanted(fields)?;
    let paths: Vec<_> = rows(fields).collect();
    let id = submitted.request_id();
    // A mistake in what was typed is the same for all.
    if let Err(problem) = Action::check(fields) {
        let candidates = read(&site, &submitted.visitor, rows(fields).collect()).await;
        let can = capabilities(&site, &submitted.visitor).await?;
        let preview = Preview {
            action,
            can: &can,
            candidates: &candidates,
            is_cut: false,
            fields,
            request_id: id.clone(),
            problem: Some(&problem),
        };
        let page = preview.page(&submitted.visitor);
        return Ok(submitted.remember((problem.status, page).into_response()));
    }
    let attempts = paths.into_iter().enumerate().map(|(place, path)| {
        let (site, visitor) = (&site, &submitted.visitor);
        // Sent again, the form repeats nothing.
        let request_id = format!("{id}-{place}");
        async move {
            let done = perform(site, &path, action, visitor, fields, request_id).await;
            (path, done.and_then(|done| done.map_err(Problem::from)))
        }
    });
    let attempts: Vec<_> = attempts.collect();
    let results: Vec<_> = stream::iter(attempts).buffered(AT_ONCE).collect().await;
    let content = outcome(action, &results, fields.get("filter"));
    let page = Page {
        section: Section::Executions,
        title: action.title(),
        live: None,
        content,
    };
    Ok(submitted.remember(page.show(&submitted.visitor)))
}

fn wanted(fields: &Fields) -> Result<Action, Problem> {
    let found = Action::parse(fields.get("do")).filter(|action| action.is_for_many());
    found.ok_or_else(|| {
        Problem::invalid(
            "There is no such action for several executions.",
            "Choose one in the list of executions.",
        )
    })
}

/// The executions of an address or a form.
fn rows(fields: &Fields) -> impl Iterator<Item = ExecutionPath> {
    fields.all("row").filter_map(ExecutionPath::at).take(MOST)
}

/// The executions that were chosen.
struct Selection {
    paths: Vec<ExecutionPath>,
    /// More executions match the filter than one action can change.
    is_cut: bool,
}

/// The rows that are ticked, or everything that passes the filter, up to the limit.
async fn chosen(site: &Site, visitor: &Visitor, fields: &Fields) -> Result<Selection, Problem> {
    if !fields.has("all") {
        return Ok(Selection {
            paths: rows(fields).collect(),
            is_cut: false,
        });
    }
    let mut paths = Vec::new();
    let mut token = String::new();
    loop {
        let request = ListExecutionsRequest {
            parent: "providers/-".into(),
            page_size: i32::try_from(MOST - paths.len()).unwrap_or(1),
            page_token: token,
            filter: fields.get("filter").to_owned(),
        };
        let mut api = site.api.executions();
        let page = api.list_executions(visitor.request(request)).await?;
        let page = page.into_inner();
        let found = page.executions.iter().map(|one| address(&one.name));
        paths.extend(found.filter_map(|address| ExecutionPath::at(&address)));
        token = page.next_page_token;
        if token.is_empty() || paths.len() >= MOST {
            return Ok(Selection {
                paths,
                is_cut: !token.is_empty(),
            });
        }
    }
}

async fn read(site: &Site, visitor: &Visitor, paths: Vec<ExecutionPath>) -> Vec<Candidate> {
    let reads = paths.into_iter().map(|path| async move {
        let request = GetExecutionRequest {
            name: path.name(),
            ..GetExecutionRequest::default()
        };
        let mut api = site.api.executions();
        let found = api.get_execution(visitor.request(request)).await;
        let found = found.map(|found| Box::new(found.into_inner()));
        Candidate {
            path,
            found: found.map_err(Problem::from),
        }
    });
    let reads: Vec<_> = reads.collect();
    stream::iter(reads).buffered(AT_ONCE).collect().await
}

/// What each provider can do, by its id.
async fn capabilities(
    site: &Site,
    visitor: &Visitor,
) -> Result<Vec<(String, Capabilities)>, Problem> {
    let all = providers::all(site, visitor).await?;
    let all = all.into_iter().map(|one| {
        let id = providers::id_of(&one.name).to_owned();
        (id, one.capabilities.unwrap_or_default())
    });
    Ok(all.collect())
}

/// The question with everything that it shows.
struct Preview<'p> {
    action: Action,
    can: &'p [(String, Capabilities)],
    candidates: &'p [Candidate],
    is_cut: bool,
    fields: &'p Fields,
    request_id: String,
    problem: Option<&'p Problem>,
}

impl Preview<'_> {
    fn page(&self, visitor: &Visitor) -> Response {
        let page = Page {
            section: Section::Executions,
            title: self.action.title(),
            live: None,
            content: self.content(visitor),
        };
        page.show(visitor)
    }

    fn content(&self, visitor: &Visitor) -> Markup {
        let (fitting, others): (Vec<_>, Vec<_>) = self
            .candidates
            .iter()
            .map(|one| (one, one.obstacle(self.action, self.can)))
            .partition(|(_, obstacle)| obstacle.is_none());
        let back = link("/executions", &[("filter", self.fields.get("filter"))]);
        html! {
            p.crumbs { a href=(back) { "Executions" } }
            div.title { h1 { (self.action.title()) ": " (fitting.len()) " of " (self.candidates.len()) " executions" } }
            @if self.is_cut {
                div.note.warn { p { "More executions match. One action takes at most " (MOST) "; repeat it for the rest." } }
            }
            @if let Some(problem) = self.problem { (problem.render()) }
            p { (self.action.effect_on_many()) }
            @if fitting.is_empty() {
                p.nothing { "None of the selected executions can take this action." }
            } @else {
                form.question method="post" action="/executions/selected" {
                    (hidden_again(visitor, &self.request_id))
                    input type="hidden" name="do" value=(self.action.word());
                    input type="hidden" name="filter" value=(self.fields.get("filter"));
                    @for (one, _) in &fitting { input type="hidden" name="row" value=(address(&one.path.name())); }
                    (self.inputs())
                    (name_field(visitor))
                    div.buttons {
                        button.primary.(if self.action.is_dangerous() { "danger" } else { "" }) {
                            (self.action.title()) ": " (fitting.len())
                        }
                        a.button href=(back) { "Back" }
                    }
                }
                (table("Will be changed", &fitting))
            }
            @if !others.is_empty() { (table("Left out", &others)) }
        }
    }

    fn inputs(&self) -> Markup {
        let typed = |name: &str| self.fields.get(name).to_owned();
        html! {
            @match self.action {
                Action::Signal => {
                    label { "Signal" input name="signal" required maxlength="256" autocomplete="off" value=(typed("signal")); }
                    label { "Payload as JSON (optional)" textarea name="payload" spellcheck="false" { (typed("payload")) } }
                }
                Action::Cancel | Action::Kill | Action::Pause => {
                    @if self.action == Action::Cancel && self.can.iter().all(|(_, can)| can.cancel_compensation) {
                        (compensation::field(self.fields.get("compensation")))
                    }
                    label { "Reason (optional, recorded)"
                        input name="comment" maxlength="500" autocomplete="off" value=(typed("comment"));
                    }
                }
                _ => {}
            }
        }
    }
}

fn table(title: &str, lines: &[(&Candidate, Option<String>)]) -> Markup {
    html! {
        section {
            h2 { (title) " " span.count { (lines.len()) } }
            div.scroll {
                table {
                    caption.hidden { (title) }
                    thead { tr { th scope="col" { "Execution" } th scope="col" { "State" } th scope="col" { "Why" } } }
                    tbody {
                        @for (one, obstacle) in lines {
                            tr {
                                td { (execution_link(&one.path.name())) }
                                td { @if let Ok(execution) = &one.found { (badge(execution.sub_state())) } }
                                td { @if let Some(why) = obstacle { (said(why)) } }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn execution_link(name: &str) -> Markup {
    let (_, id) = shown(name);
    html! { a href=(path_of(name)) title=(short_name(name)) { (said_within(&id, 80)) } }
}

/// What came of each: the failures first.
fn outcome(
    action: Action,
    results: &[(ExecutionPath, Result<Answer, Problem>)],
    filter: &str,
) -> Markup {
    let failed: Vec<_> = results.iter().filter(|(_, done)| done.is_err()).collect();
    let done: Vec<_> = results.iter().filter(|(_, done)| done.is_ok()).collect();
    html! {
        p.crumbs { a href=(link("/executions", &[("filter", filter)])) { "Executions" } }
        div.title { h1 { (action.title()) ": " (done.len()) " of " (results.len()) " done" } }
        @if !failed.is_empty() {
            section {
                h2 { "Failed " span.count { (failed.len()) } }
                div.scroll {
                    table.failures {
                        caption.hidden { "Executions for which the action failed" }
                        thead { tr { th scope="col" { "Execution" } th scope="col" { "Why" } th scope="col" { "Reason" } } }
                        tbody {
                            @for (path, done) in &failed {
                                @if let Err(problem) = done {
                                    tr {
                                        td { (execution_link(&path.name())) }
                                        td { (said(&problem.message)) @if !problem.hint.is_empty() { p.hint { (said(&problem.hint)) } } }
                                        td { code { (problem.reason) } }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
        @if !done.is_empty() {
            section {
                h2 { "Done " span.count { (done.len()) } }
                ul.plain { @for (path, _) in &done { li { (execution_link(&path.name())) } } }
            }
        }
        p { a.button href=(link("/executions", &[("filter", filter)])) { "Back to the list" } }
    }
}

/// The bar above the list: the action for the rows that are ticked, or for everything that matches.
pub(super) fn bar(filter: &str) -> Markup {
    html! {
        form.selection #selection action="/executions/selected" {
            input type="hidden" name="filter" value=(filter);
            label for="selection-do" { "Selected:" }
            select #selection-do name="do" {
                @for action in Action::ALL.into_iter().filter(|action| action.is_for_many()) {
                    option value=(action.word()) { (action.title()) }
                }
            }
            button.small { "Preview" }
            button.small name="all" value="1" {
                @if filter.is_empty() { "Preview for all" } @else { "Preview for all that match" }
            }
            button.small.script type="button" data-select-all="row" { "Select the page" }
        }
    }
}
