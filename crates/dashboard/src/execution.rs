//! One execution: where it is and why, its steps as a picture and over time, what went in and came
//! out, what happened, and what can be done about it.

mod action;
mod axis;
mod branches;
mod chosen;
mod command;
mod decisions;
mod event;
mod export;
mod facts;
mod family;
mod gantt;
mod history;
mod live;
mod newest;
mod overview;
mod payload;
mod question;
mod step;
mod steps;
mod timeline;
mod view;

use axum::Router;
use axum::routing::get;

use crate::Site;

pub use action::execution_actions;
pub(crate) use action::{Action, Answer, perform};
pub(crate) use command::quoted;
pub(crate) use overview::trouble;
pub(crate) use steps::of_definition;

pub(crate) fn routes() -> Router<Site> {
    Router::new()
        .route("/executions/{provider}/{id}", get(view::show))
        .route("/executions/{provider}/{id}/live", get(live::follow))
        .route("/executions/{provider}/{id}/input", get(payload::input))
        .route("/executions/{provider}/{id}/output", get(payload::output))
        .route("/executions/{provider}/{id}/history", get(export::history))
        .route(
            "/executions/{provider}/{id}/do/{action}",
            get(question::ask).post(action::carry_out),
        )
}
