//! Verifies a file of `stateway history export`, without a gateway.

use std::path::Path;

use serde::Serialize;
use stateway_engine::recording::{MOST_FILE_BYTES, Recording, RecordingError};
use stateway_phrases::grouped;

use crate::context::Context;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};

/// The event after which another definition counts.
const ADOPTED: &str = "RevisionAdopted";

/// What `verify --file -o json` prints.
#[derive(Debug, Default, Serialize)]
struct Verified {
    execution: String,
    definition: String,
    branch_count: usize,
    event_count: usize,
    /// The last link of the chain of hashes.
    head_hash: String,
    redacted: bool,
    /// What is wrong; empty when all is well.
    findings: Vec<String>,
}

pub(super) fn verify(context: &Context, path: &Path) -> Outcome {
    let shown = path.display();
    let unread = |error| Failure::usage(format!("cannot read {shown}: {error}"));
    let size = std::fs::metadata(path).map_err(unread)?.len();
    if size > MOST_FILE_BYTES as u64 {
        let message = format!("{shown} has {size} bytes, more than {MOST_FILE_BYTES}");
        return Err(Failure::usage(message));
    }
    let verified = check(&std::fs::read(path).map_err(unread)?);
    context.show(&verified, || verified.text(&shown.to_string()))?;
    Ok(super::exit(verified.findings.is_empty()))
}

/// Checks the file, the chain of hashes of every branch, and that each branch replays.
fn check(bytes: &[u8]) -> Verified {
    let recording = match Recording::read(bytes) {
        Ok(recording) => recording,
        Err(error) => {
            return Verified {
                findings: vec![error.to_string()],
                ..Verified::default()
            };
        }
    };
    let branches = recording.branches.iter().map(|grown| grown.branch);
    let branches = std::iter::once(0).chain(branches);
    let wrong = branches.filter_map(|branch| {
        let found = replay(&recording, branch).unwrap_or_else(|error| Some(error.to_string()));
        found.map(|what| format!("branch {branch}: {what}"))
    });
    Verified {
        execution: recording.execution.to_string(),
        definition: recording.definition.to_string(),
        branch_count: recording.branches.len() + 1,
        event_count: recording.events(),
        head_hash: recording.head().unwrap_or_default(),
        redacted: recording.redacted,
        findings: wrong.collect(),
    }
}

/// Why a branch does not follow from its own definition; none when it does.
fn replay(recording: &Recording, branch: u32) -> Result<Option<String>, RecordingError> {
    recording.state_at(Some(branch), 0)?;
    let events = recording.log(Some(branch))?;
    // Without payloads, conditions cannot be evaluated. After the adoption of another revision, the log follows
    // from two definitions.
    let mut names = events.iter().map(|event| event.fact.name());
    if recording.redacted || names.any(|name| name == ADOPTED) {
        return Ok(None);
    }
    let plan = recording.plan(&events)?;
    let shadow = recording.rederive(Some(branch), &plan)?;
    Ok(shadow.divergences.first().map(|first| {
        format!(
            "event {} does not follow from the definition: recorded {}, replayed {}",
            first.sequence, first.recorded, first.derived
        )
    }))
}

impl Verified {
    fn text(&self, file: &str) -> String {
        if self.findings.is_empty() {
            let branches = if self.branch_count == 1 {
                "1 branch".to_owned()
            } else {
                format!("{} branches", self.branch_count)
            };
            let events = i64::try_from(self.event_count).unwrap_or(i64::MAX);
            return format!(
                "{file}: {} events of {branches} of {} checked, no problem found; last hash {}",
                grouped(events),
                self.execution,
                self.head_hash
            );
        }
        let lines = self.findings.iter().map(|it| format!("{file}: {it}"));
        lines.collect::<Vec<_>>().join("\n")
    }
}
