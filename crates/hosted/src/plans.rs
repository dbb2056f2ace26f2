//! Plans by revision, made once and shared by all executions of a revision.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use stateway_definition::parse;
use stateway_machine::{Limits, Plan};

/// The most plans kept; beyond that all are made again when they are needed.
const MOST: usize = 1_000;

/// Plans by revision.
#[derive(Debug, Default)]
pub struct Plans {
    limits: Limits,
    plans: Mutex<HashMap<Arc<str>, Arc<Plan>>>,
}

impl Plans {
    /// The plan of a revision, if it is in memory.
    pub(crate) fn known(&self, revision: &str) -> Option<Arc<Plan>> {
        self.lock().get(revision).cloned()
    }

    /// The plan of a source.
    ///
    /// # Errors
    /// What is wrong with the source.
    pub(crate) fn of_source(&self, source: &str, name: &str) -> Result<Arc<Plan>, String> {
        let parsed = parse(source, name).map_err(|invalid| invalid.to_string())?;
        let plan = Plan::new(parsed.definition).map_err(|error| error.to_string())?;
        let plan = Arc::new(plan.limited(self.limits));
        let mut plans = self.lock();
        if plans.len() >= MOST {
            plans.clear();
        }
        let kept = plans.entry(plan.shared_revision()).or_insert(plan);
        Ok(Arc::clone(kept))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Arc<str>, Arc<Plan>>> {
        self.plans.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
