//! What a caller can be allowed to do, and the shipped sets of permissions.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// One thing that a caller can be allowed to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Permission {
    /// See executions, definitions, approvals, workers and providers, without payloads.
    Read,
    /// See inputs, outputs and recorded payloads. Includes [`Read`](Self::Read).
    ReadPayloads,
    /// Start executions and publish events.
    Start,
    /// Send signals.
    Signal,
    /// Decide approvals and escalations.
    Approve,
    /// Pause, resume, retry, adopt another revision, disable and enable triggers.
    Steer,
    /// Cancel and kill executions.
    Stop,
    /// Apply and delete definitions.
    Define,
    /// Receive tasks and answer them.
    Work,
    /// Verify, recover, purge and back up.
    Operate,
}

impl Permission {
    /// Every permission.
    pub const ALL: [Self; 10] = [
        Self::Read,
        Self::ReadPayloads,
        Self::Start,
        Self::Signal,
        Self::Approve,
        Self::Steer,
        Self::Stop,
        Self::Define,
        Self::Work,
        Self::Operate,
    ];

    /// The name in rules, errors and records.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::ReadPayloads => "read-payloads",
            Self::Start => "start",
            Self::Signal => "signal",
            Self::Approve => "approve",
            Self::Steer => "steer",
            Self::Stop => "stop",
            Self::Define => "define",
            Self::Work => "work",
            Self::Operate => "operate",
        }
    }

    /// Its place in [`Self::ALL`].
    pub(crate) const fn index(self) -> usize {
        self as usize
    }
}

impl fmt::Display for Permission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A word that is neither a permission nor a preset.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{0}` is not a permission; known: {known}, or a preset: {presets}", known = names(), presets = preset_names())]
pub struct UnknownPermission(pub String);

impl FromStr for Permission {
    type Err = UnknownPermission;

    fn from_str(word: &str) -> Result<Self, UnknownPermission> {
        let found = Self::ALL.into_iter().find(|one| one.as_str() == word);
        found.ok_or_else(|| UnknownPermission(word.to_owned()))
    }
}

/// A shipped set of permissions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Preset {
    /// Sees everything but payloads.
    Viewer,
    /// Keeps executions running.
    Operator,
    /// Writes definitions and runs them.
    Developer,
    /// Does the work of steps.
    Worker,
    /// Everything.
    Admin,
}

impl Preset {
    /// Every preset.
    pub const ALL: [Self; 5] = [
        Self::Viewer,
        Self::Operator,
        Self::Developer,
        Self::Worker,
        Self::Admin,
    ];

    /// The name in rules.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Operator => "operator",
            Self::Developer => "developer",
            Self::Worker => "worker",
            Self::Admin => "admin",
        }
    }

    /// The permissions that it gives.
    #[must_use]
    pub const fn permissions(self) -> &'static [Permission] {
        use Permission::{Approve, Define, Read, ReadPayloads, Signal, Start, Steer, Stop, Work};
        match self {
            Self::Viewer => &[Read],
            Self::Operator => &[Read, ReadPayloads, Signal, Approve, Steer, Stop],
            Self::Developer => &[Read, ReadPayloads, Start, Signal, Steer, Stop, Define],
            Self::Worker => &[Work],
            Self::Admin => &Permission::ALL,
        }
    }
}

/// A set of permissions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Permissions(u16);

impl Permissions {
    /// The permissions of some words, each a permission or a preset.
    ///
    /// # Errors
    /// A word that is neither.
    pub fn parse<W: AsRef<str>>(
        words: impl IntoIterator<Item = W>,
    ) -> Result<Self, UnknownPermission> {
        let mut set = Self::default();
        for word in words {
            let word = word.as_ref();
            let preset = Preset::ALL.into_iter().find(|one| one.as_str() == word);
            if let Some(preset) = preset {
                preset.permissions().iter().for_each(|one| set.add(*one));
            } else {
                set.add(word.parse()?);
            }
        }
        Ok(set)
    }

    fn add(&mut self, permission: Permission) {
        self.0 |= 1 << permission.index();
        if permission == Permission::ReadPayloads {
            self.add(Permission::Read);
        }
    }

    /// Whether the set has a permission.
    #[must_use]
    pub const fn has(self, permission: Permission) -> bool {
        self.0 & (1 << permission.index()) != 0
    }

    /// Whether the set has nothing but this permission.
    #[must_use]
    pub const fn is_only(self, permission: Permission) -> bool {
        self.0 == 1 << permission.index()
    }

    /// Whether the set is empty.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Every permission of the set.
    pub fn iter(self) -> impl Iterator<Item = Permission> {
        Permission::ALL
            .into_iter()
            .filter(move |one| self.has(*one))
    }
}

fn names() -> String {
    Permission::ALL.map(Permission::as_str).join(", ")
}

fn preset_names() -> String {
    Preset::ALL.map(Preset::as_str).join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_permission_and_preset_has_one_name() {
        for (place, permission) in Permission::ALL.into_iter().enumerate() {
            assert_eq!(permission.index(), place);
            assert_eq!(permission.as_str().parse(), Ok(permission));
            let preset = Preset::ALL
                .iter()
                .find(|it| it.as_str() == permission.as_str());
            assert_eq!(preset, None, "a word means one thing");
        }
        assert!("admin".parse::<Permission>().is_err());
    }

    #[test]
    fn words_add_up_and_payloads_include_reading() {
        let set = Permissions::parse(["worker", "read-payloads"]).unwrap();
        let names: Vec<_> = set.iter().map(Permission::as_str).collect();
        assert_eq!(names, ["read", "read-payloads", "work"]);
        let all = Permissions::parse(["admin"]).unwrap();
        assert_eq!(all.iter().count(), Permission::ALL.len());
        let wrong = Permissions::parse(["reed"]).unwrap_err();
        assert!(wrong.to_string().contains("read-payloads"), "{wrong}");
        assert!(wrong.to_string().contains("viewer"), "{wrong}");
    }

    #[test]
    fn only_the_admin_operates_and_only_workers_and_the_admin_work() {
        let with = |permission| {
            let presets = Preset::ALL.into_iter();
            let presets = presets.filter(|it| it.permissions().contains(&permission));
            presets.map(Preset::as_str).collect::<Vec<_>>()
        };
        assert_eq!(with(Permission::Operate), ["admin"]);
        assert_eq!(with(Permission::Work), ["worker", "admin"]);
        assert_eq!(with(Permission::Start), ["developer", "admin"]);
        assert_eq!(with(Permission::Approve), ["operator", "admin"]);
    }
}
