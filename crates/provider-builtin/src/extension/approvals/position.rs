//! Where a list of approvals or escalations continues: behind an execution, or between two requests of one.

use std::cmp::Ordering;
use std::fmt;

use stateway_provider_api::{Error, Result, Verb};

use super::list::Found;
use stateway_hosted::inbox::CaseId;

/// Where a page begins. Executions are named by their number, in the order of their creation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Position {
    /// With the newest execution.
    Beginning,
    /// With the executions that are older than this one.
    Older(i64),
    /// In this execution, with the requests that follow this one.
    Inside(i64, CaseId),
}

impl Position {
    /// The position behind a cursor; the beginning without one.
    ///
    /// # Errors
    /// The cursor is not one of this list.
    pub(super) fn parse(verb: Verb, cursor: Option<&str>) -> Result<Self> {
        match cursor {
            None => Ok(Self::Beginning),
            Some(cursor) => Self::read(cursor).ok_or_else(|| Error::foreign_cursor(verb)),
        }
    }

    fn read(cursor: &str) -> Option<Self> {
        match cursor.split_once('/') {
            None => Some(Self::Older(cursor.parse().ok()?)),
            Some((number, case)) => Some(Self::Inside(number.parse().ok()?, CaseId::read(case)?)),
        }
    }

    /// The engine lists the executions that are older than this number; every one without it.
    pub(super) const fn before(&self) -> Option<i64> {
        match self {
            Self::Beginning => None,
            Self::Older(number) => Some(*number),
            Self::Inside(number, _) => Some(number.saturating_add(1)),
        }
    }

    /// Leaves the requests of an execution that belong to this page: those from the position on, and at
    /// most so many. The position of the rest, if there is a rest.
    pub(super) fn take(&self, found: &mut Found, most: usize) -> Option<Self> {
        if let Self::Inside(number, last) = self
            && *number == found.view.number
        {
            let follows = |case: &CaseId| last.in_list(case) == Ordering::Less;
            found.cases.retain(|case| follows(&case.id()));
        }
        if found.cases.len() <= most {
            return None;
        }
        found.cases.truncate(most);
        let last = found.cases.last()?.id();
        Some(Self::Inside(found.view.number, last))
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Beginning => Ok(()),
            Self::Older(number) => write!(f, "{number}"),
            Self::Inside(number, case) => write!(f, "{number}/{case}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_survives_the_round_trip() {
        for (text, before) in [("17", 17), ("17/sign-off~3.2~b1", 18)] {
            let position = Position::parse(Verb::ListApprovals, Some(text)).unwrap();
            assert_eq!(position.before(), Some(before));
            assert_eq!(position.to_string(), text);
        }
        let beginning = Position::parse(Verb::ListApprovals, None).unwrap();
        assert_eq!(beginning.before(), None);
    }

    #[test]
    fn every_other_text_is_rejected() {
        for wrong in ["", "x", "17/", "/a~1", "17/a", "17/a~1/b~1"] {
            let parsed = Position::parse(Verb::ListApprovals, Some(wrong));
            assert!(parsed.is_err(), "{wrong}");
        }
    }
}
