//! The qualifiers of the table, checked against it by the compiler.

use stateway_provider_api::table::{BUILTIN, Qualifier};

pub(crate) const ASSIGNED: Qualifier = Qualifier::of(BUILTIN, "assigned");
pub(crate) const CAUSE: Qualifier = Qualifier::of(BUILTIN, "cause");
pub(crate) const ESCALATED: Qualifier = Qualifier::of(BUILTIN, "escalated");
pub(crate) const PARKED: Qualifier = Qualifier::of(BUILTIN, "parked");
pub(crate) const PAUSE_CAUSE: Qualifier = Qualifier::of(BUILTIN, "pause_cause");
pub(crate) const ROLLBACK: Qualifier = Qualifier::of(BUILTIN, "rollback");
