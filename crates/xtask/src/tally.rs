//! Counting what test runners print.

/// What was counted so far.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) skipped: u64,
    /// Lines that tests print for the closing summary, for example the contract kit's.
    pub(crate) remarks: Vec<String>,
}

impl Tally {
    /// Adds what another tally counted.
    pub(crate) fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
        self.remarks.extend(other.remarks);
    }

    /// Takes a line of a runner's output. Rust's closing line and our plain one are understood.
    pub(crate) fn read(&mut self, line: &str) {
        if let Some(remark) = line.strip_prefix("summary: ") {
            self.remarks.push(remark.to_owned());
        }
        if line.starts_with("contract-kit: ") {
            self.remarks.push(line.to_owned());
        }
        let Some(counts) = line.strip_prefix("test result: ").or_else(|| plain(line)) else {
            return;
        };
        for part in counts.split([';', ',', '.']) {
            let mut words = part.split_whitespace();
            let (Some(Ok(count)), Some(what)) = (words.next().map(str::parse::<u64>), words.next())
            else {
                continue;
            };
            match what {
                "passed" => self.passed += count,
                "failed" => self.failed += count,
                "ignored" | "skipped" => self.skipped += count,
                _ => {}
            }
        }
    }
}

/// `N passed, N failed`, perhaps with `, N skipped`.
fn plain(line: &str) -> Option<&str> {
    let is_count = |part: &str| {
        let mut words = part.split_whitespace();
        words
            .next()
            .is_some_and(|count| count.parse::<u64>().is_ok())
            && words.count() == 1
    };
    (line.contains(" passed, ") && line.split(", ").all(is_count)).then_some(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runners_closing_lines_are_added_up() {
        let mut tally = Tally::default();
        tally.read("test result: ok. 19 passed; 0 failed; 2 ignored; 0 measured; 0 filtered out");
        tally.read("test result: FAILED. 3 passed; 1 failed; 0 ignored; 0 measured");
        tally.read("4 passed, 0 failed, 1 skipped");
        tally.read("test something ... ok");
        tally.read("contract-kit: 57 cases, 15 broken providers, 15 caught");
        let remarks = vec!["contract-kit: 57 cases, 15 broken providers, 15 caught".to_owned()];
        assert_eq!(
            tally,
            Tally {
                passed: 26,
                failed: 1,
                skipped: 3,
                remarks
            }
        );
    }
}
