//! The live view of everything: what matters first, on the whole terminal.
//!
//! [`Model`] is what is known and what the person looks at; changes and keys go in. [`frame`] makes
//! lines of it and [`snapshot`] a text; both are pure. [`Terminal`] is the only part that touches
//! one, and [`crate::command`] holds them together.

mod closer;
mod frame;
mod key;
mod line;
mod model;
mod order;
mod terminal;

pub use closer::Closer;
pub use frame::{Size, frame, snapshot};
pub use key::{Key, keys};
pub use model::{Effect, Model};
pub use order::Sort;
pub use terminal::Terminal;
