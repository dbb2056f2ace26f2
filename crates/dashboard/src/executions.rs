//! The list of all executions, on every provider, live.

mod counts;
mod list;
mod live;
mod name;
mod phrase;
mod presets;
mod row;
mod selected;
mod views;

use axum::Router;
use axum::routing::{get, post};

use crate::Site;

pub(crate) use list::unreachable;
pub(crate) use live::ListLook;
pub(crate) use name::{ExecutionPath, address, path_of, short_name, shown};
pub(crate) use phrase::{attempt, happening, waiting};
pub(crate) use row::{label, reason};
pub(crate) use views::Views;

pub(crate) fn routes() -> Router<Site> {
    Router::new()
        .route("/executions", get(list::show))
        .route("/executions/live", get(live::follow))
        .route(
            "/executions/selected",
            get(selected::ask).post(selected::send),
        )
        .route("/views", post(views::keep))
}
