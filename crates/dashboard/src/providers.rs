//! What stands behind the gateway: how it is, what it can do, and how its words are read.

mod capability;
mod health;
mod list;
mod one;
mod table;

use axum::Router;
use axum::routing::get;
use stateway_proto::v1::{ListProvidersRequest, Provider};

use crate::Site;
use crate::problem::Problem;
use crate::visitor::Visitor;

/// Maximum number of providers on the page; more than any gateway has.
const MOST: i32 = 1_000;

pub(crate) fn routes() -> Router<Site> {
    Router::new()
        .route("/providers", get(list::show))
        .route("/live/providers", get(list::follow))
        .route("/providers/{provider}", get(one::show))
        .route("/providers/{provider}/live", get(one::follow))
}

/// Every provider, without its table.
pub(crate) async fn all(site: &Site, visitor: &Visitor) -> Result<Vec<Provider>, Problem> {
    let request = ListProvidersRequest {
        page_size: MOST,
        page_token: String::new(),
    };
    let mut api = site.api.providers();
    let page = api.list_providers(visitor.request(request)).await?;
    Ok(page.into_inner().providers)
}

/// A provider's id, by its name.
pub(crate) fn id_of(name: &str) -> &str {
    name.strip_prefix("providers/").unwrap_or(name)
}
