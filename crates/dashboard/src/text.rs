//! Text of others on a page: escaped by `maud`, and nothing in it may hide, forge or turn anything.

use std::borrow::Cow;

use maud::{Markup, html};
use stateway_phrases::visible_lines;
pub(crate) use stateway_phrases::{cut, visible};
use stateway_proto::v1::ExecutionError;

/// The longest text in a line of a page, in characters; the rest is cut off.
const LONGEST: usize = 300;
/// The longest text in a block of lines, in characters; the rest is cut off.
const LONGEST_BLOCK: usize = 4_000;
/// Larger payloads are not set out in lines.
const SET_OUT: usize = 256 * 1024;

/// A short text of others, set apart so that its reading direction stays its own.
pub(crate) fn said(text: &str) -> Markup {
    said_within(text, LONGEST)
}

/// The same, cut to some characters; the whole is in the tooltip, within reason.
pub(crate) fn said_within(text: &str, longest: usize) -> Markup {
    let clean = visible(text);
    match cut(&clean, longest) {
        None => html! { bdi { (clean) } },
        Some(short) => {
            let whole = cut(&clean, LONGEST.max(longest)).unwrap_or(&clean);
            html! { bdi title=(whole) { (short) "…" } }
        }
    }
}

/// The number at the end of a branch's full name.
pub(crate) fn branch_number(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}

/// A sentence of the API: what stands between backticks is set as code.
pub(crate) fn prose(text: &str, longest: usize) -> Markup {
    let clean = visible(text);
    let short = cut(&clean, longest);
    let mut code = false;
    let pieces = short.unwrap_or(&clean).split('`').map(|piece| {
        code = !code;
        (!code, piece)
    });
    let pieces: Vec<_> = pieces.collect();
    html! {
        bdi {
            @for (code, piece) in pieces { @if code { code { (piece) } } @else { (piece) } }
            @if short.is_some() { "…" }
        }
    }
}

/// A text of several lines, kept as they are.
pub(crate) fn lines(text: &str) -> Markup {
    html! { bdi { (visible_lines(text)) } }
}

/// The text of an error as a block of lines: all of it, within a limit.
pub(crate) fn error_text(error: &ExecutionError) -> Markup {
    let whole = if error.detail.is_empty() {
        &error.message
    } else {
        &error.detail
    };
    let shown = cut(whole, LONGEST_BLOCK);
    html! { pre.message tabindex="0" { (lines(shown.unwrap_or(whole))) @if shown.is_some() { "…" } } }
}

/// A payload as text: JSON set out in lines, unless it is too large for that; other text as it is;
/// none for what is no text.
pub(crate) fn set_out(payload: &[u8]) -> Option<Cow<'_, str>> {
    let text = std::str::from_utf8(payload).ok()?;
    if text.len() <= SET_OUT
        && let Ok(value) = serde_json::from_str::<serde_json::Value>(text)
        && let Ok(pretty) = serde_json::to_string_pretty(&value)
    {
        return Some(Cow::Owned(pretty));
    }
    Some(Cow::Borrowed(text))
}

/// A step's name as a part of an id: letters, digits and `-` stay, everything else is a number.
pub(crate) fn anchor(name: &str) -> String {
    let mut anchor = String::new();
    for symbol in name.chars().take(80) {
        match symbol {
            'a'..='z' | 'A'..='Z' | '0'..='9' | '-' => anchor.push(symbol),
            other => anchor.push_str(&format!("_{:x}", u32::from(other))),
        }
    }
    anchor
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_anchor_holds_nothing_that_could_end_it() {
        assert_eq!(anchor("a b\"<"), "a_20b_22_3c");
    }

    #[test]
    fn markup_is_text() {
        let shown = said("<script>alert(1)</script>\"'").into_string();
        assert_eq!(
            shown,
            "<bdi>&lt;script&gt;alert(1)&lt;/script&gt;&quot;'</bdi>"
        );
    }

    #[test]
    fn what_stands_between_backticks_is_code() {
        let shown = prose("the word `<DONE>` means", 100).into_string();
        assert_eq!(shown, "<bdi>the word <code>&lt;DONE&gt;</code> means</bdi>");
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        let shown = said_within("ééééé", 3).into_string();
        assert_eq!(shown, "<bdi title=\"ééééé\">ééé…</bdi>");
    }
}
