//! What histories have reached: moves of the machine, moves of every vocabulary.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use stateway_machine::{ExecutionState, State, StepState, evolve, sub_state};
use stateway_replay::{EXECUTION_MOVES, MoveKind, Projection, STEP_MOVES, Vocabulary, project};

use crate::world::Story;

/// What was reached so far.
#[derive(Debug, Default)]
pub struct Coverage {
    /// Moves of executions.
    pub executions: BTreeSet<(ExecutionState, ExecutionState)>,
    /// Moves of steps.
    pub steps: BTreeSet<(StepState, StepState)>,
    /// Moves in each vocabulary's words: (vocabulary, machine, from, to).
    pub words: BTreeSet<(String, &'static str, String, String)>,
    /// How many moves of each vocabulary were parts of a bridge; they do not count as reached.
    pub bridged: BTreeMap<String, usize>,
    /// How often each vocabulary had no word.
    pub outside: BTreeMap<(String, String, String), usize>,
    /// How executions ended.
    pub endings: BTreeMap<ExecutionState, usize>,
}

impl Coverage {
    /// Adds one story.
    ///
    /// # Errors
    /// A move that a vocabulary does not allow, or a view that disagrees with it.
    pub fn add(&mut self, story: &Story, vocabularies: &[Vocabulary]) -> Result<(), String> {
        *self.endings.entry(story.state.state()).or_default() += 1;
        let mut state = State::new(Arc::clone(&story.plan));
        for event in &story.events {
            let before = state.clone();
            state = evolve(state, event);
            self.executions.insert((before.state(), state.state()));
            let old: BTreeMap<_, _> = before.step_states().collect();
            for (step, to) in state.step_states() {
                self.steps.extend(old.get(step).map(|from| (*from, to)));
            }
        }
        vocabularies
            .iter()
            .try_for_each(|vocabulary| self.add_projection(story, vocabulary))
    }

    fn add_projection(&mut self, story: &Story, vocabulary: &Vocabulary) -> Result<(), String> {
        let projection = project(vocabulary, Arc::clone(&story.plan), &story.events);
        check_view(story, vocabulary, &projection)?;
        let executions = projection.execution.iter().map(|step| ("execution", step));
        let steps = projection
            .steps
            .values()
            .flatten()
            .map(|step| ("step", step));
        for (machine, step) in executions.chain(steps) {
            let name = &vocabulary.name;
            let forbidden = vocabulary.execution.is_forbidden(&step.from, &step.to);
            match step.kind {
                MoveKind::Illegal => {
                    return Err(format!("{name}: {machine} {} → {}", step.from, step.to));
                }
                // A move that the other system forbids is only made where the table gives the reason.
                MoveKind::Outside => {
                    let key = (name.clone(), step.from.clone(), step.to.clone());
                    *self.outside.entry(key).or_default() += 1;
                }
                _ if forbidden && machine == "execution" => {
                    return Err(format!("{name} forbids {} → {}", step.from, step.to));
                }
                MoveKind::Bridged => {
                    *self.bridged.entry(name.clone()).or_default() += 1;
                    continue;
                }
                MoveKind::Begin | MoveKind::Legal => {}
            }
            self.words
                .insert((name.clone(), machine, step.from.clone(), step.to.clone()));
        }
        Ok(())
    }

    /// Entries of the machine's own tables that no history has reached.
    #[must_use]
    pub fn missing_moves(&self) -> Vec<String> {
        let executions = EXECUTION_MOVES
            .iter()
            .flat_map(|(from, to)| to.iter().map(move |to| (*from, *to)))
            .filter(|pair| !self.executions.contains(pair))
            .map(|(from, to)| format!("execution {from} → {to}"));
        let steps = STEP_MOVES
            .iter()
            .flat_map(|(from, to)| to.iter().map(move |to| (*from, *to)))
            .filter(|pair| !self.steps.contains(pair))
            .map(|(from, to)| format!("step {from} → {to}"));
        executions.chain(steps).collect()
    }

    /// States and moves that a vocabulary lists and no history has reached.
    #[must_use]
    pub fn missing_words(&self, vocabulary: &Vocabulary) -> Vec<String> {
        let name = &vocabulary.name;
        let reached = |machine: &'static str, from: &str, to: &str| {
            self.words
                .contains(&(name.clone(), machine, from.to_owned(), to.to_owned()))
        };
        let state_reached = |machine: &'static str, state: &str| {
            self.words
                .iter()
                .any(|(n, m, _, to)| n == name && *m == machine && to == state)
        };
        let mut missing = Vec::new();
        let mut look = |machine, states: Vec<&str>, moves: Vec<(&str, &str)>| {
            let lost = states
                .into_iter()
                .filter(|state| !state_reached(machine, state));
            missing.extend(lost.map(|state| format!("{name} {machine} {state}")));
            let lost = moves
                .into_iter()
                .filter(|(from, to)| !reached(machine, from, to));
            missing.extend(lost.map(|(from, to)| format!("{name} {machine} {from} → {to}")));
        };
        let execution = &vocabulary.execution;
        look(
            "execution",
            execution
                .state
                .iter()
                .map(|row| row.name.as_str())
                .collect(),
            execution
                .transition
                .iter()
                .map(|r| (r.from.as_str(), r.to.as_str()))
                .collect(),
        );
        if let Some(step) = &vocabulary.step {
            look(
                "step",
                step.state.iter().map(|row| row.name.as_str()).collect(),
                step.transition
                    .iter()
                    .map(|r| (r.from.as_str(), r.to.as_str()))
                    .collect(),
            );
        }
        missing
    }
}

/// The states of `landlord` are the six sub-states: the table and the view must agree.
fn check_view(
    story: &Story,
    vocabulary: &Vocabulary,
    projection: &Projection,
) -> Result<(), String> {
    if vocabulary.name != "landlord" {
        return Ok(());
    }
    let (shown, _) = sub_state(&story.state);
    match projection.execution.last() {
        Some(last) if last.to == shown.as_str() => Ok(()),
        other => Err(format!("the view says {shown}, the vocabulary {other:?}")),
    }
}
