//! What people see: colours, tables, and sentences about attempts and waits.

mod details;
mod full_screen;
mod hidden_input;
mod live;
mod name;
mod paint;
mod phrase;
mod report;
mod step;
mod styled;
mod table;
mod tree;

pub use details::{cost, details, result, traces};
pub use full_screen::{FullScreen, interrupts, pressed};
pub use hidden_input::hidden_line;
pub use live::{Live, picture};
pub use name::{branch_number, short_definition, short_name};
pub use paint::Paint;
pub use phrase::{Clock, now, paused, phrase, queued, reopened, trouble};
pub use report::report;
pub use stateway_phrases::{ago, stamp, until};
pub use step::step_details;
pub use styled::{cut, styled, sub_state};
pub use table::Table;
pub use tree::{head, tree};
