//! Checks that compare several parts of a definition.

mod compensation;
mod failure;
mod graph;
mod lint;
mod names;
mod references;
mod schema;

use crate::decode::Draft;
use crate::diagnostic::Problems;
use crate::limits::MAX_STEPS;

/// Notes every broken rule.
pub(crate) fn validate(draft: &Draft, problems: &mut Problems) {
    names::check(draft, problems);
    // These compare steps with each other; what they cost is bounded because the steps are.
    if draft.definition.steps.len() <= MAX_STEPS {
        let upstream = graph::check(draft, problems);
        compensation::check(draft, problems);
        if let Some(upstream) = upstream {
            references::check(draft, &upstream, problems);
        }
    }
    failure::check(draft, problems);
    schema::check(draft, problems);
    lint::check(draft, problems);
}
