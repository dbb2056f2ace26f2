//! The revisions of a definition, and what changed between two of them.

use maud::{Markup, html};

use super::diff::{Line, diff};
use super::name::DefinitionPath;
use crate::fields::link;
use crate::text::{lines, said_within};

/// Revisions in the lists; older ones can be named in the address.
const MOST: usize = 100;

/// The first digits of a revision.
pub(super) fn short(revision: &str) -> &str {
    let hash = revision.len() == 64 && revision.bytes().all(|byte| byte.is_ascii_hexdigit());
    if hash { &revision[..12] } else { revision }
}

/// The list, and a form to compare two.
pub(super) fn render(path: &DefinitionPath, all: &[String], current: &str) -> Markup {
    html! {
        section aria-labelledby="revisions-title" {
            h2 #revisions-title { "Revisions " span.count { (all.len()) } }
            ol.revisions reversed {
                @for (place, revision) in all.iter().enumerate().take(MOST) {
                    li {
                        a href=(link(&path.path(), &[("revision", revision)]))
                            aria-current=[(revision == current).then_some("true")] {
                            code { (said_within(short(revision), 40)) }
                        }
                        @if place == 0 { " newest" }
                        @if let Some(before) = all.get(place + 1) {
                            " " a.muted href=(link(&path.path(), &[("from", before), ("to", revision)])) {
                                "what changed"
                            }
                        }
                    }
                }
            }
            @if all.len() > 1 { (compare(path, all)) }
        }
    }
}

fn compare(path: &DefinitionPath, all: &[String]) -> Markup {
    let choice = |name: &str, title: &str, chosen: usize| {
        html! {
            label { (title)
                select name=(name) {
                    @for (place, revision) in all.iter().enumerate().take(MOST) {
                        option value=(revision) selected[place == chosen] {
                            (short(revision)) @if place == 0 { " (newest)" }
                        }
                    }
                }
            }
        }
    };
    html! {
        form.compare action=(path.path()) {
            (choice("from", "From", 1))
            (choice("to", "To", 0))
            button { "Compare" }
        }
    }
}

/// Two revisions side by side in one column: what went, what came.
pub(super) fn changes(from: (&str, &str), to: (&str, &str)) -> Markup {
    let ((from, old), (to, new)) = (from, to);
    html! {
        section aria-labelledby="changes-title" {
            h2 #changes-title {
                "From " code { (said_within(short(from), 40)) } " to " code { (said_within(short(to), 40)) }
            }
            @match diff(old, new) {
                Ok(found) if found.is_empty() => p.nothing { "The revisions are equal." },
                Ok(found) => div.scroll tabindex="0" role="region" aria-label="Changes" {
                    table.diff {
                        thead {
                            tr {
                                th scope="col" { "Old" }
                                th scope="col" { "New" }
                                th scope="col" { span.hidden { "Change" } }
                                th scope="col" { "Line" }
                            }
                        }
                        tbody { @for line in &found { (change(line)) } }
                    }
                },
                Err(_) => p.nothing { "The revisions differ too much for a comparison line by line." },
            }
        }
    }
}

fn change(line: &Line<'_>) -> Markup {
    let row =
        |class: &str, old: Option<usize>, new: Option<usize>, sign: (&str, &str), text: &str| {
            html! {
                tr class=(class) {
                    td.number { @if let Some(old) = old { (old) } }
                    td.number { @if let Some(new) = new { (new) } }
                    td.sign { span aria-hidden="true" { (sign.0) } span.hidden { (sign.1) } }
                    td.text { (lines(text)) }
                }
            }
        };
    match line {
        Line::Same(old, new, text) => row("same", Some(*old), Some(*new), ("", ""), text),
        Line::Removed(old, text) => row("removed", Some(*old), None, ("−", "removed"), text),
        Line::Added(new, text) => row("added", None, Some(*new), ("+", "added"), text),
        Line::Skipped(count) => html! {
            tr.skipped { td colspan="4" { "… " (count) " lines are the same" } }
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_hash_is_cut() {
        assert_eq!(short(&"ab".repeat(32)), "abababababab");
        assert_eq!(
            short("arn:aws:states:::stateMachine:x:12"),
            "arn:aws:states:::stateMachine:x:12"
        );
    }
}
