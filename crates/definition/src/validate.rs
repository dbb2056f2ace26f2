//! What concerns several parts of a definition at once.

mod compensation;
mod graph;
mod lint;
mod names;
mod references;
mod schema;

use crate::decode::Draft;
use crate::diagnostic::Problems;

/// Notes every broken rule.
pub(crate) fn validate(draft: &Draft, problems: &mut Problems) {
    names::check(draft, problems);
    let upstream = graph::check(draft, problems);
    compensation::check(draft, problems);
    schema::check(draft, problems);
    if let Some(upstream) = upstream {
        references::check(draft, &upstream, problems);
    }
    lint::check(draft, problems);
}
