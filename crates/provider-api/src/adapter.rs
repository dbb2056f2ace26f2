//! What most adapters need and none should write again: cursors, page sizes, one-line texts, quotas,
//! and reads of many executions within a quota. Nothing here is part of the contract.

mod clock;
pub mod cursor;
mod lock;
mod page_size;
mod quota;
mod schedule;
mod secret_variable;
mod text;

pub use clock::SkippingClock;
pub use lock::lock;
pub use page_size::page_size;
pub use quota::{Quota, Quotas};
pub use schedule::{Pace, ReadSchedule, Reading, Round, Scheduled};
pub use secret_variable::secret_variable;
pub use text::one_line;
