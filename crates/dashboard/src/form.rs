//! Forms: what they carry to be taken, and how a submitted one is read.

use axum::body::to_bytes;
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};

use crate::Site;
use crate::fields::Fields;
use crate::problem::Problem;
use crate::visitor::{Visitor, request_id};

/// The largest form: a payload fits, a flood does not.
const LARGEST: usize = 2 * 1024 * 1024;

const TOKEN: &str = "csrf";
const REQUEST: &str = "request_id";

/// The fields that every form has: the visitor's token and an id that makes it happen once.
pub(crate) fn hidden(visitor: &Visitor) -> Markup {
    html! {
        input type="hidden" name=(TOKEN) value=(visitor.token());
        input type="hidden" name=(REQUEST) value=(request_id());
    }
}

/// A form that was sent by the visitor it was made for.
pub(crate) struct Submitted {
    pub(crate) visitor: Visitor,
    pub(crate) fields: Fields,
}

impl Submitted {
    /// The id that the form carried; sending it again repeats nothing.
    pub(crate) fn request_id(&self) -> String {
        self.fields.get(REQUEST).to_owned()
    }
}

impl FromRequest<Site> for Submitted {
    type Rejection = Response;

    async fn from_request(request: Request, site: &Site) -> Result<Self, Response> {
        let (mut parts, body) = request.into_parts();
        let Ok(visitor) = Visitor::from_request_parts(&mut parts, site).await;
        let Ok(body) = to_bytes(body, LARGEST).await else {
            return Err(Problem::invalid(
                "The form is too large, or broke off.",
                "At most 2 MiB can be sent from a page. Use the API or the command line.",
            )
            .into_response());
        };
        let fields = Fields::parse(&body);
        if !visitor.sent(fields.get(TOKEN)) {
            return Err(Problem::forbidden(
                "The form has expired: the gateway or the browser was restarted since.",
                "Go back, reload the page and send it again.",
            )
            .into_response());
        }
        Ok(Self { visitor, fields })
    }
}
