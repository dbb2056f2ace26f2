//! Whether an execution passes a filter, and whether an execution can pass of which only the provider or
//! the sub-state is known.

use std::borrow::Cow;

use jiff::Timestamp;
use stateway_model::{Execution, ProviderId, SubState};

use super::{Field, Filter, NumberField, Term, TextField, TimeField};

impl<C> Filter<C> {
    /// Whether the filter holds. `condition` reports whether a single condition holds.
    pub fn holds(&self, condition: &impl Fn(&C) -> bool) -> bool {
        match self {
            Self::And(parts) => parts.iter().all(|part| part.holds(condition)),
            Self::Or(parts) => parts.iter().any(|part| part.holds(condition)),
            Self::Not(part) => !part.holds(condition),
            Self::Term(term) => condition(term),
        }
    }

    /// Whether the filter may hold. `condition` reports whether a single condition holds; `None` means that
    /// this is not known.
    pub fn may_hold(&self, condition: &impl Fn(&C) -> Option<bool>) -> bool {
        self.outcomes_of(&|term| condition(term).map_or(Outcomes::EITHER, Outcomes::certain))
            .may_hold
    }

    /// Whether the filter certainly holds. `condition` reports whether a single condition holds; `None` means
    /// that this is not known.
    pub fn must_hold(&self, condition: &impl Fn(&C) -> Option<bool>) -> bool {
        self.is_certainly(true, condition)
    }

    /// Whether the filter certainly holds, or certainly does not. Stops at the first part that decides.
    fn is_certainly(&self, wanted: bool, condition: &impl Fn(&C) -> Option<bool>) -> bool {
        let is = |part: &Self| part.is_certainly(wanted, condition);
        match (self, wanted) {
            (Self::And(parts), true) | (Self::Or(parts), false) => parts.iter().all(is),
            (Self::And(parts), false) | (Self::Or(parts), true) => parts.iter().any(is),
            (Self::Not(part), _) => part.is_certainly(!wanted, condition),
            (Self::Term(term), _) => condition(term) == Some(wanted),
        }
    }

    /// Whether `test` is true of at least one condition of the filter.
    pub fn any(&self, test: &impl Fn(&C) -> bool) -> bool {
        match self {
            Self::And(parts) | Self::Or(parts) => parts.iter().any(|part| part.any(test)),
            Self::Not(part) => part.any(test),
            Self::Term(term) => test(term),
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

    /// The conditions that hold for everything that passes the filter.
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

    /// Whether an execution of this provider and in this sub-state can pass. `None` means any provider, or
    /// any sub-state.
    pub(super) fn could_admit(&self, known: KnownFields<'_>) -> bool {
        self.outcomes_of(&|term: &Term| term.outcomes(known))
            .may_hold
    }
}

/// What is known of an execution before it has been read.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct KnownFields<'k> {
    pub(super) provider: Option<&'k ProviderId>,
    pub(super) sub_state: Option<SubState>,
}

/// The possible results of a condition on an execution that is not completely known.
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
            Self::Reason(equality, wanted) => {
                let reason = execution.reason;
                reason.is_some_and(|reason| equality.holds(reason == *wanted))
            }
            Self::MappingBasis(equality, wanted) => {
                equality.holds(execution.mapping_basis == *wanted)
            }
            Self::WaitKind(wanted) => execution.waits.iter().any(|wait| wait.kind == *wanted),
            Self::Definition(equality, wanted) => {
                let name = &execution.definition;
                !name.is_empty() && equality.holds(wanted.admits(name))
            }
            Self::Text(field, equality, wanted) => {
                let value = field.of(execution);
                !value.is_empty() && equality.holds(wanted.matches(&value))
            }
            Self::Number(field, comparison, wanted) => {
                comparison.holds(field.of(execution).as_ref(), wanted)
            }
            Self::Time(field, comparison, wanted) => {
                comparison.holds(field.of(execution).as_ref(), wanted)
            }
            Self::Label(key, equality, wanted) => {
                let value = execution.labels.get(key);
                value.is_some_and(|value| equality.holds(wanted.matches(value)))
            }
            Self::Has(field) => field.is_set(execution),
        }
    }

    fn outcomes(&self, known: KnownFields<'_>) -> Outcomes {
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

impl Field {
    fn is_set(&self, execution: &Execution) -> bool {
        match self {
            Self::SubState | Self::MappingBasis => true,
            Self::Reason => execution.reason.is_some(),
            Self::Waits => !execution.waits.is_empty(),
            Self::Definition => !execution.definition.is_empty(),
            Self::Text(field) => !field.of(execution).is_empty(),
            Self::Number(field) => field.of(execution).is_some(),
            Self::Time(field) => field.of(execution).is_some(),
            Self::Labels => !execution.labels.is_empty(),
            Self::Label(key) => execution.labels.contains_key(key),
        }
    }
}

impl TextField {
    /// The value; empty if it is not set.
    fn of(self, execution: &Execution) -> Cow<'_, str> {
        match self {
            Self::Name => execution.name.to_string().into(),
            Self::Id => execution.name.id.as_str().into(),
            Self::NativeState => (&*execution.native_state).into(),
        }
    }
}

impl NumberField {
    fn of(self, execution: &Execution) -> Option<u32> {
        let retry = &execution.retry;
        // Attempts count from 1: 0 means that the attempts are not known.
        let known = retry.attempt > 0;
        match self {
            Self::Attempt => known.then_some(retry.attempt),
            Self::RetryCount => known.then_some(retry.retry_count),
            Self::MaxAttempts => retry.max_attempts,
        }
    }
}

impl TimeField {
    const fn of(self, execution: &Execution) -> Option<Timestamp> {
        match self {
            Self::NextAttempt => execution.retry.next_attempt_time,
            Self::Create => execution.create_time,
            Self::Start => execution.start_time,
            Self::Update => execution.update_time,
            Self::End => execution.end_time,
        }
    }
}

#[cfg(test)]
mod tests {
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
            parent_execution: None,
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
            "id = 17",
            "id = 1*",
            "17",
            "1",
            "\"17\" sub_state = BACKING_OFF",
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
            "retry.attempt:3",
            "create_time:2026-11-16T11:00:00Z",
            "name:providers/shop/*",
        ] {
            check(holds, true);
            check(&format!("NOT {holds}"), false);
        }
    }

    /// An execution of which only the name and the sub-state are known.
    fn bare() -> Execution {
        Execution {
            definition: String::new(),
            native_state: String::new(),
            reason: None,
            retry: Retry::UNKNOWN,
            waits: Vec::new(),
            create_time: None,
            start_time: None,
            labels: Labels::new(),
            ..execution()
        }
    }

    const OPTIONAL: [(&str, &str); 14] = [
        ("reason", "CANCELLED"),
        ("definition", "order"),
        ("definition", "o*"),
        ("native_state", "RUNNING"),
        ("native_state", "*"),
        ("retry.attempt", "3"),
        ("retry.retry_count", "2"),
        ("retry.max_attempt_count", "5"),
        ("retry.next_attempt_time", "2026-11-16T12:00:00Z"),
        ("create_time", "2026-11-16T11:00:00Z"),
        ("start_time", "2026-11-16T11:00:01Z"),
        ("update_time", "2026-01-01T00:00:00Z"),
        ("end_time", "2026-01-01T00:00:00Z"),
        ("labels.team", "a"),
    ];

    #[test]
    fn a_field_that_is_not_set_passes_no_comparison() {
        let bare = bare();
        let mut checked = 0;
        for (field, value) in OPTIONAL {
            for operator in ["=", "!=", ":", "<", "<=", ">", ">="] {
                let text = format!("{field} {operator} {value}");
                let Ok(filter) = Filter::parse(&text) else {
                    continue;
                };
                checked += 1;
                assert!(!filter.admits(&bare), "{text}");
            }
        }
        assert_eq!(checked, 6 * 3 + 8 * 7);
        check("labels.team:*", false);
        check("labels:team", false);
    }

    #[test]
    fn a_star_after_a_colon_asks_whether_a_field_is_set() {
        let (set, bare) = (execution(), bare());
        for field in super::super::FIELDS {
            let field = field.replace("<key>", "env");
            let filter = Filter::parse(&format!("{field}:*")).unwrap();
            let never_set = ["update_time", "end_time"].contains(&&*field);
            let always_set = ["sub_state", "name", "id", "mapping_basis"].contains(&&*field);
            assert_eq!(filter.admits(&set), !never_set, "{field}");
            assert_eq!(filter.admits(&bare), always_set, "{field}");
        }
        check("labels:*", true);
    }

    #[test]
    fn a_star_can_be_written_as_a_character() {
        let starred = Execution {
            native_state: "a*b".into(),
            ..execution()
        };
        let admits = |text: &str, of| Filter::parse(text).unwrap().admits(of);
        assert!(admits(r#"native_state = "a\*b""#, &starred));
        let other = Execution {
            native_state: "aXb".into(),
            ..execution()
        };
        assert!(!admits(r#"native_state = "a\*b""#, &other));
        assert!(admits(r#"native_state = "a*b""#, &other));
        assert!(!admits(r#"native_state:"\*""#, &other));
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
        let known = KnownFields {
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

    #[test]
    fn what_must_hold_holds_whatever_is_not_known() {
        let filters = [
            "sub_state = RUNNING AND labels.a = b",
            "sub_state = RUNNING OR labels.a = b",
            "NOT (sub_state = RUNNING AND labels.a = b)",
            "-sub_state = RUNNING OR -(labels.a = b OR sub_state = FAILED)",
        ];
        for text in filters {
            let filter = Filter::parse(text).unwrap();
            let known = |state: bool, label: Option<bool>| {
                move |term: &Term| match term {
                    Term::SubState(_, SubState::Running) => Some(state),
                    Term::SubState(..) => Some(false),
                    _ => label,
                }
            };
            for state in [true, false] {
                let must = filter.must_hold(&known(state, None));
                let may = filter.may_hold(&known(state, None));
                let either = [true, false].map(|label| {
                    filter.holds(&|term| known(state, Some(label))(term) == Some(true))
                });
                assert_eq!(must, either == [true, true], "{text}");
                assert_eq!(may, either != [false, false], "{text}");
            }
        }
    }
}
