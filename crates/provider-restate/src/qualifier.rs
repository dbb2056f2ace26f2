//! The qualifiers of the table, checked against it by the compiler.

use stateway_provider_api::table::{Qualifier, RESTATE};

pub(crate) const COMPLETION_RESULT: Qualifier = Qualifier::of(RESTATE, "completion_result");
pub(crate) const FAILURE_KIND: Qualifier = Qualifier::of(RESTATE, "failure_kind");
pub(crate) const PAUSE_CAUSE: Qualifier = Qualifier::of(RESTATE, "pause_cause");
pub(crate) const RESULT: Qualifier = Qualifier::of(RESTATE, "result");
pub(crate) const VQUEUE_STATUS: Qualifier = Qualifier::of(RESTATE, "vqueue_status");
