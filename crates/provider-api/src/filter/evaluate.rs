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
}

impl Filter {
    /// Whether the execution passes.
    ///
    /// A field that is not set equals nothing, differs from everything and is neither earlier nor
    /// later than anything.
    #[must_use]
    pub fn admits(&self, execution: &Execution) -> bool {
        self.holds(&|term| term.holds(execution))
    }

    /// Whether any execution of this provider and in this sub-state could pass. `None` stands for
    /// "whichever".
    pub(super) fn could_admit(&self, known: Known<'_>) -> bool {
        self.outcomes(known).may_hold
    }

    fn outcomes(&self, known: Known<'_>) -> Outcomes {
        match self {
            Self::And(parts) => {
                let parts = parts.iter().map(|part| part.outcomes(known));
                parts.fold(Outcomes::HOLDS, |all, part| Outcomes {
                    may_hold: all.may_hold && part.may_hold,
                    may_fail: all.may_fail || part.may_fail,
                })
            }
            Self::Or(parts) => {
                let parts = parts.iter().map(|part| part.outcomes(known));
                parts.fold(Outcomes::HOLDS.negated(), |any, part| Outcomes {
                    may_hold: any.may_hold || part.may_hold,
                    may_fail: any.may_fail && part.may_fail,
                })
            }
            Self::Not(part) => part.outcomes(known).negated(),
            Self::Term(term) => term.outcomes(known),
        }
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
            Self::WaitKind(equality, wanted) => {
                equality.holds(execution.waits.iter().any(|wait| wait.kind == *wanted))
            }
            Self::Definition(equality, wanted) => {
                equality.holds(wanted.admits(&execution.definition))
            }
            Self::Text(field, equality, wanted) => {
                let value = match field {
                    TextField::Provider => execution.name.provider.as_str(),
                    TextField::NativeState => &execution.native_state,
                };
                equality.holds(value == wanted)
            }
            Self::Number(field, comparison, wanted) => {
                let value = match field {
                    NumberField::Attempt => Some(execution.retry.attempt),
                    NumberField::RetryCount => Some(execution.retry.retry_count),
                    NumberField::MaxAttempts => execution.retry.max_attempts,
                };
                comparison.holds(value.as_ref(), wanted)
            }
            Self::Time(field, comparison, wanted) => {
                let value = match field {
                    TimeField::NextAttempt => execution.retry.next_attempt_time,
                    TimeField::Create => execution.create_time,
                    TimeField::Start => execution.start_time,
                    TimeField::Update => execution.update_time,
                    TimeField::End => execution.end_time,
                };
                comparison.holds(value.as_ref(), wanted)
            }
            Self::Label(key, equality, wanted) => {
                equality.holds(execution.labels.get(key) == Some(wanted))
            }
            Self::HasLabel(key) => execution.labels.contains_key(key),
        }
    }

    fn outcomes(&self, known: Known<'_>) -> Outcomes {
        match (self, known.sub_state, known.provider) {
            (Self::SubState(equality, wanted), Some(state), _) => {
                Outcomes::certain(equality.holds(state == *wanted))
            }
            (Self::Text(TextField::Provider, equality, wanted), _, Some(provider)) => {
                Outcomes::certain(equality.holds(provider.as_str() == wanted))
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
            "sub_state = \"backing-off\"",
            "sub_state != running",
            "provider = shop",
            "definition = \"definitions/order\"",
            "definition = order",
            "definition != orde",
            "reason = COMPENSATING",
            "native_state = RUNNING",
            "mapping_basis = DERIVED",
            "waits.kind = signal",
            "waits.kind != timer",
            "retry.attempt = 3",
            "retry.attempt >= 3",
            "retry.attempt < 4",
            "retry.retry_count <= 2",
            "retry.max_attempts > 4",
            "retry.next_attempt_time < 2026-11-16T12:00:01Z",
            "create_time = \"2026-11-16T11:00:00Z\"",
            "start_time > 2026-11-16T11:00:00Z",
            "labels.env = prod",
            "labels:env",
            "labels.env != test",
        ] {
            check(holds, true);
            check(&format!("NOT {holds}"), false);
        }
    }

    #[test]
    fn a_field_that_is_not_set_equals_nothing_and_has_no_order() {
        check("end_time < 2030-01-01T00:00:00Z", false);
        check("end_time > 2000-01-01T00:00:00Z", false);
        check("end_time = 2026-01-01T00:00:00Z", false);
        check("end_time != 2026-01-01T00:00:00Z", true);
        check("labels.team = a", false);
        check("labels.team != a", true);
        check("labels:team", false);
    }

    #[test]
    fn conditions_combine() {
        check("sub_state = \"backing-off\" AND retry.attempt >= 3", true);
        check("sub_state = \"backing-off\" AND retry.attempt > 3", false);
        check("sub_state = error OR retry.attempt = 3", true);
        check(
            "sub_state = \"backing-off\" AND (provider = a OR provider = shop)",
            true,
        );
        check("-(sub_state = error OR provider = a)", true);
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
