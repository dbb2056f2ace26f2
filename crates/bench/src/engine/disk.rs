//! What this machine's disk takes, to read the other figures by.

use std::fs::File;
use std::io::{Seek as _, Write as _};
use std::path::Path;
use std::time::Instant;

use crate::Outcome;

const ROUNDS: usize = 200;

/// The median and the 99th percentile of a small write and its fdatasync, in words.
pub(super) fn fdatasync(folder: &Path) -> Outcome<String> {
    let mut file = File::create(folder.join("fdatasync"))?;
    let page = [7_u8; 4096];
    let mut took = Vec::with_capacity(ROUNDS);
    for round in 0..ROUNDS {
        file.seek(std::io::SeekFrom::Start((round % 64 * page.len()) as u64))?;
        file.write_all(&page)?;
        let began = Instant::now();
        file.sync_data()?;
        took.push(began.elapsed());
    }
    took.sort_unstable();
    let (median, slow) = (took[ROUNDS / 2], took[ROUNDS * 99 / 100]);
    Ok(format!("{median:.2?} (99th percentile {slow:.2?})"))
}
