//! What people see: colours, tables, and sentences about attempts and waits.

mod details;
mod live;
mod paint;
mod phrase;
mod relative;
mod table;

pub use details::{details, short_name, steps_table};
pub use live::Live;
pub use paint::Paint;
pub use phrase::{Clock, phrase, trouble};
pub use relative::{ago, until};
pub use table::Table;
