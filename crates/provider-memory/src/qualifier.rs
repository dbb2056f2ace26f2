//! The qualifiers of the table, checked against it by the compiler.

use stateway_provider_api::table::{MEMORY, Qualifier};

pub(crate) const CAUSE: Qualifier = Qualifier::of(MEMORY, "cause");
pub(crate) const COMPENSATED: Qualifier = Qualifier::of(MEMORY, "compensated");
