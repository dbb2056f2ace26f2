//! The rules in use, and what they mean for each identity.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use metrics::{counter, gauge};
use stateway_access::{Grants, Place, Rules};
use stateway_identity::Identity;
use thiserror::Error;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// The most identities whose grants are kept.
const MOST_IDENTITIES: usize = 10_000;
/// The largest file of rules.
const MOST_BYTES: u64 = 4 * 1024 * 1024;

/// The warning about rules that allow nothing.
pub const NO_RULES: &str = "every request will be denied: authentication is configured, and there is no access \
                            rule. Add a rule to the configuration, for example: [[access.rules]] name = \
                            \"admins\", who = { role = \"admin\" }, may = \"admin\" (docs/access.md)";

/// Which rules decide about authenticated callers.
#[derive(Debug, Clone, PartialEq)]
pub struct AccessSettings {
    /// Where the rules are.
    pub rules: RulesSource,
    /// How often the file is checked for a change.
    pub reload_interval: Duration,
}

/// Where rules are.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum RulesSource {
    /// There is none: with authentication, everything is denied.
    #[default]
    None,
    /// Rules that do not change while the gateway runs.
    Fixed(Rules),
    /// In a file that is read again when it changes.
    File {
        /// Which file.
        path: PathBuf,
        /// Where in the file.
        place: Place,
    },
}

impl Default for AccessSettings {
    fn default() -> Self {
        Self {
            rules: RulesSource::default(),
            reload_interval: Duration::from_secs(2),
        }
    }
}

/// Rules that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum AccessError {
    /// Rules about callers that prove nothing.
    #[error("access rules need a method of authentication, and [authentication] configures none")]
    NoAuthentication,
    /// A file that cannot be used.
    #[error("the access rules in {} cannot be used: {why}", file.display())]
    File {
        /// Which file.
        file: PathBuf,
        /// Why.
        why: String,
    },
}

/// The rules in use.
#[derive(Debug)]
pub(crate) struct AccessControl {
    source: RulesSource,
    reload_interval: Duration,
    state: RwLock<State>,
    /// Counts the changes of the rules.
    changed: watch::Sender<u64>,
    reported: Mutex<Option<AccessError>>,
}

#[derive(Debug, Default)]
struct State {
    contents: Vec<u8>,
    rules: Rules,
    grants: HashMap<Arc<Identity>, Arc<Grants>>,
}

impl AccessControl {
    /// Reads the rules for the first time. None if callers prove nothing: then everything is allowed.
    pub(crate) fn load(
        settings: &AccessSettings,
        is_authenticated: bool,
    ) -> Result<Option<Arc<Self>>, AccessError> {
        if !is_authenticated {
            return match settings.rules {
                RulesSource::None => Ok(None),
                _ => Err(AccessError::NoAuthentication),
            };
        }
        let state = match &settings.rules {
            RulesSource::None => State::default(),
            RulesSource::Fixed(rules) => State {
                rules: rules.clone(),
                ..State::default()
            },
            RulesSource::File { path, place } => {
                let contents = read(path)?;
                let rules = parse(path, *place, &contents)?;
                State {
                    contents,
                    rules,
                    ..State::default()
                }
            }
        };
        if state.rules.is_empty() {
            tracing::warn!("{NO_RULES}");
        }
        gauge!("stateway_access_rules").set(state.rules.len() as f64);
        gauge!("stateway_access_rules_stale").set(0.0);
        Ok(Some(Arc::new(Self {
            source: settings.rules.clone(),
            reload_interval: settings.reload_interval,
            state: RwLock::new(state),
            changed: watch::Sender::new(0),
            reported: Mutex::default(),
        })))
    }

    /// What an identity may do by the rules of this moment. Computed once for each identity.
    pub(super) fn grants(&self, identity: &Arc<Identity>) -> Arc<Grants> {
        if let Some(known) = self.state().grants.get(identity) {
            return Arc::clone(known);
        }
        let mut state = self.state_mut();
        if state.grants.len() >= MOST_IDENTITIES {
            state.grants.clear();
        }
        let grants = Arc::new(state.rules.grants(identity));
        state
            .grants
            .insert(Arc::clone(identity), Arc::clone(&grants));
        grants
    }

    /// Reports every change of the rules from now on.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// Reads the file again and again.
    pub(crate) async fn keep_current(self: Arc<Self>, stop: CancellationToken) {
        let RulesSource::File { path, place } = self.source.clone() else {
            return;
        };
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(self.reload_interval) => {}
            }
            let (this, path) = (Arc::clone(&self), path.clone());
            let read = tokio::task::spawn_blocking(move || this.reload(&path, place));
            // Only a process that ends gives up such a task.
            let _ = read.await;
        }
    }

    /// Reads the file again. One that cannot be used keeps the old rules, and is reported once.
    fn reload(&self, path: &Path, place: Place) {
        let fresh = read(path).and_then(|contents| {
            if self.state().contents == contents {
                return Ok(None);
            }
            let rules = parse(path, place, &contents)?;
            Ok(Some((contents, rules)))
        });
        let mut reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        match fresh {
            Ok(fresh) => {
                if reported.take().is_some() {
                    gauge!("stateway_access_rules_stale").set(0.0);
                }
                if let Some((contents, rules)) = fresh {
                    self.replace(contents, rules);
                }
            }
            Err(error) => {
                if reported.as_ref() != Some(&error) {
                    counter!("stateway_access_reload_failures_total").increment(1);
                    gauge!("stateway_access_rules_stale").set(1.0);
                    tracing::error!("access rules not reloaded, the old ones stay in use: {error}");
                    *reported = Some(error);
                }
            }
        }
    }

    fn replace(&self, contents: Vec<u8>, rules: Rules) {
        let mut state = self.state_mut();
        // A configuration has more than rules.
        let is_same = state.rules == rules;
        state.contents = contents;
        if is_same {
            return;
        }
        let count = rules.len();
        state.rules = rules;
        state.grants.clear();
        drop(state);
        gauge!("stateway_access_rules").set(count as f64);
        tracing::info!(rules = count, "access rules reloaded");
        self.changed.send_modify(|count| *count += 1);
    }

    fn state(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn state_mut(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }
}

fn read(path: &Path) -> Result<Vec<u8>, AccessError> {
    let wrong = |why: String| wrong(path, why);
    let metadata = std::fs::metadata(path).map_err(|error| wrong(error.to_string()))?;
    if metadata.len() > MOST_BYTES {
        return Err(wrong(format!("it is larger than {MOST_BYTES} bytes")));
    }
    std::fs::read(path).map_err(|error| wrong(error.to_string()))
}

fn parse(path: &Path, place: Place, contents: &[u8]) -> Result<Rules, AccessError> {
    let text = str::from_utf8(contents).map_err(|_| wrong(path, "it is not UTF-8".to_owned()))?;
    Rules::parse(text, place).map_err(|error| wrong(path, error.to_string()))
}

fn wrong(path: &Path, why: String) -> AccessError {
    AccessError::File {
        file: path.to_owned(),
        why,
    }
}

#[cfg(test)]
mod tests {
    use metrics_exporter_prometheus::PrometheusBuilder;
    use stateway_access::{Object, Permission};
    use stateway_identity::Method;

    use super::*;

    const READERS: &str = "[[rules]]\nname = \"r\"\nwho = { role = \"r\" }\nmay = \"read\"\nwhere = \"provider = p\"\n";

    fn identity(roles: &[&str]) -> Arc<Identity> {
        Arc::new(Identity::new(Method::Jwt, "ada", roles, None).unwrap())
    }

    fn settings(rules: RulesSource) -> AccessSettings {
        AccessSettings {
            rules,
            ..AccessSettings::default()
        }
    }

    #[test]
    fn the_grants_of_an_identity_are_computed_once() {
        let rules = Rules::parse(READERS, Place::OwnFile).unwrap();
        let control = AccessControl::load(&settings(RulesSource::Fixed(rules)), true);
        let control = control.unwrap().unwrap();
        // Each request has its own identity, and they are equal.
        let (first, second) = (identity(&["r"]), identity(&["r"]));
        assert!(Arc::ptr_eq(
            &control.grants(&first),
            &control.grants(&second)
        ));
        let other = control.grants(&identity(&[]));
        assert!(!other.has(Permission::Read));
        let object = Object::of_provider("p");
        assert!(control.grants(&first).allows(Permission::Read, &object));
    }

    #[test]
    fn a_file_that_cannot_be_used_is_counted_and_the_old_rules_stay() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rules.toml");
        std::fs::write(&path, READERS).unwrap();
        let place = Place::OwnFile;
        let source = RulesSource::File {
            path: path.clone(),
            place,
        };
        let recorder = PrometheusBuilder::new().build_recorder();
        let page = recorder.handle();
        metrics::with_local_recorder(&recorder, || {
            let control = AccessControl::load(&settings(source), true);
            let control = control.unwrap().unwrap();
            let has = |line: &str| assert!(page.render().contains(line), "{}", page.render());
            has("stateway_access_rules 1");
            has("stateway_access_rules_stale 0");
            let changes = control.changes();
            for broken in ["[[rules", "[[rule]]\n", "[[rules]]\nname = 1\n"] {
                std::fs::write(&path, broken).unwrap();
                control.reload(&path, place);
                control.reload(&path, place);
            }
            // Each error is reported once, however often the file is read.
            has("stateway_access_reload_failures_total 3");
            has("stateway_access_rules_stale 1");
            assert!(control.grants(&identity(&["r"])).has(Permission::Read));
            assert!(!changes.has_changed().unwrap());
            std::fs::write(&path, READERS.replace("read", "stop")).unwrap();
            control.reload(&path, place);
            has("stateway_access_rules_stale 0");
            assert!(changes.has_changed().unwrap());
            assert!(!control.grants(&identity(&["r"])).has(Permission::Read));
        });
    }

    #[test]
    fn rules_need_authentication_and_without_it_everything_is_open() {
        let open = AccessControl::load(&AccessSettings::default(), false);
        assert!(open.unwrap().is_none());
        let fixed = settings(RulesSource::Fixed(Rules::default()));
        let refused = AccessControl::load(&fixed, false).unwrap_err();
        assert_eq!(refused, AccessError::NoAuthentication);
    }
}
