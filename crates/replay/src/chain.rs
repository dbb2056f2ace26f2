//! The chain of hashes along a log: each append is hashed together with the one before, so that a
//! changed, lost or swapped line shows.

use sha2::{Digest, Sha256};

/// Half a SHA-256, which is enough to notice damage and too much to forge by accident.
pub type Hash = [u8; 16];

/// What the chain of a new log begins with.
pub const BEGINNING: Hash = [0; 16];

/// The next link.
#[must_use]
pub fn link(before: &Hash, lines: &[u8]) -> Hash {
    let mut digest = Sha256::new();
    digest.update(before);
    digest.update(lines);
    let whole = digest.finalize();
    let mut hash = BEGINNING;
    hash.copy_from_slice(&whole[..BEGINNING.len()]);
    hash
}
