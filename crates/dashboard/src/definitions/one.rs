//! One definition, or two of its revisions compared.

use axum::extract::State;
use axum::response::Response;
use maud::{Markup, html};
use stateway_proto::v1::{Definition, DefinitionStep, GetDefinitionRequest};

use super::name::DefinitionPath;
use super::{action, portability, revisions, source, start, trigger};
use crate::Site;
use crate::execution::of_definition;
use crate::fields::{Fields, link};
use crate::layout::Section;
use crate::page::Page;
use crate::problem::Problem;
use crate::text::{said, said_within};
use crate::time::{Now, ago, moment};
use crate::visitor::Visitor;

pub(super) async fn show(
    State(site): State<Site>,
    visitor: Visitor,
    path: DefinitionPath,
    fields: Fields,
) -> Result<Response, Problem> {
    let content = match (fields.get("from"), fields.get("to")) {
        ("", _) | (_, "") => {
            let revision = fields.get("revision");
            let found = get(&site, &visitor, &path.revision(revision)).await?;
            let mut form = start::Form::of(&fields);
            let filled = form.fill(&site, &visitor, fields.get("like")).await;
            let form =
                start::question(&site, &visitor, &path, &found, &form, filled.as_ref().err()).await;
            let providers = portability::card(&site, &visitor, &found).await;
            whole(&path, &found, (&form, &providers, &visitor), Now::page())
        }
        (from, to) => {
            let old = get(&site, &visitor, &path.revision(from)).await?;
            let new = get(&site, &visitor, &path.revision(to)).await?;
            compared(&path, &old, &new)
        }
    };
    let title = path.shown();
    let page = Page {
        section: Section::Definitions,
        title: &title,
        live: None,
        content,
    };
    Ok(page.show(&visitor))
}

pub(super) async fn get(site: &Site, visitor: &Visitor, name: &str) -> Result<Definition, Problem> {
    let request = GetDefinitionRequest {
        name: name.to_owned(),
    };
    let mut api = site.api.definitions();
    let found = api.get_definition(visitor.request(request)).await?;
    Ok(found.into_inner())
}

/// The page, with the form as it stands and the report of the providers.
pub(super) fn whole(
    path: &DefinitionPath,
    found: &Definition,
    (form, providers, visitor): (&Markup, &Markup, &Visitor),
    now: Now,
) -> Markup {
    let newest = found
        .revisions
        .first()
        .is_none_or(|first| *first == found.revision);
    html! {
        (head(path))
        @if !found.description.is_empty() { p.lead { (said(&found.description)) } }
        p.muted {
            "Revision " code { (said_within(revisions::short(&found.revision), 40)) }
            @if let Some(time) = moment(found.create_time.as_ref()) { ", applied " (ago(time, now)) }
            @if !newest { ". This is not the newest one. " a href=(path.path()) { "Show the newest" } }
        }
        @if found.deleted { p.lacking { "✕ The definition was deleted. Nothing starts it any more." } }
        (action::buttons(path, found, visitor))
        @if let Some(trigger) = &found.trigger { (trigger::render(trigger, now)) }
        @if !found.steps.is_empty() { (picture(found)) }
        @if newest && !found.deleted { (form) }
        (providers)
        (source::render(&found.source))
        (revisions::render(path, &found.revisions, &found.revision))
    }
}

/// The steps and their dependencies, as a picture and as a list.
fn picture(found: &Definition) -> Markup {
    html! {
        section.card.defined aria-labelledby="steps-title" {
            h2 #steps-title { "Steps" }
            (of_definition(found, &[]).draw("Steps of the definition"))
            details #steps-list {
                summary { "As a list" }
                ol { @for step in &found.steps { (step_line(step)) } }
            }
        }
    }
}

fn step_line(step: &DefinitionStep) -> Markup {
    html! {
        li {
            b { (said_within(&step.name, 60)) } " – " (step.kind().label())
            @if !step.role.is_empty() { " by " (said_within(&step.role, 60)) }
            @if !step.summary.is_empty() { ": " (said_within(&step.summary, 120)) }
            @if !step.depends_on.is_empty() { ", after " (said(&step.depends_on.join(", "))) }
            @if !step.condition.is_empty() { ", only if " code { (said_within(&step.condition, 120)) } }
            @if step.compensated { ", can be compensated" }
        }
    }
}

fn compared(path: &DefinitionPath, old: &Definition, new: &Definition) -> Markup {
    html! {
        (head(path))
        (revisions::changes((&old.revision, &old.source), (&new.revision, &new.source)))
        (revisions::render(path, &new.revisions, &new.revision))
    }
}

fn head(path: &DefinitionPath) -> Markup {
    let filter = format!("definition = \"{}\"", path.name);
    html! {
        p.crumbs { a href="/definitions" { "Definitions" } }
        div.title {
            h1 { (said_within(&path.shown(), 120)) }
            @if let Some(provider) = path.provider() {
                p.muted { "of " a href={ "/providers/" (provider) } { (said_within(provider, 60)) } }
            }
            a href=(link("/executions", &[("filter", &filter)])) { "Its executions" }
        }
    }
}
