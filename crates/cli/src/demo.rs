//! The five examples with workers and people in one process, at a pace that can be watched.
//!
//! The definitions are those of `examples/`. The workers here do the same work slowly, tell how
//! far they are, and fail in ways that last: so each of the six sub-states can be seen at any time.
//! Everything goes over gRPC, as if each were a process of its own; [`crate::command`] starts and
//! ends it.

mod definitions;
mod pace;
mod people;
mod play;
mod scene;
mod workers;

pub use pace::{MOST, Pace, SLOWEST};
pub use people::decide;
pub use play::play;
pub use workers::workers;

/// The id of the first execution of this definition, for a text that names one.
#[must_use]
pub fn first_id(definition: &str) -> String {
    scene::Scene::first(definition)
}

/// The label of everything that a demo starts; nothing without it is touched.
pub(crate) const LABEL: &str = "demo";
