//! One page for one visitor.

use axum::http::header::{LOCATION, SET_COOKIE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};

use crate::flash::Flash;
use crate::layout::{Section, document, respond};
use crate::visitor::Visitor;

/// The parts of a page.
pub(crate) struct Page<'p> {
    pub(crate) section: Section,
    pub(crate) title: &'p str,
    /// The address of the stream with the live updates of the page.
    pub(crate) live: Option<&'p str>,
    pub(crate) content: Markup,
}

impl Page<'_> {
    /// The page as an answer to a visitor.
    pub(crate) fn show(&self, visitor: &Visitor) -> Response {
        let markup = document(
            self.title,
            Some(self.section),
            Some(visitor),
            self.live,
            &self.content,
        );
        with_cookies(respond(&markup), visitor.cookies())
    }
}

/// A question before something is done: a page of its own, or with the script a dialog. The content
/// begins with the heading `h2 #dialog-title`.
pub(crate) fn dialog(
    visitor: &Visitor,
    section: Section,
    title: &str,
    content: &Markup,
) -> Response {
    let content = html! {
        h1.hidden { (title) }
        div.question #question { (content) }
    };
    let page = Page {
        section,
        title,
        live: None,
        content,
    };
    page.show(visitor)
}

/// Sends the visitor on, with a message for the next page.
pub(crate) fn redirect(to: &str, flash: Option<&Flash>) -> Response {
    let location = HeaderValue::from_str(to).unwrap_or(HeaderValue::from_static("/executions"));
    let response = (StatusCode::SEE_OTHER, [(LOCATION, location)]).into_response();
    with_cookies(response, flash.map(Flash::cookie))
}

/// Adds cookies to an answer.
pub(crate) fn with_cookies(
    mut response: Response,
    cookies: impl IntoIterator<Item = HeaderValue>,
) -> Response {
    for cookie in cookies {
        response.headers_mut().append(SET_COOKIE, cookie);
    }
    response
}
