//! The filter of a list of approvals or escalations: the fields of both, in the language of every list.

use stateway_model::{ExecutionName, ProviderId};
use stateway_provider_api::filter::{
    Condition, DefinitionPattern, Equality, Filter as Language, Mismatch, Pattern, enum_value,
};
use stateway_provider_api::{Approval, ApprovalState, Escalation, EscalationState, InboxHints};
use tonic::Status;

use super::name::Kind;
use crate::service::triggers::definition_name;
use crate::status::Refusal;

/// What is wanted of one kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Filter {
    pub(super) kind: Kind,
    tests: Language<Test>,
    /// Without a condition on the state, lists show what is pending.
    names_state: bool,
}

/// One condition on an approval or an escalation.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Test {
    State(Equality, Stage),
    /// One of the roles that may decide.
    Role(Equality, Pattern),
    Step(Equality, Pattern),
    Definition(Equality, DefinitionPattern),
    Execution(Equality, Pattern),
}

/// A condition on an approval.
struct ApprovalTest(Test);

/// A condition on an escalation.
struct EscalationTest(Test);

impl Condition for ApprovalTest {
    const FIELDS: &'static [&'static str] = &["state", "role", "step", "definition", "execution"];

    fn new(field: &str, operator: &'static str, value: &str) -> Result<Self, Mismatch> {
        let test = match field {
            "state" => Test::State(
                Equality::new(field, operator)?,
                enum_value("", value, APPROVAL_STATES.into_iter())?,
            ),
            "role" => Test::Role(Equality::new(field, operator)?, Pattern::new(value)),
            _ => shared(field, operator, value)?,
        };
        Ok(Self(test))
    }
}

impl Condition for EscalationTest {
    const FIELDS: &'static [&'static str] = &["state", "roles", "step", "definition", "execution"];

    fn new(field: &str, operator: &'static str, value: &str) -> Result<Self, Mismatch> {
        let test = match field {
            "state" => Test::State(
                Equality::new(field, operator)?,
                enum_value("", value, ESCALATION_STATES.into_iter())?,
            ),
            "roles" if operator == ":" => Test::Role(Equality::Is, Pattern::new(value)),
            "roles" => {
                let message = format!("`roles` takes `:`, not `{operator}`");
                return Err(Mismatch::operator(message, "Write `roles:operator`."));
            }
            _ => shared(field, operator, value)?,
        };
        Ok(Self(test))
    }
}

const APPROVAL_STATES: [(Stage, &str); 5] = [
    (Stage::Pending, "pending"),
    (Stage::Granted, "granted"),
    (Stage::Rejected, "rejected"),
    (Stage::Expired, "expired"),
    (Stage::Withdrawn, "withdrawn"),
];

const ESCALATION_STATES: [(Stage, &str); 3] = [
    (Stage::Pending, "pending"),
    (Stage::Resolved, "resolved"),
    (Stage::Withdrawn, "withdrawn"),
];

/// The fields that both kinds have.
fn shared(field: &str, operator: &'static str, value: &str) -> Result<Test, Mismatch> {
    let equality = Equality::new(field, operator)?;
    Ok(match field {
        "step" => Test::Step(equality, Pattern::new(value)),
        "definition" => Test::Definition(equality, DefinitionPattern::new(value)),
        _ => {
            let name = execution(value);
            if !name.contains('*') && name.parse::<ExecutionName>().is_err() {
                let hint = "Write providers/{provider}/executions/{execution}.";
                return Err(Mismatch::value(
                    format!("`{value}` is not an execution"),
                    hint,
                ));
            }
            Test::Execution(equality, Pattern::new(&name))
        }
    })
}

/// The full name of an execution, which may be written as lists show it: `provider/id`.
fn execution(value: &str) -> String {
    match value.split_once('/') {
        Some((provider, id)) if !id.contains('/') => {
            format!("providers/{provider}/executions/{id}")
        }
        _ => value.to_owned(),
    }
}

impl Filter {
    pub(super) fn parse(kind: Kind, text: &str) -> Result<Self, Status> {
        let tests = match kind {
            Kind::Approval => Language::<ApprovalTest>::parse_as(text)
                .map(|filter| filter.map(&|ApprovalTest(test)| test)),
            Kind::Escalation => Language::<EscalationTest>::parse_as(text)
                .map(|filter| filter.map(&|EscalationTest(test)| test)),
        };
        let tests = tests.map_err(|error| {
            Status::from(
                Refusal::invalid("filter", format!("filter: {error}"))
                    .reason("INVALID_FILTER")
                    .with("column", error.column.to_string())
                    .hint(error.hint),
            )
        })?;
        let names_state = tests.any(&|test| matches!(test, Test::State(..)));
        Ok(Self {
            kind,
            tests,
            names_state,
        })
    }

    /// The only execution whose requests can pass, where the filter names one.
    pub(super) fn execution(&self) -> Option<ExecutionName> {
        self.tests
            .required()
            .into_iter()
            .find_map(|test| match test {
                Test::Execution(Equality::Is, pattern) => pattern.literal()?.parse().ok(),
                _ => None,
            })
    }

    /// The id of the only definition whose requests can pass, where the filter names one.
    pub(super) fn definition(&self) -> Option<&str> {
        self.tests
            .required()
            .into_iter()
            .find_map(|test| match test {
                Test::Definition(Equality::Is, pattern) if !pattern.has_wildcard() => {
                    pattern.portable_id()
                }
                _ => None,
            })
    }

    /// What a provider may narrow its answer to. Without a condition on the state only pending requests
    /// are listed, or every request of the one execution that the filter names.
    pub(super) fn hints(&self) -> InboxHints {
        let execution = self.execution();
        InboxHints {
            pending_only: if self.names_state {
                self.is_pending_only()
            } else {
                execution.is_none()
            },
            execution: execution.map(|name| name.id),
            definition: self.definition().map(ToOwned::to_owned),
            role: self.literal(|test| match test {
                Test::Role(Equality::Is, pattern) => Some(pattern),
                _ => None,
            }),
            step: self.literal(|test| match test {
                Test::Step(Equality::Is, pattern) => Some(pattern),
                _ => None,
            }),
        }
    }

    /// A text that must be equal for a request to pass.
    fn literal(&self, pattern: impl Fn(&Test) -> Option<&Pattern>) -> Option<String> {
        let required = self.tests.required();
        let mut patterns = required.into_iter().filter_map(pattern);
        patterns.find_map(|pattern| pattern.literal().map(ToOwned::to_owned))
    }

    /// Whether only pending requests can pass.
    fn is_pending_only(&self) -> bool {
        let others = [
            Stage::Granted,
            Stage::Rejected,
            Stage::Expired,
            Stage::Resolved,
            Stage::Withdrawn,
        ];
        !others.iter().any(|stage| self.may_admit(*stage))
    }

    /// Whether a request in this state can pass.
    fn may_admit(&self, stage: Stage) -> bool {
        self.tests.may_hold(&|test| match test {
            Test::State(equality, wanted) => Some(equality.holds(*wanted == stage)),
            _ => None,
        })
    }

    /// Whether a pending request can pass.
    pub(super) fn may_admit_pending(&self) -> bool {
        self.may_admit(Stage::Pending)
    }

    fn admits(&self, row: &Row<'_>) -> bool {
        if !self.names_state && self.hints().pending_only && row.stage != Stage::Pending {
            return false;
        }
        self.holds(row)
    }

    fn holds(&self, row: &Row<'_>) -> bool {
        self.tests.holds(&|test| match test {
            Test::State(equality, wanted) => equality.holds(*wanted == row.stage),
            Test::Role(equality, wanted) => {
                equality.holds(row.roles.iter().any(|role| wanted.matches(role)))
            }
            Test::Step(equality, wanted) => equality.holds(wanted.matches(row.step)),
            Test::Definition(equality, wanted) => equality.holds(wanted.admits(&row.definition)),
            Test::Execution(equality, wanted) => equality.holds(wanted.matches(&row.execution)),
        })
    }

    pub(super) fn admits_approval(&self, provider: &ProviderId, row: &Approval) -> bool {
        self.admits(&Row::of_approval(provider, row))
    }

    /// Whether an approval is pending and passes.
    pub(super) fn admits_pending(&self, provider: &ProviderId, row: &Approval) -> bool {
        row.state == ApprovalState::Pending && self.holds(&Row::of_approval(provider, row))
    }

    pub(super) fn admits_escalation(&self, provider: &ProviderId, row: &Escalation) -> bool {
        self.admits(&Row {
            stage: match row.state {
                EscalationState::Pending => Stage::Pending,
                EscalationState::Resolved => Stage::Resolved,
                EscalationState::Withdrawn => Stage::Withdrawn,
            },
            step: &row.step,
            definition: definition_name(&row.definition),
            execution: ExecutionName::new(provider.clone(), row.id.execution.clone()).to_string(),
            roles: &row.roles,
        })
    }
}

/// The state of an approval or an escalation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Pending,
    Granted,
    Rejected,
    Expired,
    Resolved,
    Withdrawn,
}

/// What a filter reads of an approval or an escalation.
struct Row<'r> {
    stage: Stage,
    step: &'r str,
    /// The full name.
    definition: String,
    /// The full name.
    execution: String,
    roles: &'r [String],
}

impl<'r> Row<'r> {
    fn of_approval(provider: &ProviderId, row: &'r Approval) -> Self {
        Self {
            stage: match row.state {
                ApprovalState::Pending => Stage::Pending,
                ApprovalState::Granted => Stage::Granted,
                ApprovalState::Rejected => Stage::Rejected,
                ApprovalState::Expired => Stage::Expired,
                ApprovalState::Withdrawn => Stage::Withdrawn,
            },
            step: &row.step,
            definition: definition_name(&row.definition),
            execution: ExecutionName::new(provider.clone(), row.id.execution.clone()).to_string(),
            roles: std::slice::from_ref(&row.role),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn approvals(text: &str) -> Result<Filter, Status> {
        Filter::parse(Kind::Approval, text)
    }

    fn wanted(text: &str) -> Vec<Stage> {
        let filter = approvals(text).unwrap();
        let stages = APPROVAL_STATES.into_iter().map(|(stage, _)| stage);
        stages.filter(|stage| filter.may_admit(*stage)).collect()
    }

    #[test]
    fn without_a_state_only_the_pending_ones_are_listed() {
        for inbox in [
            "",
            "role = ops",
            "state = PENDING",
            "state = pending AND step = a",
        ] {
            assert!(approvals(inbox).unwrap().hints().pending_only, "{inbox}");
        }
        for all in [
            "state = GRANTED",
            "state != PENDING",
            "state = PENDING OR step = a",
            "execution = p/a",
        ] {
            assert!(!approvals(all).unwrap().hints().pending_only, "{all}");
        }
    }

    #[test]
    fn states_combine() {
        assert_eq!(
            wanted("state = GRANTED OR state = REJECTED"),
            [Stage::Granted, Stage::Rejected]
        );
        assert_eq!(wanted("NOT state = PENDING").len(), 4);
        assert_eq!(wanted("state = GRANTED AND state = EXPIRED"), []);
    }

    #[test]
    fn a_watch_takes_what_can_admit_pending_requests() {
        for wanted in ["", "role = ops", "state = PENDING OR state = GRANTED"] {
            assert!(approvals(wanted).unwrap().may_admit_pending(), "{wanted}");
        }
        for other in ["state = GRANTED", "NOT state = PENDING"] {
            assert!(!approvals(other).unwrap().may_admit_pending(), "{other}");
        }
    }

    #[test]
    fn an_execution_is_named_in_full_or_as_lists_show_it() {
        let full = approvals("execution = providers/p/executions/a").unwrap();
        assert!(full.execution().is_some());
        for short in ["execution = p/a", "execution = \"p/a\" AND role = ops"] {
            assert_eq!(approvals(short).unwrap().execution(), full.execution());
        }
        for several in [
            "execution = p/a OR role = ops",
            "NOT execution = p/a",
            "execution = providers/p/*",
        ] {
            assert_eq!(approvals(several).unwrap().execution(), None, "{several}");
        }
    }

    #[test]
    fn only_one_definition_is_asked_of_the_store() {
        let of = |text| approvals(text).unwrap().definition().map(ToOwned::to_owned);
        assert_eq!(
            of("definition = definitions/order").as_deref(),
            Some("order")
        );
        assert_eq!(of("definition = order").as_deref(), Some("order"));
        assert_eq!(of("definition = ord*"), None);
        assert_eq!(of("definition = a OR definition = b"), None);
    }

    #[test]
    fn each_kind_has_its_own_states_and_roles() {
        let escalations = |text| Filter::parse(Kind::Escalation, text);
        assert!(escalations("state = RESOLVED AND roles:sre").is_ok());
        for wrong in ["state = GRANTED", "role = sre", "roles = sre"] {
            assert!(escalations(wrong).is_err(), "{wrong}");
        }
        for wrong in [
            "state = RESOLVED",
            "roles:sre",
            "state = maybe",
            "colour = red",
            "role",
            "execution = a",
        ] {
            assert!(approvals(wrong).is_err(), "{wrong}");
        }
    }
}
