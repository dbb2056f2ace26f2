//! Does an execution pass? And could one pass of which little is known?

use stateway_model::{Execution, ProviderId, SubState};

use super::{Filter, NumberField, Term, TextField, TimeField};

impl<C> Filter<C> {
    /// Whether the filter holds, where this says it of a single condition.
    pub fn holds(&self, condition: &impl Fn(&C) -> bool) -> bool {
        match self {
            Self::And(parts) => parts.iter().all(|part| part.holds(condition)),
            Self::Or(parts) => parts.iter().any(|part| part.holds(condition)),
            Self::Not(part) => !part.holds(condition),
            Self::Term(term) => condition(term),
        }
    }

    /// Whether the filter may hold, where this says of a single condition whether it does, or that it
    /// is not known.
    pub fn may_hold(&self, condition: &impl Fn(&C) -> Option<bool>) -> bool {
        self.outcomes_of(&|term| condition(term).map_or(Outcomes::EITHER, Outcomes::certain))
            .may_hold
    }

    /// Whether any of the conditions is such a one.
    pub fn any(&self, such: &impl Fn(&C) -> bool) -> bool {
        match self {
            Self::And(parts) | Self::Or(parts) => parts.iter().any(|part| part.any(such)),
            Self::Not(part) => part.any(such),
            Self::Term(term) => such(term),
        }
    }

    /// The same filter over other conditions.
    #[must_use]
    pub fn map<D>(self, other: &impl Fn(C) -> D) -> Filter<D> {
        let all = |parts: Vec<Self>| parts.into_iter().map(|part| part.map(other)).collect();
        match self {
            Self::And(parts) => Filter::And(all(parts)),
            Self::Or(parts) => Filter::Or(all(parts)),
            Self::Not(part) => Filter::Not(Box::new(part.map(other))),
            Self::Term(term) => Filter::Term(other(term)),
        }
    }

    /// The conditions that must hold whatever else does.
    #[must_use]
    pub fn required(&self) -> Vec<&C> {
        match self {
            Self::Term(term) => vec![term],
            Self::And(parts) => parts.iter().flat_map(Self::required).collect(),
            Self::Or(_) | Self::Not(_) => Vec::new(),
        }
    }

    fn outcomes_of(&self, condition: &impl Fn(&C) -> Outcomes) -> Outcomes {
        match self {
            Self::And(parts) => {
                let parts = parts.iter().map(|part| part.outcomes_of(condition));
                parts.fold(Outcomes::HOLDS, |all, part| Outcomes {
                    may_hold: all.may_hold && part.may_hold,
                    may_fail: all.may_fail || part.may_fail,
                })
            }
            Self::Or(parts) => {
                let parts = parts.iter().map(|part| part.outcomes_of(condition));
                parts.fold(Outcomes::HOLDS.negated(), |any, part| Outcomes {
                    may_hold: any.may_hold || part.may_hold,
                    may_fail: any.may_fail && part.may_fail,
                })
            }
            Self::Not(part) => part.outcomes_of(condition).negated(),
            Self::Term(term) => condition(term),
        }
    }
}

impl Filter {
    /// Whether the execution passes.
    ///
    /// A field that is not set, or whose value is not known, passes no comparison, `!=` included.
    #[must_use]
    pub fn admits(&self, execution: &Execution) -> bool {
        self.holds(&|term| term.holds(execution))
    }

    /// Whether any execution of this provider and in this sub-state could pass. `None` stands for
    /// "whichever".
    pub(super) fn could_admit(&self, known: Known<'_>) -> bool {
        self.outcomes_of(&|term: &Term| term.outcomes(known))
            .may_hold
    }
}

/// What is known of an execution before it has been read.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Known<'k> {
    pub(super) provider: Option<&'k ProviderId>,
    pub(super) sub_state: Option<SubState>,
}

/// What a condition may come to, when not everything is known.
#[derive(Debug, Clone, Copy)]
struct Outcomes {
    may_hold: bool,
    may_fail: bool,
}

impl Outcomes {
    const HOLDS: Self = Self {
        may_hold: true,
        may_fail: false,
    };
    const EITHER: Self = Self {
        may_hold: true,
        may_fail: true,
    };

    const fn negated(self) -> Self {
        Self {
            may_hold: self.may_fail,
            may_fail: self.may_hold,
        }
    }

    const fn certain(holds: bool) -> Self {
        if holds {
            Self::HOLDS
        } else {
            Self::HOLDS.negated()
        }
    }
}

impl Term {
    fn holds(&self, execution: &Execution) -> bool {
        match self {
            Self::SubState(equality, wanted) => equality.holds(execution.sub_state == *wanted),
            Self::Reason(equality, wanted) => equality.holds(execution.reason == Some(*wanted)),
            Self::MappingBasis(equality, wanted) => {
                equality.holds(execution.mapping_basis == *wanted)
            }
            Self::WaitKind(wanted) => execution.waits.iter().any(|wait| wait.kind == *wanted),
            Self::HasWait => !execution.waits.is_empty(),
            Self::Definition(equality, wanted) => {
                equality.holds(wanted.admits(&execution.definition))
            }
            Self::Text(field, equality, wanted) => {
                let matches = match field {
                    TextField::Name => wanted.matches(&execution.name.to_string()),
                    TextField::NativeState => wanted.matches(&execution.native_state),
                };
                equality.holds(matches)
            }
            Self::Number(field, comparison, wanted) => {
                let retry = &execution.retry;
                // Attempts count from 1: 0 says that nothing is known of them.
                let known = retry.attempt > 0;
                let value = match field {
                    NumberField::Attempt => known.then_some(retry.attempt),
                    NumberField::RetryCount => known.then_some(retry.retry_count),
                    NumberField::MaxAttempts => retry.max_attempts,
                };
                value.is_some() && comparison.holds(value.as_ref(), wanted)
            }
            Self::Time(field, comparison, wanted) => {
                let value = match field {
                    TimeField::NextAttempt => execution.retry.next_attempt_time,
                    TimeField::Create => execution.create_time,
                    TimeField::Start => execution.start_time,
                    TimeField::Update => execution.update_time,
                    TimeField::End => execution.end_time,
                };
                value.is_some() && comparison.holds(value.as_ref(), wanted)
            }
            Self::Label(key, equality, wanted) => {
                let value = execution.labels.get(key);
                value.is_some_and(|value| equality.holds(wanted.matches(value)))
            }
            Self::HasLabel(key) => execution.labels.contains_key(key),
            Self::HasLabels => !execution.labels.is_empty(),
        }
    }

    fn outcomes(&self, known: Known<'_>) -> Outcomes {
        match (self, known.sub_state, known.provider) {
            (Self::SubState(equality, wanted), Some(state), _) => {
                Outcomes::certain(equality.holds(state == *wanted))
            }
            (Self::Text(TextField::Name, equality, wanted), _, Some(provider)) => {
                let parent = format!("{}/executions/", provider.resource_name());
                let prefix = wanted.prefix();
                if parent.starts_with(prefix) || prefix.starts_with(&parent) {
                    Outcomes::EITHER
                } else {
                    Outcomes::certain(equality.holds(false))
                }
            }
            _ => Outcomes::EITHER,
        }
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use stateway_model::{Labels, MappingBasis, Reason, Retry, RetryBasis, Wait, WaitKind};

    use super::*;

    fn time(text: &str) -> Option<Timestamp> {
        Some(text.parse().unwrap())
    }

    fn execution() -> Execution {
        Execution {
            name: "providers/shop/executions/17".parse().unwrap(),
            definition: "definitions/order".into(),
            revision: String::new(),
            sub_state: SubState::BackingOff,
            native_state: "RUNNING".into(),
            reason: Some(Reason::Compensating),
            mapping_basis: MappingBasis::Derived,
            retry: Retry {
                attempt: 3,
                max_attempts: Some(5),
                retry_count: 2,
                next_attempt_time: time("2026-11-16T12:00:00Z"),
                delay: None,
                jitter: None,
                last_error: None,
                basis: RetryBasis::Reported,
            },
            waits: vec![Wait::new(WaitKind::Signal, "approve")],
            steps: vec![],
            steps_are_detail: false,
            is_partial: false,
            last_error: None,
            create_time: time("2026-11-16T11:00:00Z"),
            start_time: time("2026-11-16T11:00:01Z"),
            update_time: None,
            end_time: None,
            input: None,
            output: None,
            labels: Labels::from([("env".into(), "prod".into())]),
            usage: None,
            abandoned_usage: None,
            cancellation: None,
            pause: None,
            reopen: None,
            forked_from: None,
            forks: Vec::new(),
            not_rolled_back: Vec::new(),
        }
    }

    #[track_caller]
    fn check(text: &str, expected: bool) {
        let filter = Filter::parse(text).unwrap();
        assert_eq!(filter.admits(&execution()), expected, "{text}");
    }

    #[test]
    fn every_field_can_be_asked_for() {
        for holds in [
            "sub_state = BACKING_OFF",
            "sub_state = SUB_STATE_BACKING_OFF",
            "sub_state = \"backing-off\"",
            "sub_state != RUNNING",
            "name = \"providers/shop/executions/17\"",
            "name = providers/shop/executions/*",
            "name != providers/other/*",
            "definition = \"definitions/order\"",
            "definition = order",
            "definition != orde",
            "definition = ord*",
            "reason = COMPENSATING",
            "reason = REASON_COMPENSATING",
            "native_state = RUNNING",
            "native_state = R*ING",
            "mapping_basis = DERIVED",
            "waits.kind:SIGNAL",
            "waits.kind:signal",
            "waits:*",
            "retry.attempt = 3",
            "retry.attempt >= 3",
            "retry.attempt < 4",
            "retry.retry_count <= 2",
            "retry.max_attempt_count > 4",
            "retry.next_attempt_time < 2026-11-16T12:00:01Z",
            "create_time = \"2026-11-16T11:00:00Z\"",
            "start_time > 2026-11-16T11:00:00Z",
            "labels.env = prod",
            "labels:env",
            "labels:*",
            "labels.env:*",
            "labels.env:prod",
            "labels.env = p*d",
            "labels.env != test",
        ] {
            check(holds, true);
            check(&format!("NOT {holds}"), false);
        }
    }

    #[test]
    fn a_field_that_is_not_set_passes_no_comparison() {
        check("end_time < 2030-01-01T00:00:00Z", false);
        check("end_time > 2000-01-01T00:00:00Z", false);
        check("end_time = 2026-01-01T00:00:00Z", false);
        check("end_time != 2026-01-01T00:00:00Z", false);
        check("labels.team = a", false);
        check("labels.team != a", false);
        check("labels.team:*", false);
        check("labels:team", false);
    }

    #[test]
    fn an_attempt_that_is_not_known_is_neither_few_nor_many() {
        let unknown = Execution {
            retry: Retry::UNKNOWN,
            ..execution()
        };
        for text in [
            "retry.attempt < 3",
            "retry.attempt = 0",
            "retry.attempt != 3",
            "retry.retry_count <= 2",
            "retry.max_attempt_count < 9",
        ] {
            assert!(!Filter::parse(text).unwrap().admits(&unknown), "{text}");
        }
    }

    #[test]
    fn conditions_combine() {
        check("sub_state = \"backing-off\" AND retry.attempt >= 3", true);
        check("sub_state = \"backing-off\" AND retry.attempt > 3", false);
        check("sub_state = error OR retry.attempt = 3", true);
        check(
            "sub_state = \"backing-off\" AND (name = providers/a/* OR name = providers/shop/*)",
            true,
        );
        check("-(sub_state = error OR name = providers/a/*)", true);
        check("", true);
    }

    #[test]
    fn what_could_be_admitted_is_never_less_than_what_is() {
        let known = Known {
            provider: None,
            sub_state: Some(SubState::BackingOff),
        };
        for text in [
            "sub_state = error OR labels:env",
            "NOT sub_state = error",
            "retry.attempt > 2",
        ] {
            let filter = Filter::parse(text).unwrap();
            assert!(
                filter.admits(&execution()) && filter.could_admit(known),
                "{text}"
            );
        }
    }
}
