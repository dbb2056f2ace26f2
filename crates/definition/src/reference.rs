//! `${input.x}`, `${steps.a.output.y}`, `${steps.a.state}`, `${execution.id}`, `${event.x}`: what
//! data is taken from where.

use std::fmt;

use serde_json::Value;

/// One reference, without its braces.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reference {
    /// Where the data comes from.
    pub root: Root,
    /// The way from there.
    pub path: Vec<Segment>,
}

/// Where data comes from.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Root {
    /// What the execution was started with.
    Input,
    /// What a step answered.
    Output(String),
    /// The word for where a step is: `completed` or `skipped`.
    State(String),
    /// The id of the execution.
    ExecutionId,
    /// What the event carries that may start an execution: only in `trigger.condition`.
    Event,
}

/// One piece of a path.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Segment {
    /// A key of an object.
    Key(String),
    /// A place in a list, from 0.
    Index(usize),
}

impl Reference {
    /// The step whose data it takes.
    #[must_use]
    pub fn step(&self) -> Option<&str> {
        match &self.root {
            Root::Output(step) | Root::State(step) => Some(step),
            Root::Input | Root::ExecutionId | Root::Event => None,
        }
    }

    /// Follows the path through a document.
    #[must_use]
    pub fn follow<'v>(&self, document: &'v Value) -> Option<&'v Value> {
        self.path
            .iter()
            .try_fold(document, |value, segment| match segment {
                Segment::Key(key) => value.get(key),
                Segment::Index(index) => value.get(index),
            })
    }

    /// Reads what stands between the braces.
    ///
    /// # Errors
    /// A lower-case fragment that says what is wrong.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut segments = segments(text)?.into_iter();
        let Some(Segment::Key(first)) = segments.next() else {
            return Err("a reference begins with `input`, `steps` or `execution`".to_owned());
        };
        match first.as_str() {
            "input" => Ok(Self {
                root: Root::Input,
                path: segments.collect(),
            }),
            "event" => Ok(Self {
                root: Root::Event,
                path: segments.collect(),
            }),
            "steps" => of_step(text, segments),
            "execution" if text == "execution.id" => Ok(Self {
                root: Root::ExecutionId,
                path: Vec::new(),
            }),
            _ => Err(format!(
                "`{text}` begins with neither `input`, `steps` nor `execution.id`"
            )),
        }
    }
}

fn of_step(text: &str, mut rest: impl Iterator<Item = Segment>) -> Result<Reference, String> {
    let (Some(Segment::Key(step)), Some(Segment::Key(what))) = (rest.next(), rest.next()) else {
        return Err(format!("`{text}` does not name a step and its output"));
    };
    let path: Vec<Segment> = rest.collect();
    match what.as_str() {
        "output" => Ok(Reference {
            root: Root::Output(step),
            path,
        }),
        "state" if path.is_empty() => Ok(Reference {
            root: Root::State(step),
            path,
        }),
        _ => Err(format!(
            "`{text}` refers to a value of a step other than `output` or `state`"
        )),
    }
}

/// Splits `a.b[0]["c d"]`.
fn segments(text: &str) -> Result<Vec<Segment>, String> {
    let mut found = Vec::new();
    let mut rest = text;
    loop {
        let (segment, after) = segment(rest, text)?;
        found.push(segment);
        rest = match after.strip_prefix('.') {
            Some(next) => next,
            None if after.is_empty() => return Ok(found),
            None if after.starts_with('[') => after,
            None => {
                return Err(format!(
                    "`{text}` has a character that is not allowed in a path"
                ));
            }
        };
    }
}

fn segment<'t>(rest: &'t str, whole: &str) -> Result<(Segment, &'t str), String> {
    let broken = || format!("`{whole}` is not a path of the form `steps.name.output.field`");
    if let Some(quoted) = rest.strip_prefix("[\"") {
        let (key, after) = quoted.split_once("\"]").ok_or_else(broken)?;
        return Ok((Segment::Key(key.to_owned()), after));
    }
    if let Some(number) = rest.strip_prefix('[') {
        let (index, after) = number.split_once(']').ok_or_else(broken)?;
        return Ok((Segment::Index(index.parse().map_err(|_| broken())?), after));
    }
    let end = rest.find(|c: char| !is_key(c)).unwrap_or(rest.len());
    if end == 0 {
        return Err(broken());
    }
    Ok((Segment::Key(rest[..end].to_owned()), &rest[end..]))
}

fn is_key(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == '-'
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.root {
            Root::Input => f.write_str("input")?,
            Root::Output(step) => write!(f, "steps.{step}.output")?,
            Root::State(step) => write!(f, "steps.{step}.state")?,
            Root::ExecutionId => f.write_str("execution.id")?,
            Root::Event => f.write_str("event")?,
        }
        for segment in &self.path {
            match segment {
                Segment::Key(key) if key.chars().all(is_key) => write!(f, ".{key}")?,
                Segment::Key(key) => write!(f, "[\"{key}\"]")?,
                Segment::Index(index) => write!(f, "[{index}]")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_form_survives_the_round_trip() {
        for text in [
            "input",
            "input.order.id",
            "input.items[0].sku",
            "input[\"a b\"].c",
            "steps.create-account.output",
            "steps.a.output.x[2]",
            "steps.a.state",
            "execution.id",
            "event.order.id",
        ] {
            assert_eq!(Reference::parse(text).unwrap().to_string(), text);
        }
    }

    #[test]
    fn paths_are_followed_through_objects_and_lists() {
        let document = json!({"items": [{"sku": "a"}]});
        let reference = Reference::parse("input.items[0].sku").unwrap();
        assert_eq!(reference.follow(&document), Some(&json!("a")));
        assert_eq!(
            Reference::parse("input.items[1]")
                .unwrap()
                .follow(&document),
            None
        );
    }

    #[test]
    fn what_is_no_reference_is_refused() {
        for wrong in [
            "",
            "x",
            "steps",
            "steps.a",
            "steps.a.error",
            "steps.a.state.x",
            "input.",
            "input[x]",
        ] {
            assert!(Reference::parse(wrong).is_err(), "{wrong}");
        }
    }
}
