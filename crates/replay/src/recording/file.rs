//! A recording as a file: one JSON value on each line, so that people and tools can read it.
//!
//! First a header, then the definitions, the branches and the rows of the log, each row followed by
//! its events exactly as they are stored, and last an end with a hash of everything before. Version
//! 1 is kept by the files in `tests/histories/`.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use stateway_definition::hex;

use super::{
    BranchOrigin, MOST_RECORDED_EVENTS, Recording, RecordingError, Result, Row, Source, count,
    wrong,
};
use crate::Hash;

/// The version this build writes and reads.
pub const FILE_VERSION: u64 = 1;
/// The largest file that is read.
pub const MOST_FILE_BYTES: usize = 256 * 1024 * 1024;
/// The kind of the file, in its first line.
const WHAT: &str = "history";

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    stateway: String,
    version: u64,
    execution: Arc<str>,
    definition: Arc<str>,
    labels: BTreeMap<String, String>,
    branch: u32,
    redacted: bool,
}

/// Only what decides whether the rest can be read.
#[derive(Deserialize)]
struct Label {
    stateway: String,
    version: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Line {
    Definition {
        name: String,
        revision: String,
        source: String,
    },
    Branch {
        branch: u32,
        parent: u32,
        cutoff: u64,
    },
    Row {
        branch: u32,
        first: u64,
        events: usize,
        hash: String,
    },
    End {
        rows: usize,
        events: usize,
        digest: String,
    },
}

impl Recording {
    /// The file. The same recording is always the same bytes.
    #[must_use]
    pub fn write(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let header = Header {
            stateway: WHAT.to_owned(),
            version: FILE_VERSION,
            execution: Arc::clone(&self.execution),
            definition: Arc::clone(&self.definition),
            labels: self.labels.clone(),
            branch: self.branch,
            redacted: self.redacted,
        };
        put(&mut bytes, &header);
        for Source {
            name,
            revision,
            source,
        } in self.definitions.clone()
        {
            let line = Line::Definition {
                name,
                revision,
                source,
            };
            put(&mut bytes, &line);
        }
        for BranchOrigin {
            branch,
            parent,
            cutoff,
        } in self.branches.iter().copied()
        {
            let line = Line::Branch {
                branch,
                parent,
                cutoff,
            };
            put(&mut bytes, &line);
        }
        for row in &self.rows {
            let line = Line::Row {
                branch: row.branch,
                first: row.first,
                events: count(&row.lines),
                hash: hex(&row.hash),
            };
            put(&mut bytes, &line);
            bytes.extend_from_slice(&row.lines);
        }
        let end = Line::End {
            rows: self.rows.len(),
            events: self.events(),
            digest: hex(&Sha256::digest(&bytes)),
        };
        put(&mut bytes, &end);
        bytes
    }

    /// Reads a file and checks that it is whole and as it was written. Whether the log in it is, is
    /// checked for each branch when it is read, and by [`Recording::check`].
    ///
    /// # Errors
    /// What is wrong, and in which line.
    pub fn read(bytes: &[u8]) -> Result<Self> {
        if bytes.len() > MOST_FILE_BYTES {
            return wrong(0, format!("the file has more than {MOST_FILE_BYTES} bytes"));
        }
        let mut reader = Reader {
            rest: bytes,
            line: 0,
        };
        let mut found = header(reader.next()?)?;
        let mut events = 0;
        loop {
            let before = bytes.len() - reader.rest.len();
            let line = reader.next()?;
            match reader.parse(line)? {
                Line::Definition {
                    name,
                    revision,
                    source,
                } if found.branches.is_empty() && found.rows.is_empty() => {
                    found.definitions.push(Source {
                        name,
                        revision,
                        source,
                    });
                }
                Line::Branch {
                    branch,
                    parent,
                    cutoff,
                } if found.rows.is_empty() => found.branches.push(BranchOrigin {
                    branch,
                    parent,
                    cutoff,
                }),
                Line::Row {
                    branch,
                    first,
                    events: counted,
                    hash,
                } => {
                    events += counted;
                    if counted == 0 || events > MOST_RECORDED_EVENTS {
                        let most = MOST_RECORDED_EVENTS;
                        return wrong(
                            reader.line,
                            format!("{counted} events; 1 to {most} are read"),
                        );
                    }
                    let row = reader.row(branch, first, counted, &hash)?;
                    found.rows.push(row);
                }
                Line::End {
                    rows,
                    events: counted,
                    digest,
                } => {
                    let whole = rows == found.rows.len() && counted == events;
                    reader.end(&found, whole, &digest, &bytes[..before])?;
                    return Ok(found);
                }
                Line::Definition { .. } | Line::Branch { .. } => {
                    return wrong(
                        reader.line,
                        "definitions come first, then branches, then rows",
                    );
                }
            }
        }
    }
}

struct Reader<'b> {
    rest: &'b [u8],
    /// The last line that was taken.
    line: usize,
}

impl<'b> Reader<'b> {
    fn next(&mut self) -> Result<&'b [u8]> {
        let (line, rest) = self.take()?;
        self.rest = rest;
        self.line += 1;
        Ok(line)
    }

    fn take(&self) -> Result<(&'b [u8], &'b [u8])> {
        match self.rest.iter().position(|byte| *byte == b'\n') {
            Some(end) => Ok((&self.rest[..end], &self.rest[end + 1..])),
            None if self.rest.is_empty() => wrong(
                self.line,
                "the file is incomplete: its closing line is missing",
            ),
            None => wrong(self.line + 1, "the line is cut off"),
        }
    }

    fn parse(&self, line: &[u8]) -> Result<Line> {
        serde_json::from_slice(line)
            .or_else(|error| wrong(self.line, format!("not a line of a history: {error}")))
    }

    fn row(&mut self, branch: u32, first: u64, events: usize, hash: &str) -> Result<Row> {
        let line = self.line;
        let Some(hash) = unhex(hash) else {
            return wrong(line, format!("`{hash}` is not a hash"));
        };
        let begin = self.rest;
        for _ in 0..events {
            self.next()?;
        }
        let row = Row {
            branch,
            first,
            hash,
            lines: begin[..begin.len() - self.rest.len()].to_vec(),
            line,
        };
        let read = row.decode()?;
        match read.first() {
            Some(event) if event.sequence == first && read.len() == events => Ok(row),
            _ => wrong(line, format!("the row does not begin with event {first}")),
        }
    }

    fn end(&self, found: &Recording, whole: bool, digest: &str, before: &[u8]) -> Result<()> {
        if !self.rest.is_empty() {
            return wrong(self.line + 1, "the file has data after its closing line");
        }
        if !whole {
            return wrong(
                self.line,
                "the file has other numbers of rows and events than its closing line states",
            );
        }
        // An unchanged file may contain a log that was damaged in its store; reading the branch
        // reports that.
        if hex(&Sha256::digest(before)) == digest {
            return Ok(());
        }
        // The chain of hashes shows where the log was changed.
        found.check()?;
        let what = "the file was changed after it was written: its header, a definition or a branch was \
                    changed";
        wrong(self.line, what)
    }
}

fn header(line: &[u8]) -> Result<Recording> {
    let label: Label = serde_json::from_slice(line)
        .ok()
        .filter(|label: &Label| label.stateway == WHAT)
        .ok_or_else(|| RecordingError {
            line: 1,
            what: "this is not the history of an execution".to_owned(),
        })?;
    if label.version != FILE_VERSION {
        let found = label.version;
        let what =
            format!("the file is of version {found}; this build reads version {FILE_VERSION}");
        return wrong(1, what);
    }
    let header: Header = serde_json::from_slice(line)
        .or_else(|error| wrong(1, format!("not the header of a history: {error}")))?;
    Ok(Recording {
        execution: header.execution,
        definition: header.definition,
        labels: header.labels,
        branch: header.branch,
        redacted: header.redacted,
        definitions: Vec::new(),
        branches: Vec::new(),
        rows: Vec::new(),
    })
}

fn put(bytes: &mut Vec<u8>, line: &impl Serialize) {
    serde_json::to_writer(&mut *bytes, line)
        .expect("a line has only text keys, so it is always JSON, and a buffer takes all of it");
    bytes.push(b'\n');
}

fn unhex(text: &str) -> Option<Hash> {
    let mut hash = Hash::default();
    if text.len() != hash.len() * 2 || !text.is_ascii() {
        return None;
    }
    for (at, byte) in hash.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[at * 2..at * 2 + 2], 16).ok()?;
    }
    // Only one way to write it, so that a file that was read is written the same.
    (hex(&hash) == text).then_some(hash)
}
