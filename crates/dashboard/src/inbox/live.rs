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
use crate::live::{pause, seen, send};
use crate::visitor::Visitor;

/// How often the desk is looked at, unless looking takes long.
const FASTEST: Duration = Duration::from_millis(500);

pub(super) async fn follow(State(site): State<Site>, visitor: Visitor, fields: Fields) -> Response {
    let desk = Desk::new(&site, &visitor, Asked::of(&fields));
    let looks = stream::unfold((desk, Duration::ZERO), |(mut desk, wait)| async move {
        tokio::time::sleep(wait).await;
        let begun = Instant::now();
        let look = desk.look().await;
        let look = look.map(|papers| parts(&papers, &desk, Timestamp::now()));
        Some((seen(look), (desk, pause(begun.elapsed(), FASTEST))))
    });
    send(&site, looks)
}
