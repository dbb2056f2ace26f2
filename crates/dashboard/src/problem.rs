//! What went wrong, on a page: the API's message, its hint and its reason.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};
use tonic::{Code, Status};
use tonic_types::StatusExt;

use crate::flash::Flash;
use crate::hint::in_pages;
use crate::layout;
use crate::text::said_within;

/// Characters of a message that are shown.
const LONGEST: usize = 2_000;

/// Why a page or an action did not come about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) status: StatusCode,
    pub(crate) message: String,
    /// What to do about it; may be empty.
    pub(crate) hint: String,
    /// The API's reason; may be empty.
    pub(crate) reason: String,
}

impl Problem {
    pub(crate) fn forbidden(message: &str, hint: &str) -> Self {
        Self::new(StatusCode::FORBIDDEN, message, hint)
    }

    pub(crate) fn invalid(message: &str, hint: &str) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message, hint)
    }

    pub(crate) fn not_found(message: &str, hint: &str) -> Self {
        Self::new(StatusCode::NOT_FOUND, message, hint)
    }

    pub(crate) fn busy(message: &str, hint: &str) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, message, hint)
    }

    fn new(status: StatusCode, message: &str, hint: &str) -> Self {
        Self {
            status,
            message: message.to_owned(),
            hint: hint.to_owned(),
            reason: String::new(),
        }
    }

    /// Whether what was asked for may have been done all the same.
    pub(crate) fn is_uncertain(&self) -> bool {
        matches!(
            self.status,
            StatusCode::INTERNAL_SERVER_ERROR
                | StatusCode::SERVICE_UNAVAILABLE
                | StatusCode::GATEWAY_TIMEOUT
        )
    }

    /// For the next page.
    pub(crate) fn flash(&self) -> Flash {
        Flash {
            good: false,
            message: self.message.clone(),
            hint: self.hint.clone(),
        }
    }

    /// Message, hint and reason, in place.
    pub(crate) fn render(&self) -> Markup {
        html! {
            div.note.bad role="alert" {
                p { (said_within(&self.message, LONGEST)) }
                @if !self.hint.is_empty() { p.hint { (said_within(&self.hint, LONGEST)) } }
                @if !self.reason.is_empty() { p.hint { "Reason: " code { (self.reason) } } }
            }
        }
    }
}

impl From<Status> for Problem {
    fn from(status: Status) -> Self {
        let details = status.get_error_details();
        let info = details.error_info();
        let hint = details.localized_message();
        Self {
            status: http(status.code()),
            message: status.message().to_owned(),
            hint: match info.and_then(|info| info.metadata.get("hint")) {
                Some(advice) => in_pages(advice),
                None => hint.map(|hint| hint.message.clone()).unwrap_or_default(),
            },
            reason: info.map(|info| info.reason.clone()).unwrap_or_default(),
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let title = match self.status {
            StatusCode::NOT_FOUND => "Not found",
            StatusCode::FORBIDDEN => "Refused",
            StatusCode::BAD_REQUEST => "Invalid request",
            StatusCode::CONFLICT => "Not possible in this state",
            _ => "The request failed",
        };
        let body = html! {
            h1 { (title) }
            (self.render())
            p { a href="/executions" { "To the executions" } }
        };
        (self.status, layout::bare(title, &body)).into_response()
    }
}

fn http(code: Code) -> StatusCode {
    match code {
        Code::NotFound => StatusCode::NOT_FOUND,
        Code::InvalidArgument | Code::OutOfRange => StatusCode::BAD_REQUEST,
        Code::PermissionDenied | Code::Unauthenticated => StatusCode::FORBIDDEN,
        Code::FailedPrecondition | Code::AlreadyExists | Code::Aborted => StatusCode::CONFLICT,
        Code::ResourceExhausted => StatusCode::TOO_MANY_REQUESTS,
        Code::Unimplemented => StatusCode::NOT_IMPLEMENTED,
        Code::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        Code::DeadlineExceeded => StatusCode::GATEWAY_TIMEOUT,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}
