//! The files of the log: opened where the last process left them, appended to, rotated.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, BufRead, BufReader};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use rustix::fs::{Access, access};
use stateway_audit::{Chain, ChainKey, Head, MAX_LINE, OPENED, Record, file, parse};

use super::disk::Disk;
use super::settings::AuditSettings;

/// Space that is reserved on the disk ahead of the records.
const RESERVE: u64 = 4 * 1024 * 1024;

/// The files of the log.
pub(super) struct LogFiles {
    path: PathBuf,
    key: ChainKey,
    max_bytes: u64,
    keep: usize,
    disk: Box<dyn Disk>,
    /// Which file is written, whatever its name.
    written: FileNumber,
    /// The anchor, which is locked so that no other process writes the log.
    head: File,
    length: u64,
    /// Half of a record may follow after `length`.
    is_torn: bool,
    /// Where the reserved space ends.
    reserved: u64,
    chain: Chain,
    /// The number of the first record in each rotated file.
    rotated: BTreeMap<u64, u64>,
    /// The number of the first record in the file that is written.
    first: u64,
}

/// The device and the number of a file on it.
type FileNumber = (u64, u64);

fn number_of(file: &std::fs::Metadata) -> FileNumber {
    (file.dev(), file.ino())
}

/// What was found in a file.
#[derive(Debug, Default)]
struct Scanned {
    /// Where the last record ends that continues all records before it.
    good: u64,
    length: u64,
    /// The number of the first record.
    first: Option<u64>,
    /// After the last line that is a record.
    last: Option<Chain>,
    /// A whole line is no record, or a record does not continue. Half of a line at the end is no damage.
    is_damaged: bool,
    /// The record of the anchor has another hash.
    differs: bool,
}

impl Scanned {
    /// Whether the file has lines, and none of them is a record of this key.
    const fn has_no_record(&self) -> bool {
        self.is_damaged && self.last.is_none()
    }
}

/// The error for a log of another key.
fn other_key() -> io::Error {
    let message = "neither a record nor the anchor matches the key: the log was written with another key, or \
                   without one. Use that key, or move the log and the files beside it away";
    io::Error::new(io::ErrorKind::InvalidData, message)
}

/// Whether the log could be opened with this key. Creates and changes nothing. None for a key that cannot be used,
/// which is an error of its own.
pub(super) fn check(path: &Path, key: Option<&ChainKey>) -> io::Result<()> {
    let folder = folder(path);
    let of = |what: &Path, error: rustix::io::Errno| {
        let error = io::Error::from(error);
        io::Error::new(error.kind(), format!("{}: {error}", what.display()))
    };
    if !std::fs::metadata(folder)?.is_dir() {
        let message = format!("{} is not a folder", folder.display());
        return Err(io::Error::new(io::ErrorKind::NotADirectory, message));
    }
    // Files are created, renamed and removed there.
    let needed = Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK;
    access(folder, needed).map_err(|error| of(folder, error))?;
    let anchor = file::head(path);
    for file in [path, &anchor] {
        if file.exists() {
            let needed = Access::READ_OK | Access::WRITE_OK;
            access(file, needed).map_err(|error| of(file, error))?;
        }
    }
    let Some(key) = key else {
        return Ok(());
    };
    let anchored = std::fs::read_to_string(&anchor).unwrap_or_default();
    if anchored.trim().is_empty() || Head::parse(key, &anchored).is_ok() {
        return Ok(());
    }
    let newest = if path.exists() {
        scan(key, path, None)?
    } else {
        Scanned::default()
    };
    if is_of_another_key(key, path, &newest)? {
        return Err(other_key());
    }
    Ok(())
}

/// Whether the newest file that is not empty has no record of this key. After a rotation that is a rotated one.
fn is_of_another_key(key: &ChainKey, path: &Path, newest: &Scanned) -> io::Result<bool> {
    if newest.length > 0 {
        return Ok(newest.has_no_record());
    }
    match rotated(path)?.last() {
        None => Ok(false),
        Some(number) => Ok(scan(key, &file::rotated(path, *number), None)?.has_no_record()),
    }
}

impl LogFiles {
    /// Opens the log, repairs its end after a crash, and writes a record about it.
    pub(super) fn open(settings: &AuditSettings, key: ChainKey) -> io::Result<Self> {
        let path = settings.file.clone();
        let anchor = file::head(&path);
        let is_new = !path.exists();
        let head = private().read(true).create(true).open(&anchor)?;
        match head.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let message = "another process writes this log";
                return Err(io::Error::new(io::ErrorKind::ResourceBusy, message));
            }
            Err(TryLockError::Error(error)) => return Err(error),
        }
        let mut notes = Notes::default();
        let anchored = std::fs::read_to_string(&anchor)?;
        let numbers = rotated(&path)?;
        let expected = if anchored.trim().is_empty() {
            if !is_new || !numbers.is_empty() {
                notes.missing(
                    1,
                    "the anchor was missing: the end of the log could not be checked",
                );
            }
            None
        } else {
            let head = Head::parse(&key, &anchored).ok();
            if head.is_none() {
                notes.missing(
                    1,
                    "the anchor was damaged: the end of the log could not be checked",
                );
            }
            head
        };
        let mut firsts = BTreeMap::new();
        for number in numbers {
            let seq = first_of(&key, &file::rotated(&path, number))?;
            // A file that does not begin with a record must not hide that records before it are missing.
            let known = expected.as_ref().map_or(0, |head| head.first);
            firsts.insert(number, seq.unwrap_or(known));
        }
        let active = private().create(true).append(true).open(&path)?;
        let scanned = scan(&key, &path, expected.as_ref())?;
        let has_anchor = !anchored.trim().is_empty();
        if has_anchor && expected.is_none() && is_of_another_key(&key, &path, &scanned)? {
            return Err(other_key());
        }
        let mut files = Self {
            max_bytes: settings.max_bytes.max(2 * MAX_LINE as u64),
            // The chain continues after the newest file that has records, which may be a rotated one.
            keep: settings.keep.max(1),
            written: number_of(&active.metadata()?),
            disk: Box::new(active),
            head,
            length: scanned.good,
            is_torn: false,
            reserved: scanned.good,
            chain: Chain::default(),
            rotated: firsts,
            first: 0,
            path,
            key,
        };
        files.resume(&scanned, expected.as_ref(), &mut notes)?;
        files.append(&[Record {
            time: Timestamp::now(),
            verb: OPENED.into(),
            outcome: "OK".into(),
            note: notes.text,
            count: notes.missing,
            ..Record::default()
        }])?;
        Ok(files)
    }

    /// Continues after what was found.
    fn resume(
        &mut self,
        scanned: &Scanned,
        anchor: Option<&Head>,
        notes: &mut Notes,
    ) -> io::Result<()> {
        let mut differs = scanned.differs;
        let oldest = self.rotated.first_key_value().map(|(_, seq)| *seq);
        let first = oldest.or(scanned.first);
        let last = match &scanned.last {
            Some(last) => Some(last.clone()),
            None => match self.rotated.last_key_value() {
                None => None,
                Some((number, _)) => {
                    let before = scan(&self.key, &file::rotated(&self.path, *number), anchor)?;
                    differs |= before.differs;
                    before.last
                }
            },
        };
        self.chain = last.unwrap_or_default();
        if scanned.is_damaged {
            let kept = self.rotated.last_key_value().map_or(1, |(it, _)| it + 1);
            let kept = file::rotated(&self.path, kept);
            let kept = kept.file_name().unwrap_or_default().to_string_lossy();
            notes.missing(1, &format!("the file was damaged and is kept as `{kept}`"));
            (self.length, self.reserved) = (scanned.length, scanned.length);
            let known = anchor.map_or(0, |head| head.first);
            self.first = scanned.first.unwrap_or(known);
            self.begin_file()?;
        } else if scanned.length > scanned.good {
            let torn = scanned.length - scanned.good;
            notes.note(&format!(
                "{torn} bytes of an unfinished record were cut off: the process ended while it wrote"
            ));
            self.disk.truncate(scanned.good)?;
        }
        if !scanned.is_damaged {
            self.first = scanned.first.unwrap_or(self.chain.seq + 1);
        }
        if let Some(head) = anchor.filter(|head| head.seq > self.chain.seq) {
            let missing = head.seq - self.chain.seq;
            let (next, last) = (self.chain.seq + 1, head.seq);
            notes.missing(
                missing,
                &format!("records {next} to {last} were missing at the start"),
            );
            self.chain = self.chain.skipped_to(head.seq);
            if self.length == 0 {
                self.first = head.seq + 1;
            }
        }
        if differs {
            notes.missing(1, "the log differed from its anchor at the start");
        }
        // Rotation writes the anchor before it removes a file. So a log that begins after its anchor has lost
        // records in another way.
        if let (Some(head), Some(first)) = (anchor, first)
            && first > head.first
        {
            let (missing, last) = (first - head.first, first - 1);
            let kept = head.first;
            notes.missing(
                missing,
                &format!("records {kept} to {last} were missing at the start of the log"),
            );
        }
        Ok(())
    }

    /// Writes and syncs records, all or none.
    pub(super) fn append(&mut self, records: &[Record]) -> io::Result<()> {
        self.check_place()?;
        self.cut_off()?;
        let mut chain = self.chain.clone();
        let mut bytes = Vec::new();
        for record in records {
            bytes.extend(chain.append(&self.key, record));
        }
        let size = bytes.len() as u64;
        if self.length > 0
            && self.length + size > self.max_bytes
            && let Err(error) = self.rotate()
        {
            // The file that is written has space for what was promised.
            tracing::warn!("the audit log cannot be rotated and becomes larger: {error}");
        }
        if let Err(error) = self.disk.append(&bytes) {
            self.is_torn = self.disk.truncate(self.length).is_err();
            self.reserved = self.length;
            return Err(error);
        }
        self.length += size;
        self.reserved = self.reserved.max(self.length);
        self.chain = chain;
        self.write_head();
        Ok(())
    }

    /// The number of the last record.
    pub(super) const fn seq(&self) -> u64 {
        self.chain.seq
    }

    /// Bytes that are reserved for further records.
    pub(super) const fn free(&self) -> u64 {
        self.reserved - self.length
    }

    /// Reserves space for at least this many bytes of further records.
    pub(super) fn reserve(&mut self, bytes: u64) -> io::Result<()> {
        self.check_place()?;
        self.cut_off()?;
        let bytes = bytes.max(RESERVE);
        self.disk.reserve(self.length, bytes)?;
        self.reserved = self.length + bytes;
        Ok(())
    }

    /// Removes half of a record that could not be removed when its write failed: no record may follow it.
    fn cut_off(&mut self) -> io::Result<()> {
        if self.is_torn {
            self.disk.truncate(self.length).map_err(|error| {
                let message = format!("half of a record cannot be cut off: {error}");
                io::Error::new(error.kind(), message)
            })?;
            self.is_torn = false;
        }
        Ok(())
    }

    /// Records in a file that cannot be found under its name are lost.
    fn check_place(&self) -> io::Result<()> {
        let found = std::fs::metadata(&self.path);
        if found.is_ok_and(|found| number_of(&found) == self.written) {
            return Ok(());
        }
        let message = "the file was removed or replaced while the gateway ran; restart the gateway";
        Err(io::Error::other(message))
    }

    /// Begins a new file, and removes the oldest ones beyond those that are kept.
    fn rotate(&mut self) -> io::Result<()> {
        self.begin_file()?;
        self.remove_oldest();
        Ok(())
    }

    /// The space for records that are promised already is reserved in the new file first. The anchor stays as
    /// it is: at the start of a process, the record about what is missing must be written before it changes.
    fn begin_file(&mut self) -> io::Result<()> {
        let next = file::next(&self.path);
        match std::fs::remove_file(&next) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut new = private().create_new(true).append(true).open(&next)?;
        let bytes = self.free().max(RESERVE);
        Disk::reserve(&mut new, 0, bytes)?;
        let number = self
            .rotated
            .last_key_value()
            .map_or(1, |(last, _)| last + 1);
        std::fs::rename(&self.path, file::rotated(&self.path, number))?;
        std::fs::rename(&next, &self.path)?;
        // Reserved space of a file that is not written any more is free again. Its absence is no loss.
        let _ = self.disk.truncate(self.length);
        self.rotated.insert(number, self.first);
        self.written = number_of(&new.metadata()?);
        self.disk = Box::new(new);
        (self.length, self.reserved) = (0, bytes);
        self.first = self.chain.seq + 1;
        sync_folder(&self.path);
        Ok(())
    }

    fn remove_oldest(&mut self) {
        let excess = self.rotated.len().saturating_sub(self.keep);
        if excess == 0 {
            return;
        }
        let first = self.rotated.values().nth(excess).copied();
        // First, and on the disk: the anchor must not ask for what is removed.
        let anchored = self.write_anchor(first.unwrap_or(self.first));
        if let Err(error) = anchored.and_then(|()| self.head.sync_data()) {
            tracing::warn!("rotated audit files stay because of the anchor: {error}");
            return;
        }
        for _ in 0..excess {
            let Some((number, _)) = self.rotated.pop_first() else {
                return;
            };
            // A file that stays is no problem.
            if let Err(error) = std::fs::remove_file(file::rotated(&self.path, number)) {
                tracing::warn!(number, "a rotated audit file cannot be removed: {error}");
            }
        }
    }

    fn write_head(&self) {
        let first = self
            .rotated
            .first_key_value()
            .map_or(self.first, |(_, seq)| *seq);
        if let Err(error) = self.write_anchor(first) {
            tracing::warn!("the anchor of the audit log cannot be written: {error}");
        }
    }

    fn write_anchor(&self, first: u64) -> io::Result<()> {
        let line = Head::of(&self.chain, first).to_line(&self.key);
        self.head.write_all_at(line.as_bytes(), 0)
    }

    #[cfg(test)]
    pub(super) fn set_disk(&mut self, disk: Box<dyn Disk>) {
        self.disk = disk;
        self.reserved = self.length;
    }
}

/// What the first record of a process says about the log.
#[derive(Debug, Default)]
struct Notes {
    text: String,
    missing: u64,
}

impl Notes {
    fn note(&mut self, text: &str) {
        if !self.text.is_empty() {
            self.text.push_str("; ");
        }
        self.text.push_str(text);
        tracing::warn!("audit log: {text}");
    }

    fn missing(&mut self, count: u64, text: &str) {
        self.missing += count;
        self.note(text);
    }
}

/// A file that only its owner reads.
fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).mode(0o600);
    options
}

/// The numbers of the rotated files.
pub(super) fn rotated(path: &Path) -> io::Result<Vec<u64>> {
    let name = path.file_name().unwrap_or_default();
    let mut numbers = Vec::new();
    for entry in std::fs::read_dir(folder(path))? {
        numbers.extend(file::number(name, &entry?.file_name()));
    }
    numbers.sort_unstable();
    Ok(numbers)
}

fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    }
}

/// A name that is not synced is lost with the power, and its records with it.
fn sync_folder(path: &Path) {
    let synced = File::open(folder(path)).and_then(|folder| folder.sync_all());
    if let Err(error) = synced {
        tracing::warn!("the folder of the audit log cannot be synced: {error}");
    }
}

/// The number of the first record of a file.
pub(super) fn first_of(key: &ChainKey, path: &Path) -> io::Result<Option<u64>> {
    first_record(key, &mut BufReader::new(File::open(path)?))
}

/// The number of the record in the first line.
pub(super) fn first_record(key: &ChainKey, lines: &mut impl BufRead) -> io::Result<Option<u64>> {
    let mut line = Vec::new();
    read_line(lines, &mut line)?;
    let line = line
        .strip_suffix(b"\n")
        .and_then(|line| parse(key, line).ok());
    Ok(line.map(|line| line.seq))
}

/// Reads a line of any length, of which no more is kept than a record can have.
pub(super) fn read_line(lines: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<u64> {
    line.clear();
    let mut read = 0;
    loop {
        let buffer = lines.fill_buf()?;
        if buffer.is_empty() {
            return Ok(read);
        }
        let end = buffer.iter().position(|byte| *byte == b'\n');
        let taken = end.map_or(buffer.len(), |end| end + 1);
        if line.len() <= MAX_LINE {
            line.extend_from_slice(&buffer[..taken]);
        } else if end.is_some() {
            // The end of a line that is too long for a record; it must not look like a whole one.
            line.push(b'\n');
        }
        lines.consume(taken);
        read += taken as u64;
        if end.is_some() {
            return Ok(read);
        }
    }
}

fn scan(key: &ChainKey, path: &Path, anchor: Option<&Head>) -> io::Result<Scanned> {
    let mut lines = BufReader::with_capacity(1 << 16, File::open(path)?);
    let (mut found, mut line) = (Scanned::default(), Vec::new());
    let mut is_broken = false;
    loop {
        let read = read_line(&mut lines, &mut line)?;
        if read == 0 {
            return Ok(found);
        }
        found.length += read;
        let whole = line.strip_suffix(b"\n");
        let Some(record) = whole.and_then(|line| parse(key, line).ok()) else {
            is_broken = true;
            found.is_damaged |= whole.is_some();
            continue;
        };
        is_broken |= found
            .last
            .as_ref()
            .is_some_and(|last| !record.follows(last));
        found.is_damaged |= is_broken;
        if !is_broken {
            found.good = found.length;
        }
        let chain = record.chain();
        if let Some(anchor) = anchor {
            found.differs |= anchor.seq == chain.seq && *anchor != Head::of(&chain, anchor.first);
        }
        found.first.get_or_insert(chain.seq);
        found.last = Some(chain);
    }
}
