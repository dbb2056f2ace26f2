//! Native definitions for the reference provider, which has none of its own, so that the cases
//! about them can be failed too. Whatever is applied runs the one script.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use stateway_provider_api::{
    ApplyDefinitionRequest, Capabilities, DefinitionProblem, DefinitionsPage, DefinitionsRequest,
    Error, ErrorKind, NativeDefinition, Result, Verb,
};

use super::defect::Defect;

/// What the reference provider runs.
pub(crate) const SCRIPT: &str = "script";

/// The revisions of each definition, by name.
pub(crate) struct Shelf {
    defect: Defect,
    can: Capabilities,
    kept: Mutex<BTreeMap<String, Vec<String>>>,
}

impl Shelf {
    pub(crate) fn new(defect: Defect, can: Capabilities) -> Self {
        let first = (SCRIPT.to_owned(), vec!["{}".to_owned()]);
        Self {
            defect,
            can,
            kept: Mutex::new(BTreeMap::from([first])),
        }
    }

    pub(crate) const fn capabilities(&self, others: Capabilities) -> Capabilities {
        Capabilities {
            definitions: self.can.definitions,
            apply_definition: self.can.apply_definition,
            ..others
        }
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.kept().contains_key(name)
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Vec<String>>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is(&self, defect: Defect) -> bool {
        self.defect == defect
    }

    fn offered(&self, verb: Verb) -> Result<()> {
        if verb.is_offered(&self.can) {
            Ok(())
        } else {
            Err(Error::unsupported(verb))
        }
    }

    pub(crate) fn list(&self, request: &DefinitionsRequest) -> Result<DefinitionsPage> {
        let verb = Verb::Definitions;
        self.offered(verb)?;
        if request.cursor.is_some() && !self.is(Defect::DefinitionsTakeAnyCursor) {
            let kind = ErrorKind::InvalidArgument;
            return Err(Error::new(kind, verb, "a foreign cursor"));
        }
        let kept = self.kept();
        let shown = kept.keys().map(|name| NativeDefinition {
            name: name.clone(),
            ..NativeDefinition::default()
        });
        let left_out = usize::from(self.is(Defect::DefinitionsAreNotListed));
        Ok(DefinitionsPage {
            definitions: shown.skip(left_out).collect(),
            next: None,
        })
    }

    pub(crate) fn read(&self, name: &str, revision: Option<&str>) -> Result<NativeDefinition> {
        let verb = Verb::Definitions;
        self.offered(verb)?;
        let kind = if self.is(Defect::AnUnknownDefinitionIsInvalid) {
            ErrorKind::InvalidArgument
        } else {
            ErrorKind::NotFound
        };
        let missing =
            || Error::new(kind, verb, "no such definition").with_reason("DEFINITION_NOT_FOUND");
        let kept = self.kept();
        let revisions = kept.get(name).ok_or_else(missing)?;
        let at = match revision {
            None => revisions.len(),
            Some(number) => number.parse().map_err(|_| missing())?,
        };
        let source = at.checked_sub(1).and_then(|at| revisions.get(at));
        Ok(NativeDefinition {
            name: name.to_owned(),
            revision: at.to_string(),
            source: source.ok_or_else(missing)?.clone(),
            ..NativeDefinition::default()
        })
    }

    pub(crate) fn apply(&self, request: &ApplyDefinitionRequest) -> Result<NativeDefinition> {
        let verb = Verb::ApplyDefinition;
        self.offered(verb)?;
        if !is_definition(&request.source) && !self.is(Defect::ApplyTakesNonsense) {
            let kind = ErrorKind::InvalidArgument;
            return Err(Error::new(kind, verb, "no definition"));
        }
        let mut kept = self.kept();
        let revisions = kept.entry(request.name.clone()).or_default();
        let same = revisions.last() == Some(&request.source);
        let changed = !same || self.is(Defect::ApplyMakesARevisionEveryTime);
        if changed {
            revisions.push(request.source.clone());
        }
        let revision = revisions.len().to_string();
        if self.is(Defect::ApplyKeepsNothing) {
            kept.remove(&request.name);
        }
        Ok(NativeDefinition {
            name: request.name.clone(),
            revision,
            source: request.source.clone(),
            changed,
            ..NativeDefinition::default()
        })
    }

    pub(crate) fn check(&self, source: &str) -> Result<Vec<DefinitionProblem>> {
        self.offered(Verb::ApplyDefinition)?;
        let sound = is_definition(source) && !self.is(Defect::ValidateFindsFaultWithEverything);
        let problem = DefinitionProblem {
            is_error: true,
            code: "NO_DEFINITION".to_owned(),
            message: "no definition".to_owned(),
            location: String::new(),
        };
        Ok((!sound).then_some(problem).into_iter().collect())
    }
}

fn is_definition(source: &str) -> bool {
    source.starts_with('{')
}
