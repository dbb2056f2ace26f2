//! The six words for where an execution, or a step, really is.

use crate::words::words;

words! {
    /// The state of an execution or a step: one of exactly six, on every engine.
    pub enum SubState as "sub-state" {
        /// Work is being done, or is ready and only waits for a worker to take it.
        Running = "running",
        /// Someone or something outside must act, or a time must come.
        Waiting = "waiting",
        /// An attempt failed and another one is scheduled.
        BackingOff = "backing-off",
        /// Stuck: nothing more happens until someone steps in. Not final.
        Error = "error",
        /// Finished, and the work was done.
        Succeeded = "succeeded",
        /// Finished, and the work was not done.
        Failed = "failed",
    }
}

impl SubState {
    /// True when nothing more can happen by itself: `succeeded` or `failed`.
    #[must_use]
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed)
    }

    /// What an execution shows when the steps that are still open show these sub-states.
    ///
    /// The rule is running > backing-off > error > waiting: as long as anything makes progress
    /// the whole does, and trouble that will resolve itself hides trouble that will not only
    /// until the last retry has been used. Finished steps have no say; without an open step there
    /// is no answer.
    ///
    /// ```
    /// use stateway_model::SubState::{BackingOff, Running, Succeeded, Waiting, self};
    /// assert_eq!(SubState::of_open_steps([Waiting, BackingOff]), Some(BackingOff));
    /// assert_eq!(SubState::of_open_steps([Waiting, BackingOff, Running]), Some(Running));
    /// assert_eq!(SubState::of_open_steps([Succeeded]), None);
    /// ```
    #[must_use]
    pub fn of_open_steps(steps: impl IntoIterator<Item = Self>) -> Option<Self> {
        const PRECEDENCE: [SubState; 4] = [
            SubState::Running,
            SubState::BackingOff,
            SubState::Error,
            SubState::Waiting,
        ];
        let rank = |state: Self| PRECEDENCE.iter().position(|known| *known == state);
        steps
            .into_iter()
            .filter_map(rank)
            .min()
            .map(|rank| PRECEDENCE[rank])
    }
}

#[cfg(test)]
mod tests {
    use super::SubState::{BackingOff, Error, Failed, Running, Succeeded, Waiting};
    use super::*;

    #[test]
    fn there_are_exactly_six_and_each_has_its_word() {
        let words: Vec<_> = SubState::ALL.iter().map(|state| state.as_str()).collect();
        assert_eq!(
            words,
            [
                "running",
                "waiting",
                "backing-off",
                "error",
                "succeeded",
                "failed"
            ]
        );
    }

    #[test]
    fn display_parse_and_serde_use_the_same_word() {
        for state in SubState::ALL {
            let word = state.to_string();
            assert_eq!(word.parse::<SubState>().unwrap(), *state);
            assert_eq!(serde_json::to_string(state).unwrap(), format!("\"{word}\""));
            assert_eq!(
                serde_json::from_str::<SubState>(&format!("\"{word}\"")).unwrap(),
                *state
            );
        }
    }

    #[test]
    fn parsing_is_strict_and_names_what_would_do() {
        for wrong in ["Running", "backing_off", "", " running", "completed"] {
            let error = wrong.parse::<SubState>().unwrap_err();
            assert_eq!(error.word, wrong);
            assert!(error.to_string().contains("backing-off"), "{error}");
        }
    }

    #[test]
    fn every_pair_of_open_steps_follows_the_precedence() {
        let order = [Running, BackingOff, Error, Waiting];
        for (high, first) in order.into_iter().enumerate() {
            for second in order.into_iter().skip(high) {
                assert_eq!(SubState::of_open_steps([first, second]), Some(first));
                assert_eq!(SubState::of_open_steps([second, first]), Some(first));
            }
        }
    }

    #[test]
    fn finished_steps_have_no_say() {
        assert_eq!(
            SubState::of_open_steps([Succeeded, Failed, Waiting]),
            Some(Waiting)
        );
        assert_eq!(SubState::of_open_steps([Succeeded, Failed]), None);
        assert_eq!(SubState::of_open_steps([]), None);
    }

    #[test]
    fn only_succeeded_and_failed_are_terminal() {
        let terminal: Vec<_> = SubState::ALL
            .iter()
            .copied()
            .filter(|state| state.is_terminal())
            .collect();
        assert_eq!(terminal, [Succeeded, Failed]);
    }
}
