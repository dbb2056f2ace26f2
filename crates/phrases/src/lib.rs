//! The words for states, attempts, waits, times and numbers, the same in the CLI and the dashboard.
//!
//! Pure: messages of the API in, text out. A sentence that contains names, messages or times is a
//! list of [`Piece`]s, because a page marks these up and a terminal does not.

mod attempt;
mod number;
mod piece;
mod state;
mod step;
mod text;
mod time;
mod wait;

pub use stateway_model::hint;

pub use attempt::{Retry, attempt, backing_off};
pub use number::{grouped, per_minute, usage};
pub use piece::{Piece, plain};
pub use state::{Color, STATES, State};
pub use step::{at, steps};
pub use text::{cut, visible, visible_lines};
pub use time::{ago, exact, moment, seconds_between, seconds_until, span, stamp, until};
pub use wait::{Wait, waiting};
