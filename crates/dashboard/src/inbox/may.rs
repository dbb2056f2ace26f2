//! Whether a visitor may decide, as far as can be known before asking the API.

use maud::{Markup, html};
use stateway_identity::PageObject;

use crate::fields::link;
use crate::permission::reason;
use crate::text::said_within;
use crate::visitor::{Acting, Visitor};

/// Whether a visitor may decide.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum May {
    Yes,
    /// The visitor has no name yet.
    SayWho,
    /// The person who started the execution does not decide about it.
    Own,
    /// A role is missing.
    NotOfTheRole,
    /// No access rule gives the permission.
    NotPermitted,
}

impl May {
    /// The same, unless the access rules refuse it.
    pub(super) fn permitted(self, visitor: &Visitor, object: &PageObject<'_>) -> Self {
        if visitor.may("approve", object) {
            self
        } else {
            Self::NotPermitted
        }
    }
}

/// Whether a visitor may decide about the execution that `initiator` started, where one of `roles` is
/// needed. Names of people are compared without regard to case.
pub(super) fn may(initiator: &str, roles: &[impl AsRef<str>], acting: &Acting) -> May {
    if acting.actor.is_empty() {
        return May::SayWho;
    }
    if initiator.trim().to_lowercase() == acting.actor.trim().to_lowercase() {
        return May::Own;
    }
    let needed = |role: &str| roles.iter().any(|needed| needed.as_ref() == role);
    if acting.roles.split(',').any(needed) {
        return May::Yes;
    }
    May::NotOfTheRole
}

/// Instead of buttons: why the visitor may not decide. `back` is the page to return to.
pub(super) fn refusal(
    may: &May,
    roles: &[impl AsRef<str>],
    visitor: &Visitor,
    back: &str,
) -> Markup {
    let roles: Vec<&str> = roles.iter().map(AsRef::as_ref).collect();
    let acting = link("/acting", &[("back", back)]);
    html! {
        @match may {
            May::Yes => {}
            May::SayWho => {
                a.button href=(acting) data-dialog { "Enter your name to decide" }
            }
            May::Own => {
                p.hint { "You started this execution, so someone else has to decide." }
            }
            May::NotPermitted => { p.hint { (reason("approve")) } }
            May::NotOfTheRole => {
                p.hint {
                    "Only the role " b { (said_within(&roles.join(" or "), 120)) } " decides. "
                    @if !visitor.acting.fixed {
                        a href=(acting) data-dialog { "Change your roles" }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_knows_who_may_decide() {
        let acting = |actor: &str, roles: &str| Acting {
            actor: actor.into(),
            roles: roles.into(),
            fixed: false,
        };
        let may = |actor, roles| may("ada", &["ops", "sre"], &acting(actor, roles));
        assert_eq!(may("", ""), May::SayWho);
        assert_eq!(may("ada", "ops"), May::Own);
        assert_eq!(may("Ada", "ops"), May::Own);
        assert_eq!(may("eve", "dev,opsx"), May::NotOfTheRole);
        assert_eq!(may("eve", ""), May::NotOfTheRole);
        assert_eq!(may("eve", "dev,sre"), May::Yes);
    }
}
