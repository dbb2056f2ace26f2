//! One message across one redirect, in a cookie: what an action did, or why it was refused.

use axum::http::{HeaderMap, HeaderValue};
use maud::{Markup, html};

use crate::cookie;
use crate::fields::Fields;
use crate::text::said;

const COOKIE: &str = "stateway_flash";
/// Long enough for the redirect, short enough not to turn up tomorrow.
const SECONDS: u32 = 60;
/// The longest message, in characters: a cookie holds about 4,000 bytes.
const LONGEST: usize = 300;

/// A message for the next page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Flash {
    pub(crate) good: bool,
    pub(crate) message: String,
    pub(crate) hint: String,
}

impl Flash {
    /// Something was done.
    pub(crate) fn done(message: impl Into<String>) -> Self {
        Self {
            good: true,
            message: message.into(),
            hint: String::new(),
        }
    }

    /// The message that came with a request, if any.
    pub(crate) fn read(headers: &HeaderMap) -> Option<Self> {
        let fields = Fields::parse(cookie::read(headers, COOKIE)?.as_bytes());
        let message = fields.get("message").to_owned();
        (!message.is_empty()).then(|| Self {
            good: fields.get("good") == "1",
            message,
            hint: fields.get("hint").to_owned(),
        })
    }

    /// The cookie that carries it.
    pub(crate) fn cookie(&self) -> HeaderValue {
        let short = |text: &str| text.chars().take(LONGEST).collect::<String>();
        let mut value = form_urlencoded::Serializer::new(String::new());
        value.append_pair("good", if self.good { "1" } else { "0" });
        value.append_pair("message", &short(&self.message));
        value.append_pair("hint", &short(&self.hint));
        cookie::write(COOKIE, &value.finish(), Some(SECONDS))
    }

    /// The cookie that takes it away again.
    pub(crate) fn shown() -> HeaderValue {
        cookie::write(COOKIE, "", Some(0))
    }

    pub(crate) fn render(&self) -> Markup {
        let (class, role) = if self.good {
            ("note good", "status")
        } else {
            ("note bad", "alert")
        };
        html! {
            div class=(class) role=(role) {
                p { (said(&self.message)) }
                @if !self.hint.is_empty() { p.hint { (said(&self.hint)) } }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::http::header;

    use super::*;

    #[test]
    fn a_message_survives_the_cookie() {
        let flash = Flash {
            good: false,
            message: "refused; \"really\" <b>\n\u{202e}".into(),
            hint: "Wait.".into(),
        };
        let line = flash.cookie();
        let pair = line.to_str().unwrap().split(';').next().unwrap().to_owned();
        let mut headers = HeaderMap::new();
        headers.insert(header::COOKIE, pair.parse().unwrap());
        assert_eq!(Flash::read(&headers), Some(flash));
    }
}
