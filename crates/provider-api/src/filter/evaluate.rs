//! Does an execution pass? And could one pass of which little is known?

use stateway_model::{Execution, ProviderId, SubState};

use super::{Comparison, Equality, Filter, NumberField, Term, TextField, TimeField};

impl Filter {
    /// Whether the execution passes.
    ///
    /// A field that is not set equals nothing, differs from everything and is neither earlier nor
    /// later than anything.
    #[must_use]
    pub fn admits(&self, execution: &Execution) -> bool {
        match self {
            Self::And(parts) => parts.iter().all(|part| part.admits(execution)),
            Self::Or(parts) => parts.iter().any(|part| part.admits(execution)),
            Self::Not(part) => !part.admits(execution),
            Self::Term(term) => term.holds(execution),
        }
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
            Self::Text(field, equality, wanted) => {
                let value = match field {
                    TextField::Provider => execution.name.provider.as_str(),
                    TextField::Definition => &execution.definition,
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

impl Equality {
    const fn holds(self, equal: bool) -> bool {
        match self {
            Self::Is => equal,
            Self::IsNot => !equal,
        }
    }
}

impl Comparison {
    fn holds<T: Ord>(self, value: Option<&T>, wanted: &T) -> bool {
        let order = value.map(|value| value.cmp(wanted));
        match self {
            Self::Equal => order.is_some_and(|order| order.is_eq()),
            Self::NotEqual => !order.is_some_and(|order| order.is_eq()),
            Self::Less => order.is_some_and(|order| order.is_lt()),
            Self::LessOrEqual => order.is_some_and(|order| order.is_le()),
            Self::Greater => order.is_some_and(|order| order.is_gt()),
            Self::GreaterOrEqual => order.is_some_and(|order| order.is_ge()),
        }
    }
}
