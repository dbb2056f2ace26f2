//! The six words, each with an icon of its own shape, so that colour is never needed to tell them
//! apart.

use maud::{Markup, PreEscaped, html};
use stateway_proto::v1::SubState;

/// The six, in the order that pages list them: what needs a person comes first.
pub(crate) const ALL: [SubState; 6] = [
    SubState::Error,
    SubState::BackingOff,
    SubState::Waiting,
    SubState::Running,
    SubState::Failed,
    SubState::Succeeded,
];

/// The word of the API.
pub(crate) const fn word(sub_state: SubState) -> &'static str {
    match sub_state {
        SubState::Unspecified => "unknown",
        SubState::Running => "running",
        SubState::Waiting => "waiting",
        SubState::BackingOff => "backing-off",
        SubState::Error => "error",
        SubState::Succeeded => "succeeded",
        SubState::Failed => "failed",
    }
}

/// Icon and word.
pub(crate) fn badge(sub_state: SubState) -> Markup {
    let word = word(sub_state);
    html! { span.badge.(word) { (icon(sub_state)) (word) } }
}

/// The icon alone; says nothing to a screen reader.
pub(crate) fn icon(sub_state: SubState) -> Markup {
    let target = format!("#i-{}", word(sub_state));
    html! { svg.icon aria-hidden="true" viewBox="0 0 16 16" { use href=(target) {} } }
}

/// Whether nothing follows.
pub(crate) const fn finished(sub_state: SubState) -> bool {
    matches!(sub_state, SubState::Succeeded | SubState::Failed)
}

/// The shapes, once on every page: turning arc, hourglass, arrow back, octagon, tick, cross.
pub(crate) fn sprite() -> Markup {
    PreEscaped(include_str!("sub_state/sprite.svg").to_owned())
}
