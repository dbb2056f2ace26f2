//! The six sub-states, as the API's enum and as text.
//!
//! The wire carries a number; people and files read `backing-off`. A number that this build does
//! not know, from a newer gateway, reads `unknown` and is never taken for one of the six.

use stateway_proto::v1::SubState;

/// Every sub-state with its label.
pub const SUB_STATES: [(SubState, &str); 6] = [
    (SubState::Running, SubState::Running.label()),
    (SubState::Waiting, SubState::Waiting.label()),
    (SubState::BackingOff, SubState::BackingOff.label()),
    (SubState::Error, SubState::Error.label()),
    (SubState::Succeeded, SubState::Succeeded.label()),
    (SubState::Failed, SubState::Failed.label()),
];

/// The label of a sub-state of the wire.
#[must_use]
pub fn word_of(wire: i32) -> &'static str {
    let known = SUB_STATES.iter().find(|(state, _)| *state as i32 == wire);
    known.map_or("unknown", |(_, word)| word)
}

/// The sub-state with this label.
#[must_use]
pub fn sub_state_of(word: &str) -> Option<SubState> {
    let known = SUB_STATES.iter().find(|(_, known)| *known == word);
    known.map(|(state, _)| *state)
}

/// True for `succeeded` and `failed`.
#[must_use]
pub fn is_finished(wire: i32) -> bool {
    [SubState::Succeeded, SubState::Failed]
        .iter()
        .any(|state| *state as i32 == wire)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_go_there_and_back() {
        for (state, word) in SUB_STATES {
            assert_eq!(word_of(state as i32), word);
            assert_eq!(sub_state_of(word), Some(state));
        }
    }

    #[test]
    fn what_is_not_known_is_not_one_of_the_six() {
        assert_eq!(word_of(0), "unknown");
        assert_eq!(word_of(99), "unknown");
        assert_eq!(sub_state_of("Running"), None);
        assert!(!is_finished(0) && !is_finished(99));
    }
}
