//! The text of a definition, as it was applied.

use maud::{Markup, html};

use crate::text::{cut, lines};

/// The longest text that is shown, in characters.
const LONGEST: usize = 100_000;

pub(super) fn render(source: &str) -> Markup {
    html! {
        section aria-labelledby="source-title" {
            h2 #source-title { "Source" }
            @match cut(source, LONGEST) {
                None => pre.source tabindex="0" { code { (lines(source)) } },
                Some(short) => {
                    pre.source tabindex="0" { code { (lines(short)) } }
                    p.hint { "Truncated: the full length is " (source.len()) " bytes." }
                },
            }
        }
    }
}
