//! The list's live updates: the rows of the page in place, and how many are new.

use std::time::Duration;

use axum::extract::State;
use axum::response::Response;
use jiff::Timestamp;

use super::list::{Asked, fresh, unreachable};
use super::row;
use crate::Site;
use crate::fields::Fields;
use crate::live::{Part, every};
use crate::time::moment;
use crate::visitor::Visitor;

/// How often the page is listed again.
const PACE: Duration = Duration::from_secs(1);

pub(super) async fn follow(State(site): State<Site>, visitor: Visitor, fields: Fields) -> Response {
    let newest = fields.get("newest").parse().unwrap_or_default();
    let newest = Timestamp::from_nanosecond(newest).unwrap_or_default();
    let follower = std::sync::Arc::new(Follower {
        site: site.clone(),
        visitor,
        asked: Asked::of(&fields),
        newest,
    });
    every(&site, PACE, move || {
        let follower = follower.clone();
        async move { follower.parts().await }
    })
}

struct Follower {
    site: Site,
    visitor: Visitor,
    asked: Asked,
    newest: Timestamp,
}

impl Follower {
    async fn parts(&self) -> Vec<Part> {
        let now = Timestamp::now();
        let Ok(page) = self.asked.rows(&self.site, &self.visitor).await else {
            return Vec::new();
        };
        let count = page.executions.iter().filter(|execution| {
            moment(execution.create_time.as_ref()).is_some_and(|time| time > self.newest)
        });
        let mut parts = vec![
            Part::new("unreachable", unreachable(&page.unreachable)),
            Part::new("fresh", fresh(&self.asked, count.count())),
        ];
        parts.extend(
            page.executions
                .iter()
                .map(|execution| row::part(execution, now)),
        );
        parts
    }
}
