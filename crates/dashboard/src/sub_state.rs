//! The six states, each with an icon of its own shape, so that colour is never needed to tell them
//! apart.

use maud::{Markup, PreEscaped, html};
use stateway_phrases::STATES;
use stateway_proto::v1::SubState;

/// The six in the order that pages list them: the ones that need a person come first.
pub(crate) const ALL: [SubState; 6] = {
    let mut all = [SubState::Unspecified; 6];
    let mut place = 0;
    while place < all.len() {
        all[place] = STATES[place].sub_state;
        place += 1;
    }
    all
};

/// The label of the API.
pub(crate) const fn word(sub_state: SubState) -> &'static str {
    match sub_state {
        SubState::Unspecified => "unknown",
        known => known.label(),
    }
}

/// Icon and word.
pub(crate) fn badge(sub_state: SubState) -> Markup {
    let word = word(sub_state);
    html! { span.badge.(word) { (icon(sub_state)) (word) } }
}

/// The icon alone, hidden from screen readers.
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
