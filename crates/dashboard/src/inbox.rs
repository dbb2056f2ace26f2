//! What waits for a person: approvals and escalations, with everything that is needed to decide, and
//! the decisions of others.

mod approval;
mod decide;
mod escalation;
mod given;
mod live;
mod may;
mod reader;
mod resolve;
mod show;

use axum::Router;
use axum::routing::get;

use crate::Site;

pub(crate) use approval::buttons as approval_buttons;
pub(crate) use escalation::buttons as escalation_buttons;

pub(crate) fn routes() -> Router<Site> {
    Router::new()
        .route("/inbox", get(show::show))
        .route("/inbox/live", get(live::follow))
        .route("/inbox/decide", get(decide::ask).post(decide::send))
        .route("/inbox/resolve", get(resolve::ask).post(resolve::send))
}
