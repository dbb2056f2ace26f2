//! The data of `top` and the state of its screen.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use stateway_client::{Change, SUB_STATES, is_finished, v1, word_of};
use stateway_provider_api::filter::Filter;

use super::Sort;
use crate::screen::interrupts;
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
    /// Whether the keys are explained.
    pub help: bool,
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
    pub fn key(&mut self, key: KeyEvent, page: usize) -> Effect {
        if interrupts(key) {
            return Effect::Quit;
        }
        if let Some(typed) = self.typed.take() {
            return self.typing(typed, key);
        }
        self.problem.clear();
        let explained = std::mem::take(&mut self.help);
        match key.code {
            KeyCode::Char('?') => self.help = !explained,
            // While the help is open, `q` and Esc only close the help.
            KeyCode::Char('q') | KeyCode::Esc if explained => {}
            KeyCode::Char('q') | KeyCode::Esc if self.opened.is_none() => return Effect::Quit,
            KeyCode::Char('q') | KeyCode::Esc => self.opened = None,
            KeyCode::Char('f' | '/') if self.opened.is_none() => {
                self.typed = Some(String::new());
            }
            KeyCode::Char('s') => self.sort = self.sort.next(),
            KeyCode::Char('p' | ' ') => self.paused = !self.paused,
            KeyCode::Up | KeyCode::Char('k') => self.step(false, 1),
            KeyCode::Down | KeyCode::Char('j') => self.step(true, 1),
            KeyCode::PageUp => self.step(false, page),
            KeyCode::PageDown => self.step(true, page),
            KeyCode::Home | KeyCode::Char('g') => self.step(false, usize::MAX),
            KeyCode::End | KeyCode::Char('G') => self.step(true, usize::MAX),
            KeyCode::Enter => self.open(),
            _ => {}
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

    fn typing(&mut self, mut typed: String, key: KeyEvent) -> Effect {
        self.problem.clear();
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Esc => return Effect::None,
            KeyCode::Enter => match checked(&typed) {
                Ok(filter) => {
                    self.filter = filter;
                    return Effect::Refilter;
                }
                Err(problem) => self.problem = problem,
            },
            KeyCode::Backspace => drop(typed.pop()),
            KeyCode::Char('u') if control => typed.clear(),
            KeyCode::Char(symbol) if !control && typed.len() < LONGEST_FILTER => typed.push(symbol),
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
            model.key(KeyEvent::from(KeyCode::Char(symbol)), 10);
        }
    }

    #[test]
    fn old_finished_executions_are_only_counted() {
        let many = MOST_ENDED + 20;
        let mut model = with((0..many).map(|id| wire(id, v1::SubState::Succeeded)));
        assert_eq!(model.listed().len(), MOST_ENDED);
        assert_eq!(model.unlisted(), 20);
        assert_eq!(model.counts()[4], ("succeeded", many));
        model.change(&Change::Removed(wire(0, v1::SubState::Succeeded)));
        assert_eq!(model.counts()[4], ("succeeded", many - 1));
    }

    #[test]
    fn an_execution_that_changes_is_counted_once() {
        let mut model = with([wire(1, v1::SubState::Running)]);
        model.change(&Change::Modified(wire(1, v1::SubState::Failed)));
        let counts: Vec<_> = model.counts().into_iter().filter(|it| it.1 > 0).collect();
        assert_eq!(counts, [("failed", 1)]);
        model.change(&Change::Resync);
        assert_eq!(model.listed().len(), 0);
    }

    #[test]
    fn the_selection_stays_on_its_execution() {
        let mut model = with((1..5).map(|id| wire(id, v1::SubState::Running)));
        press(&mut model, "jj");
        assert_eq!(model.mark(&model.listed()), 2);
        model.change(&Change::Added(wire(0, v1::SubState::Running)));
        assert_eq!(model.mark(&model.listed()), 3);
        model.key(KeyEvent::from(KeyCode::End), 10);
        press(&mut model, "j");
        assert_eq!(model.mark(&model.listed()), 4);
        model.key(KeyEvent::from(KeyCode::PageUp), 2);
        assert_eq!(model.mark(&model.listed()), 2);
        model.change(&Change::Removed(wire(2, v1::SubState::Running)));
        assert_eq!(model.mark(&model.listed()), 0);
    }

    #[test]
    fn a_filter_is_typed_checked_and_applied() {
        let mut model = with([]);
        press(&mut model, "fq=");
        assert_eq!(model.key(KeyEvent::from(KeyCode::Enter), 10), Effect::None);
        assert!(!model.problem.is_empty());
        model.key(KeyEvent::new(KeyCode::Char('u'), KeyModifiers::CONTROL), 10);
        press(&mut model, "errorx");
        model.key(KeyEvent::from(KeyCode::Backspace), 10);
        assert_eq!(
            model.key(KeyEvent::from(KeyCode::Enter), 10),
            Effect::Refilter
        );
        assert_eq!(model.filter, "sub_state = \"error\"");
        press(&mut model, "fx");
        assert_eq!(model.key(KeyEvent::from(KeyCode::Esc), 10), Effect::None);
        assert_eq!(model.filter, "sub_state = \"error\"");
    }

    #[test]
    fn enter_opens_and_q_closes_before_it_quits() {
        let mut model = with([wire(7, v1::SubState::Running)]);
        model.key(KeyEvent::from(KeyCode::Enter), 10);
        assert_eq!(model.opened.as_deref(), Some("providers/p/executions/0007"));
        assert_eq!(
            model.key(KeyEvent::from(KeyCode::Char('q')), 10),
            Effect::None
        );
        assert_eq!(model.opened, None);
        assert_eq!(
            model.key(KeyEvent::from(KeyCode::Char('q')), 10),
            Effect::Quit
        );
    }

    #[test]
    fn esc_does_what_q_does() {
        let mut model = with([wire(7, v1::SubState::Running)]);
        let esc = KeyEvent::from(KeyCode::Esc);
        model.key(KeyEvent::from(KeyCode::Enter), 10);
        assert_eq!(model.key(esc, 10), Effect::None);
        assert_eq!(model.opened, None);
        assert_eq!(model.key(esc, 10), Effect::Quit);
    }
}
