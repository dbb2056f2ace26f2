//! Forms: what they carry to be taken, and how a submitted one is read.

use axum::body::to_bytes;
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};

use crate::Site;
use crate::fields::Fields;
use crate::flash::Flash;
use crate::layout::Section;
use crate::page::{dialog, redirect, with_cookies};
use crate::problem::Problem;
use crate::text::said_within;
use crate::visitor::{Acting, Visitor, request_id};

/// The largest form: a payload fits, a flood does not.
const LARGEST: usize = 2 * 1024 * 1024;

const TOKEN: &str = "csrf";
const REQUEST: &str = "request_id";

/// The fields that every form has: the token of the visitor, and an idempotency key.
pub(crate) fn hidden(visitor: &Visitor) -> Markup {
    hidden_again(visitor, &request_id())
}

/// The same for a form that may have done its work already: sent again under its old id, it does
/// nothing twice.
pub(crate) fn hidden_again(visitor: &Visitor, request_id: &str) -> Markup {
    html! {
        input type="hidden" name=(TOKEN) value=(visitor.token());
        input type="hidden" name=(REQUEST) value=(request_id);
    }
}

/// Whether [`name_field`] is a field to type into.
pub(crate) fn asks_name(visitor: &Visitor) -> bool {
    visitor.acting.actor.is_empty() && !visitor.acting.fixed
}

/// Asks for the name of the visitor, unless it is known.
pub(crate) fn name_field(visitor: &Visitor) -> Markup {
    html! {
        @if visitor.acting.fixed && visitor.acting.actor.is_empty() {
            p.muted { "The proxy in front of this gateway does not send your name." }
        } @else if visitor.acting.actor.is_empty() {
            label { "Your name (recorded)"
                input name="actor" required maxlength="128" pattern="[!-~]+"
                    autocomplete="username" placeholder="ada@example.org";
            }
        } @else {
            p.muted { "You act as " b { (said_within(&visitor.acting.actor, 60)) } "." }
        }
    }
}

/// Fields that people type into; the others of a form are hidden.
const TYPED: [(&str, &str); 10] = [
    ("comment", "Comment"),
    ("input", "Input"),
    ("payload", "Payload"),
    ("feedback", "Message for the worker"),
    ("signal", "Signal"),
    ("role", "Role"),
    ("id", "Id"),
    ("labels", "Labels"),
    ("name", "Name"),
    ("actor", "Your name (recorded)"),
];

/// The form again, with what was typed: its token is of a gateway that was restarted since, or of another
/// session. Nothing was done, and nothing is done before the person sends it.
fn again(visitor: &Visitor, path: &str, fields: &Fields) -> Response {
    let kept = fields.iter().filter(|(name, _)| *name != TOKEN);
    let title = |field: &str| TYPED.iter().find(|(name, _)| *name == field);
    // The name of a request is hidden in its form, the name of a view is typed.
    let typed = |field: &str, value: &str| {
        title(field).filter(|_| !(field == "name" && value.starts_with("providers/")))
    };
    let content = html! {
        h2 #dialog-title { "Send the form again" }
        p {
            "The gateway was restarted after this form was opened, or you signed in again. "
            b { "Nothing was changed." } " Check the form and send it again."
        }
        form method="post" action=(path) {
            input type="hidden" name=(TOKEN) value=(visitor.token());
            @for (name, value) in kept {
                @if let Some((_, title)) = typed(name, value) {
                    label { (title) textarea.short name=(name) { (value) } }
                } @else { input type="hidden" name=(name) value=(value); }
            }
            div.buttons {
                button.primary { "Send" }
                a.button href="/executions" { "Discard" }
            }
        }
    };
    let page = dialog(visitor, Section::Executions, "Send again", &content);
    (StatusCode::FORBIDDEN, page).into_response()
}

/// A form that was sent by the visitor it was made for.
pub(crate) struct Submitted {
    pub(crate) visitor: Visitor,
    pub(crate) fields: Fields,
    /// The visitor's name was typed into this form, and is kept from here on.
    named: bool,
}

impl Submitted {
    /// The id that the form carried; sending it again repeats nothing.
    pub(crate) fn request_id(&self) -> String {
        self.fields.get(REQUEST).to_owned()
    }

    /// Sends the visitor on, with a message for the next page.
    pub(crate) fn redirect(&self, to: &str, flash: &Flash) -> Response {
        self.remember(redirect(to, Some(flash)))
    }

    /// An answer that keeps the name that was typed into the form.
    pub(crate) fn remember(&self, answer: Response) -> Response {
        let name = self.named.then(|| self.visitor.acting.cookie());
        with_cookies(answer, name)
    }
}

impl FromRequest<Site> for Submitted {
    type Rejection = Response;

    async fn from_request(request: Request, site: &Site) -> Result<Self, Response> {
        let (mut parts, body) = request.into_parts();
        let Ok(mut visitor) = Visitor::from_request_parts(&mut parts, site).await;
        let Ok(body) = to_bytes(body, LARGEST).await else {
            return Err(Problem::invalid(
                "The form is too large or incomplete.",
                "At most 2 MiB can be sent from a page. Use the API or the command line.",
            )
            .into_response());
        };
        let fields = Fields::parse(&body);
        if !visitor.sent(fields.get(TOKEN)) {
            return Err(again(&visitor, parts.uri.path(), &fields));
        }
        let typed = fields.get("actor");
        let unnamed = visitor.acting.actor.is_empty() && !visitor.acting.fixed;
        let named = unnamed && !typed.is_empty();
        if named {
            visitor.acting = Acting::typed(typed, fields.get("roles")).map_err(|rule| {
                Problem::invalid("That name cannot be used.", rule).into_response()
            })?;
        }
        Ok(Self {
            visitor,
            fields,
            named,
        })
    }
}
