//! The five examples with workers and people in one process, at a pace that can be watched.
//!
//! The definitions are those of `examples/`. The workers of the demo are slower, report progress and
//! fail for longer, so that each of the six sub-states is visible at any time.
//! All parts communicate over gRPC, as if each were a separate process; [`crate::command`] starts and
//! ends them.

mod definitions;
mod pace;
mod people;
mod play;
mod scene;
mod workers;

pub use pace::{MOST, Pace, SLOWEST};
pub use people::decide;
pub use play::{BUILT_IN, play};
pub use workers::workers;

/// The id of the first execution of this definition, for the printed commands.
#[must_use]
pub fn first_id(definition: &str) -> String {
    scene::Scene::first(definition)
}

/// The label of all executions of the demo. The demo touches no other executions.
pub(crate) const LABEL: &str = "demo";
