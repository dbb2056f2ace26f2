//! `${steps.…}` may only name steps that are settled before the step that asks.

use super::graph::{Upstream, meant};
use crate::decode::Draft;
use crate::diagnostic::{Position, Problems};
use crate::rule::Rule;
use crate::{Reference, Root};

pub(super) fn check(draft: &Draft, upstream: &Upstream, problems: &mut Problems) {
    let steps = &draft.definition.steps;
    for (at, places) in draft.steps.iter().enumerate() {
        for (reference, place) in places.references.iter().chain(&places.conditions) {
            let Some(target) = known(draft, reference, *place, problems) else {
                continue;
            };
            if !upstream.holds(at, target) {
                let (asking, asked) = (&steps[at].name, &steps[target].name);
                problems.error(
                    Rule::NotUpstream,
                    *place,
                    format!(
                        "`{asking}` uses `${{{reference}}}`, but `{asked}` may not have run yet"
                    ),
                    format!("Add `dependsOn: [{asked}]` to `{asking}`."),
                );
            }
        }
    }
    for (reference, place) in &draft.output {
        known(draft, reference, *place, problems);
    }
}

fn known(
    draft: &Draft,
    reference: &Reference,
    place: Position,
    problems: &mut Problems,
) -> Option<usize> {
    if reference.root == Root::Event {
        problems.error(
            Rule::BadReference,
            place,
            format!("`${{{reference}}}` is only known to `trigger.condition`"),
            "Use `${input…}`: an execution that an event starts is given the event as its input.",
        );
    }
    let name = reference.step()?;
    let steps = &draft.definition.steps;
    let found = steps.iter().position(|step| step.name == name);
    if found.is_none() {
        problems.error(
            Rule::UnknownReference,
            place,
            format!("`${{{reference}}}` names the step `{name}`, which does not exist"),
            meant(name, steps.iter().map(|step| step.name.as_str()), problems),
        );
    }
    found
}
