//! An error of a configuration, and its place.

use std::fmt;
use std::path::PathBuf;

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The file; none for a flag or an environment variable.
    pub file: Option<PathBuf>,
    /// Line and column, both from 1, where one place is to blame.
    pub place: Option<(usize, usize)>,
    /// The error.
    pub message: String,
}

impl Problem {
    /// A problem of a byte range in a file.
    pub(super) fn at(file: &std::path::Path, text: &str, offset: usize, message: String) -> Self {
        Self {
            file: Some(file.to_owned()),
            place: Some(place(text, offset)),
            message,
        }
    }

    /// A problem of a file as a whole.
    pub(super) fn of(file: &std::path::Path, message: String) -> Self {
        Self {
            file: Some(file.to_owned()),
            place: None,
            message,
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(file) = &self.file {
            write!(f, "{}:", file.display())?;
        }
        if let Some((line, column)) = self.place {
            write!(f, "{line}:{column}:")?;
        }
        if self.file.is_some() || self.place.is_some() {
            write!(f, " {}", self.message)
        } else {
            f.write_str(&self.message)
        }
    }
}

/// Everything that is wrong with a configuration; never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    /// In the order of the file.
    pub problems: Vec<Problem>,
}

impl ConfigError {
    pub(super) fn one(problem: Problem) -> Self {
        Self {
            problems: vec![problem],
        }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.problems.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigError {}

fn place(text: &str, offset: usize) -> (usize, usize) {
    let before = text.char_indices().take_while(|(at, _)| *at < offset);
    before.fold((1, 1), |(line, column), (_, character)| match character {
        '\n' => (line + 1, 1),
        _ => (line, column + 1),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_counted_from_one_in_characters() {
        assert_eq!(place("ab", 0), (1, 1));
        assert_eq!(place("é b\ncd", 3), (1, 3));
        assert_eq!(place("ab\ncd", 4), (2, 2));
        assert_eq!(place("ab", 99), (1, 3));
    }
}
