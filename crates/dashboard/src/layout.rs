//! The frame around every page.

use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use jiff::Timestamp;
use maud::{DOCTYPE, Markup, html};

use crate::assets;
use crate::display::Display;
use crate::live::trouble;
use crate::sub_state::sprite;
use crate::text::said_within;
use crate::visitor::Visitor;

/// The parts of the dashboard, in the order of the navigation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Section {
    Executions,
    Inbox,
    Definitions,
    Schedules,
    Providers,
    Workers,
}

impl Section {
    const ALL: [Self; 6] = [
        Self::Executions,
        Self::Inbox,
        Self::Definitions,
        Self::Schedules,
        Self::Providers,
        Self::Workers,
    ];

    const fn title(self) -> &'static str {
        match self {
            Self::Executions => "Executions",
            Self::Inbox => "Inbox",
            Self::Definitions => "Definitions",
            Self::Schedules => "Schedules",
            Self::Providers => "Providers",
            Self::Workers => "Workers",
        }
    }

    const fn path(self) -> &'static str {
        match self {
            Self::Executions => "/executions",
            Self::Inbox => "/inbox",
            Self::Definitions => "/definitions",
            Self::Schedules => "/schedules",
            Self::Providers => "/providers",
            Self::Workers => "/workers",
        }
    }
}

/// A whole document: head, navigation, content.
pub(crate) fn document(
    title: &str,
    section: Option<Section>,
    visitor: Option<&Visitor>,
    live: Option<&str>,
    content: &Markup,
) -> Markup {
    let is_signed_in = visitor.is_some_and(Visitor::is_signed_in);
    let base = visitor.map(|visitor| visitor.base.as_str());
    let display = visitor.map_or_else(Display::default, |visitor| visitor.display);
    html! {
        (DOCTYPE)
        html lang="en" {
            (head(title))
            body data-live=[live] data-now=(Timestamp::now().as_millisecond())
                data-base=[base.filter(|base| !base.is_empty())]
                data-times=(display.times.word()) data-keys=(if display.keys { "on" } else { "off" })
                data-signed-in=[is_signed_in.then_some("yes")] {
                (sprite())
                a.skip href="#main" { "Skip to the content" }
                header.top {
                    a.brand href="/executions" {
                        svg.logo aria-hidden="true" { use href="#i-brand" {} }
                        "Stateway"
                    }
                    (navigation(section))
                    span.live #live role="status" { @if live.is_some() { span.dot {} span.word { "live" } } }
                    @if let Some(visitor) = visitor { (acting(visitor)) }
                }
                main #main tabindex="-1" {
                    @if let Some(flash) = visitor.and_then(|visitor| visitor.flash.as_ref()) {
                        (flash.render())
                    }
                    @if live.is_some() { (trouble(None).html) }
                    (content)
                }
                footer.bottom {
                    a href="/display" data-dialog { "Display" }
                    span.muted { "times " (display.times.word()) @if !display.keys { ", keys off" } }
                }
                dialog #dialog aria-labelledby="dialog-title" {}
                (keys())
            }
        }
    }
}

fn head(title: &str) -> Markup {
    html! {
        head {
            meta charset="utf-8";
            meta name="viewport" content="width=device-width, initial-scale=1";
            meta name="color-scheme" content="light dark";
            title { (title) " · Stateway" }
            link rel="icon" href=(assets::ICON.url());
            link rel="stylesheet" href=(assets::STYLE.url());
            script src=(assets::SCRIPT.url()) defer {}
        }
    }
}

/// A page for a visitor who is not signed in: without navigation.
pub(crate) fn signed_out(title: &str, content: &Markup) -> Response {
    respond(&html! {
        (DOCTYPE)
        html lang="en" {
            (head(title))
            body data-now=(Timestamp::now().as_millisecond()) {
                (sprite())
                header.top {
                    a.brand href="/executions" {
                        svg.logo aria-hidden="true" { use href="#i-brand" {} }
                        "Stateway"
                    }
                }
                main #main tabindex="-1" { (content) }
            }
        }
    })
}

/// A page without a visitor: a refusal.
pub(crate) fn bare(title: &str, content: &Markup) -> Response {
    respond(&document(title, None, None, None, content))
}

/// Markup as an answer.
pub(crate) fn respond(markup: &Markup) -> Response {
    let html = [(CONTENT_TYPE, "text/html; charset=utf-8")];
    (html, markup.0.clone()).into_response()
}

fn navigation(section: Option<Section>) -> Markup {
    html! {
        nav.sections aria-label="Sections" {
            @for one in Section::ALL {
                a href=(one.path()) aria-current=[(section == Some(one)).then_some("page")] {
                    (one.title())
                }
            }
        }
    }
}

fn acting(visitor: &Visitor) -> Markup {
    let acting = &visitor.acting;
    html! {
        @if acting.fixed {
            span.acting { "Acting as " b { (said_within(&acting.actor, 40)) } }
        } @else if acting.actor.is_empty() {
            a.acting href="/acting" data-dialog { "Acting without a name" }
        } @else {
            a.acting href="/acting" data-dialog { "Acting as " b { (said_within(&acting.actor, 40)) } }
        }
        @if visitor.is_signed_in() {
            form.sign-out method="post" action="/sign-out" { button { "Sign out" } }
        }
    }
}

/// What the keys do; the script shows it at `?`.
fn keys() -> Markup {
    let list = [
        ("j", "next row"),
        ("k", "row before"),
        ("Enter", "open the row"),
        ("/", "filter"),
        ("n", "show new entries"),
        ("?", "these keys"),
        ("Esc", "close"),
    ];
    html! {
        dialog #keys aria-labelledby="keys-title" {
            h2 #keys-title { "Keys" }
            dl.keys {
                @for (key, meaning) in list { dt { kbd { (key) } } dd { (meaning) } }
            }
            p.muted { "Keys can be turned off: " a href="/display" { "Display" } }
            form method="dialog" { button { "Close" } }
        }
    }
}
