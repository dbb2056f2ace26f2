//! What is started next. The same every time: a demo has no luck.

use serde_json::{Value, json};

/// One start.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Scene {
    pub(super) definition: &'static str,
    pub(super) id: String,
    pub(super) input: Value,
}

/// What a start is about. They come round in the order of [`ROUND`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Plot {
    /// Six images side by side, some of which need more than one attempt.
    Album,
    /// The card gateway is down for minutes: backs off.
    DeadCard,
    /// The carrier does not deliver there: rolled back, then failed.
    Moon,
    /// A policy forbids it: waits for a person.
    Forbidden,
    /// Waits for a yes.
    Release,
    /// Has children.
    Nightly,
    /// Goes well.
    Order,
    /// Goes well at the second attempt.
    Brief,
}

/// Long ones and short ones in turn, so that one is always running. The opening has each once.
const ROUND: [Plot; 12] = [
    Plot::Album,
    Plot::DeadCard,
    Plot::Order,
    Plot::Release,
    Plot::Nightly,
    Plot::Forbidden,
    Plot::Moon,
    Plot::Brief,
    Plot::Album,
    Plot::Release,
    Plot::Order,
    Plot::Brief,
];

/// After this number of starts the scenes begin again.
pub(super) const ROUNDS_BEGIN: u64 = ROUND.len() as u64;

/// Words that the workers know.
pub(super) const DEAD_CARD: &str = "card-offline";
pub(super) const MOON: &str = "the moon";
pub(super) const FORBIDDEN: &str = "a pending lawsuit";

const STREETS: [&str; 4] = [
    "12 Elm Street",
    "3 Harbour Road",
    "8 Mill Lane",
    "1 Old Square",
];
const TOPICS: [&str; 3] = ["durable execution", "back-off and jitter", "sagas"];

impl Scene {
    /// The start with this number, counted from 0.
    pub(super) fn of(turn: u64) -> Self {
        let number = turn + 1;
        let plot = pick(&ROUND, turn);
        let order = |card: &str, address: &str| {
            let amount = 900 + turn * 37 % 5_000;
            json!({"order": format!("{card}-{number}"), "amount": amount, "address": address})
        };
        let (definition, input) = match plot {
            Plot::Album => ("fan-out", json!({"album": format!("a-{number}")})),
            Plot::DeadCard => ("order-saga", order(DEAD_CARD, pick(&STREETS, turn))),
            Plot::Moon => ("order-saga", order("o", MOON)),
            Plot::Order => ("order-saga", order("o", pick(&STREETS, turn))),
            Plot::Forbidden => ("brief", json!({"topic": FORBIDDEN})),
            Plot::Brief => ("brief", json!({"topic": pick(&TOPICS, turn)})),
            Plot::Release => ("release", json!({"version": format!("1.{number}.0")})),
            Plot::Nightly => ("nightly", json!({"scheduledTime": "2026-11-16T02:00:00Z"})),
        };
        let id = format!("{definition}-{number}");
        Self {
            definition,
            id,
            input,
        }
    }

    /// The first start that is of this definition, for a text that names one.
    pub(super) fn first(definition: &str) -> String {
        let scenes = (0..ROUND.len() as u64).map(Self::of);
        let mut ids = scenes.filter(|scene| scene.definition == definition);
        ids.next().map(|scene| scene.id).unwrap_or_default()
    }
}

/// Whether a start is of the first round, which has each definition at least once.
pub(super) const fn is_of_first_round(turn: u64) -> bool {
    turn < ROUND.len() as u64
}

/// The number of the start that has this id; none for what was not started like this.
pub(super) fn turn_of(id: &str) -> Option<u64> {
    let turn = id.rsplit_once('-')?.1.parse::<u64>().ok()?.checked_sub(1)?;
    (Scene::of(turn).id == id).then_some(turn)
}

/// The one whose turn it is.
fn pick<T: Copy, const N: usize>(choice: &[T; N], turn: u64) -> T {
    choice[usize::try_from(turn % N as u64).unwrap_or_default()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_tells_its_turn() {
        for turn in 0..50 {
            assert_eq!(turn_of(&Scene::of(turn).id), Some(turn));
        }
        for other in ["", "order-saga-1", "order-saga-0", "fan-out", "fan-out-x"] {
            assert_eq!(turn_of(other), None, "{other}");
        }
    }

    #[test]
    fn every_definition_has_its_turn_in_a_round() {
        let names: std::collections::BTreeSet<_> = (0..ROUND.len() as u64)
            .map(|turn| Scene::of(turn).definition)
            .collect();
        let all = ["brief", "fan-out", "nightly", "order-saga", "release"];
        assert!(names.into_iter().eq(all));
    }
}
