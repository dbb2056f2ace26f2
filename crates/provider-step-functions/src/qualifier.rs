//! The qualifiers of the table, checked against it by the compiler.

use stateway_provider_api::table::{Qualifier, STEP_FUNCTIONS};

pub(crate) const FOLLOW_UP: Qualifier = Qualifier::of(STEP_FUNCTIONS, "follow_up");
pub(crate) const GATE: Qualifier = Qualifier::of(STEP_FUNCTIONS, "gate");
pub(crate) const HISTORY: Qualifier = Qualifier::of(STEP_FUNCTIONS, "history");
pub(crate) const REDRIVE_STATUS: Qualifier = Qualifier::of(STEP_FUNCTIONS, "redrive_status");
pub(crate) const TOKEN: Qualifier = Qualifier::of(STEP_FUNCTIONS, "token");
