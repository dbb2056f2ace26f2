//! How far a campaign has got, in a file: several runs add up to one campaign.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::Outcome;

/// The figures of all runs of a campaign.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Totals {
    /// Kills whose consequences were checked.
    pub(super) kills: u64,
    pub(super) executions: u64,
    pub(super) answers: u64,
    pub(super) handed_out_again: u64,
    pub(super) runs: u64,
}

/// A campaign that continues where the last run stopped.
#[derive(Debug)]
pub(super) struct Progress {
    file: PathBuf,
    seed: u64,
    /// Up to the last check of this run.
    pub(super) totals: Totals,
    /// The figures of all stores before the current one, in this run and in earlier runs.
    before: Totals,
}

impl Progress {
    /// Reads the file; a campaign without a file begins. A file of another seed is refused: its
    /// figures belong to another campaign.
    pub(super) fn open(file: &Path, seed: u64) -> Outcome<Self> {
        let mut before = match std::fs::read(file) {
            Ok(text) => read(&text, seed).map_err(|why| format!("{}: {why}", file.display()))?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Totals::default(),
            Err(error) => return Err(format!("{}: {error}", file.display()).into()),
        };
        before.runs += 1;
        Ok(Self {
            file: file.to_owned(),
            seed,
            totals: before,
            before,
        })
    }

    /// The campaign continues with an empty store.
    pub(super) const fn next_store(&mut self) {
        self.before = self.totals;
    }

    /// Adds what the present store has shown so far, and writes the file.
    pub(super) fn checked(&mut self, store: Totals) -> Outcome<()> {
        let before = self.before;
        self.totals = Totals {
            kills: before.kills + store.kills,
            executions: before.executions + store.executions,
            answers: before.answers + store.answers,
            handed_out_again: before.handed_out_again + store.handed_out_again,
            runs: before.runs,
        };
        let text = write(&self.totals, self.seed);
        if let Some(folder) = self.file.parent() {
            std::fs::create_dir_all(folder)?;
        }
        // A run that is interrupted here leaves the old file or the new one.
        let new = self.file.with_extension("new");
        std::fs::write(&new, text)?;
        Ok(std::fs::rename(&new, &self.file)?)
    }

    /// The seed of the present store: each store makes other choices.
    pub(super) const fn seed_of_store(&self) -> u64 {
        self.seed.wrapping_add(self.before.kills)
    }
}

/// Removes the file of a campaign, if there is one.
pub(super) fn remove(file: &Path) -> Outcome<()> {
    match std::fs::remove_file(file) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(format!("{}: {error}", file.display()).into())
        }
        _ => Ok(()),
    }
}

fn write(totals: &Totals, seed: u64) -> String {
    let text = json!({
        "seed": seed,
        "kills": totals.kills,
        "executions": totals.executions,
        "answers": totals.answers,
        "handed_out_again": totals.handed_out_again,
        "runs": totals.runs,
    });
    format!("{text}\n")
}

fn read(text: &[u8], seed: u64) -> Result<Totals, String> {
    let text: Value = serde_json::from_slice(text).map_err(|error| error.to_string())?;
    let number = |name: &str| {
        let number = text.get(name).and_then(Value::as_u64);
        number.ok_or_else(|| format!("no number `{name}`"))
    };
    let found = number("seed")?;
    if found != seed {
        return Err(format!(
            "the campaign has seed {found}, not {seed}; remove the file to begin another campaign"
        ));
    }
    Ok(Totals {
        kills: number("kills")?,
        executions: number("executions")?,
        answers: number("answers")?,
        handed_out_again: number("handed_out_again")?,
        runs: number("runs")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(kills: u64) -> Totals {
        Totals {
            kills,
            executions: 10 * kills,
            answers: 20 * kills,
            handed_out_again: kills,
            runs: 1,
        }
    }

    #[test]
    fn runs_of_one_campaign_add_up() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("below/crash.json");
        let mut first = Progress::open(&file, 7).unwrap();
        first.checked(run(25)).unwrap();
        first.checked(run(50)).unwrap();
        let mut second = Progress::open(&file, 7).unwrap();
        assert_ne!(second.seed_of_store(), first.seed_of_store());
        second.checked(run(30)).unwrap();
        let expected = Totals { runs: 2, ..run(80) };
        assert_eq!(second.totals, expected);
        second.next_store();
        second.checked(run(20)).unwrap();
        let expected = Totals {
            runs: 2,
            ..run(100)
        };
        assert_eq!(second.totals, expected);
        assert_eq!(Progress::open(&file, 7).unwrap().totals.kills, 100);
    }

    #[test]
    fn a_file_of_another_campaign_or_without_sense_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("crash.json");
        Progress::open(&file, 7).unwrap().checked(run(1)).unwrap();
        assert!(Progress::open(&file, 8).is_err());
        std::fs::write(&file, "{}").unwrap();
        assert!(Progress::open(&file, 7).is_err());
    }
}
