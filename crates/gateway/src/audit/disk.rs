//! The file that is written, behind a trait so that tests can fill the disk.

use std::fs::File;
use std::io::{self, Write as _};

use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;

/// A file at whose end records are written.
pub(super) trait Disk: Send {
    /// Writes and syncs.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// Removes everything after this length, reserved space included.
    fn truncate(&mut self, length: u64) -> io::Result<()>;
    /// Makes sure that there is space for this many bytes after this length.
    fn reserve(&mut self, length: u64, bytes: u64) -> io::Result<()>;
}

/// How much is written to learn whether there is space, where a file system cannot reserve it.
const PROBE: usize = 64 * 1024;

impl Disk for File {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write_all(bytes)?;
        self.sync_data()
    }

    fn truncate(&mut self, length: u64) -> io::Result<()> {
        self.set_len(length)
    }

    fn reserve(&mut self, length: u64, bytes: u64) -> io::Result<()> {
        match fallocate(&*self, FallocateFlags::KEEP_SIZE, length, bytes) {
            Ok(()) => Ok(()),
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
                let probed = self.write_all(&[0; PROBE]);
                self.set_len(length)?;
                probed
            }
            Err(error) => Err(error.into()),
        }
    }
}
