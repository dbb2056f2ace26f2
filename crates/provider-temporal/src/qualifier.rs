//! The qualifiers of the table, checked against it by the compiler.

use stateway_provider_api::table::{Qualifier, TEMPORAL};

pub(crate) const ATTEMPT: Qualifier = Qualifier::of(TEMPORAL, "attempt");
pub(crate) const CANCEL: Qualifier = Qualifier::of(TEMPORAL, "cancel");
pub(crate) const FIRST_TASK: Qualifier = Qualifier::of(TEMPORAL, "first_task");
pub(crate) const KIND: Qualifier = Qualifier::of(TEMPORAL, "kind");
pub(crate) const NEXT_ATTEMPT: Qualifier = Qualifier::of(TEMPORAL, "next_attempt");
pub(crate) const NEXT_RUN: Qualifier = Qualifier::of(TEMPORAL, "next_run");
pub(crate) const PAUSE_CAUSE: Qualifier = Qualifier::of(TEMPORAL, "pause_cause");
pub(crate) const PENDING: Qualifier = Qualifier::of(TEMPORAL, "pending");
pub(crate) const RETRY_STATE: Qualifier = Qualifier::of(TEMPORAL, "retry_state");
pub(crate) const WORKERS: Qualifier = Qualifier::of(TEMPORAL, "workers");
