//! Definitions: what they do as a picture, their revisions and what changed between them, and a form
//! to start one.

mod diff;
mod list;
mod name;
mod one;
mod revisions;
mod source;
mod start;

use axum::Router;
use axum::routing::{get, post};

use crate::Site;

pub(crate) fn routes() -> Router<Site> {
    Router::new()
        .route("/definitions", get(list::show))
        .route("/definitions/{definition}", get(one::show))
        .route("/definitions/{definition}/start", post(start::send))
        .route(
            "/providers/{provider}/definitions/{definition}",
            get(one::show),
        )
        .route(
            "/providers/{provider}/definitions/{definition}/start",
            post(start::send),
        )
}
