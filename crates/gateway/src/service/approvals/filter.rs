//! The filter of an inbox: `field = value` terms joined by AND.

use stateway_model::ExecutionName;
use stateway_proto::v1;
use stateway_proto::v1::approval::State;
use tonic::Status;

use crate::status::Refusal;

/// The longest filter that is looked at.
const LONGEST: usize = 4_096;

/// What is wanted; everything that is not said passes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Filter {
    /// Any of these; every state when it is not said.
    pub(super) states: Option<&'static [State]>,
    pub(super) role: Option<String>,
    pub(super) step: Option<String>,
    pub(super) definition: Option<String>,
    pub(super) execution: Option<ExecutionName>,
}

impl Filter {
    pub(super) fn parse(text: &str) -> Result<Self, Status> {
        if text.len() > LONGEST {
            return Err(wrong(&format!("a filter has at most {LONGEST} bytes")));
        }
        let mut filter = Self::default();
        for term in terms(text)? {
            let (field, value) = term;
            match field.as_str() {
                "state" => set(&mut filter.states, "state", states(&value)?)?,
                "role" => set(&mut filter.role, "role", value)?,
                "step" => set(&mut filter.step, "step", value)?,
                "definition" => {
                    let name = value.strip_prefix("definitions/").unwrap_or(&value);
                    set(&mut filter.definition, "definition", name.to_owned())?;
                }
                "execution" => {
                    let name = value.parse().map_err(|error| wrong(&format!("{error}")))?;
                    set(&mut filter.execution, "execution", name)?;
                }
                other => return Err(wrong(&format!("there is no field `{other}`"))),
            }
        }
        Ok(filter)
    }

    /// Whether only what is open now can pass.
    pub(super) fn is_of_the_inbox(&self) -> bool {
        matches!(self.states, None | Some([State::Pending]))
    }

    /// Whether it passes. `execution` is seen to by whoever reads.
    pub(super) fn admits(&self, approval: &v1::Approval) -> bool {
        let same = |wanted: &Option<String>, found: &str| {
            wanted.as_ref().is_none_or(|wanted| wanted == found)
        };
        let definition = approval.definition.strip_prefix("definitions/");
        self.states
            .is_none_or(|states| states.contains(&approval.state()))
            && same(&self.role, &approval.role)
            && same(&self.step, &approval.step)
            && same(&self.definition, definition.unwrap_or_default())
    }
}

fn set<T>(place: &mut Option<T>, field: &str, value: T) -> Result<(), Status> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(wrong(&format!("`{field}` is asked for twice"))),
    }
}

/// The states that a word stands for.
fn states(word: &str) -> Result<&'static [State], Status> {
    Ok(match word.to_ascii_uppercase().as_str() {
        "PENDING" => &[State::Pending],
        "GRANTED" => &[State::Granted],
        "REJECTED" => &[State::Rejected],
        "EXPIRED" => &[State::Expired],
        "WITHDRAWN" => &[State::Withdrawn],
        "DECIDED" => &[State::Granted, State::Rejected],
        _ => return Err(wrong(&format!("`{word}` is not a state of an approval"))),
    })
}

/// The terms, taken apart.
fn terms(text: &str) -> Result<Vec<(String, String)>, Status> {
    let mut words = words(text)?.into_iter().peekable();
    let mut found = Vec::new();
    while words.peek().is_some() {
        let (field, equals, value) = (words.next(), words.next(), words.next());
        match (field, equals, value) {
            (Some(Word::Plain(field)), Some(Word::Equals), Some(value))
                if value != Word::Equals =>
            {
                let (Word::Plain(value) | Word::Quoted(value)) = value else {
                    return Err(malformed());
                };
                found.push((field, value));
            }
            _ => return Err(malformed()),
        }
        match words.next() {
            None => break,
            Some(Word::Plain(and)) if and == "AND" && words.peek().is_some() => {}
            Some(_) => return Err(malformed()),
        }
    }
    Ok(found)
}

#[derive(Debug, PartialEq, Eq)]
enum Word {
    Plain(String),
    Quoted(String),
    Equals,
}

fn words(text: &str) -> Result<Vec<Word>, Status> {
    let mut found = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        rest = match first {
            '=' => {
                found.push(Word::Equals);
                &rest[1..]
            }
            '"' => {
                let end = rest[1..].find('"').ok_or_else(malformed)?;
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
    Ok(found)
}

fn malformed() -> Status {
    wrong("a filter is `field = value`, several of them joined by AND")
}

fn wrong(message: &str) -> Status {
    Refusal::invalid("filter", format!("filter: {message}"))
        .reason("INVALID_FILTER")
        .hint(
            "Fields: state, role, step, definition, execution. A state is pending, granted, \
             rejected, expired, withdrawn or decided.",
        )
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_are_joined_by_and() {
        let text =
            "state = PENDING AND role=\"release manager\" AND execution = providers/p/executions/a";
        let filter = Filter::parse(text).unwrap();
        assert_eq!(filter.states, Some(&[State::Pending][..]));
        assert!(filter.is_of_the_inbox());
        assert_eq!(filter.role.as_deref(), Some("release manager"));
        assert!(filter.execution.is_some());
        assert_eq!(Filter::parse("  ").unwrap(), Filter::default());
    }

    #[test]
    fn decided_is_granted_or_rejected() {
        let filter = Filter::parse("state = decided").unwrap();
        assert_eq!(filter.states, Some(&[State::Granted, State::Rejected][..]));
        assert!(!filter.is_of_the_inbox());
        assert!(Filter::default().is_of_the_inbox());
    }

    #[test]
    fn anything_else_is_refused() {
        for wrong in [
            "role",
            "role =",
            "= ops",
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
            assert!(Filter::parse(wrong).is_err(), "{wrong}");
        }
    }
}
