//! Reads a log from its oldest file to its newest, for commands that need no gateway.

use std::fs::File;
use std::io::{self, BufReader};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use stateway_audit::{ChainKey, Head, LineError, Report, Verifier, file, parse};

use super::files::{read_line, rotated};

/// How often a log is read again that a gateway rotates at the same time.
const TRIES: usize = 3;

/// A rotation renames two files, and between both the newest file has no name.
const RENAMING: Duration = Duration::from_millis(20);

/// The files of a log. A gateway may write them at the same time.
#[derive(Debug, Clone)]
pub struct AuditLog {
    path: PathBuf,
    key: ChainKey,
}

impl AuditLog {
    /// The log of this file, with the key of its chain.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>, key: ChainKey) -> Self {
        Self {
            path: path.into(),
            key,
        }
    }

    /// Checks every record, and the anchor beside the log. `anchors` are further heads that the log must
    /// contain.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn verify(&self, anchors: Vec<Head>) -> io::Result<Report> {
        for _ in 0..TRIES {
            let before = self.anchor();
            let report = self.verified(anchors.clone())?;
            // A gateway that rotates meanwhile removes the oldest file.
            let first = |head: &Result<Head, String>| head.as_ref().ok().map(|head| head.first);
            if report.is_intact() || first(&before) == first(&self.anchor()) {
                return Ok(report);
            }
        }
        self.verified(anchors)
    }

    fn anchor(&self) -> Result<Head, String> {
        let text = std::fs::read_to_string(file::head(&self.path));
        let text = text.map_err(|error| format!("the anchor cannot be read: {error}"))?;
        Head::parse(&self.key, &text).map_err(|error| error.to_string())
    }

    fn verified(&self, mut anchors: Vec<Head>) -> io::Result<Report> {
        // The anchor first: a gateway that writes now only adds records after it.
        let missing = match self.anchor() {
            Ok(head) => {
                anchors.push(head);
                None
            }
            Err(why) => Some(why),
        };
        let mut verifier = Verifier::new(self.key.clone(), anchors);
        if let Some(why) = missing {
            verifier.no_anchor(&why);
        }
        self.each(|line| match line.end {
            LineEnd::Whole => drop(verifier.line(line.file, line.number, line.text)),
            LineEnd::Unfinished => verifier.torn(),
            LineEnd::CutOff => verifier.cut_off(line.file, line.number),
        })?;
        Ok(verifier.finish())
    }

    /// Whether the key is not that of the log: neither the anchor nor any record matches it.
    ///
    /// # Errors
    /// A file cannot be read, or there is no log.
    pub fn is_of_another_key(&self) -> io::Result<bool> {
        if self.anchor().is_ok() {
            return Ok(false);
        }
        let (mut matching, mut other) = (0_u64, 0_u64);
        self.each(|line| match parse(&self.key, line.text) {
            Ok(_) => matching += 1,
            Err(LineError::Changed) => other += 1,
            Err(LineError::Malformed(_)) => {}
        })?;
        Ok(matching == 0 && other > 0)
    }

    /// Reads every line. A file that is missing shows itself by a gap in the numbers, or by the anchor.
    ///
    /// # Errors
    /// A file cannot be read, or there is no log.
    pub fn each(&self, mut read: impl FnMut(AuditLine<'_>)) -> io::Result<()> {
        // The file that is written is opened first, so that a rotation in between hides nothing.
        let mut newest = self.newest()?;
        for number in rotated(&self.path)? {
            let path = file::rotated(&self.path, number);
            // The gateway removes the oldest file.
            let Some(file) = opened(&path)? else {
                continue;
            };
            let inode = file.metadata()?.ino();
            let has_inode = |newest: &File| newest.metadata().is_ok_and(|it| it.ino() == inode);
            // It was rotated since it was opened.
            newest = newest.filter(|newest| !has_inode(newest));
            each_line(&path, file, LineEnd::CutOff, &mut read)?;
        }
        match newest {
            Some(file) => each_line(&self.path, file, LineEnd::Unfinished, &mut read),
            None => Ok(()),
        }
    }

    /// The file that is written. None if it is missing and other files of the log exist.
    fn newest(&self) -> io::Result<Option<File>> {
        for _ in 0..TRIES {
            if let Some(file) = opened(&self.path)? {
                return Ok(Some(file));
            }
            std::thread::sleep(RENAMING);
        }
        if file::head(&self.path).exists() || !rotated(&self.path)?.is_empty() {
            return Ok(None);
        }
        File::open(&self.path).map(Some)
    }
}

/// One line of a log.
#[derive(Debug, Clone, Copy)]
pub struct AuditLine<'l> {
    /// The name of its file.
    pub file: &'l str,
    /// Its number in the file.
    pub number: usize,
    /// The line without its end.
    pub text: &'l [u8],
    /// How it ends.
    pub end: LineEnd,
}

/// How a line ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineEnd {
    /// With a line break.
    Whole,
    /// Half of a line at the end of the newest file: a record that is being written, or that a process did not
    /// finish.
    Unfinished,
    /// Half of a line at the end of a rotated file, which no gateway leaves there.
    CutOff,
}

/// A file; none if it is missing.
pub(super) fn opened(path: &Path) -> io::Result<Option<File>> {
    match File::open(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn each_line(
    path: &Path,
    file: File,
    half: LineEnd,
    read: &mut impl FnMut(AuditLine<'_>),
) -> io::Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let mut lines = BufReader::with_capacity(1 << 16, file);
    let mut line = Vec::new();
    for number in 1.. {
        if read_line(&mut lines, &mut line)? == 0 {
            break;
        }
        let whole = line.strip_suffix(b"\n");
        read(AuditLine {
            file: &name,
            number,
            text: whole.unwrap_or(&line),
            end: if whole.is_some() {
                LineEnd::Whole
            } else {
                half
            },
        });
    }
    Ok(())
}
