//! The data of `top` and the state of its screen.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use stateway_client::{Change, SUB_STATES, is_finished, v1, word_of};
use stateway_provider_api::filter::Filter;

use super::{Key, Sort};
use crate::view::{Execution, Provider};

/// The maximum number of finished executions that are listed; older ones are only counted.
const MOST_ENDED: usize = 500;

/// The longest filter that can be typed, as in the API.
const LONGEST_FILTER: usize = 2_000;

/// The data of `top` and the state of its screen.
#[derive(Debug, Clone, Default)]
pub struct Model {
    /// Every execution by its full name.
    known: BTreeMap<String, Row>,
    /// Finished executions that are listed, by their end.
    ended: BTreeSet<(Option<Timestamp>, String)>,
    /// The providers and their health.
    pub providers: Vec<Provider>,
    /// The providers that do not answer.
    pub unreachable: Vec<String>,
    /// Whether the current set is complete.
    pub complete: bool,
    /// When the connection was lost.
    pub lost: Option<Timestamp>,
    /// The order of the list.
    pub sort: Sort,
    /// The filter in use.
    pub filter: String,
    /// The filter that is being typed.
    pub typed: Option<String>,
    /// The error of the last input.
    pub problem: String,
    /// Whether the display is paused.
    pub paused: bool,
    /// The selected execution. By name, so that the selection stays when the list changes.
    selected: Option<String>,
    /// The execution that is shown alone.
    pub opened: Option<String>,
    /// How far the single view is scrolled.
    pub scroll: usize,
}

#[derive(Debug, Clone)]
struct Row {
    sub_state: &'static str,
    /// None for an execution that is only counted.
    execution: Option<Box<Execution>>,
}

/// The effect of a key beyond the screen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Nothing.
    None,
    /// Quit.
    Quit,
    /// Watch other executions: those that match the model's filter now.
    Refilter,
}

impl Model {
    /// Applies a change of the watch.
    pub fn change(&mut self, change: &Change) {
        match change {
            Change::Added(execution) | Change::Modified(execution) => self.put(execution),
            Change::Removed(execution) => self.remove(&execution.name),
            Change::Bookmark { unreachable } => {
                self.complete = true;
                self.unreachable.clone_from(unreachable);
            }
            Change::Resync => self.forget(),
            Change::Interrupted(_) => {}
        }
    }

    /// Removes every execution, because the whole current set follows.
    pub fn forget(&mut self) {
        self.known.clear();
        self.ended.clear();
        self.complete = false;
    }

    fn put(&mut self, wire: &v1::Execution) {
        self.remove(&wire.name);
        let execution = Execution::from(wire);
        if is_finished(wire.sub_state) {
            self.ended.insert((execution.end_time, wire.name.clone()));
        }
        let row = Row {
            sub_state: word_of(wire.sub_state),
            execution: Some(Box::new(execution)),
        };
        self.known.insert(wire.name.clone(), row);
        if self.ended.len() > MOST_ENDED
            && let Some((_, oldest)) = self.ended.pop_first()
            && let Some(row) = self.known.get_mut(&oldest)
        {
            row.execution = None;
        }
    }

    fn remove(&mut self, name: &str) {
        let gone = self.known.remove(name);
        if let Some(execution) = gone.and_then(|row| row.execution) {
            self.ended.remove(&(execution.end_time, name.to_owned()));
        }
    }

    /// The number of executions in each sub-state.
    #[must_use]
    pub fn counts(&self) -> [(&'static str, usize); 6] {
        SUB_STATES.map(|(_, word)| {
            let those = self.known.values().filter(|row| row.sub_state == word);
            (word, those.count())
        })
    }

    /// The listed executions, in order.
    #[must_use]
    pub fn listed(&self) -> Vec<&Execution> {
        let rows = self.known.values();
        let mut listed: Vec<_> = rows.filter_map(|row| row.execution.as_deref()).collect();
        self.sort.apply(&mut listed);
        listed
    }

    /// The number of executions that are only counted.
    #[must_use]
    pub fn unlisted(&self) -> usize {
        let rows = self.known.values();
        rows.filter(|row| row.execution.is_none()).count()
    }

    /// One execution.
    #[must_use]
    pub fn execution(&self, name: &str) -> Option<&Execution> {
        self.known.get(name)?.execution.as_deref()
    }

    /// The position of the selection; the first row if the selected execution is gone.
    #[must_use]
    pub fn mark(&self, listed: &[&Execution]) -> usize {
        let marked = self.selected.as_deref();
        let is_it = |it: &&Execution| Some(it.name.raw()) == marked;
        listed.iter().position(is_it).unwrap_or(0)
    }

    /// Applies a key; `page` is the number of visible rows.
    pub fn key(&mut self, key: Key, page: usize) -> Effect {
        if key == Key::Interrupt {
            return Effect::Quit;
        }
        if let Some(typed) = self.typed.take() {
            return self.typing(typed, key);
        }
        self.problem.clear();
        match key {
            Key::Char('q') if self.opened.is_none() => return Effect::Quit,
            Key::Char('q') | Key::Escape => self.opened = None,
            Key::Char('f' | '/') if self.opened.is_none() => {
                self.typed = Some(self.filter.clone());
            }
            Key::Char('s') => self.sort = self.sort.next(),
            Key::Char('p' | ' ') => self.paused = !self.paused,
            Key::Up | Key::Char('k') => self.step(false, 1),
            Key::Down | Key::Char('j') => self.step(true, 1),
            Key::PageUp => self.step(false, page),
            Key::PageDown => self.step(true, page),
            Key::Home | Key::Char('g') => self.step(false, usize::MAX),
            Key::End | Key::Char('G') => self.step(true, usize::MAX),
            Key::Enter => self.open(),
            Key::Backspace | Key::Clear | Key::Interrupt | Key::Char(_) => {}
        }
        Effect::None
    }

    /// Takes over the selection and the settings of another screen.
    pub fn looks_like(&mut self, seen: &Self) {
        self.sort = seen.sort;
        self.filter.clone_from(&seen.filter);
        self.selected.clone_from(&seen.selected);
        self.opened.clone_from(&seen.opened);
        self.scroll = seen.scroll;
    }

    fn step(&mut self, down: bool, by: usize) {
        let moved = |from: usize| {
            if down {
                from.saturating_add(by)
            } else {
                from.saturating_sub(by)
            }
        };
        if self.opened.is_some() {
            self.scroll = moved(self.scroll);
            return;
        }
        let listed = self.listed();
        let last = listed.len().saturating_sub(1);
        let name = listed.get(moved(self.mark(&listed)).min(last));
        self.selected = name.map(|it| it.name.raw().to_owned());
    }

    fn open(&mut self) {
        let listed = self.listed();
        let name = listed.get(self.mark(&listed));
        self.opened = name.map(|it| it.name.raw().to_owned());
        self.selected.clone_from(&self.opened);
        self.scroll = 0;
    }

    fn typing(&mut self, mut typed: String, key: Key) -> Effect {
        self.problem.clear();
        match key {
            Key::Escape => return Effect::None,
            Key::Enter => match checked(&typed) {
                Ok(filter) => {
                    self.filter = filter;
                    return Effect::Refilter;
                }
                Err(problem) => self.problem = problem,
            },
            Key::Backspace => drop(typed.pop()),
            Key::Clear => typed.clear(),
            Key::Char(symbol) if typed.len() < LONGEST_FILTER => typed.push(symbol),
            _ => {}
        }
        self.typed = Some(typed);
        Effect::None
    }
}

/// The filter for the gateway. The name of a sub-state alone is also accepted.
fn checked(typed: &str) -> Result<String, String> {
    let typed = typed.trim();
    let filter = if SUB_STATES.iter().any(|(_, word)| *word == typed) {
        format!("sub_state = \"{typed}\"")
    } else {
        typed.to_owned()
    };
    if filter.is_empty() {
        Ok(filter)
    } else {
        Filter::parse(&filter)
            .map(|_| filter)
            .map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wire(id: usize, sub_state: v1::SubState) -> v1::Execution {
        v1::Execution {
            name: format!("providers/p/executions/{id:04}"),
            sub_state: sub_state.into(),
            end_time: Some(prost_types::Timestamp {
                seconds: id.try_into().unwrap(),
                nanos: 0,
            }),
            ..v1::Execution::default()
        }
    }

    fn with(executions: impl IntoIterator<Item = v1::Execution>) -> Model {
        let mut model = Model {
            sort: Sort::Name,
            ..Model::default()
        };
        for execution in executions {
            model.change(&Change::Added(execution));
        }
        model
    }

    fn press(model: &mut Model, text: &str) {
        for symbol in text.chars() {
            model.key(Key::Char(symbol), 10);
        }
    }

    #[test]
    fn old_ends_are_counted_and_not_kept() {
        let many = MOST_ENDED + 20;
        let mut model = with((0..many).map(|id| wire(id, v1::SubState::Succeeded)));
        assert_eq!(model.listed().len(), MOST_ENDED);
        assert_eq!(model.unlisted(), 20);
        assert_eq!(model.counts()[4], ("succeeded", many));
        model.change(&Change::Removed(wire(0, v1::SubState::Succeeded)));
        assert_eq!(model.counts()[4], ("succeeded", many - 1));
    }

    #[test]
    fn one_that_changes_is_one() {
        let mut model = with([wire(1, v1::SubState::Running)]);
        model.change(&Change::Modified(wire(1, v1::SubState::Failed)));
        let counts: Vec<_> = model.counts().into_iter().filter(|it| it.1 > 0).collect();
        assert_eq!(counts, [("failed", 1)]);
        model.change(&Change::Resync);
        assert_eq!(model.listed().len(), 0);
    }

    #[test]
    fn the_mark_stays_on_what_it_is_on() {
        let mut model = with((1..5).map(|id| wire(id, v1::SubState::Running)));
        press(&mut model, "jj");
        assert_eq!(model.mark(&model.listed()), 2);
        model.change(&Change::Added(wire(0, v1::SubState::Running)));
        assert_eq!(model.mark(&model.listed()), 3);
        model.key(Key::End, 10);
        press(&mut model, "j");
        assert_eq!(model.mark(&model.listed()), 4);
        model.key(Key::PageUp, 2);
        assert_eq!(model.mark(&model.listed()), 2);
        model.change(&Change::Removed(wire(2, v1::SubState::Running)));
        assert_eq!(model.mark(&model.listed()), 0);
    }

    #[test]
    fn a_filter_is_typed_checked_and_applied() {
        let mut model = with([]);
        press(&mut model, "fq=");
        assert_eq!(model.key(Key::Enter, 10), Effect::None);
        assert!(!model.problem.is_empty());
        model.key(Key::Clear, 10);
        press(&mut model, "errorx");
        model.key(Key::Backspace, 10);
        assert_eq!(model.key(Key::Enter, 10), Effect::Refilter);
        assert_eq!(model.filter, "sub_state = \"error\"");
        press(&mut model, "fx");
        assert_eq!(model.key(Key::Escape, 10), Effect::None);
        assert_eq!(model.filter, "sub_state = \"error\"");
    }

    #[test]
    fn enter_opens_and_q_closes_before_it_ends() {
        let mut model = with([wire(7, v1::SubState::Running)]);
        model.key(Key::Enter, 10);
        assert_eq!(model.opened.as_deref(), Some("providers/p/executions/0007"));
        assert_eq!(model.key(Key::Char('q'), 10), Effect::None);
        assert_eq!(model.opened, None);
        assert_eq!(model.key(Key::Char('q'), 10), Effect::Quit);
    }
}
