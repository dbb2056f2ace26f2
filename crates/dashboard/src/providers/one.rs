//! One provider: health, capabilities, state table.

use std::time::Duration;

use axum::extract::{Path, State};
use axum::response::Response;
use maud::{Markup, html};
use stateway_proto::v1::{GetProviderRequest, Provider};

use super::{capability, health, id_of, table};
use crate::Site;
use crate::fields::link;
use crate::layout::Section;
use crate::live::{Part, every, share};
use crate::page::Page;
use crate::problem::Problem;
use crate::text::said_within;
use crate::time::Now;
use crate::visitor::Visitor;

/// How often the health is read again.
const PACE: Duration = Duration::from_secs(1);

pub(super) async fn show(
    State(site): State<Site>,
    visitor: Visitor,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    let provider = get(&site, &visitor, &id).await?;
    let id = id_of(&provider.name);
    let live = format!("/providers/{id}/live");
    let page = Page {
        section: Section::Providers,
        title: id,
        live: Some(&live),
        content: content(&provider, Now::page()),
    };
    Ok(page.show(&visitor))
}

pub(super) async fn follow(
    State(site): State<Site>,
    visitor: Visitor,
    Path(id): Path<String>,
) -> Response {
    let key = format!("provider|{}|{id}", visitor.reader());
    let from = visitor.clone();
    let look = (site.clone(), visitor, id);
    let look = move || {
        let (site, visitor, id) = look.clone();
        async move {
            let found = get(&site, &visitor, &id).await;
            let part = |provider| Part::new("health", state(&provider, Now::stream()));
            Ok(vec![part(found?)])
        }
    };
    share(&site, &from, key, || every(PACE, look))
}

async fn get(site: &Site, visitor: &Visitor, id: &str) -> Result<Provider, Problem> {
    let request = GetProviderRequest {
        name: format!("providers/{id}"),
    };
    let mut api = site.api.providers();
    Ok(api
        .get_provider(visitor.request(request))
        .await?
        .into_inner())
}

fn content(provider: &Provider, now: Now) -> Markup {
    let id = id_of(&provider.name);
    let filter = format!("name = \"providers/{id}/*\"");
    html! {
        p.crumbs { a href="/providers" { "Providers" } }
        div.title {
            h1 { (said_within(id, 60)) }
            p.muted { (said_within(&provider.title, 80)) " · " (said_within(&provider.kind, 40)) }
            a href=(link("/executions", &[("filter", &filter)])) { "Its executions" }
        }
        (state(provider, now))
        section aria-labelledby="capabilities-title" {
            h2 #capabilities-title { "Capabilities" }
            (capability::render(&provider.capabilities.unwrap_or_default()))
        }
        section aria-labelledby="table-title" {
            h2 #table-title { "State table" }
            (table::render(&provider.table))
        }
    }
}

fn state(provider: &Provider, now: Now) -> Markup {
    let health = provider.health.clone().unwrap_or_default();
    html! {
        section #health aria-labelledby="health-title" {
            h2 #health-title { "Health " (health::light(&health)) }
            (health::facts(&health, Some(now)))
        }
    }
}
