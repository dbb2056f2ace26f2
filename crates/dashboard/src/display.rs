//! How a person wants pages to look: which times, and whether single keys act. Kept in a cookie.

use axum::Router;
use axum::http::{HeaderMap, HeaderValue};
use axum::response::Response;
use axum::routing::get;
use maud::{Markup, html};

use crate::acting::own_path;
use crate::fields::Fields;
use crate::flash::Flash;
use crate::form::{Submitted, hidden};
use crate::layout::Section;
use crate::page::{dialog, redirect, with_cookies};
use crate::visitor::Visitor;
use crate::{Site, cookie};

const COOKIE: &str = "stateway_display";
/// A choice is kept for a year.
const SECONDS: u32 = 365 * 24 * 3600;

/// How times are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Times {
    /// `3 min ago`.
    #[default]
    Relative,
    /// By the clock, in UTC.
    Utc,
    /// By the clock, in the zone of the browser.
    Local,
}

impl Times {
    const ALL: [Self; 3] = [Self::Relative, Self::Utc, Self::Local];

    /// In the cookie, and for style and script.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Relative => "relative",
            Self::Utc => "utc",
            Self::Local => "local",
        }
    }

    const fn title(self) -> &'static str {
        match self {
            Self::Relative => "relative (3 min ago)",
            Self::Utc => "absolute, UTC",
            Self::Local => "absolute, in the time zone of this browser (needs JavaScript)",
        }
    }

    fn parse(word: &str) -> Self {
        let found = Self::ALL.into_iter().find(|times| times.word() == word);
        found.unwrap_or_default()
    }
}

/// What a person chose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Display {
    pub(crate) times: Times,
    /// Whether single keys such as `j` and `/` act.
    pub(crate) keys: bool,
}

impl Default for Display {
    fn default() -> Self {
        Self {
            times: Times::default(),
            keys: true,
        }
    }
}

impl Display {
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let Some(value) = cookie::read(headers, COOKIE) else {
            return Self::default();
        };
        let fields = Fields::parse(value.as_bytes());
        Self {
            times: Times::parse(fields.get("times")),
            keys: fields.get("keys") != "off",
        }
    }

    fn cookie(self) -> HeaderValue {
        let keys = if self.keys { "on" } else { "off" };
        let value = format!("times={}&keys={keys}", self.times.word());
        cookie::write(COOKIE, &value, Some(SECONDS))
    }
}

pub(crate) fn routes() -> Router<Site> {
    Router::new().route("/display", get(ask).post(keep))
}

async fn ask(visitor: Visitor, query: Fields) -> Response {
    let back = visitor.base.within(own_path(query.get("back")));
    let content = question(&visitor, back);
    dialog(&visitor, Section::Executions, "Display", &content)
}

fn question(visitor: &Visitor, back: &str) -> Markup {
    let chosen = visitor.display;
    html! {
        h2 #dialog-title { "Display" }
        p { "Stored in this browser." }
        form method="post" action="/display" {
            (hidden(visitor))
            input type="hidden" name="back" value=(back);
            label { "Times"
                select name="times" {
                    @for times in Times::ALL {
                        option value=(times.word()) selected[times == chosen.times] { (times.title()) }
                    }
                }
            }
            label.check {
                input type="checkbox" name="keys" value="on" checked[chosen.keys];
                "Keyboard shortcuts: j, k, n, / and ?"
            }
            div.buttons {
                button.primary { "Keep" }
                a.button href=(back) data-close { "Back" }
            }
        }
    }
}

async fn keep(submitted: Submitted) -> Response {
    let fields = &submitted.fields;
    let display = Display {
        times: Times::parse(fields.get("times")),
        keys: fields.has("keys"),
    };
    let done = Flash::done("The display was changed.");
    let answer = redirect(own_path(fields.get("back")), Some(&done));
    with_cookies(answer, [display.cookie()])
}

#[cfg(test)]
mod tests {
    use axum::http::header;

    use super::*;

    #[test]
    fn a_choice_survives_the_cookie() {
        let display = Display {
            times: Times::Utc,
            keys: false,
        };
        let line = display.cookie();
        let pair = line.to_str().unwrap().split(';').next().unwrap().to_owned();
        let mut headers = HeaderMap::new();
        headers.insert(header::COOKIE, pair.parse().unwrap());
        assert_eq!(Display::of(&headers), display);
        assert_eq!(Display::of(&HeaderMap::new()), Display::default());
    }
}
