//! The operator's pages, served by the gateway on its own port.
//!
//! Everything here goes through the public API, in process: [`router`] takes the gateway's gRPC
//! routes and calls them with the generated clients. So a page can show nothing that a client could
//! not ask for, and an error on a page is the error of the API. The crate knows no engine and no
//! provider. The capabilities decide which buttons exist, and the access rules which of them are enabled
//! (`permission`).
//!
//! Pages are rendered here (`maud`, which escapes) and work without a script. The script adds live
//! updates: the server renders a part of a page again and sends it (`live`).

mod acting;
mod api;
mod assets;
mod base;
mod compensation;
mod cookie;
mod definitions;
mod display;
mod execution;
mod executions;
mod fields;
mod flash;
mod form;
mod graph;
mod guard;
mod hint;
mod inbox;
mod layout;
mod live;
mod page;
mod permission;
mod problem;
mod providers;
mod schedules;
mod sign_in;
mod sub_state;
mod text;
mod time;
mod topic;
mod visitor;
mod workers;

use std::sync::Arc;

use axum::Router;
use axum::http::header::ACCEPT;
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::from_fn;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tonic::service::Routes;

pub use crate::definitions::definition_actions;
pub use crate::execution::execution_actions;

use crate::api::Api;
use crate::executions::ListLook;
use crate::live::Part;
use crate::problem::Problem;
use crate::topic::Topics;
use crate::visitor::Key;

/// The state that every handler uses.
#[derive(Clone)]
pub(crate) struct Site {
    pub(crate) api: Api,
    pub(crate) key: Key,
    /// Ends the live streams at shutdown.
    pub(crate) stop: CancellationToken,
    /// Room for live streams.
    pub(crate) streams: Arc<Semaphore>,
    /// The content of live pages, with one reader for all tabs of a page.
    pub(crate) pages: Topics<Vec<Part>>,
    /// Pages of the list, one reader for all tabs of a filter.
    pub(crate) lists: Topics<ListLook>,
}

/// The maximum number of live streams, one for each open tab.
const MOST_STREAMS: usize = 500;

/// The pages over an API. `stop` ends their live streams.
pub fn router(routes: Routes, stop: CancellationToken) -> Router {
    let site = Site {
        api: Api::over(routes),
        key: Key::random(),
        pages: Topics::new(stop.clone()),
        lists: Topics::new(stop.clone()),
        stop,
        streams: Arc::new(Semaphore::new(MOST_STREAMS)),
    };
    Router::new()
        .route("/", get(async || Redirect::to("/executions")))
        .merge(assets::routes())
        .merge(acting::routes())
        .merge(display::routes())
        .merge(sign_in::routes())
        .merge(executions::routes())
        .merge(definitions::routes())
        .merge(schedules::routes())
        .merge(inbox::routes())
        .merge(providers::routes())
        .merge(workers::routes())
        .merge(execution::routes())
        .fallback(nowhere)
        .with_state(site)
        .layer(from_fn(guard::guard))
}

/// The answer to an address without a page: for a browser a page with the navigation.
async fn nowhere(headers: HeaderMap) -> Response {
    let accept = headers.get(ACCEPT).and_then(|accept| accept.to_str().ok());
    if accept.is_some_and(|accept| accept.contains("text/html")) {
        Problem::not_found("There is no page at this address.", "").into_response()
    } else {
        (StatusCode::NOT_FOUND, "This gateway has no such page.\n").into_response()
    }
}
