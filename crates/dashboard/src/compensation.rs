//! The choice about compensation in the dialogs that cancel an execution.

use maud::{Markup, html};
use stateway_proto::v1::Compensation;

use crate::problem::Problem;

/// Whether completed steps are compensated. Default: according to the definition.
pub(crate) fn field(typed: &str) -> Markup {
    let choices = [
        ("", "according to the definition's failurePolicy"),
        ("compensate", "compensate completed steps"),
        ("none", "compensate nothing"),
    ];
    html! {
        label { "Compensation"
            select name="compensation" {
                @for (word, title) in choices {
                    option value=(word) selected[word == typed] { (title) }
                }
            }
        }
    }
}

/// The choice in the dialog. Without a choice the definition decides.
pub(crate) fn choice(word: &str) -> Result<Compensation, Problem> {
    match word {
        "" => Ok(Compensation::Unspecified),
        "compensate" => Ok(Compensation::Compensate),
        "none" => Ok(Compensation::Skip),
        _ => Err(Problem::invalid(
            "This choice about compensation is unknown.",
            "Choose one from the list.",
        )),
    }
}
