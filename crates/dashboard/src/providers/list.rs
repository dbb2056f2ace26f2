//! All providers, and how they are now.

use std::time::Duration;

use axum::extract::State;
use axum::response::Response;
use maud::{Markup, html};
use stateway_proto::v1::Provider;
use stateway_proto::v1::provider_health::Status;

use super::{all, capability, health, id_of};
use crate::Site;
use crate::layout::Section;
use crate::live::{Part, every, share};
use crate::page::Page;
use crate::problem::Problem;
use crate::text::said_within;
use crate::visitor::Visitor;

/// Where its live updates are, as in the routes: no provider's id leads there.
const LIVE: &str = "/live/providers";
/// How often the page is read again.
const PACE: Duration = Duration::from_secs(1);

pub(super) async fn show(State(site): State<Site>, visitor: Visitor) -> Result<Response, Problem> {
    let providers = all(&site, &visitor).await?;
    let page = Page {
        section: Section::Providers,
        title: "Providers",
        live: Some(LIVE),
        content: html! {
            div.title { h1 { "Providers" } p.muted { "The engines behind this gateway." } }
            div #providers { (down(&providers)) (cards(&providers)) }
        },
    };
    Ok(page.show(&visitor))
}

pub(super) async fn follow(State(site): State<Site>, visitor: Visitor) -> Response {
    let key = format!("providers|{}", visitor.reader());
    let from = visitor.clone();
    let look = (site.clone(), visitor);
    let look = move || {
        let (site, visitor) = look.clone();
        async move {
            let providers = all(&site, &visitor).await?;
            Ok(vec![
                Part::new("down", down(&providers)),
                Part::new("cards", cards(&providers)),
            ])
        }
    };
    share(&site, &from, key, || every(PACE, look))
}

/// Those that do not answer, by name; read out when it changes.
fn down(providers: &[Provider]) -> Markup {
    let down: Vec<_> = providers.iter().filter(|one| is_down(one)).collect();
    html! {
        div #down role="status" {
            @if !down.is_empty() {
                div.note.warn {
                    p {
                        "No answer from "
                        @for (place, one) in down.iter().enumerate() {
                            @if place > 0 { ", " }
                            b { (said_within(id_of(&one.name), 60)) }
                        }
                        ". Its executions may continue, but cannot be shown or controlled here."
                    }
                }
            }
        }
    }
}

fn cards(providers: &[Provider]) -> Markup {
    html! {
        div #cards {
            @if providers.is_empty() {
                section.empty { h2 { "No provider" } p { "No provider is configured." } }
            }
            ul.cards { @for one in providers { (card(one)) } }
        }
    }
}

fn is_down(provider: &Provider) -> bool {
    let health = provider.health.as_ref();
    health.is_some_and(|health| health.status() == Status::NotServing)
}

fn card(provider: &Provider) -> Markup {
    let id = id_of(&provider.name);
    let health = provider.health.clone().unwrap_or_default();
    let capabilities = provider.capabilities.unwrap_or_default();
    html! {
        li.card.row {
            div.card-head {
                h2 { a.go href={ "/providers/" (id) } { (said_within(id, 60)) } }
                (health::light(&health))
            }
            p.muted { (said_within(&provider.title, 80)) " · " (said_within(&provider.kind, 40)) }
            (health::facts(&health, None))
            p.hint { "Supports " (capability::counted(&capabilities)) " capabilities." }
        }
    }
}
