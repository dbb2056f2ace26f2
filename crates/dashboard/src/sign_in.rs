//! The page for people who are not signed in. The gateway decides the content and handles the forms.

use axum::Router;
use axum::extract::Extension;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use maud::{Markup, html};
use stateway_identity::sign_in::SignInPage;

use crate::Site;
use crate::layout;

pub(crate) fn routes() -> Router<Site> {
    Router::new().route("/sign-in", get(show))
}

/// Without sign-in there is nothing to show.
async fn show(page: Option<Extension<SignInPage>>) -> Response {
    match page {
        Some(Extension(page)) => layout::signed_out("Sign in", &content(&page)),
        None => Redirect::to("/executions").into_response(),
    }
}

fn content(page: &SignInPage) -> Markup {
    html! {
        h1 { "Sign in" }
        @if let Some(notice) = page.notice {
            div.note.good role="status" {
                p { (notice) }
                @if let Some(address) = &page.provider_sign_out {
                    p.hint { a href=(address) { "Sign out at " (provider(page)) " too" } }
                }
            }
        }
        @if let Some(problem) = &page.problem {
            div.note.bad role="alert" {
                p { (problem.message) }
                p.hint { (problem.hint) }
                p.hint { "Reason: " code { (problem.reason) } }
            }
        }
        div.question {
            @if page.provider.is_some() {
                p { "Sign in to see and control executions." }
                div.buttons {
                    a.button.primary #provider href=(start(page)) { "Sign in with " (provider(page)) }
                }
            }
            @if page.api_keys {
                form method="post" action="/sign-in/key" {
                    input type="hidden" name="back" value=(page.back);
                    label { "API key"
                        input name="key" type="password" required autocomplete="off"
                            placeholder="stw_…" autofocus[page.provider.is_none()];
                    }
                    div.buttons { button.primary[page.provider.is_none()] { "Sign in with the key" } }
                }
            }
        }
    }
}

fn provider(page: &SignInPage) -> &str {
    page.provider.as_deref().unwrap_or("the provider")
}

fn start(page: &SignInPage) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.append_pair("back", &page.back);
    format!("/sign-in/start?{}", query.finish())
}

#[cfg(test)]
mod tests {
    use stateway_identity::sign_in::SignInProblem;

    use super::*;

    #[test]
    fn the_page_offers_what_is_configured_and_escapes_what_others_wrote() {
        let mut page = SignInPage {
            provider: Some("<b>ID</b>".into()),
            back: "/inbox?a=\"><script>".into(),
            ..SignInPage::default()
        };
        let shown = content(&page).0;
        assert!(shown.contains("/sign-in/start?back=%2Finbox%3Fa%3D%22%3E%3Cscript%3E"));
        assert!(!shown.contains("<b>") && !shown.contains("<form"));
        page.provider = None;
        page.api_keys = true;
        page.problem = Some(SignInProblem {
            message: "<script>".into(),
            hint: String::new(),
            reason: "API_KEY_UNKNOWN",
        });
        let shown = content(&page).0;
        assert!(shown.contains("action=\"/sign-in/key\"") && shown.contains("API_KEY_UNKNOWN"));
        assert!(!shown.contains("<script>") && !shown.contains("/sign-in/start"));
    }
}
