//! What people see: colours, tables, and sentences about attempts and waits.

mod details;
mod live;
mod name;
mod paint;
mod phrase;
mod report;
mod step;
mod table;
mod tree;

pub use details::{cost, details, result, traces};
pub use live::Live;
pub use name::{branch_number, short_definition, short_name};
pub use paint::Paint;
pub use phrase::{Clock, now, paused, phrase, queued, reopened, trouble};
pub use report::report;
pub use stateway_phrases::{ago, stamp, until};
pub use step::step_details;
pub use table::Table;
pub use tree::{head, tree};
