//! The inbox's live updates: what comes appears, what is decided elsewhere leaves.

use std::time::{Duration, Instant};

use axum::extract::State;
use axum::response::Response;
use futures::stream;
use jiff::Timestamp;

use super::desk::{Asked, Desk};
use super::show::parts;
use crate::Site;
use crate::fields::Fields;
use crate::live::{pause, send};
use crate::visitor::Visitor;

/// How often the desk is looked at, unless looking takes long.
const FASTEST: Duration = Duration::from_millis(500);

pub(super) async fn follow(State(site): State<Site>, visitor: Visitor, fields: Fields) -> Response {
    let desk = Desk::new(&site, &visitor, Asked::of(&fields));
    let looks = stream::unfold((desk, Duration::ZERO), |(mut desk, wait)| async move {
        tokio::time::sleep(wait).await;
        let begun = Instant::now();
        // What cannot be read stays as it was; the next look may go better.
        let parts = match desk.look().await {
            Ok(papers) => parts(&papers, &desk, Timestamp::now()),
            Err(_) => Vec::new(),
        };
        Some((parts, (desk, pause(begun.elapsed(), FASTEST))))
    });
    send(&site, looks)
}
