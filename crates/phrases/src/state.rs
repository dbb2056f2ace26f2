//! The six states: their order on a screen, and a symbol and a colour for each.
//!
//! Each symbol has a shape of its own, so that states can be told apart without colours.

use stateway_proto::v1::SubState;

/// A colour of the palette that every terminal has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum Color {
    Blue,
    Cyan,
    Yellow,
    Magenta,
    Green,
    Red,
}

/// How a sub-state is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct State {
    /// The value of the API.
    pub sub_state: SubState,
    /// Its label, for example `backing-off`.
    pub label: &'static str,
    /// A symbol, one column wide.
    pub symbol: char,
    /// Magenta needs a person, yellow retries automatically, green and red are final.
    pub color: Color,
}

impl State {
    /// The state with this label.
    #[must_use]
    pub fn of(label: &str) -> Option<&'static Self> {
        const ALL: &[State] = &STATES;
        ALL.iter().find(|state| state.label == label)
    }

    /// Whether it is printed in bold: the states that someone has to know about.
    #[must_use]
    pub const fn bold(&self) -> bool {
        matches!(self.sub_state, SubState::Error | SubState::Failed)
    }
}

/// The six in the order that screens list them: the ones that need a person come first.
pub const STATES: [State; 6] = [
    state(SubState::Error, '!', Color::Magenta),
    state(SubState::BackingOff, '↻', Color::Yellow),
    state(SubState::Waiting, '◌', Color::Cyan),
    state(SubState::Running, '●', Color::Blue),
    state(SubState::Failed, '✗', Color::Red),
    state(SubState::Succeeded, '✓', Color::Green),
];

const fn state(sub_state: SubState, symbol: char, color: Color) -> State {
    State {
        sub_state,
        label: sub_state.label(),
        symbol,
        color,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_state_has_a_symbol_and_a_color_of_its_own() {
        let symbols: BTreeSet<_> = STATES.iter().map(|state| state.symbol).collect();
        let colors: BTreeSet<_> = STATES.iter().map(|state| state.color).collect();
        assert_eq!((symbols.len(), colors.len()), (6, 6));
    }

    #[test]
    fn a_state_is_found_by_its_label() {
        assert_eq!(State::of("backing-off").unwrap().symbol, '↻');
        assert_eq!(State::of("unknown"), None);
    }
}
