//! The four rules of a graph: dependencies exist, no cycle, a root, every step reachable.

use std::collections::{BTreeMap, BTreeSet};

use crate::decode::Draft;
use crate::diagnostic::Problems;
use crate::limits::{MAX_FAN_IN, MAX_FAN_OUT};
use crate::rule::Rule;
use crate::suggest::nearest;

/// For each step, the steps that are settled before it: one bit each, so that a dense graph of
/// the most steps costs megabytes and milliseconds.
pub(super) struct Upstream(Vec<Vec<u64>>);

impl Upstream {
    /// Whether `other` is settled before `step` begins.
    pub(super) fn holds(&self, step: usize, other: usize) -> bool {
        self.0[step][other / 64] >> (other % 64) & 1 == 1
    }
}

/// Checks the graph. Returns the upstream of every step if there is no cycle.
pub(super) fn check(draft: &Draft, problems: &mut Problems) -> Option<Upstream> {
    let edges = dependencies(draft, problems);
    check_width(draft, &edges, problems);
    let order = topological(&edges);
    if order.len() < edges.len() {
        report_cycles(draft, &edges, &order, problems);
        return None;
    }
    Some(upstream(&edges, &order))
}

/// The dependencies of each step by index; unknown ones are reported and left out.
fn dependencies(draft: &Draft, problems: &mut Problems) -> Vec<Vec<usize>> {
    let steps = &draft.definition.steps;
    let index: BTreeMap<&str, usize> = steps
        .iter()
        .enumerate()
        .rev()
        .map(|(at, step)| (step.name.as_str(), at))
        .collect();
    let mut all = Vec::with_capacity(steps.len());
    for (step, places) in steps.iter().zip(&draft.steps) {
        let mut found = Vec::new();
        for (name, at) in step.depends_on.iter().zip(&places.depends_on) {
            match index.get(name.as_str()) {
                Some(other) if found.contains(other) => problems.warning(
                    Rule::DuplicateDependency,
                    *at,
                    format!("`{}` depends on `{name}` twice", step.name),
                    "Remove one of the two.",
                ),
                Some(other) => found.push(*other),
                None => problems.error(
                    Rule::UnknownDependency,
                    *at,
                    format!("`{}` depends on `{name}`, which does not exist", step.name),
                    meant(name, index.keys().copied(), problems),
                ),
            }
        }
        all.push(found);
    }
    all
}

/// The message about a name that is not the name of a step.
pub(super) fn meant<'k>(
    name: &str,
    known: impl IntoIterator<Item = &'k str>,
    problems: &Problems,
) -> String {
    match (!problems.is_full())
        .then(|| nearest(name, known))
        .flatten()
    {
        Some(step) => format!("Did you mean `{step}`?"),
        None => "Name a step of this definition.".to_owned(),
    }
}

fn check_width(draft: &Draft, edges: &[Vec<usize>], problems: &mut Problems) {
    let mut dependants = vec![0_usize; edges.len()];
    for (at, dependencies) in edges.iter().enumerate() {
        if dependencies.len() > MAX_FAN_IN {
            problems.error(
                Rule::FanOut,
                draft.steps[at].name,
                format!(
                    "`{}` depends on more than {MAX_FAN_IN} steps",
                    draft.definition.steps[at].name
                ),
                "Join them in groups.",
            );
        }
        dependencies
            .iter()
            .for_each(|dependency| dependants[*dependency] += 1);
    }
    for (at, count) in dependants
        .into_iter()
        .enumerate()
        .filter(|(_, count)| *count > MAX_FAN_OUT)
    {
        let name = &draft.definition.steps[at].name;
        problems.error(
            Rule::FanOut,
            draft.steps[at].name,
            format!("{count} steps depend on `{name}`, more than {MAX_FAN_OUT}"),
            "Split the work into child workflows.",
        );
    }
}

/// Kahn's order; what is missing from it is on a cycle or behind one.
fn topological(edges: &[Vec<usize>]) -> Vec<usize> {
    let mut open: Vec<usize> = edges.iter().map(Vec::len).collect();
    let mut dependants = vec![Vec::new(); edges.len()];
    for (at, dependencies) in edges.iter().enumerate() {
        dependencies
            .iter()
            .for_each(|dependency| dependants[*dependency].push(at));
    }
    let mut order: Vec<usize> = (0..edges.len()).filter(|at| open[*at] == 0).collect();
    let mut next = 0;
    while next < order.len() {
        for dependant in &dependants[order[next]] {
            open[*dependant] -= 1;
            if open[*dependant] == 0 {
                order.push(*dependant);
            }
        }
        next += 1;
    }
    order
}

fn upstream(edges: &[Vec<usize>], order: &[usize]) -> Upstream {
    let mut upstream = vec![vec![0_u64; edges.len().div_ceil(64)]; edges.len()];
    for at in order {
        let mut all = std::mem::take(&mut upstream[*at]);
        for dependency in &edges[*at] {
            all[dependency / 64] |= 1 << (dependency % 64);
            for (into, from) in all.iter_mut().zip(&upstream[*dependency]) {
                *into |= from;
            }
        }
        upstream[*at] = all;
    }
    Upstream(upstream)
}

fn report_cycles(draft: &Draft, edges: &[Vec<usize>], order: &[usize], problems: &mut Problems) {
    let sorted: BTreeSet<usize> = order.iter().copied().collect();
    let mut cyclic = BTreeSet::new();
    for start in (0..edges.len()).filter(|at| !sorted.contains(at)) {
        if cyclic.contains(&start) {
            continue;
        }
        let cycle = walk(start, edges, &sorted);
        if !cycle.contains(&start) || cycle.iter().any(|at| cyclic.contains(at)) {
            continue;
        }
        report_cycle(draft, &cycle, problems);
        cyclic.extend(cycle);
    }
    if order.is_empty() && !edges.is_empty() {
        let hint = "Remove the `dependsOn` of the step that should begin.";
        problems.error(
            Rule::NoRoot,
            draft.at,
            "no step can start: each waits for another",
            hint,
        );
    }
    for at in (0..edges.len()).filter(|at| !sorted.contains(at) && !cyclic.contains(at)) {
        let name = &draft.definition.steps[at].name;
        problems.error(
            Rule::Unreachable,
            draft.steps[at].name,
            format!("`{name}` can never start: it waits for steps that wait for each other"),
            "Remove the cycle that the step depends on.",
        );
    }
}

/// Follows unsorted dependencies until a step comes up again; every such walk ends in a cycle.
fn walk(start: usize, edges: &[Vec<usize>], sorted: &BTreeSet<usize>) -> Vec<usize> {
    let mut path = vec![start];
    loop {
        let last = path[path.len() - 1];
        let next = edges[last]
            .iter()
            .copied()
            .filter(|at| !sorted.contains(at));
        // The start is preferred, so that its own cycle is found if it is on one.
        let Some(next) = next
            .clone()
            .find(|at| *at == start)
            .or_else(|| next.clone().next())
        else {
            return path;
        };
        if let Some(from) = path.iter().position(|at| *at == next) {
            return path.split_off(from);
        }
        path.push(next);
    }
}

fn report_cycle(draft: &Draft, cycle: &[usize], problems: &mut Problems) {
    let name = |at: &usize| format!("`{}`", draft.definition.steps[*at].name);
    let mut shown: Vec<String> = cycle.iter().map(name).collect();
    shown.push(name(&cycle[0]));
    problems.error(
        Rule::Cycle,
        draft.steps[cycle[0]].name,
        format!("steps wait for each other: {}", shown.join(" → ")),
        "Remove one of these dependencies.",
    );
}
