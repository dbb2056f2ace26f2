//! YAML and JSON as one tree in which every value knows its line and column.
//!
//! JSON is read by the same reader: it is a part of YAML. What YAML has beyond JSON (anchors,
//! aliases, tags, several documents) is refused: a definition must mean the same in both, and an
//! alias is how a small file becomes a large one. Depth, size and count are bounded while reading.

mod json;

use saphyr_parser::{Event, Parser, ScalarStyle, Span};
use serde_json::{Map, Number, Value};

use crate::diagnostic::{Position, Problems};
use crate::limits::{MAX_DEPTH, MAX_NODES, MAX_SOURCE_BYTES};
use crate::rule::Rule;

/// A value and where it stands.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) at: Position,
    pub(crate) value: NodeValue,
}

#[derive(Debug, Clone)]
pub(crate) enum NodeValue {
    Null,
    Bool(bool),
    Number(Number),
    Text(String),
    List(Vec<Node>),
    Map(Vec<Entry>),
}

/// One key of a mapping and its value.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) at: Position,
    pub(crate) node: Node,
}

impl Node {
    /// What the value is, for error messages.
    pub(crate) const fn kind(&self) -> &'static str {
        match self.value {
            NodeValue::Null => "nothing",
            NodeValue::Bool(_) => "a boolean",
            NodeValue::Number(_) => "a number",
            NodeValue::Text(_) => "text",
            NodeValue::List(_) => "a list",
            NodeValue::Map(_) => "a mapping",
        }
    }

    /// The same value without its places.
    pub(crate) fn to_json(&self) -> Value {
        match &self.value {
            NodeValue::Null => Value::Null,
            NodeValue::Bool(flag) => Value::Bool(*flag),
            NodeValue::Number(number) => Value::Number(number.clone()),
            NodeValue::Text(text) => Value::String(text.clone()),
            NodeValue::List(items) => Value::Array(items.iter().map(Self::to_json).collect()),
            NodeValue::Map(entries) => Value::Object(
                entries
                    .iter()
                    .map(|entry| (entry.key.clone(), entry.node.to_json()))
                    .collect::<Map<_, _>>(),
            ),
        }
    }
}

/// Reads one document. Nothing is returned when the text cannot be read to its end.
pub(crate) fn load(text: &str, problems: &mut Problems) -> Option<Node> {
    if text.len() > MAX_SOURCE_BYTES {
        problems.error(
            Rule::Size,
            Position { line: 1, column: 1 },
            format!(
                "the source has {} bytes, more than {MAX_SOURCE_BYTES}",
                text.len()
            ),
            "Split the workflow and call the parts with `workflow:` steps.",
        );
        return None;
    }
    let text = json::readable(text);
    Loader {
        parser: Parser::new_from_str(&text),
        nodes: 0,
        last: Position { line: 1, column: 1 },
    }
    .document(problems)
}

struct Loader<'t> {
    parser: Parser<'t, saphyr_parser::StrInput<'t>>,
    nodes: usize,
    last: Position,
}

/// Reading stops at the first of these; it has already been reported.
struct Stop;

impl Loader<'_> {
    fn document(&mut self, problems: &mut Problems) -> Option<Node> {
        let mut root = None;
        loop {
            let (event, at) = self.next(problems).ok()?;
            match event {
                Event::StreamEnd => return self.whole(root, problems),
                Event::Nothing | Event::StreamStart | Event::DocumentEnd => {}
                Event::DocumentStart(_) if root.is_none() => {}
                Event::DocumentStart(_) => {
                    let hint = "Keep one definition per file.";
                    problems.error(Rule::YamlFeature, at, "a second document", hint);
                    return None;
                }
                first => root = Some(self.node(first, at, 0, problems).ok()?),
            }
        }
    }

    fn whole(&self, root: Option<Node>, problems: &mut Problems) -> Option<Node> {
        if root.is_none() {
            let hint = "Write at least `steps:` with one step.";
            problems.error(Rule::Syntax, self.last, "the source is empty", hint);
        }
        root
    }

    fn next(&mut self, problems: &mut Problems) -> Result<(Event<'static>, Position), Stop> {
        match self.parser.next_event() {
            Some(Ok((event, span))) => {
                self.last = position(&span);
                Ok((owned(event), self.last))
            }
            Some(Err(error)) => {
                let at = Position {
                    line: clamp(error.marker().line()),
                    column: clamp(error.marker().col() + 1),
                };
                let hint = "Check quotes, brackets and indentation around this place.";
                problems.error(
                    Rule::Syntax,
                    at,
                    format!("not YAML or JSON: {}", error.info()),
                    hint,
                );
                Err(Stop)
            }
            None => Ok((Event::StreamEnd, self.last)),
        }
    }

    fn node(
        &mut self,
        event: Event<'static>,
        at: Position,
        depth: usize,
        problems: &mut Problems,
    ) -> Result<Node, Stop> {
        self.count(at, depth, problems)?;
        plain_yaml(&event, at, problems)?;
        let value = match event {
            Event::Scalar(text, style, ..) => scalar(&text, style),
            Event::SequenceStart(..) => self.list(depth, problems)?,
            Event::MappingStart(..) => self.map(depth, problems)?,
            _ => NodeValue::Null,
        };
        Ok(Node { at, value })
    }

    fn count(&mut self, at: Position, depth: usize, problems: &mut Problems) -> Result<(), Stop> {
        self.nodes += 1;
        let hint = "Move data out of the definition and pass it as input.";
        if depth > MAX_DEPTH {
            problems.error(
                Rule::Size,
                at,
                format!("nested deeper than {MAX_DEPTH}"),
                hint,
            );
            return Err(Stop);
        }
        if self.nodes > MAX_NODES {
            problems.error(
                Rule::Size,
                at,
                format!("more than {MAX_NODES} values"),
                hint,
            );
            return Err(Stop);
        }
        Ok(())
    }

    fn list(&mut self, depth: usize, problems: &mut Problems) -> Result<NodeValue, Stop> {
        let mut items = Vec::new();
        loop {
            match self.next(problems)? {
                (Event::SequenceEnd | Event::StreamEnd, _) => return Ok(NodeValue::List(items)),
                (event, at) => items.push(self.node(event, at, depth + 1, problems)?),
            }
        }
    }

    fn map(&mut self, depth: usize, problems: &mut Problems) -> Result<NodeValue, Stop> {
        let mut entries: Vec<Entry> = Vec::new();
        let mut seen = std::collections::BTreeSet::new();
        loop {
            let (event, at) = match self.next(problems)? {
                (Event::MappingEnd | Event::StreamEnd, _) => return Ok(NodeValue::Map(entries)),
                next => next,
            };
            let key = self.key(&event, at, depth, problems)?;
            let (event, value_at) = self.next(problems)?;
            let node = self.node(event, value_at, depth + 1, problems)?;
            if !seen.insert(key.clone()) {
                let hint = "Remove one of the two; otherwise it is unclear which value applies.";
                problems.error(
                    Rule::DuplicateKey,
                    at,
                    format!("`{key}` is given twice"),
                    hint,
                );
                continue;
            }
            entries.push(Entry { key, at, node });
        }
    }

    fn key(
        &mut self,
        event: &Event<'static>,
        at: Position,
        depth: usize,
        problems: &mut Problems,
    ) -> Result<String, Stop> {
        if let Event::Scalar(text, ..) = event {
            self.count(at, depth + 1, problems)?;
            plain_yaml(event, at, problems)?;
            return Ok(text.to_string());
        }
        problems.error(
            Rule::WrongType,
            at,
            "a key that is not text",
            "Write keys as plain words.",
        );
        Err(Stop)
    }
}

/// Refuses what JSON cannot say.
fn plain_yaml(event: &Event<'_>, at: Position, problems: &mut Problems) -> Result<(), Stop> {
    let (anchor, tag) = match event {
        Event::Scalar(_, _, anchor, tag) => (*anchor, tag.is_some()),
        Event::SequenceStart(anchor, tag) | Event::MappingStart(anchor, tag) => {
            (*anchor, tag.is_some())
        }
        Event::Alias(_) => (1, false),
        _ => (0, false),
    };
    if anchor == 0 && !tag {
        return Ok(());
    }
    let what = if tag { "a tag" } else { "an anchor or alias" };
    let hint = "Write the value out; a definition must mean the same in YAML and in JSON.";
    problems.error(
        Rule::YamlFeature,
        at,
        format!("{what} is not part of the format"),
        hint,
    );
    Err(Stop)
}

/// The core schema of YAML 1.2: only these plain words are not text.
fn scalar(text: &str, style: ScalarStyle) -> NodeValue {
    if style != ScalarStyle::Plain {
        return NodeValue::Text(text.to_owned());
    }
    match text {
        "" | "~" | "null" | "Null" | "NULL" => NodeValue::Null,
        "true" | "True" | "TRUE" => NodeValue::Bool(true),
        "false" | "False" | "FALSE" => NodeValue::Bool(false),
        other => match number(other) {
            Some(number) => NodeValue::Number(number),
            None => NodeValue::Text(other.to_owned()),
        },
    }
}

fn number(text: &str) -> Option<Number> {
    let numeric = text.starts_with(|c: char| c.is_ascii_digit() || c == '-' || c == '.');
    if !numeric {
        return None;
    }
    text.parse::<i64>()
        .map(Number::from)
        .or_else(|_| text.parse::<u64>().map(Number::from))
        .ok()
        .or_else(|| text.parse::<f64>().ok().and_then(Number::from_f64))
}

fn owned(event: Event<'_>) -> Event<'static> {
    match event {
        Event::Nothing => Event::Nothing,
        Event::StreamStart => Event::StreamStart,
        Event::StreamEnd => Event::StreamEnd,
        Event::DocumentStart(explicit) => Event::DocumentStart(explicit),
        Event::DocumentEnd => Event::DocumentEnd,
        Event::Alias(id) => Event::Alias(id),
        Event::Scalar(text, style, anchor, tag) => Event::Scalar(
            text.into_owned().into(),
            style,
            anchor,
            tag.map(|tag| std::borrow::Cow::Owned(tag.into_owned())),
        ),
        Event::SequenceStart(anchor, tag) => Event::SequenceStart(
            anchor,
            tag.map(|tag| std::borrow::Cow::Owned(tag.into_owned())),
        ),
        Event::SequenceEnd => Event::SequenceEnd,
        Event::MappingStart(anchor, tag) => Event::MappingStart(
            anchor,
            tag.map(|tag| std::borrow::Cow::Owned(tag.into_owned())),
        ),
        Event::MappingEnd => Event::MappingEnd,
    }
}

fn position(span: &Span) -> Position {
    Position {
        line: clamp(span.start.line()),
        column: clamp(span.start.col() + 1),
    }
}

fn clamp(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
