//! For simulations: compares everything in memory with the logs.

use super::Keeper;
use crate::catalogue::Catalogue;
use crate::error::Result;
use crate::store::{Reading, load};

impl Keeper {
    /// Whether the store could not be written last time.
    pub(crate) const fn is_broken(&self) -> bool {
        self.broken.is_some()
    }

    /// What differs between memory and the logs, between two turns.
    pub(crate) fn audit(&self, disk: &dyn Reading, catalogue: &Catalogue) -> Result<Vec<String>> {
        if self.broken.is_some() {
            return Ok(Vec::new());
        }
        let mut found = Vec::new();
        for number in disk.numbers(0, usize::MAX)? {
            if disk.head(number)?.is_none() {
                // A torn write left a row without events.
                continue;
            }
            found.extend(self.differs(disk, number, catalogue)?);
            let findings = self.memory_findings(number, true);
            found.extend(findings.iter().map(|finding| format!("{finding:?}")));
        }
        Ok(found)
    }

    fn differs(
        &self,
        disk: &dyn Reading,
        number: i64,
        catalogue: &Catalogue,
    ) -> Result<Option<String>> {
        let (Some(live), Some(kept)) = (self.executions.get(number), disk.kept(number)?) else {
            return Ok(None);
        };
        let row = kept.status.clone();
        let loaded = load(disk, kept, catalogue)?;
        let same = loaded.state == live.state
            && loaded.hash == live.hash
            && live.status.as_ref() == Some(&row)
            && !live.is_unwritten();
        Ok((!same).then(|| {
            format!(
                "execution {number}: memory has event {} of branch {}, the log has event {} of branch {}",
                live.state.sequence(),
                live.branch,
                loaded.state.sequence(),
                loaded.state.branch()
            )
        }))
    }
}
