//! The page, put together of parts that are also sent live.

use axum::extract::State;
use axum::response::Response;
use maud::{Markup, html};

use super::chosen::{Chosen, step_link};
use super::facts::Facts;
use super::{
    action, branches, command, decisions, event, gantt, history, overview, payload, step, steps,
    timeline,
};
use crate::Site;
use crate::executions::{ExecutionPath, shown};
use crate::fields::Fields;
use crate::layout::Section;
use crate::live::Part;
use crate::page::Page;
use crate::problem::Problem;
use crate::sub_state::finished;
use crate::text::{cut, visible};
use crate::time::Now;
use crate::visitor::Visitor;

/// Characters of a name in the title of the page.
const TITLE: usize = 60;

pub(super) async fn show(
    State(site): State<Site>,
    visitor: Visitor,
    path: ExecutionPath,
    fields: Fields,
) -> Result<Response, Problem> {
    let chosen = Chosen::of(&fields);
    let facts = Box::pin(Facts::read(&site, &visitor, &path, &chosen)).await?;
    let (_, id) = shown(&facts.execution.name);
    let id = visible(&id).into_owned();
    let now = Now::page();
    let history = match history::whole(&path, &facts).filter(|_| !fields.has("events")) {
        Some(whole) => whole,
        None => history::page(&site, &visitor, &path, &facts, &fields).await,
    };
    let live = format!("{}/live", path.path());
    let live = chosen.address(&live, fields.get("events"));
    let page = Page {
        section: Section::Executions,
        title: cut(&id, TITLE).unwrap_or(&id),
        live: Some(&live),
        content: html! {
            @for part in parts(&path, &facts, &visitor, now) { (part.html) }
            (history)
        },
    };
    Ok(page.show(&visitor))
}

/// The parts that are updated live, in the order of the page.
pub(super) fn parts(path: &ExecutionPath, facts: &Facts, visitor: &Visitor, now: Now) -> Vec<Part> {
    vec![
        part("head", &overview::head(path, facts, now)),
        part("decisions", &decisions::show(path, facts, visitor, now)),
        part("actions", &action::buttons(path, facts, visitor)),
        part("overview", &overview::now(facts, now)),
        part("family", &facts.family.show(now)),
        part("graph", &steps::graph(path, facts)),
        part("timeline", &over_time(path, facts, now)),
        part("steps", &steps::table(path, facts, visitor, now)),
        part("step", &step::chosen(path, facts, now)),
        part("event", &event::chosen(path, facts)),
        part("payloads", &payload::both(path, facts)),
        part("branches", &branches::show(facts, now)),
        part("commands", &command::show(path, facts)),
    ]
}

fn part(id: &str, html: &Markup) -> Part {
    Part::new(id, html! { div #(id) { (html) } })
}

fn over_time(path: &ExecutionPath, facts: &Facts, now: Now) -> Markup {
    let execution = &facts.execution;
    let told = facts.events.as_ref().ok();
    let events = told.map_or(&[][..], |told| &told.events);
    let more = told.is_some_and(|told| told.more_before);
    let lanes = timeline::lanes(execution, events);
    let open = !finished(execution.sub_state());
    let has_details = facts.has_step_details();
    let href = |step: &str, attempt| has_details.then(|| step_link(path, step, attempt));
    html! {
        @if !execution.steps.is_empty() || !lanes.is_empty() {
            section.card aria-labelledby="timeline-title" {
                h2 #timeline-title { "Timeline" }
                div.tools {
                    button.small.script type="button" data-widen="out" aria-label="Narrower" { "−" }
                    button.small.script type="button" data-widen="in" aria-label="Wider" { "+" }
                    button.small.script type="button" data-widen="fit" { "Fit" }
                }
                div.timeline { (gantt::draw(&lanes, open, now, &href)) }
                @if let (true, Some(first), Some(last)) = (more, events.first(), events.last()) {
                    p.muted {
                        "Drawn from the events " (first.sequence) " to " (last.sequence) " of a longer history."
                    }
                }
            }
        }
    }
}
