//! The filter of a list of approvals or escalations: `field = value` terms joined by AND.

use stateway_model::ExecutionName;
use stateway_provider_api::{Approval, ApprovalState, Escalation, EscalationState, InboxHints};
use tonic::Status;

use super::name::Kind;
use crate::status::Refusal;

/// The longest filter that is parsed.
const LONGEST: usize = 4_096;

/// What is wanted; a field that is absent admits everything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Filter {
    pub(super) kind: Kind,
    /// Any of these; every stage when it is absent.
    pub(super) stages: Option<&'static [Stage]>,
    pub(super) role: Option<String>,
    pub(super) step: Option<String>,
    pub(super) definition: Option<String>,
    pub(super) execution: Option<ExecutionName>,
}

impl Filter {
    /// Everything of a kind.
    const fn all(kind: Kind) -> Self {
        Self {
            kind,
            stages: None,
            role: None,
            step: None,
            definition: None,
            execution: None,
        }
    }

    pub(super) fn parse(kind: Kind, text: &str) -> Result<Self, Status> {
        let wrong = |message: &str| wrong(kind, message);
        if text.len() > LONGEST {
            return Err(wrong(&format!("a filter has at most {LONGEST} bytes")));
        }
        let mut filter = Self::all(kind);
        let terms = terms(text).ok_or_else(|| wrong(MALFORMED))?;
        for (field, value) in terms {
            let again = match field.as_str() {
                "state" => {
                    let stages = stages(kind, &value).ok_or_else(|| {
                        let collection = kind.collection();
                        wrong(&format!("`{value}` is not a state of {collection}"))
                    })?;
                    filter.stages.replace(stages).is_some()
                }
                "role" => filter.role.replace(value).is_some(),
                "step" => filter.step.replace(value).is_some(),
                "definition" => {
                    let name = value.strip_prefix("definitions/").unwrap_or(&value);
                    filter.definition.replace(name.to_owned()).is_some()
                }
                "execution" => {
                    let name = execution(&value).map_err(|error| wrong(&format!("{error}")))?;
                    filter.execution.replace(name).is_some()
                }
                other => return Err(wrong(&format!("`{other}` is not a field"))),
            };
            if again {
                return Err(wrong(&format!("`{field}` is given twice")));
            }
        }
        Ok(filter)
    }

    /// Whether only pending ones can pass, so that no log has to be read.
    const fn is_of_the_inbox(&self) -> bool {
        matches!(self.stages, None | Some([Stage::Pending]))
    }

    /// What a provider may narrow its answer to. Every state of one execution is listed.
    pub(super) fn hints(&self) -> InboxHints {
        InboxHints {
            pending_only: self.is_of_the_inbox()
                && (self.execution.is_none() || self.stages.is_some()),
            execution: self.execution.as_ref().map(|name| name.id.clone()),
            definition: self.definition.clone(),
            role: self.role.clone(),
            step: self.step.clone(),
        }
    }

    fn admits(&self, row: &Row<'_>) -> bool {
        let pending_only = self.hints().pending_only;
        let wanted = match self.stages {
            Some(stages) => stages.contains(&row.stage),
            None => !pending_only || row.stage == Stage::Pending,
        };
        let same = |wanted: &Option<String>, shown: &str| {
            wanted.as_ref().is_none_or(|wanted| wanted == shown)
        };
        let role = self.role.as_ref();
        wanted
            && same(&self.step, row.step)
            && same(&self.definition, row.definition)
            && role.is_none_or(|role| row.roles.contains(role))
    }

    pub(super) fn admits_approval(&self, row: &Approval) -> bool {
        self.admits(&Row {
            stage: match row.state {
                ApprovalState::Pending => Stage::Pending,
                ApprovalState::Granted => Stage::Granted,
                ApprovalState::Rejected => Stage::Rejected,
                ApprovalState::Expired => Stage::Expired,
                ApprovalState::Withdrawn => Stage::Withdrawn,
            },
            step: &row.step,
            definition: &row.definition,
            roles: std::slice::from_ref(&row.role),
        })
    }

    pub(super) fn admits_escalation(&self, row: &Escalation) -> bool {
        self.admits(&Row {
            stage: match row.state {
                EscalationState::Pending => Stage::Pending,
                EscalationState::Resolved => Stage::Resolved,
                EscalationState::Withdrawn => Stage::Withdrawn,
            },
            step: &row.step,
            definition: &row.definition,
            roles: &row.roles,
        })
    }
}

/// The state of an approval or an escalation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    Pending,
    Granted,
    Rejected,
    Expired,
    Resolved,
    Withdrawn,
}

/// What the filter reads of an approval or an escalation.
struct Row<'r> {
    stage: Stage,
    step: &'r str,
    definition: &'r str,
    roles: &'r [String],
}

/// The stages that a word stands for.
fn stages(kind: Kind, word: &str) -> Option<&'static [Stage]> {
    Some(match (kind, word.to_ascii_uppercase().as_str()) {
        (_, "PENDING") => &[Stage::Pending],
        (_, "WITHDRAWN") => &[Stage::Withdrawn],
        (Kind::Approval, "GRANTED") => &[Stage::Granted],
        (Kind::Approval, "REJECTED") => &[Stage::Rejected],
        (Kind::Approval, "EXPIRED") => &[Stage::Expired],
        (Kind::Approval, "DECIDED") => &[Stage::Granted, Stage::Rejected],
        (Kind::Escalation, "RESOLVED") => &[Stage::Resolved],
        _ => return None,
    })
}

const MALFORMED: &str = "a filter is `field = value`, several of them joined by AND";

/// The terms, taken apart; nothing where the text has another form.
fn terms(text: &str) -> Option<Vec<(String, String)>> {
    let mut words = words(text)?.into_iter().peekable();
    let mut found = Vec::new();
    while words.peek().is_some() {
        let (Some(Word::Plain(field)), Some(Word::Equals), Some(value)) =
            (words.next(), words.next(), words.next())
        else {
            return None;
        };
        let (Word::Plain(value) | Word::Quoted(value)) = value else {
            return None;
        };
        found.push((field, value));
        match words.next() {
            None => break,
            Some(Word::Plain(and)) if and == "AND" && words.peek().is_some() => {}
            Some(_) => return None,
        }
    }
    Some(found)
}

#[derive(Debug, PartialEq, Eq)]
enum Word {
    Plain(String),
    Quoted(String),
    Equals,
}

fn words(text: &str) -> Option<Vec<Word>> {
    let mut found = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        rest = match first {
            '=' => {
                found.push(Word::Equals);
                &rest[1..]
            }
            '"' => {
                let end = rest[1..].find('"')?;
                found.push(Word::Quoted(rest[1..=end].to_owned()));
                &rest[end + 2..]
            }
            _ => {
                let stop = |c: char| c.is_whitespace() || c == '=' || c == '"';
                let end = rest.find(stop).unwrap_or(rest.len());
                found.push(Word::Plain(rest[..end].to_owned()));
                &rest[end..]
            }
        }
        .trim_start();
    }
    Some(found)
}

fn wrong(kind: Kind, message: &str) -> Status {
    let hint = match kind {
        Kind::Approval => {
            "Fields: state, role, step, definition, execution. A state is pending, granted, rejected, \
             expired, withdrawn or decided."
        }
        Kind::Escalation => {
            "Fields: state, role, step, definition, execution. A state is pending, resolved or \
             withdrawn."
        }
    };
    Refusal::invalid("filter", format!("filter: {message}"))
        .reason("INVALID_FILTER")
        .hint(hint)
        .into()
}

/// An execution by its full name, or by the short one that lists show: `provider/id`.
fn execution(name: &str) -> Result<ExecutionName, stateway_model::NameError> {
    match name.split_once('/') {
        Some((provider, id)) if !id.contains('/') => {
            format!("providers/{provider}/executions/{id}").parse()
        }
        _ => name.parse(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn approvals(text: &str) -> Result<Filter, Status> {
        Filter::parse(Kind::Approval, text)
    }

    #[test]
    fn terms_are_joined_by_and() {
        let text =
            "state = PENDING AND role=\"release manager\" AND execution = providers/p/executions/a";
        let filter = approvals(text).unwrap();
        assert_eq!(filter.stages, Some(&[Stage::Pending][..]));
        assert!(filter.is_of_the_inbox());
        assert_eq!(filter.role.as_deref(), Some("release manager"));
        assert!(filter.execution.is_some());
        assert_eq!(approvals("  ").unwrap(), Filter::all(Kind::Approval));
    }

    #[test]
    fn an_execution_is_named_in_full_or_as_lists_show_it() {
        let full = approvals("execution = providers/p/executions/a").unwrap();
        for short in ["execution = p/a", "execution = \"p/a\""] {
            assert_eq!(approvals(short).unwrap().execution, full.execution);
        }
        let wrong = approvals("execution = a").unwrap_err();
        assert!(wrong.message().contains("providers/{provider}"), "{wrong}");
    }

    #[test]
    fn decided_is_granted_or_rejected() {
        let filter = approvals("state = decided").unwrap();
        assert_eq!(filter.stages, Some(&[Stage::Granted, Stage::Rejected][..]));
        assert!(!filter.is_of_the_inbox());
        assert!(Filter::all(Kind::Approval).is_of_the_inbox());
    }

    #[test]
    fn escalations_have_states_of_their_own() {
        let filter = Filter::parse(Kind::Escalation, "state = resolved").unwrap();
        assert_eq!(filter.stages, Some(&[Stage::Resolved][..]));
        assert!(Filter::parse(Kind::Escalation, "state = granted").is_err());
        assert!(approvals("state = resolved").is_err());
    }

    #[test]
    fn every_other_text_is_rejected() {
        for wrong in [
            "role",
            "role =",
            "= ops",
            "role = =",
            "role = ops OR role = dev",
            "role = ops AND",
            "role = ops role = dev",
            "role = a AND role = b",
            "role != ops",
            "colour = red",
            "state = maybe",
            "role = \"ops",
            "execution = a",
        ] {
            assert!(approvals(wrong).is_err(), "{wrong}");
        }
    }
}
