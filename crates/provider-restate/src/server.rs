//! What kind of server this is: its version, its tables, its modes.

use std::fmt;

use serde::Deserialize;

use crate::sql::Schema;

/// What is known of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Server {
    pub(crate) version: Version,
    pub(crate) schema: Schema,
    /// Back-off may hide in a queue.
    pub(crate) vqueues: bool,
}

/// `GET /version`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct VersionAnswer {
    pub(crate) version: String,
    #[serde(default)]
    features: Features,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct Features {
    vqueues: bool,
}

/// Major and minor; the rest does not matter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Version(u32, u32);

impl Version {
    /// The oldest that has the verbs.
    pub(crate) const OLDEST: Self = Self(1, 4);
    /// The first whose ingress has everything under `/restate/`.
    const NEW_INGRESS: Self = Self(1, 7);

    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split(['.', '-', '+']);
        Some(Self(
            parts.next()?.parse().ok()?,
            parts.next()?.parse().ok()?,
        ))
    }

    pub(crate) fn has_new_ingress(self) -> bool {
        self >= Self::NEW_INGRESS
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0, self.1)
    }
}

impl VersionAnswer {
    /// The server, unless it is too old to work with.
    pub(crate) fn server(&self, schema: Schema) -> Result<Server, String> {
        let text = &self.version;
        let version = Version::parse(text).ok_or_else(|| format!("`{text}` is not a version"))?;
        let oldest = Version::OLDEST;
        if version < oldest {
            return Err(format!("restate {text} is too old, {oldest} is needed"));
        }
        if !schema.has("sys_invocation", "status") {
            return Err(format!("restate {text} has no `sys_invocation.status`"));
        }
        let vqueues = self.features.vqueues && schema.has("sys_vqueue_entry_status", "status");
        Ok(Server {
            version,
            schema,
            vqueues,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::Column;

    fn schema() -> Schema {
        Schema::new(vec![Column {
            table_name: "sys_invocation".into(),
            column_name: "status".into(),
        }])
    }

    fn asked(version: &str) -> Result<Server, String> {
        let body = format!(r#"{{"version": "{version}", "min_admin_api_version": 2}}"#);
        let answer: VersionAnswer = serde_json::from_str(&body).unwrap();
        answer.server(schema())
    }

    #[test]
    fn old_servers_are_told_from_new_ones_by_what_they_have() {
        assert!(!asked("1.4.2").unwrap().version.has_new_ingress());
        assert!(asked("1.7.12").unwrap().version.has_new_ingress());
        assert!(asked("2.0.0-rc.1").unwrap().version.has_new_ingress());
        assert!(!asked("1.6.0").unwrap().vqueues);
    }

    #[test]
    fn a_server_that_is_too_old_is_refused_in_words() {
        let why = asked("1.3.9").unwrap_err();
        assert_eq!(why, "restate 1.3.9 is too old, 1.4 is needed");
        assert!(asked("next").is_err());
    }
}
