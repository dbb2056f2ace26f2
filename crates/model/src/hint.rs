//! What a person can do about an error, as data: a sentence that refers to actions by name.
//!
//! The one who writes a hint does not know who reads it. A hint therefore refers to an action as
//! `{ListBranches}`, or as `{GetDefinition order-saga}` with the name of a resource, and the edge that shows the hint
//! words it: the gateway writes the method of the API, the command line its command, the dashboard
//! the page or the button.

use std::str::FromStr;

macro_rules! actions {
    ($($action:ident),+ $(,)?) => {
        /// Everything that a hint can refer to: methods of the API, and two settings of the caller.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[allow(missing_docs, reason = "the names are those of the methods of the API")]
        pub enum Action { $($action),+ }

        impl Action {
            /// Every action.
            pub const ALL: &[Self] = &[$(Self::$action),+];

            /// The name in a hint, which is the method of the API.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$action => stringify!($action)),+ }
            }
        }
    };
}

actions! {
    ApplyDefinition,
    CancelExecution,
    // A cancellation with mode KILL.
    KillExecution,
    GetApproval,
    GetDefinition,
    GetEscalation,
    GetExecution,
    GetProvider,
    ListApprovals,
    ListBranches,
    ListDefinitions,
    ListEscalations,
    ListEvents,
    ListExecutions,
    ReadPayload,
    RecoverExecution,
    RetryFrom,
    RetryNow,
    ValidateDefinition,
    VerifyExecution,
    // The name and the roles that a caller sends with its requests.
    SendName,
    SendRoles,
}

impl Action {
    /// What a caller of the API does.
    #[must_use]
    pub const fn in_api(self) -> &'static str {
        match self {
            Self::KillExecution => "CancelExecution with mode KILL",
            Self::SendName => "the header `x-stateway-actor`",
            Self::SendRoles => "the header `x-stateway-roles`",
            method => method.name(),
        }
    }
}

impl FromStr for Action {
    type Err = ();

    fn from_str(name: &str) -> Result<Self, ()> {
        let found = Self::ALL.iter().find(|action| action.name() == name);
        found.copied().ok_or(())
    }
}

/// A part of a hint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part<'a> {
    Text(&'a str),
    Action(Action, Option<&'a str>),
}

/// Whether a hint refers to an action.
#[must_use]
pub fn refers(hint: &str) -> bool {
    parts(hint).any(|part| matches!(part, Part::Action(..)))
}

/// The hint with every action in the words of the reader. The name is that of the resource.
#[must_use]
pub fn worded(hint: &str, word: impl Fn(Action, Option<&str>) -> String) -> String {
    let worded = parts(hint).map(|part| match part {
        Part::Text(text) => text.to_owned(),
        Part::Action(action, name) => word(action, name),
    });
    worded.collect()
}

/// The hint for a caller of the API.
#[must_use]
pub fn in_api(hint: &str) -> String {
    worded(hint, |action, name| match name {
        Some(name) => format!("{} of `{name}`", action.in_api()),
        None => action.in_api().to_owned(),
    })
}

/// Braces without a known action between them are text.
fn parts(hint: &str) -> impl Iterator<Item = Part<'_>> {
    let mut rest = hint;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let mut from = 0;
        while let Some(open) = rest[from..].find('{').map(|at| from + at) {
            let close = rest[open..].find('}').map(|at| open + at);
            let found = close.and_then(|close| Some((reference(&rest[open + 1..close])?, close)));
            match found {
                Some((part, close)) if open == 0 => {
                    rest = &rest[close + 1..];
                    return Some(part);
                }
                Some(_) => {
                    let (text, after) = rest.split_at(open);
                    rest = after;
                    return Some(Part::Text(text));
                }
                None => from = open + 1,
            }
        }
        Some(Part::Text(std::mem::take(&mut rest)))
    })
}

fn reference(text: &str) -> Option<Part<'_>> {
    let (action, name) = match text.split_once(' ') {
        Some((action, name)) => (action, Some(name)),
        None => (text, None),
    };
    Some(Part::Action(action.parse().ok()?, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_of_the_api_reads_methods() {
        for (hint, shown) in [
            ("Narrow the filter.", "Narrow the filter."),
            ("{ListBranches} lists them.", "ListBranches lists them."),
            (
                "{GetApproval} shows how it ended; see {ListApprovals}",
                "GetApproval shows how it ended; see ListApprovals",
            ),
            (
                "{GetDefinition order saga} lists the revisions.",
                "GetDefinition of `order saga` lists the revisions.",
            ),
            (
                "Kill it: {KillExecution}.",
                "Kill it: CancelExecution with mode KILL.",
            ),
        ] {
            assert_eq!(in_api(hint), shown);
            assert_eq!(refers(hint), hint != shown);
        }
    }

    #[test]
    fn braces_without_an_action_are_text() {
        for hint in [
            "",
            "{",
            "}{",
            "{}",
            "{Nothing}",
            "{\"a\": {\"b\": 1}}",
            "a {é",
        ] {
            assert_eq!(in_api(hint), hint);
            assert!(!refers(hint));
        }
        assert_eq!(in_api("{a{RetryNow}"), "{aRetryNow");
    }
}
