//! Definitions: what they do as a picture, their triggers, their revisions and what changed between
//! them, a form to start one, and what can be done about one.

mod action;
mod diff;
mod list;
mod name;
mod one;
mod portability;
mod revisions;
mod source;
mod start;
mod trigger;

pub use action::definition_actions;
pub(crate) use name::DefinitionPath;
pub(crate) use trigger::disabled;

use axum::Router;
use axum::routing::{get, post};

use crate::Site;

pub(crate) fn routes() -> Router<Site> {
    Router::new()
        .route("/definitions", get(list::show))
        .route("/definitions/{definition}", get(one::show))
        .route("/definitions/{definition}/start", post(start::send))
        .route(
            "/definitions/{definition}/do/{action}",
            get(action::ask).post(action::send),
        )
        .route(
            "/providers/{provider}/definitions/{definition}",
            get(one::show),
        )
        .route(
            "/providers/{provider}/definitions/{definition}/start",
            post(start::send),
        )
}
