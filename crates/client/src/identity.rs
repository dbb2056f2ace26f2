//! The caller that a client names in its calls.

use tonic::metadata::{AsciiMetadataValue, MetadataMap};

use crate::security::Token;
use crate::{Client, Error};

const ACTOR: &str = "x-stateway-actor";
const ROLES: &str = "x-stateway-roles";

/// The identity headers of every call (default: none).
#[derive(Debug, Clone, Default)]
pub(crate) struct Identity {
    actor: Option<AsciiMetadataValue>,
    roles: Option<AsciiMetadataValue>,
    pub(crate) token: Option<Token>,
}

impl Identity {
    /// A name and roles, checked.
    pub(crate) fn of<R: AsRef<str>>(
        actor: &str,
        roles: impl IntoIterator<Item = R>,
    ) -> Result<Self, Error> {
        let mut list = String::new();
        for role in roles {
            let role = role.as_ref();
            if !is_word(role) || role.contains(',') {
                return Err(Error::identity("role", role));
            }
            if !list.is_empty() {
                list.push(',');
            }
            list.push_str(role);
        }
        if !is_word(actor) {
            return Err(Error::identity("actor", actor));
        }
        let value = |text: &str| AsciiMetadataValue::try_from(text).ok();
        Ok(Self {
            actor: value(actor),
            roles: value(&list).filter(|_| !list.is_empty()),
            token: None,
        })
    }

    pub(crate) fn put(&self, metadata: &mut MetadataMap) {
        if let Some(actor) = &self.actor {
            metadata.insert(ACTOR, actor.clone());
        }
        if let Some(roles) = &self.roles {
            metadata.insert(ROLES, roles.clone());
        }
        if let Some(token) = &self.token {
            metadata.insert("authorization", token.header());
        }
    }
}

impl Client {
    /// Sends the name and the roles of the caller with every call.
    ///
    /// A gateway without authentication accepts them, and listens on loopback only. A gateway with
    /// authentication takes the name and the roles from a certificate or a token
    /// ([`Client::lazy_with`]) and refuses a call with these headers, unless it comes from a configured
    /// proxy.
    ///
    /// # Errors
    /// A name or a role that is empty or not plain ASCII without blanks and commas.
    pub fn acting_as<R: AsRef<str>>(
        mut self,
        actor: &str,
        roles: impl IntoIterator<Item = R>,
    ) -> Result<Self, Error> {
        let token = self.identity.token.take();
        self.identity = Identity::of(actor, roles)?;
        self.identity.token = token;
        Ok(self)
    }
}

fn is_word(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn every_call_says_who_makes_it() {
        let client = Client::lazy("http://127.0.0.1:1").unwrap();
        let client = client.acting_as("ada", ["ops", "release"]).unwrap();
        let mut metadata = MetadataMap::new();
        client.identity.put(&mut metadata);
        assert_eq!(metadata.get(ACTOR).unwrap(), "ada");
        assert_eq!(metadata.get(ROLES).unwrap(), "ops,release");
    }

    #[tokio::test]
    async fn a_name_that_no_header_takes_is_refused() {
        for (actor, role) in [("", "a"), ("a b", "a"), ("ä", "a"), ("a", "b,c"), ("a", "")] {
            let client = Client::lazy("http://127.0.0.1:1").unwrap();
            let error = client.acting_as(actor, [role]).unwrap_err();
            assert_eq!(error.reason(), "INVALID_IDENTITY");
        }
    }
}
