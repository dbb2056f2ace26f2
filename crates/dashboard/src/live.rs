//! Live updates: parts of a page, rendered again and sent as server-sent events.
//!
//! A part is an element with an id. The script puts it in the place of the element of that id, so
//! the server alone knows what things look like. A part that has not changed is not sent again.

use std::collections::HashMap;
use std::convert::Infallible;
use std::future::Future;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures::stream::{self, BoxStream, Stream, StreamExt};
use maud::{Markup, html};
use tokio::sync::OwnedSemaphorePermit;

use crate::Site;
use crate::base::BasePath;
use crate::problem::Problem;
use crate::visitor::Visitor;

/// How often something is sent when nothing changes, so that the connection is known to be alive.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Reads of a page take at most one tenth of the time.
const SHARE: u32 = 10;
/// The longest interval between two reads of a page, however long a read takes.
pub(crate) const SLOWEST: Duration = Duration::from_secs(15);

/// The pause after a read of this duration.
pub(crate) fn pause(took: Duration, fastest: Duration) -> Duration {
    took.saturating_mul(SHARE).clamp(fastest, SLOWEST)
}

/// A part of a page: an element with this id.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    pub(crate) id: String,
    pub(crate) html: Markup,
    /// Tells whether the part has changed.
    hash: u64,
}

impl Part {
    pub(crate) fn new(id: impl Into<String>, html: Markup) -> Self {
        let mut hasher = DefaultHasher::new();
        html.0.hash(&mut hasher);
        Self {
            id: id.into(),
            html,
            hash: hasher.finish(),
        }
    }
}

/// What a look found, and above it nothing; or what is in the way of looking. What is on the page
/// stays then, with a note that it may be out of date.
pub(crate) fn seen(look: Result<Vec<Part>, Problem>) -> Vec<Part> {
    match look {
        Ok(mut parts) => {
            parts.push(trouble(None));
            parts
        }
        Err(problem) => vec![trouble(Some(&problem))],
    }
}

/// Why the page does not follow what happens just now; empty when it does. Every live page has it.
pub(crate) fn trouble(problem: Option<&Problem>) -> Part {
    let html = html! {
        div #trouble {
            @if let Some(problem) = problem {
                p.muted { "This page could not be brought up to date; the data shown may be outdated." }
                (problem.render())
            }
        }
    };
    Part::new("trouble", html)
}

/// The permit of one live page; its stream keeps the permit until it ends.
struct StreamPermit(OwnedSemaphorePermit);

/// A permit for one more live page, taken before the page asks the API for anything.
fn stream_permit(site: &Site) -> Result<StreamPermit, Problem> {
    let permit = site.streams.clone().try_acquire_owned();
    permit.map(StreamPermit).map_err(|_| {
        Problem::busy(
            "There are too many live pages already.",
            "This one does not update by itself; reload it to see what is new.",
        )
    })
}

/// Sends what the readers of a page find to one more tab. `read` starts a reader if no tab with the same
/// key has one.
pub(crate) fn share(
    site: &Site,
    visitor: &Visitor,
    key: String,
    read: impl FnOnce() -> BoxStream<'static, Vec<Part>>,
) -> Response {
    let permit = match stream_permit(site) {
        Ok(permit) => permit,
        Err(problem) => return problem.into_response(),
    };
    let parts = site.pages.follow(key, || whole(read()).boxed());
    let stop = site.stop.clone();
    let mut sent = SentParts {
        base: visitor.base.clone(),
        hashes: HashMap::new(),
    };
    let events = parts
        .flat_map(move |parts| stream::iter(sent.changed(&parts)))
        .map(move |event| {
            let StreamPermit(_held) = &permit;
            Ok::<_, Infallible>(event)
        })
        .take_until(async move { stop.cancelled().await });
    let alive = KeepAlive::new().interval(KEEP_ALIVE);
    Sse::new(events).keep_alive(alive).into_response()
}

/// Every part of the page as it is now, whenever some of them are read again: a tab that comes later, or
/// that was slow, needs them all.
fn whole(parts: impl Stream<Item = Vec<Part>> + Send) -> impl Stream<Item = Vec<Part>> + Send {
    parts.scan(Vec::new(), |known: &mut Vec<Part>, parts| {
        for part in parts {
            match known.iter_mut().find(|known| known.id == part.id) {
                Some(known) => *known = part,
                None => known.push(part),
            }
        }
        std::future::ready(Some(known.clone()))
    })
}

/// Reads immediately, then at a fixed interval.
pub(crate) fn every<F, R>(pace: Duration, look: F) -> BoxStream<'static, Vec<Part>>
where
    F: Fn() -> R + Send + 'static,
    R: Future<Output = Result<Vec<Part>, Problem>> + Send + 'static,
{
    let ticks = stream::unfold((), move |()| async move {
        tokio::time::sleep(pace).await;
        Some(((), ()))
    });
    let looks = stream::once(async {}).chain(ticks).then(move |()| look());
    looks.map(seen).boxed()
}

/// The first line is the id of the part, the rest its markup.
fn event(part: &Part, base: &BasePath) -> Event {
    let text = format!("{}\n{}", part.id, base.markup(&part.html.0));
    // A carriage return would end a line of the event stream.
    Event::default()
        .event("part")
        .data(text.replace('\r', "&#13;"))
}

/// The hashes of the parts that were sent last.
#[derive(Default)]
struct SentParts {
    base: BasePath,
    hashes: HashMap<String, u64>,
}

impl SentParts {
    fn changed(&mut self, parts: &[Part]) -> Vec<Event> {
        let base = self.base.clone();
        let changed = parts.iter().filter(|part| self.is_new(part));
        changed.map(|part| event(part, &base)).collect()
    }

    fn is_new(&mut self, part: &Part) -> bool {
        match self.hashes.get_mut(&part.id) {
            Some(hash) => std::mem::replace(hash, part.hash) != part.hash,
            None => self.hashes.insert(part.id.clone(), part.hash).is_none(),
        }
    }
}

#[cfg(test)]
mod tests {
    use maud::PreEscaped;

    use super::*;

    #[test]
    fn a_part_is_sent_again_only_when_it_changed() {
        let part = |id: &str, html: &str| Part::new(id, PreEscaped(html.to_owned()));
        let mut sent = SentParts::default();
        let mut sent_of = |a: &str, b: &str| {
            let parts = [part("a", a), part("b", b)];
            let new = parts.iter().filter(|part| sent.is_new(part));
            new.map(|part| part.id.clone()).collect::<Vec<_>>()
        };
        assert_eq!(sent_of("1", "1"), ["a", "b"]);
        assert_eq!(sent_of("1", "2"), ["b"]);
        assert_eq!(sent_of("2", "2"), ["a"]);
        assert!(sent_of("2", "2").is_empty());
    }

    #[tokio::test]
    async fn a_tab_that_comes_later_gets_every_part() {
        let part = |id: &str, html: &str| Part::new(id, PreEscaped(html.to_owned()));
        let reads = stream::iter([
            vec![part("a", "1"), part("b", "1")],
            vec![part("b", "2"), part("c", "1")],
        ]);
        let last = whole(reads).collect::<Vec<_>>().await.pop().unwrap();
        let last: Vec<_> = last.iter().map(|part| (&*part.id, &*part.html.0)).collect();
        assert_eq!(last, [("a", "1"), ("b", "2"), ("c", "1")]);
    }

    #[test]
    fn what_takes_long_is_done_less_often() {
        let ms = Duration::from_millis;
        let pauses = [1, 80, 60_000].map(|took| pause(ms(took), ms(500)));
        assert_eq!(pauses, [ms(500), ms(800), SLOWEST]);
    }
}
