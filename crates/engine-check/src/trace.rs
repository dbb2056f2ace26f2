//! What happened in a schedule: a digest of every line, and the lines themselves when asked for.

use std::fmt::{Arguments, Write as _};

/// FNV-1a.
const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0000_0100_0000_01b3;

#[derive(Debug)]
pub(crate) struct Trace {
    digest: u64,
    line: String,
    lines: Option<Vec<String>>,
}

impl Trace {
    pub(crate) fn new(keep_lines: bool) -> Self {
        Self {
            digest: OFFSET,
            line: String::new(),
            lines: keep_lines.then(Vec::new),
        }
    }

    pub(crate) fn note(&mut self, line: Arguments<'_>) {
        self.line.clear();
        // Writing to a string cannot fail.
        let _ = self.line.write_fmt(line);
        for byte in self.line.bytes() {
            self.digest = (self.digest ^ u64::from(byte)).wrapping_mul(PRIME);
        }
        if let Some(lines) = &mut self.lines {
            lines.push(self.line.clone());
        }
    }

    pub(crate) const fn digest(&self) -> u64 {
        self.digest
    }

    pub(crate) fn into_lines(self) -> Vec<String> {
        self.lines.unwrap_or_default()
    }
}
