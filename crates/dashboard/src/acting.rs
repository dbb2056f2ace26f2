//! The name that a person acts under, typed once.

use axum::Router;
use axum::response::Response;
use axum::routing::get;
use maud::{Markup, html};

use crate::Site;
use crate::fields::Fields;
use crate::flash::Flash;
use crate::form::{Submitted, hidden};
use crate::layout::Section;
use crate::page::{dialog, redirect, with_cookies};
use crate::problem::Problem;
use crate::visitor::{Acting, Visitor};

pub(crate) fn routes() -> Router<Site> {
    Router::new().route("/acting", get(ask).post(keep))
}

async fn ask(visitor: Visitor, query: Fields) -> Response {
    let back = visitor.base.within(own_path(query.get("back")));
    let content = question(&visitor, back);
    dialog(&visitor, Section::Executions, "Acting as", &content)
}

fn question(visitor: &Visitor, back: &str) -> Markup {
    let acting = &visitor.acting;
    html! {
        h2 #dialog-title { "Your name" }
        @if acting.fixed {
            p { "You are signed in as " b { (acting.actor) } "." }
        } @else {
            p { "Your actions are recorded under this name. The name is stored in this browser." }
            form method="post" action="/acting" {
                (hidden(visitor))
                input type="hidden" name="back" value=(back);
                label { "Name"
                    input name="actor" value=(acting.actor) required maxlength="128"
                        pattern="[!-~]+" autocomplete="username" autofocus placeholder="ada@example.org";
                }
                label { "Roles, for approvals and escalations"
                    input name="roles" value=(acting.roles) autocomplete="off" placeholder="ops, release";
                }
                div.buttons {
                    button.primary { "Use this name" }
                    @if !acting.actor.is_empty() {
                        button name="forget" value="1" formnovalidate { "Remove the name" }
                    }
                    a.button href=(back) data-close { "Not now" }
                }
            }
        }
    }
}

async fn keep(submitted: Submitted) -> Result<Response, Problem> {
    let fields = &submitted.fields;
    let back = own_path(fields.get("back"));
    if fields.has("forget") {
        let done = Flash::done("You now act without a name.");
        return Ok(with_cookies(
            redirect(back, Some(&done)),
            [Acting::forgotten()],
        ));
    }
    let acting = Acting::typed(fields.get("actor"), fields.get("roles"))
        .map_err(|rule| Problem::invalid("That name or those roles cannot be used.", rule))?;
    let done = Flash::done(format!("You act as {}.", acting.actor));
    Ok(with_cookies(redirect(back, Some(&done)), [acting.cookie()]))
}

/// A path of ours, to go back to; the list when it is anything else.
pub(crate) fn own_path(path: &str) -> &str {
    let plain = path.bytes().all(|byte| byte.is_ascii_graphic());
    let ours = path.starts_with('/') && !path.starts_with("//") && !path.starts_with("/\\");
    if plain && ours { path } else { "/executions" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_sent_elsewhere() {
        assert_eq!(own_path("/executions/p/1?a=b"), "/executions/p/1?a=b");
        for path in [
            "",
            "//evil.example",
            "/\\evil.example",
            "https://evil.example",
            "/a\nb",
        ] {
            assert_eq!(own_path(path), "/executions", "{path}");
        }
    }
}
