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
use futures::stream::{self, Stream, StreamExt};
use maud::{Markup, html};
use tokio::sync::OwnedSemaphorePermit;

use crate::Site;
use crate::problem::Problem;

/// How often something is sent when nothing changes, so that the connection is known to be alive.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Looking takes at most one part in so many of the time.
const SHARE: u32 = 10;
/// However long looking takes, it is done this often.
const SLOWEST: Duration = Duration::from_secs(15);

/// How long to wait after a look that took so long.
pub(crate) fn pause(took: Duration, fastest: Duration) -> Duration {
    took.saturating_mul(SHARE).clamp(fastest, SLOWEST)
}

/// A part of a page: an element with this id.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    pub(crate) id: String,
    pub(crate) html: Markup,
}

impl Part {
    pub(crate) fn new(id: impl Into<String>, html: Markup) -> Self {
        Self {
            id: id.into(),
            html,
        }
    }
}

/// What a look found, and above it nothing; or what is in the way of looking. What is on the page
/// stays then, and says that it may not be true any more.
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
                p.muted { "This page could not be brought up to date; what it shows may be old." }
                (problem.render())
            }
        }
    };
    Part::new("trouble", html)
}

/// A live page's place among those that there may be, held for as long as its stream is.
pub(crate) struct Room(OwnedSemaphorePermit);

/// Room for one more live page. Taken before anything is asked of the API for it.
pub(crate) fn room(site: &Site) -> Result<Room, Problem> {
    let room = site.streams.clone().try_acquire_owned();
    room.map(Room).map_err(|_| {
        Problem::busy(
            "There are too many live pages already.",
            "This one does not update by itself; reload it to see what is new.",
        )
    })
}

/// Sends parts as they come, those that have changed, where there is room.
pub(crate) fn send(site: &Site, parts: impl Stream<Item = Vec<Part>> + Send + 'static) -> Response {
    match room(site) {
        Ok(room) => send_in(room, site, parts),
        Err(problem) => problem.into_response(),
    }
}

/// Sends parts as they come, those that have changed.
pub(crate) fn send_in(
    room: Room,
    site: &Site,
    parts: impl Stream<Item = Vec<Part>> + Send + 'static,
) -> Response {
    let stop = site.stop.clone();
    let mut sent = Sent::default();
    let events = parts
        .flat_map(move |parts| stream::iter(sent.changed(parts)))
        .map(move |part| {
            let Room(_held) = &room;
            Ok::<_, Infallible>(event(&part))
        })
        .take_until(async move { stop.cancelled().await });
    let alive = KeepAlive::new().interval(KEEP_ALIVE);
    Sse::new(events).keep_alive(alive).into_response()
}

/// Looks at once and then at a pace.
pub(crate) fn every<F, R>(site: &Site, pace: Duration, look: F) -> Response
where
    F: Fn() -> R + Send + 'static,
    R: Future<Output = Result<Vec<Part>, Problem>> + Send + 'static,
{
    let ticks = stream::unfold((), move |()| async move {
        tokio::time::sleep(pace).await;
        Some(((), ()))
    });
    let looks = stream::once(async {}).chain(ticks).then(move |()| look());
    send(site, looks.map(seen))
}

/// The first line says which part, the rest is it.
fn event(part: &Part) -> Event {
    let text = format!("{}\n{}", part.id, part.html.0);
    // A carriage return would end a line of the event stream.
    Event::default()
        .event("part")
        .data(text.replace('\r', "&#13;"))
}

/// What was sent last, by part, as hashes.
#[derive(Default)]
struct Sent(HashMap<String, u64>);

impl Sent {
    fn changed(&mut self, parts: Vec<Part>) -> Vec<Part> {
        parts.into_iter().filter(|part| self.is_new(part)).collect()
    }

    fn is_new(&mut self, part: &Part) -> bool {
        let hash = hash_without_times(&part.html.0);
        self.0.insert(part.id.clone(), hash) != Some(hash)
    }
}

/// A hash of everything but the texts of `time` elements: those the script keeps true by itself, so
/// a part of which only they differ has not changed.
fn hash_without_times(html: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    let mut pieces = html.split("<time ");
    pieces.next().hash(&mut hasher);
    for piece in pieces {
        let (element, rest) = piece.split_once("</time>").unwrap_or((piece, ""));
        let attributes = element.split_once('>').map_or(element, |(tag, _)| tag);
        (attributes, rest).hash(&mut hasher);
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use maud::PreEscaped;

    use super::*;

    #[test]
    fn a_part_is_sent_again_only_when_it_changed() {
        let part = |id: &str, html: &str| Part::new(id, PreEscaped(html.to_owned()));
        let mut sent = Sent::default();
        let ids = |parts: Vec<Part>| parts.into_iter().map(|part| part.id).collect::<Vec<_>>();
        assert_eq!(
            ids(sent.changed(vec![part("a", "1"), part("b", "1")])),
            ["a", "b"]
        );
        assert_eq!(
            ids(sent.changed(vec![part("a", "1"), part("b", "2")])),
            ["b"]
        );
        assert_eq!(
            ids(sent.changed(vec![part("a", "2"), part("b", "2")])),
            ["a"]
        );
    }

    #[test]
    fn what_takes_long_is_done_less_often() {
        let ms = Duration::from_millis;
        let pauses = [1, 80, 60_000].map(|took| pause(ms(took), ms(500)));
        assert_eq!(pauses, [ms(500), ms(800), SLOWEST]);
    }

    #[test]
    fn the_text_of_a_time_is_no_change_but_the_time_is() {
        let hash = |at: u32, text: &str, after: &str| {
            hash_without_times(&format!(
                "<p><time data-ago=\"{at}\">{text}</time>{after}</p>"
            ))
        };
        assert_eq!(hash(1, "1 s ago", "x"), hash(1, "2 s ago", "x"));
        assert_ne!(hash(1, "1 s ago", "x"), hash(2, "1 s ago", "x"));
        assert_ne!(hash(1, "1 s ago", "x"), hash(1, "1 s ago", "y"));
    }
}
