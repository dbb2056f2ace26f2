//! What a provider may narrow an upstream query to.

use jiff::Timestamp;
use stateway_model::{ProviderId, SubState};

use super::evaluate::Known;
use super::{Comparison, DefinitionPattern, Equality, Filter, Term, TimeField};

/// What any execution that passes the filter must have. A provider that uses none of it is right:
/// the gateway applies the whole filter to whatever comes back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hints {
    /// One of these sub-states; every one of the six when the filter does not say.
    pub sub_states: Vec<SubState>,
    /// A definition that this pattern admits.
    pub definition: Option<DefinitionPattern>,
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
            started_from: None,
            started_until: None,
        }
    }
}

impl Filter {
    /// What every execution of this provider that passes must have.
    #[must_use]
    pub fn hints(&self, provider: &ProviderId) -> Hints {
        let mut hints = Hints::none();
        hints.sub_states.retain(|state| {
            self.could_admit(Known {
                provider: Some(provider),
                sub_state: Some(*state),
            })
        });
        for term in self.required() {
            match term {
                Term::Definition(Equality::Is, wanted) if !wanted.has_wildcard() => {
                    hints.definition = Some(wanted.clone());
                }
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
        self.could_admit(Known {
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
