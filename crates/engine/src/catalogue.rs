//! Plans by revision, made once and shared by the keeper and the readers.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use stateway_definition::{Diagnostic, Invalid, parse};
use stateway_machine::{Limits, Plan};

use crate::StoreError;
use crate::error::{EngineError, ErrorKind, Result};

/// The most plans kept; beyond that all are made again when they are needed.
const MOST: usize = 1_000;

/// Plans by revision.
#[derive(Debug, Default)]
pub(crate) struct Catalogue {
    limits: Limits,
    plans: Mutex<HashMap<Arc<str>, Arc<Plan>>>,
}

impl Catalogue {
    /// With plans under these limits.
    pub(crate) fn limited(limits: Limits) -> Self {
        Self {
            limits,
            ..Self::default()
        }
    }

    /// The plan of a revision, made from what `source` gives (name and text) if it is not there.
    pub(crate) fn plan(
        &self,
        revision: &str,
        source: impl FnOnce() -> Result<(String, String), StoreError>,
    ) -> Result<Arc<Plan>, StoreError> {
        if let Some(plan) = self.plans().get(revision) {
            return Ok(Arc::clone(plan));
        }
        let (name, text) = source()?;
        let made = parse(&text, &name).map_err(|invalid| invalid.to_string());
        let made =
            made.and_then(|parsed| Plan::new(parsed.definition).map_err(|error| error.to_string()));
        let plan = made.map_err(|error| {
            StoreError::corrupt(format_args!("the definition `{name}`: {error}"))
        })?;
        if plan.revision() != revision {
            return Err(StoreError::corrupt(format_args!(
                "the definition `{name}` is of revision {}, stored as {revision}",
                plan.revision()
            )));
        }
        Ok(self.keep(Arc::new(plan.limited(self.limits))))
    }

    /// Reads a source that is to be applied.
    pub(crate) fn usable(&self, source: &str, source_name: &str) -> Result<Usable> {
        usable(source, source_name, self.limits)
    }

    /// Keeps a plan.
    pub(crate) fn keep(&self, plan: Arc<Plan>) -> Arc<Plan> {
        let mut plans = self.plans();
        if plans.len() >= MOST {
            plans.clear();
        }
        let kept = plans.entry(plan.shared_revision()).or_insert(plan);
        Arc::clone(kept)
    }

    fn plans(&self) -> std::sync::MutexGuard<'_, HashMap<Arc<str>, Arc<Plan>>> {
        self.plans.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A source that can be used.
pub(crate) struct Usable {
    pub(crate) name: Arc<str>,
    pub(crate) plan: Arc<Plan>,
    pub(crate) warnings: Vec<Diagnostic>,
}

fn usable(source: &str, source_name: &str, limits: Limits) -> Result<Usable> {
    let parsed = parse(source, source_name).map_err(|invalid| refused(&invalid))?;
    let Some(name) = parsed.definition.name.clone() else {
        return Err(invalid("the definition has no name")
            .hint("Give it one at the top of the file: `name: my-workflow`."));
    };
    let plan = Plan::new(parsed.definition).map_err(|error| invalid(&error.to_string()))?;
    Ok(Usable {
        name: name.into(),
        plan: Arc::new(plan.limited(limits)),
        warnings: parsed.warnings,
    })
}

fn invalid(message: &str) -> EngineError {
    EngineError::new(ErrorKind::InvalidArgument, "INVALID_DEFINITION", message)
}

fn refused(errors: &Invalid) -> EngineError {
    invalid(&errors.to_string())
}
