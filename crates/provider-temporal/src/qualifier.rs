//! The qualifiers of the table, checked against it by the compiler.

use stateway_provider_api::table::{Qualifier, TEMPORAL};

pub(crate) const PENDING: Qualifier = Qualifier::of(TEMPORAL, "pending");
pub(crate) const KIND: Qualifier = Qualifier::of(TEMPORAL, "kind");
pub(crate) const NEXT_ATTEMPT: Qualifier = Qualifier::of(TEMPORAL, "next_attempt");
