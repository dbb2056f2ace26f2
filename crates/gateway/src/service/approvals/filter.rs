//! The filter of a list of approvals or escalations: the fields of both, in the language of every list.

use stateway_model::{ExecutionName, ProviderId};
use stateway_provider_api::filter::{
    Condition, DefinitionPattern, Equality, Filter as Language, Mismatch, Operand, Pattern,
    enum_value,
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
    /// Whether only pending requests pass: by the conditions, or because the filter has no condition on the
    /// state and does not name one execution.
    pending_only: bool,
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
    /// `field:*`: the field is set.
    Has(Field),
}

/// A field that may be set or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Field {
    State,
    Role,
    Step,
    Definition,
    Execution,
}

/// A condition on an approval.
struct ApprovalTest(Test);

/// A condition on an escalation.
struct EscalationTest(Test);

impl Condition for ApprovalTest {
    const FIELDS: &'static [&'static str] = &["state", "role", "step", "definition", "execution"];

    fn new(field: &str, operator: &'static str, value: &Operand) -> Result<Self, Mismatch> {
        let test = match field {
            "state" => state(field, operator, value, &APPROVAL_STATES)?,
            "role" if asks_presence(operator, value) => Test::Has(Field::Role),
            "role" => Test::Role(Equality::new(field, operator)?, value.pattern()),
            _ => shared(field, operator, value)?,
        };
        Ok(Self(test))
    }
}

impl Condition for EscalationTest {
    const FIELDS: &'static [&'static str] = &["state", "roles", "step", "definition", "execution"];

    fn new(field: &str, operator: &'static str, value: &Operand) -> Result<Self, Mismatch> {
        let test = match field {
            "state" => state(field, operator, value, &ESCALATION_STATES)?,
            "roles" if asks_presence(operator, value) => Test::Has(Field::Role),
            "roles" if operator == ":" => Test::Role(Equality::Is, value.pattern()),
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

/// Whether a condition is `field:*`.
fn asks_presence(operator: &str, value: &Operand) -> bool {
    operator == ":" && value.is_star()
}

fn state(
    field: &str,
    operator: &'static str,
    value: &Operand,
    known: &[(Stage, &'static str)],
) -> Result<Test, Mismatch> {
    if asks_presence(operator, value) {
        return Ok(Test::Has(Field::State));
    }
    let equality = Equality::new(field, operator)?;
    let stage = enum_value("", &value.text(), known.iter().copied())?;
    Ok(Test::State(equality, stage))
}

/// The fields that both kinds have.
fn shared(field: &str, operator: &'static str, value: &Operand) -> Result<Test, Mismatch> {
    let equality = Equality::new(field, operator)?;
    let is_set = asks_presence(operator, value);
    Ok(match field {
        "step" if is_set => Test::Has(Field::Step),
        "step" => Test::Step(equality, value.pattern()),
        "definition" if is_set => Test::Has(Field::Definition),
        "definition" => Test::Definition(equality, DefinitionPattern::new(value.escaped())),
        _ if is_set => Test::Has(Field::Execution),
        _ => {
            let pattern = Pattern::new(&execution(value.escaped()));
            let name = pattern.literal();
            if name.is_some_and(|name| name.parse::<ExecutionName>().is_err()) {
                let hint = "Write providers/{provider}/executions/{execution}.";
                let message = format!("`{}` is not an execution", value.text());
                return Err(Mismatch::value(message, hint));
            }
            Test::Execution(equality, pattern)
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
        let mut filter = Self {
            kind,
            tests,
            pending_only: false,
        };
        let names_state = |test: &Test| matches!(test, Test::State(..) | Test::Has(Field::State));
        filter.pending_only = if filter.tests.any(&names_state) {
            filter.requires_pending()
        } else {
            filter.execution().is_none()
        };
        Ok(filter)
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
        InboxHints {
            pending_only: self.pending_only,
            execution: self.execution().map(|name| name.id),
            definition: self.definition().map(ToOwned::to_owned),
            role: self.literal(|test| match test {
                Test::Role(Equality::Is, pattern) => Some(pattern),
                _ => None,
            }),
            step: self.literal(|test| match test {
                Test::Step(Equality::Is, pattern) => Some(pattern),
                _ => None,
            }),
            labels: Vec::new(),
        }
    }

    /// A text that must be equal for a request to pass.
    fn literal(&self, pattern: impl Fn(&Test) -> Option<&Pattern>) -> Option<String> {
        let required = self.tests.required();
        let mut patterns = required.into_iter().filter_map(pattern);
        patterns.find_map(|pattern| pattern.literal().map(ToOwned::to_owned))
    }

    /// Whether the conditions admit pending requests only.
    fn requires_pending(&self) -> bool {
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
            Test::Has(Field::State) => Some(true),
            _ => None,
        })
    }

    /// Whether a pending request can pass.
    pub(super) fn may_admit_pending(&self) -> bool {
        self.may_admit(Stage::Pending)
    }

    fn admits(&self, row: &Row<'_>) -> bool {
        if self.pending_only && row.stage != Stage::Pending {
            return false;
        }
        self.holds(row)
    }

    fn holds(&self, row: &Row<'_>) -> bool {
        self.tests.holds(&|test| match test {
            Test::State(equality, wanted) => equality.holds(*wanted == row.stage),
            Test::Role(equality, wanted) => {
                row.has(Field::Role)
                    && equality.holds(row.roles.iter().any(|it| wanted.matches(it)))
            }
            Test::Step(equality, wanted) => equality.holds(wanted.matches(row.step)),
            Test::Definition(equality, wanted) => {
                row.has(Field::Definition) && equality.holds(wanted.admits(&row.definition))
            }
            Test::Execution(equality, wanted) => equality.holds(wanted.matches(&row.execution)),
            Test::Has(field) => row.has(*field),
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
    /// Whether a field is set. State, step and execution always are.
    fn has(&self, field: Field) -> bool {
        match field {
            Field::State | Field::Step | Field::Execution => true,
            Field::Role => self.roles.iter().any(|role| !role.is_empty()),
            Field::Definition => !self.definition.is_empty(),
        }
    }

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
            "state:*",
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

    fn row<'r>(roles: &'r [String], definition: &str) -> Row<'r> {
        Row {
            stage: Stage::Pending,
            step: "s",
            definition: definition.into(),
            execution: "providers/p/executions/a".into(),
            roles,
        }
    }

    #[test]
    fn a_field_that_is_not_set_passes_no_comparison() {
        let set = ["ops".to_owned()];
        for (text, of_set) in [
            ("role != x", true),
            ("role = ops", true),
            ("role:*", true),
            ("definition != x", true),
            ("definition:*", true),
            ("definition = *", true),
            ("definition = x", false),
        ] {
            let filter = approvals(text).unwrap();
            let full = row(&set, "definitions/order");
            assert_eq!(filter.admits(&full), of_set, "{text}");
            assert!(!filter.admits(&row(&[], "")), "{text}");
        }
        for always in ["state:*", "step:*", "execution:*"] {
            assert!(approvals(always).unwrap().admits(&row(&[], "")), "{always}");
        }
    }

    /// The part of docs/filters.md about approvals and escalations.
    fn documentation() -> &'static str {
        let page = include_str!("../../../../../docs/filters.md");
        let section = "\n## Fields of approvals and escalations\n";
        page.split_once(section).expect("the section exists").1
    }

    /// The operators that the documentation lists for a field.
    fn documented(field: &str) -> Vec<&'static str> {
        let name = format!("`{field}`");
        let row = documentation().lines().find_map(|line| {
            let mut cells = line.strip_prefix("| ")?.split(" | ");
            cells.next()?.contains(&name).then(|| cells.next())?
        });
        let row = row.unwrap_or_else(|| panic!("{field} is missing"));
        row.split(' ').map(|it| it.trim_matches('`')).collect()
    }

    #[test]
    fn the_documentation_lists_every_field_with_its_operators() {
        for (kind, fields) in [
            (Kind::Approval, ApprovalTest::FIELDS),
            (Kind::Escalation, EscalationTest::FIELDS),
        ] {
            for field in fields {
                let value = match *field {
                    "state" => "PENDING",
                    "execution" => "p/a",
                    _ => "x",
                };
                let takes = |operator: &&str| {
                    let text = format!("{field} {operator} {value}");
                    Filter::parse(kind, &text).is_ok()
                };
                let operators = ["=", "!=", "<", "<=", ">", ">=", ":"].into_iter();
                let taken: Vec<_> = operators.filter(takes).collect();
                assert_eq!(documented(field), taken, "{field}");
            }
        }
    }

    #[test]
    fn every_filter_in_the_documentation_is_one() {
        let blocks: Vec<_> = documentation().split("```filter\n").skip(1).collect();
        assert!(!blocks.is_empty());
        for block in blocks {
            for example in block.split("\n```").next().unwrap().lines() {
                let kind = if example.contains("roles:") {
                    Kind::Escalation
                } else {
                    Kind::Approval
                };
                assert!(Filter::parse(kind, example).is_ok(), "{example}");
            }
        }
    }
}
