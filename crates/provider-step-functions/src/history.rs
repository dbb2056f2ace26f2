//! A history for people: each event with the step and the attempt it belongs to.
//!
//! Pages are read one at a time and must give the same history whatever their size, so what
//! is needed to continue is small and is part of the cursor.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use stateway_model::AttemptPhase;
use stateway_model::Event as Told;

use stateway_provider_api::adapter::cursor::{self, HISTORY};
use stateway_provider_api::adapter::page_size;
use stateway_provider_api::{HistoryPage, HistoryRequest, Result};

use crate::StepFunctionsProvider;
use crate::client::{Ask, HistoryQuery};
use crate::event::{Event, Role};
use crate::request::{LARGEST_PAGE, arn};

/// Where a history continues: the token of the service, and what was read so far.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct HistoryPosition {
    t: String,
    c: Teller,
}

/// A page of the history.
pub(crate) async fn history(
    provider: &StepFunctionsProvider,
    ask: Ask<'_>,
    request: &HistoryRequest,
) -> Result<HistoryPage> {
    let arn = arn(&request.id, ask.verb)?;
    let from: Option<HistoryPosition> = cursor::read(HISTORY, request.cursor.as_deref(), ask.verb)?;
    let (token, mut teller) = from.map_or_else(Default::default, |from| (Some(from.t), from.c));
    let query = HistoryQuery {
        arn,
        size: page_size(request.page_size, LARGEST_PAGE, ask.verb)?,
        newest_first: false,
        with_data: false,
        token: token.as_deref(),
        turn_taken: false,
    };
    let page = provider.reader.client.history(ask, query).await?;
    let events = page.rows.iter().map(|event| teller.tell(event)).collect();
    let next = page
        .next
        .map(|t| cursor::write(HISTORY, &HistoryPosition { t, c: teller }));
    Ok(HistoryPage { events, next })
}

/// The maximum number of events remembered; older events are shown without their step.
const MOST_KEPT: usize = 32;

/// Where an event stands, for those that follow it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
struct Stand {
    /// The branch: `fan-out[3]`, or nothing at the top.
    branch: String,
    /// The step that is open; empty between two.
    step: String,
    attempt: u32,
}

/// Converts events in ascending order.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Teller {
    kept: BTreeMap<u64, Stand>,
}

impl Teller {
    pub(crate) fn tell(&mut self, event: &Event) -> Told {
        let before = match event.previous {
            0 => Some(Stand::default()),
            id => self.kept.get(&id).cloned(),
        };
        let (step, stand) = place(event, before);
        let attempt = stand.attempt;
        let branches = matches!(
            event.role(),
            Role::IterationStarted | Role::IterationOver | Role::ContainerOver | Role::StateAborted
        );
        let shared = self
            .kept
            .get(&event.previous)
            .is_some_and(|stand| stand.step.is_empty());
        if !branches && !shared {
            self.kept.remove(&event.previous);
        }
        self.kept.insert(event.id, stand);
        if self.kept.len() > MOST_KEPT {
            self.kept.pop_first();
        }
        Told {
            sequence: event.id,
            time: event.at,
            native_type: event.kind.clone(),
            attempt: if step.is_empty() { 0 } else { attempt },
            step,
            summary: summary(event),
            phase: phase(event),
            detail: None,
        }
    }
}

/// What it means for the attempt. Entering a state begins its first; a task that is scheduled again
/// begins the next.
fn phase(event: &Event) -> Option<AttemptPhase> {
    match event.role() {
        Role::Entered | Role::Scheduled => Some(AttemptPhase::Started),
        Role::Exited => Some(AttemptPhase::Succeeded),
        Role::Failed => Some(AttemptPhase::Failed),
        _ => None,
    }
}

/// The event's step, and where it stands.
fn place(event: &Event, before: Option<Stand>) -> (String, Stand) {
    let name = event.detail.name.as_deref().unwrap_or_default();
    let known = before.is_some();
    let before = before.unwrap_or_default();
    match event.role() {
        Role::ExecutionStarted | Role::ExecutionEnded | Role::ExecutionRedriven => {
            (String::new(), before)
        }
        Role::Entered => {
            let step = within(&before.branch, name);
            let stand = Stand {
                branch: before.branch,
                step: step.clone(),
                attempt: 0,
            };
            (step, stand)
        }
        Role::Exited => {
            let step = if last(&before.step) == name || !known {
                within(&before.branch, name)
            } else {
                around(&before.branch, name).unwrap_or_else(|| name.to_owned())
            };
            let branch = step
                .rsplit_once('.')
                .map_or("", |(branch, _)| branch)
                .to_owned();
            let stand = Stand {
                branch,
                ..Stand::default()
            };
            (step, stand)
        }
        Role::IterationStarted | Role::IterationOver => {
            let map = if last(&before.step) == name {
                before.step
            } else {
                around(&before.branch, name).unwrap_or_else(|| name.to_owned())
            };
            let branch = format!("{map}[{}]", event.detail.index.unwrap_or_default());
            let stand = Stand {
                branch: branch.clone(),
                ..Stand::default()
            };
            (branch, stand)
        }
        Role::ContainerStarted if event.kind == "ParallelStateStarted" => {
            let own = before.attempt == 0 && !before.step.is_empty();
            let step = if own { before.step } else { before.branch };
            let stand = Stand {
                branch: step.clone(),
                ..Stand::default()
            };
            (step, stand)
        }
        Role::Scheduled => {
            let stand = Stand {
                attempt: before.attempt + u32::from(known),
                ..before
            };
            (stand.step.clone(), stand)
        }
        Role::EvaluationFailed => {
            let step = within(&before.branch, name);
            let stand = Stand {
                step: step.clone(),
                ..before
            };
            (step, stand)
        }
        _ => (before.step.clone(), before),
    }
}

fn within(branch: &str, name: &str) -> String {
    match branch {
        "" => name.to_owned(),
        branch => format!("{branch}.{name}"),
    }
}

/// The last state of a step's name, without its iteration.
fn last(step: &str) -> &str {
    let state = step.rsplit('.').next().unwrap_or(step);
    state.split('[').next().unwrap_or(state)
}

/// The container of this name around a branch.
fn around(branch: &str, name: &str) -> Option<String> {
    let mut at = branch;
    loop {
        if last(at) == name {
            let end = at.rfind(name).unwrap_or_default() + name.len();
            return Some(at[..end].to_owned());
        }
        at = at.rsplit_once('.')?.0;
    }
}

/// One line: what happened, and why if it went wrong.
fn summary(event: &Event) -> String {
    let mut line = String::new();
    for letter in event.kind.chars() {
        if letter.is_uppercase() && !line.is_empty() {
            line.push(' ');
        }
        line.extend(letter.to_lowercase());
    }
    let detail = &event.detail;
    let first_line = |text: &String| text.lines().next().unwrap_or_default().to_owned();
    let told = [&detail.error, &detail.cause].into_iter().flatten();
    for told in told.filter(|told| !told.is_empty()) {
        line = format!("{line}: {}", first_line(told));
    }
    if let (Some(resource), None) = (&detail.resource, &detail.error) {
        line = format!("{line}: {resource}");
    }
    line.chars().take(512).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Detail;

    fn event(id: u64, previous: u64, kind: &str, name: &str, index: u64) -> Event {
        Event {
            id,
            previous,
            kind: kind.to_owned(),
            at: None,
            detail: Detail {
                name: (!name.is_empty()).then(|| name.to_owned()),
                index: Some(index),
                ..Detail::default()
            },
        }
    }

    #[test]
    fn each_event_is_told_with_its_step_and_attempt() {
        let events = [
            event(1, 0, "ExecutionStarted", "", 0),
            event(2, 0, "MapStateEntered", "M", 0),
            event(3, 2, "MapStateStarted", "", 0),
            event(4, 3, "MapIterationStarted", "M", 0),
            event(5, 3, "MapIterationStarted", "M", 1),
            event(6, 4, "TaskStateEntered", "T", 0),
            event(7, 6, "ActivityScheduled", "", 0),
            event(8, 5, "TaskStateEntered", "T", 0),
            event(9, 7, "ActivityFailed", "", 0),
            event(10, 9, "ActivityScheduled", "", 0),
            event(11, 10, "ActivitySucceeded", "", 0),
            event(12, 11, "TaskStateExited", "T", 0),
            event(13, 12, "MapIterationSucceeded", "M", 0),
            event(14, 12, "MapStateExited", "M", 0),
            event(15, 14, "PassStateEntered", "After", 0),
        ];
        let mut teller = Teller::default();
        let told: Vec<_> = events
            .iter()
            .map(|event| {
                let told = teller.tell(event);
                (told.step, told.attempt)
            })
            .collect();
        let expected = [
            ("", 0),
            ("M", 0),
            ("M", 0),
            ("M[0]", 0),
            ("M[1]", 0),
            ("M[0].T", 0),
            ("M[0].T", 1),
            ("M[1].T", 0),
            ("M[0].T", 1),
            ("M[0].T", 2),
            ("M[0].T", 2),
            ("M[0].T", 0),
            ("M[0]", 0),
            ("M", 0),
            ("After", 0),
        ];
        let expected: Vec<_> = expected
            .iter()
            .map(|(step, attempt)| ((*step).to_owned(), *attempt))
            .collect();
        assert_eq!(told, expected);
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let mut teller = Teller::default();
        for id in 1..1_000 {
            teller.tell(&event(id, 0, "MapIterationStarted", "M", id));
        }
        assert_eq!(teller.kept.len(), MOST_KEPT);
    }
}
