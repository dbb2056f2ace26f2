//! What a provider may narrow an upstream query to.

use jiff::Timestamp;
use stateway_model::{Execution, ProviderId, SubState, WaitKind};

use super::evaluate::KnownFields;
use super::{Comparison, DefinitionPattern, Equality, Field, Filter, Term, TimeField};

/// What any execution that passes the filter must have. A provider may ignore the hints: the
/// gateway applies the whole filter to the answer.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Hints {
    /// One of these sub-states; every one of the six when the filter does not say.
    pub sub_states: Vec<SubState>,
    /// A definition that this pattern admits.
    pub definition: Option<DefinitionPattern>,
    /// All of these labels, with these values.
    pub labels: Vec<(String, String)>,
    /// An open wait of one of these kinds; empty when the filter does not say.
    pub wait_kinds: Vec<WaitKind>,
    /// Started at this time or later.
    pub started_from: Option<Timestamp>,
    /// Started at this time or earlier.
    pub started_until: Option<Timestamp>,
}

impl Hints {
    /// No narrowing at all.
    #[must_use]
    pub fn none() -> Self {
        Self {
            sub_states: SubState::ALL.to_vec(),
            definition: None,
            labels: Vec::new(),
            wait_kinds: Vec::new(),
            started_from: None,
            started_until: None,
        }
    }

    /// Executions that have not finished.
    #[must_use]
    pub fn open() -> Self {
        let mut hints = Self::none();
        hints.sub_states.retain(|state| !state.is_terminal());
        hints
    }

    /// Whether an execution that has finished may pass.
    #[must_use]
    pub fn admit_finished(&self) -> bool {
        self.sub_states.iter().any(|state| state.is_terminal())
    }

    /// The executions of these that have not finished, as far as [`admit`](Self::admit) tells them apart.
    #[must_use]
    pub fn open_part(&self) -> Self {
        let mut hints = Self::open();
        hints
            .sub_states
            .retain(|state| self.sub_states.contains(state));
        hints.definition.clone_from(&self.definition);
        hints.labels.clone_from(&self.labels);
        hints
    }

    /// Whether an execution has the sub-state, the definition and the labels.
    #[must_use]
    pub fn admit(&self, execution: &Execution) -> bool {
        self.sub_states.contains(&execution.sub_state) && self.admit_kind(execution)
    }

    /// Whether an execution has the definition and the labels, which never change.
    #[must_use]
    pub fn admit_kind(&self, execution: &Execution) -> bool {
        let label = |(key, value): &(String, String)| execution.labels.get(key) == Some(value);
        self.labels.iter().all(label)
            && self
                .definition
                .as_ref()
                .is_none_or(|wanted| wanted.admits(&execution.definition))
    }
}

impl Filter {
    /// Whether the filter itself says if finished executions pass: a condition is on `sub_state` or on
    /// `end_time`.
    #[must_use]
    pub fn decides_on_finished(&self) -> bool {
        match self {
            Self::And(parts) | Self::Or(parts) => parts.iter().any(Self::decides_on_finished),
            Self::Not(part) => part.decides_on_finished(),
            Self::Term(term) => matches!(
                term,
                Term::SubState(..)
                    | Term::Time(TimeField::End, ..)
                    | Term::Has(Field::SubState | Field::Time(TimeField::End))
            ),
        }
    }

    /// What every execution of this provider that passes must have.
    #[must_use]
    pub fn hints(&self, provider: &ProviderId) -> Hints {
        let mut hints = Hints::none();
        hints.sub_states.retain(|state| {
            self.could_admit(KnownFields {
                provider: Some(provider),
                sub_state: Some(*state),
            })
        });
        for term in self.required() {
            match term {
                Term::Definition(Equality::Is, wanted) if !wanted.has_wildcard() => {
                    hints.definition = Some(wanted.clone());
                }
                Term::Label(key, Equality::Is, wanted) => {
                    let label = wanted
                        .literal()
                        .map(|value| (key.clone(), value.to_owned()));
                    hints.labels.extend(label);
                }
                Term::WaitKind(kind) => hints.wait_kinds = vec![*kind],
                Term::Time(TimeField::Start, comparison, time) => match comparison {
                    Comparison::Greater | Comparison::GreaterOrEqual => {
                        hints.started_from = hints.started_from.max(Some(*time));
                    }
                    Comparison::Less | Comparison::LessOrEqual => {
                        let until = hints.started_until.map_or(*time, |until| until.min(*time));
                        hints.started_until = Some(until);
                    }
                    Comparison::Equal | Comparison::NotEqual => {}
                },
                _ => {}
            }
        }
        hints
    }

    /// Whether any execution of this provider could pass: if not, it need not be asked.
    #[must_use]
    pub fn concerns(&self, provider: &ProviderId) -> bool {
        self.could_admit(KnownFields {
            provider: Some(provider),
            sub_state: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hints(text: &str) -> Hints {
        Filter::parse(text).unwrap().hints(&"p".parse().unwrap())
    }

    #[test]
    fn sub_states_are_narrowed_through_and_or_and_not() {
        use SubState::{BackingOff, Error, Failed, Running, Succeeded, Waiting};
        let of = |text| hints(text).sub_states;
        assert_eq!(of("sub_state = error"), [Error]);
        assert_eq!(
            of("sub_state = error OR sub_state = failed"),
            [Error, Failed]
        );
        assert_eq!(
            of("NOT (sub_state = error OR sub_state = failed)"),
            [Running, Waiting, BackingOff, Succeeded]
        );
        assert_eq!(of("sub_state = error AND sub_state = failed"), []);
        assert_eq!(of("retry.attempt > 3"), SubState::ALL);
        assert_eq!(of("sub_state = error OR retry.attempt > 3"), SubState::ALL);
    }

    #[test]
    fn only_what_must_hold_becomes_a_hint() {
        let both = hints("definition = a AND start_time > 2026-01-01T00:00:00Z");
        assert_eq!(both.definition, Some(DefinitionPattern::new("a")));
        assert_eq!(
            both.started_from,
            Some("2026-01-01T00:00:00Z".parse().unwrap())
        );
        assert_eq!(hints("definition = a OR definition = b").definition, None);
        assert_eq!(hints("NOT definition = a").definition, None);
        assert_eq!(hints("definition = a*").definition, None);
    }

    #[test]
    fn labels_and_waits_that_must_hold_become_hints() {
        let label = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        let both = hints("labels.team = red AND labels.tier:1 AND waits.kind:APPROVAL");
        assert_eq!(both.labels, [label("team", "red"), label("tier", "1")]);
        assert_eq!(both.wait_kinds, [WaitKind::Approval]);
        let either = hints("labels.team = red OR waits.kind:APPROVAL");
        assert_eq!((either.labels, either.wait_kinds), (vec![], vec![]));
        assert_eq!(hints("labels.team = r*").labels, []);
        assert_eq!(hints("labels.team != red").labels, []);
        assert_eq!(hints("NOT labels.team = red").labels, []);
    }

    #[test]
    fn a_filter_on_the_sub_state_or_the_end_decides_on_finished_executions() {
        let decides = |text: &str| Filter::parse(text).unwrap().decides_on_finished();
        for text in [
            "sub_state = FAILED",
            "labels.a = b AND NOT (sub_state = RUNNING)",
            "sub_state:*",
            "end_time > 2026-01-01T00:00:00Z OR definition = a",
        ] {
            assert!(decides(text), "{text}");
        }
        for text in ["", "definition = a", "start_time:*"] {
            assert!(!decides(text), "{text}");
        }
    }

    #[test]
    fn a_provider_that_cannot_match_need_not_be_asked() {
        let filter = Filter::parse("name = providers/shop/executions/*").unwrap();
        assert!(filter.concerns(&"shop".parse().unwrap()));
        assert!(!filter.concerns(&"other".parse().unwrap()));
        assert!(!filter.concerns(&"shop-2".parse().unwrap()));
        let any = Filter::parse("name = providers/sh*").unwrap();
        assert!(any.concerns(&"shop-2".parse().unwrap()));
        let either = Filter::parse("name = providers/shop/* OR sub_state = error").unwrap();
        assert!(either.concerns(&"other".parse().unwrap()));
    }
}
