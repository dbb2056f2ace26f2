//! Finds records that were changed, removed, reordered or cut off.

use std::fmt;

use crate::chain::{Chain, LineError, parse};
use crate::head::Head;
use crate::key::ChainKey;
use crate::record::{OPENED, Record};

/// The most problems that are listed; the others are counted.
const MOST_PROBLEMS: usize = 100;

/// What is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProblemKind {
    /// The line is no record.
    Malformed(String),
    /// The content does not fit the hash.
    Changed,
    /// The number of the record is higher than the next one: records in between were removed.
    Removed {
        /// The first number that is missing.
        first: u64,
        /// The last number that is missing.
        last: u64,
    },
    /// The number is lower than the next one: records were reordered or inserted.
    OutOfOrder(u64),
    /// The numbers follow each other and the hashes do not: one of both records was replaced.
    Unchained,
    /// The log ends before its anchor: records at the end were removed.
    EndMissing {
        /// The last number of the log.
        last: u64,
        /// The number in the anchor.
        anchor: u64,
    },
    /// The log begins after the first record that rotation has kept: records at the start were removed.
    StartMissing {
        /// The first number of the log.
        first: u64,
        /// The number in the anchor.
        anchor: u64,
    },
    /// The record with the number of the anchor has another hash: the log was computed again.
    AnchorDiffers(u64),
    /// There is no anchor, or it is damaged.
    NoAnchor(String),
    /// The gateway found at its start that the log ended before its anchor.
    FoundMissing(String),
}

impl fmt::Display for ProblemKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(why) => write!(f, "not a record: {why}"),
            Self::Changed => {
                f.write_str("the record was changed: its content does not match its hash")
            }
            Self::Removed { first, last } if first == last => {
                write!(f, "record {first} before this one is missing")
            }
            Self::Removed { first, last } => {
                write!(f, "records {first} to {last} before this one are missing")
            }
            Self::OutOfOrder(seq) => write!(f, "record {seq} is out of order"),
            Self::Unchained => f.write_str(
                "the record does not continue the record before it: one of the two was replaced",
            ),
            Self::EndMissing { last, anchor } => write!(
                f,
                "the log ends with record {last}, but record {anchor} was written: the end was removed"
            ),
            Self::StartMissing { first, anchor } => write!(
                f,
                "the log begins with record {first}, but record {anchor} was kept: the start was removed"
            ),
            Self::AnchorDiffers(seq) => write!(
                f,
                "record {seq} differs from the anchor: the log was written again"
            ),
            Self::NoAnchor(why) => write!(f, "the end of the log cannot be checked: {why}"),
            Self::FoundMissing(note) => f.write_str(note),
        }
    }
}

/// What is wrong, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The file and the line, where it is one line.
    pub place: Option<(String, usize)>,
    /// What.
    pub kind: ProblemKind,
}

/// What a verification found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// How many records were read.
    pub records: u64,
    /// The first and the last number.
    pub range: Option<(u64, u64)>,
    /// The hash of the last record, to compare with a copy elsewhere.
    pub hash: String,
    /// How often a gateway found half of a record at the end and cut it off: a crash while it wrote.
    pub torn: u64,
    /// Half of a record at the end of the log, which the next start cuts off.
    pub is_torn_now: bool,
    /// What is wrong.
    pub problems: Vec<Problem>,
    /// Further problems that are not listed.
    pub unlisted: u64,
}

impl Report {
    /// Whether nothing is wrong.
    #[must_use]
    pub const fn is_intact(&self) -> bool {
        self.problems.is_empty()
    }
}

/// Reads the lines of a log from its oldest file to its newest.
#[derive(Debug)]
pub struct Verifier {
    key: ChainKey,
    /// What the next line must continue; none before the first.
    chain: Option<Chain>,
    /// The anchors that the log must contain.
    anchors: Vec<Head>,
    /// The number of each anchor that was met with another hash, or not met.
    met: Vec<bool>,
    report: Report,
}

impl Verifier {
    /// A verification with the key of the log and the anchors that it must contain.
    #[must_use]
    pub fn new(key: ChainKey, anchors: Vec<Head>) -> Self {
        Self {
            key,
            chain: None,
            met: vec![false; anchors.len()],
            anchors,
            report: Report::default(),
        }
    }

    /// Reads the next line, without its end.
    pub fn line(&mut self, file: &str, number: usize, line: &[u8]) -> Option<Record> {
        let place = || Some((file.to_owned(), number));
        let line = match parse(&self.key, line) {
            Ok(line) => line,
            Err(error) => {
                let kind = match error {
                    LineError::Malformed(why) => ProblemKind::Malformed(why),
                    LineError::Changed => ProblemKind::Changed,
                };
                self.add(place(), kind);
                return None;
            }
        };
        self.report.records += 1;
        if let Some(chain) = &self.chain
            && !line.follows(chain)
        {
            let next = chain.seq + 1;
            let kind = if line.seq > next {
                ProblemKind::Removed {
                    first: next,
                    last: line.seq - 1,
                }
            } else if line.seq < next {
                ProblemKind::OutOfOrder(line.seq)
            } else {
                ProblemKind::Unchained
            };
            self.add(place(), kind);
        }
        let first = self.report.range.map_or(line.seq, |(first, _)| first);
        self.report.range = Some((first, line.seq));
        for (anchor, met) in self.anchors.iter().zip(&mut self.met) {
            *met |= anchor.seq == line.seq && anchor.hash == line.hash;
        }
        if line.record.verb == OPENED {
            if line.record.count > 0 {
                self.add(place(), ProblemKind::FoundMissing(line.record.note.clone()));
            } else if !line.record.note.is_empty() {
                self.report.torn += 1;
            }
        }
        self.chain = Some(line.chain());
        Some(line.record)
    }

    /// Half of a line at the end of the newest file.
    pub const fn torn(&mut self) {
        self.report.is_torn_now = true;
    }

    /// Half of a line at the end of an older file. Only the newest file is written.
    pub fn cut_off(&mut self, file: &str, number: usize) {
        let kind = ProblemKind::Malformed("the line has no end".to_owned());
        self.add(Some((file.to_owned(), number)), kind);
    }

    /// There is no anchor beside the log, or it cannot be used.
    pub fn no_anchor(&mut self, why: &str) {
        self.add(None, ProblemKind::NoAnchor(why.to_owned()));
    }

    /// The finding.
    #[must_use]
    pub fn finish(mut self) -> Report {
        let (first, last) = self.report.range.unwrap_or_default();
        self.report.hash = self.chain.take().unwrap_or_default().hash();
        let anchors = std::mem::take(&mut self.anchors);
        for (anchor, met) in anchors.iter().zip(self.met.clone()) {
            if last < anchor.seq {
                let anchor = anchor.seq;
                self.add(None, ProblemKind::EndMissing { last, anchor });
            } else if !met && anchor.seq >= first && anchor.seq > 0 {
                self.add(None, ProblemKind::AnchorDiffers(anchor.seq));
            }
            if first > anchor.first {
                let anchor = anchor.first;
                self.add(None, ProblemKind::StartMissing { first, anchor });
            }
        }
        self.report
    }

    fn add(&mut self, place: Option<(String, usize)>, kind: ProblemKind) {
        if self.report.problems.len() < MOST_PROBLEMS {
            self.report.problems.push(Problem { place, kind });
        } else {
            self.report.unlisted += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn log(key: &ChainKey, count: u64) -> (Vec<Vec<u8>>, Head) {
        let mut chain = Chain::default();
        let record = |number: u64| Record {
            verb: "StartExecution".into(),
            object: format!("definitions/d{number}"),
            ..Record::default()
        };
        let lines = (1..=count)
            .map(|number| {
                let mut line = chain.append(key, &record(number));
                line.pop();
                line
            })
            .collect();
        (lines, Head::of(&chain, 1))
    }

    fn verified(key: &ChainKey, lines: &[Vec<u8>], head: &Head) -> Report {
        let mut verifier = Verifier::new(key.clone(), vec![head.clone()]);
        for (at, line) in lines.iter().enumerate() {
            verifier.line("log", at + 1, line);
        }
        verifier.finish()
    }

    fn kinds(report: &Report) -> Vec<ProblemKind> {
        report.problems.iter().map(|it| it.kind.clone()).collect()
    }

    #[test]
    fn an_untouched_log_is_intact() {
        let key = ChainKey::default();
        let (lines, head) = log(&key, 5);
        let report = verified(&key, &lines, &head);
        assert!(report.is_intact(), "{report:?}");
        assert_eq!((report.records, report.range), (5, Some((1, 5))));
        assert_eq!(report.hash, head.hash());
    }

    #[test]
    fn each_kind_of_attack_is_named() {
        let key = ChainKey::default();
        let (lines, head) = log(&key, 5);
        let without = |at: usize| {
            let mut lines = lines.clone();
            lines.remove(at);
            kinds(&verified(&key, &lines, &head))
        };
        let removed = |number| ProblemKind::Removed {
            first: number,
            last: number,
        };
        assert_eq!(without(2), [removed(3)]);
        let start = ProblemKind::StartMissing {
            first: 2,
            anchor: 1,
        };
        assert_eq!(without(0), [start]);
        let end = ProblemKind::EndMissing { last: 4, anchor: 5 };
        assert_eq!(without(4), [end]);

        let mut swapped = lines.clone();
        swapped.swap(1, 2);
        let found = kinds(&verified(&key, &swapped, &head));
        assert!(found.contains(&ProblemKind::OutOfOrder(2)), "{found:?}");

        let mut changed = lines.clone();
        let text = String::from_utf8(changed[1].clone()).unwrap();
        changed[1] = text.replace("d2", "d9").into_bytes();
        let found = kinds(&verified(&key, &changed, &head));
        assert_eq!(found[0], ProblemKind::Changed);

        let mut repeated = lines.clone();
        repeated.insert(2, lines[1].clone());
        let found = kinds(&verified(&key, &repeated, &head));
        assert!(found.contains(&ProblemKind::OutOfOrder(2)), "{found:?}");
    }

    #[test]
    fn a_record_that_was_replaced_with_its_hash_breaks_the_chain() {
        let key = ChainKey::default();
        let (mut lines, head) = log(&key, 5);
        let mut before = parse(&key, &lines[0]).unwrap().chain();
        let other = Record {
            verb: "Other".into(),
            ..Record::default()
        };
        let mut line = before.append(&key, &other);
        line.pop();
        lines[1] = line;
        assert_eq!(
            kinds(&verified(&key, &lines, &head)),
            [ProblemKind::Unchained]
        );
    }

    #[test]
    fn a_log_that_was_written_again_differs_from_its_anchor() {
        let key = ChainKey::default();
        let (_, head) = log(&key, 5);
        let mut chain = Chain::default();
        let lines: Vec<_> = (0..7)
            .map(|_| {
                let mut line = chain.append(&key, &Record::default());
                line.pop();
                line
            })
            .collect();
        let found = kinds(&verified(&key, &lines, &head));
        assert_eq!(found, [ProblemKind::AnchorDiffers(5)]);
    }

    #[test]
    fn without_the_key_no_line_can_be_made() {
        let key = ChainKey::new("the key of the operator").unwrap();
        let (lines, head) = log(&key, 2);
        assert!(verified(&key, &lines, &head).is_intact());
        let (forged, _) = log(&ChainKey::default(), 2);
        let found = kinds(&verified(&key, &forged, &head));
        assert_eq!(found[..2], [ProblemKind::Changed, ProblemKind::Changed]);
    }

    #[test]
    fn a_crash_is_reported_and_is_no_problem_and_missing_records_are_one() {
        let key = ChainKey::default();
        let opened = |note: &str, count| Record {
            verb: OPENED.into(),
            note: note.into(),
            count,
            ..Record::default()
        };
        let mut chain = Chain::default();
        let mut lines: Vec<_> = [opened("", 0), opened("12 bytes were cut off", 0)]
            .iter()
            .map(|record| chain.append(&key, record))
            .collect();
        let report = |lines: &[Vec<u8>], chain: &Chain| {
            let lines: Vec<_> = lines
                .iter()
                .map(|line| line[..line.len() - 1].to_vec())
                .collect();
            verified(&key, &lines, &Head::of(chain, 1))
        };
        let clean = report(&lines, &chain);
        assert!(clean.is_intact());
        assert_eq!(clean.torn, 1);
        lines.push(chain.append(&key, &opened("3 records are missing", 3)));
        assert!(!report(&lines, &chain).is_intact());
    }

    proptest! {
        /// Whatever single byte changes, the log is not intact any more.
        #[test]
        fn no_byte_can_change(line in 0usize..4, at in 0usize..10_000, flip in 1u8..=255) {
            let key = ChainKey::default();
            let (mut lines, head) = log(&key, 4);
            let bytes = &mut lines[line];
            let at = at % bytes.len();
            bytes[at] ^= flip;
            prop_assert!(!verified(&key, &lines, &head).is_intact());
        }

        /// Whatever subset or order of the lines is left, only the whole log is intact.
        #[test]
        fn nothing_can_be_removed_or_moved(order in proptest::sample::subsequence((0..6usize).collect::<Vec<_>>(), 0..=6).prop_shuffle()) {
            let key = ChainKey::default();
            let (lines, head) = log(&key, 6);
            let kept: Vec<_> = order.iter().map(|at| lines[*at].clone()).collect();
            let is_whole = order == (0..6).collect::<Vec<_>>();
            prop_assert_eq!(verified(&key, &kept, &head).is_intact(), is_whole);
        }
    }
}
