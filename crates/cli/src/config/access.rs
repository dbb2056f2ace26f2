//! The section `[access]`: who may do what.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use stateway_access::{Place, RuleSpec, Rules};
use stateway_gateway::{AccessSettings, RulesSource};

use crate::duration::Span;

/// `[access]`. Paths are relative to the file.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Access {
    /// How often the rules are checked for a change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reload_interval: Option<Span>,
    /// A file with the rules, instead of `rules`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<PathBuf>,
    /// The rules.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<RuleSpec>,
}

impl Access {
    /// The rules of the section, from a file of their own if it names one.
    ///
    /// # Errors
    /// Rules that cannot be used: every error.
    pub fn rules(&self, directory: &Path) -> Result<Rules, Vec<String>> {
        let Some(file) = &self.file else {
            let rules = Rules::new(&self.rules);
            return rules.map_err(|errors| errors.iter().map(ToString::to_string).collect());
        };
        if !self.rules.is_empty() {
            return Err(vec!["give `file` or `rules`, not both".to_owned()]);
        }
        let path = directory.join(file);
        let wrong = |why: String| format!("`file` {} cannot be used: {why}", path.display());
        let text =
            std::fs::read_to_string(&path).map_err(|error| vec![wrong(error.to_string())])?;
        let rules = Rules::parse(&text, Place::OwnFile);
        rules.map_err(|errors| errors.iter().map(|it| wrong(it.to_string())).collect())
    }

    /// The settings of the section in a configuration.
    ///
    /// # Errors
    /// Rules that cannot be used, every error, or rules about callers that prove nothing.
    pub fn settings(
        &self,
        configuration: Option<&Path>,
        is_authenticated: bool,
    ) -> Result<AccessSettings, Vec<String>> {
        let directory = configuration
            .and_then(Path::parent)
            .unwrap_or(Path::new(""));
        self.rules(directory)?;
        let is_empty = self.file.is_none() && self.rules.is_empty();
        if !is_authenticated && !is_empty {
            let message =
                "rules need a method of authentication, and [authentication] configures none";
            return Err(vec![message.to_owned()]);
        }
        let file = self.file.as_ref().map(|file| directory.join(file));
        let rules = match (file, configuration) {
            _ if !is_authenticated => RulesSource::None,
            (Some(path), _) => RulesSource::File {
                path,
                place: Place::OwnFile,
            },
            (None, Some(path)) => RulesSource::File {
                path: path.to_owned(),
                place: Place::Configuration,
            },
            (None, None) => RulesSource::None,
        };
        let default = AccessSettings::default();
        let interval = self.reload_interval.map(std::time::Duration::from);
        Ok(AccessSettings {
            rules,
            reload_interval: interval.unwrap_or(default.reload_interval),
        })
    }
}
