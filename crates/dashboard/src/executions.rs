//! The list of all executions, on every provider, live.

mod counts;
mod list;
mod live;
mod name;
mod phrase;
mod presets;
mod row;

use axum::Router;
use axum::routing::get;

use crate::Site;

pub(crate) use list::unreachable;
pub(crate) use name::{ExecutionPath, path_of, shown};
pub(crate) use phrase::{attempt, waiting};
pub(crate) use row::reason;

pub(crate) fn routes() -> Router<Site> {
    Router::new()
        .route("/executions", get(list::show))
        .route("/executions/live", get(live::follow))
}
