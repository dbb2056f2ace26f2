//! The executions that a topic shows, each as it was last seen, and the rule for which of two
//! sightings of an execution is the newer one.
//!
//! Pure: the time of everything is given.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use jiff::Timestamp;
use stateway_model::{Execution, ExecutionId};
use stateway_proto::v1;
use stateway_provider_api::Version;
use stateway_provider_api::filter::Hints;

use crate::convert;

/// The most removals that are remembered to recognise late answers.
const MOST_GONE: usize = 1_024;
/// The most executions that are remembered after they left the set, to recognise late reports.
const MOST_LEFT: usize = 1_024;

/// An execution as last seen. Its wire form is made once, however many readers there are.
pub(super) struct CachedExecution {
    pub(super) execution: Execution,
    look: u64,
    message: OnceLock<v1::Execution>,
}

impl CachedExecution {
    fn new(execution: Execution) -> Self {
        Self {
            look: execution.look(),
            execution,
            message: OnceLock::new(),
        }
    }

    pub(super) fn message(&self) -> v1::Execution {
        self.message
            .get_or_init(|| convert::execution(self.execution.clone()))
            .clone()
    }
}

/// An execution as a provider showed it just now.
#[derive(Clone)]
pub(crate) struct Sighting {
    pub(crate) execution: Execution,
    pub(crate) version: Option<Version>,
}

/// Where a sighting comes from, which decides how far it can be trusted to be new.
#[derive(Debug, Clone, Copy)]
pub(super) enum Source {
    /// The provider's push, which reports in order.
    Push { restart_count: u64 },
    /// The answer to a read or a write. It may be older than what was reported since it was asked
    /// for.
    Answer(Asked),
}

impl Source {
    /// How often the provider had been restarted before it reported this.
    const fn restart_count(self) -> u64 {
        match self {
            Self::Push { restart_count } | Self::Answer(Asked { restart_count, .. }) => {
                restart_count
            }
        }
    }
}

/// When an answer was asked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked {
    pub(crate) at: Instant,
    /// How often the provider had been restarted at that time.
    pub(crate) restart_count: u64,
}

/// The most executions of a current set.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bound(pub(super) usize);

/// Which executions a current set has.
#[derive(Debug, Clone)]
pub(super) enum Follows {
    Everything,
    /// Executions that have not finished and have what the hints say. One that finishes or has it no more is
    /// reported and then forgotten.
    Open {
        within: Arc<Hints>,
        /// An execution that ended after this time is reported although it was not known before.
        since: Timestamp,
    },
    /// Executions that have what the hints say, and known ones that have it no more.
    Within(Arc<Hints>),
}

impl Follows {
    /// Whether an execution that is known is part of the set.
    fn shows(&self, execution: &Execution) -> bool {
        match self {
            Self::Everything | Self::Within(_) => true,
            Self::Open { within, .. } => within.admit(execution),
        }
    }
}

/// There are more executions than the bound allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TooMany;

/// What became of a sighting.
pub(super) enum Taken {
    Change {
        before: Option<Arc<CachedExecution>>,
        after: Arc<CachedExecution>,
    },
    Nothing,
    /// The push reported a lower version than before, and the provider was not restarted. The sighting is not
    /// taken.
    Decreased,
}

pub(super) struct Present {
    bound: Bound,
    follows: Follows,
    /// Known executions that are no part of the set any more, those that left first first, where they are
    /// forgotten. Some of them may be part of it again.
    left: VecDeque<ExecutionId>,
    /// The provider has reported what there is, so that what it pushes now is news.
    in_sync: bool,
    known: BTreeMap<ExecutionId, WatchEntry>,
    round: u64,
    /// The newest removals, oldest first.
    gone: VecDeque<(Instant, ExecutionId)>,
    /// When the newest of the removals was that are no longer remembered.
    forgotten_until: Option<Instant>,
}

struct WatchEntry {
    seen: Arc<CachedExecution>,
    version: Option<Version>,
    /// How often the provider had been restarted when it reported the version.
    restart_count: u64,
    /// What the push reported last.
    pushed: Option<PushedVersion>,
    taken: Instant,
    round: u64,
}

/// A version that the push reported.
#[derive(Clone, Copy)]
struct PushedVersion {
    version: Version,
    restart_count: u64,
}

impl PushedVersion {
    fn new(version: Option<Version>, source: Source) -> Option<Self> {
        match source {
            Source::Push { restart_count } => version.map(|version| Self {
                version,
                restart_count,
            }),
            Source::Answer(_) => None,
        }
    }

    /// Whether the versions of one process of the provider decrease.
    fn is_decreased_by(self, next: Self) -> bool {
        self.restart_count == next.restart_count && next.version < self.version
    }
}

impl WatchEntry {
    /// Whether a sighting is newer than this entry. The versions decide if both are from one process of the
    /// provider. If not, a pushed report is newer, because reports come in order, and an answer is newer if it
    /// was requested after this entry was stored.
    fn is_older_than(&self, version: Option<Version>, source: Source) -> bool {
        let is_restarted = source.restart_count() > self.restart_count;
        match (self.version, version, source) {
            (Some(known), Some(version), _) if known != version && !is_restarted => version > known,
            (_, _, Source::Push { .. }) => true,
            (_, _, Source::Answer(asked)) => self.taken <= asked.at,
        }
    }
}

impl Present {
    pub(super) fn new(bound: Bound, follows: Follows) -> Self {
        Self {
            bound,
            follows,
            left: VecDeque::new(),
            in_sync: false,
            known: BTreeMap::new(),
            round: 0,
            gone: VecDeque::new(),
            forgotten_until: None,
        }
    }

    pub(super) fn shown(&self) -> impl Iterator<Item = &Arc<CachedExecution>> {
        let known = self.known.values().filter(move |known| self.shows(known));
        known.map(|known| &known.seen)
    }

    /// Whether a known execution is part of the current set.
    fn shows(&self, known: &WatchEntry) -> bool {
        self.follows.shows(&known.seen.execution)
    }

    /// Whether an execution that was not known is taken up.
    fn begins_with(&self, execution: &Execution, source: Source) -> bool {
        match &self.follows {
            Follows::Everything => true,
            Follows::Open { within, since } => {
                let is_news = matches!(source, Source::Push { .. }) && self.in_sync;
                let ended = || is_news || execution.end_time.is_some_and(|end| end >= *since);
                within.admit(execution)
                    || execution.sub_state.is_terminal() && within.admit_kind(execution) && ended()
            }
            Follows::Within(hints) => hints.admit(execution),
        }
    }

    /// Forgets the executions that left first, without reporting it.
    fn trim_left(&mut self, id: ExecutionId) {
        self.left.push_back(id);
        while self.left.len() > MOST_LEFT
            && let Some(oldest) = self.left.pop_front()
        {
            if self
                .known
                .get(&oldest)
                .is_some_and(|known| !self.shows(known))
            {
                self.known.remove(&oldest);
            }
        }
    }

    pub(super) fn clear(&mut self) {
        *self = Self::new(self.bound, self.follows.clone());
    }

    /// From now on executions are absent until they are seen again.
    pub(super) fn begin_round(&mut self) {
        self.round += 1;
        self.in_sync = false;
    }

    /// Everything was reported that there is.
    pub(super) const fn end_round(&mut self) {
        self.in_sync = true;
    }

    /// The executions that were not seen in this round.
    pub(super) fn absent(&self) -> impl Iterator<Item = &ExecutionId> {
        let round = self.round;
        let known = self.known.iter().filter(move |(_, it)| self.shows(it));
        let absent = known.filter(move |(_, it)| it.round < round);
        absent.map(|(id, _)| id)
    }

    /// Takes a sighting unless something newer is known.
    pub(super) fn see(&mut self, sighting: Sighting, source: Source) -> Result<Taken, TooMany> {
        let taken = self.take(sighting, source)?;
        if let Taken::Change { before, after } = &taken {
            let left = |seen: &CachedExecution| !self.follows.shows(&seen.execution);
            if left(after) && !before.as_ref().is_some_and(|before| left(before)) {
                self.trim_left(after.execution.name.id.clone());
            }
        }
        Ok(taken)
    }

    fn take(&mut self, sighting: Sighting, source: Source) -> Result<Taken, TooMany> {
        let Sighting { execution, version } = sighting;
        let seen = CachedExecution::new(execution);
        let round = self.round;
        let id = seen.execution.name.id.clone();
        match self.known.get_mut(&id) {
            Some(known) => {
                known.round = round;
                let pushed = PushedVersion::new(version, source);
                if let (Some(before), Some(pushed)) = (known.pushed, pushed)
                    && before.is_decreased_by(pushed)
                {
                    return Ok(Taken::Decreased);
                }
                known.pushed = pushed.or(known.pushed);
                if !known.is_older_than(version, source) {
                    return Ok(Taken::Nothing);
                }
                if version.is_some() {
                    known.version = version;
                    known.restart_count = source.restart_count();
                }
                known.taken = Instant::now();
                if known.seen.look == seen.look {
                    return Ok(Taken::Nothing);
                }
                let after = Arc::new(seen);
                let before = Some(std::mem::replace(&mut known.seen, after.clone()));
                Ok(Taken::Change { before, after })
            }
            None => {
                if let Source::Answer(asked) = source
                    && self.was_removed_since(&id, asked.at)
                {
                    return Ok(Taken::Nothing);
                }
                if !self.begins_with(&seen.execution, source) {
                    return Ok(Taken::Nothing);
                }
                if self.known.len() >= self.bound.0 {
                    return Err(TooMany);
                }
                let after = Arc::new(seen);
                let known = WatchEntry {
                    seen: after.clone(),
                    version,
                    restart_count: source.restart_count(),
                    pushed: PushedVersion::new(version, source),
                    taken: Instant::now(),
                    round,
                };
                self.known.insert(id, known);
                let before = None;
                Ok(Taken::Change { before, after })
            }
        }
    }

    /// Whether a row of a list contradicts what is known: an execution that has finished is shown
    /// as open, and no version says that this is newer. Lists may lag behind.
    pub(super) fn is_doubtful(&self, row: &Sighting) -> bool {
        let Some(known) = self.known.get(&row.execution.name.id) else {
            return false;
        };
        let versioned = known.version.is_some() && row.version.is_some();
        !versioned
            && known.seen.execution.sub_state.is_terminal()
            && !row.execution.sub_state.is_terminal()
    }

    /// Removes an execution, if it is known.
    pub(super) fn forget(&mut self, id: &ExecutionId) -> Option<Arc<CachedExecution>> {
        if self.gone.len() == MOST_GONE {
            self.forgotten_until = self.gone.pop_front().map(|(at, _)| at);
        }
        self.gone.push_back((Instant::now(), id.clone()));
        self.known.remove(id).map(|known| known.seen)
    }

    /// Whether an execution may have been removed after this time.
    fn was_removed_since(&self, id: &ExecutionId, since: Instant) -> bool {
        let newer = self.gone.iter().rev().take_while(|(at, _)| *at >= since);
        let mut newer = newer.map(|(_, gone)| gone);
        newer.any(|gone| gone == id) || self.forgotten_until.is_some_and(|until| until >= since)
    }
}

#[cfg(test)]
mod tests {
    use stateway_model::SubState;
    use stateway_provider_api::table::compiled_in;
    use stateway_provider_api::{Mapper, NativeState, Observation};

    use super::*;

    fn id(id: &str) -> ExecutionId {
        ExecutionId::new(id).unwrap()
    }

    fn sighting(name: &str, sub_state: SubState, version: Option<u64>) -> Sighting {
        let table = compiled_in("memory").unwrap();
        let mapper = Mapper::new("p".parse().unwrap());
        let native = if sub_state == SUCCEEDED {
            "DONE"
        } else {
            "ACTIVE"
        };
        let observation = Observation::new(id(name), NativeState::new(native));
        let execution = mapper.execution(&table, observation, jiff::Timestamp::UNIX_EPOCH);
        assert_eq!(execution.sub_state, sub_state);
        Sighting {
            execution,
            version: version.map(Version::new),
        }
    }

    fn waiting(name: &str, version: u64) -> Sighting {
        let mut sighting = sighting(name, RUNNING, Some(version));
        sighting.execution.sub_state = WAITING;
        sighting
    }

    fn shown(present: &Present) -> Vec<(String, SubState)> {
        let all = present.shown();
        all.map(|seen| {
            let execution = &seen.execution;
            (execution.name.id.to_string(), execution.sub_state)
        })
        .collect()
    }

    fn answer(at: Instant) -> Source {
        let restart_count = 0;
        Source::Answer(Asked { at, restart_count })
    }

    const PUSH: Source = Source::Push { restart_count: 0 };

    const RUNNING: SubState = SubState::Running;
    const SUCCEEDED: SubState = SubState::Succeeded;
    const WAITING: SubState = SubState::Waiting;

    #[test]
    fn a_late_answer_does_not_replace_a_newer_version() {
        let mut present = Present::new(Bound(10), Follows::Everything);
        present
            .see(sighting("a", SUCCEEDED, Some(5)), PUSH)
            .unwrap();
        // Asked for only now, but the provider answers with what it had before.
        let late = present.see(sighting("a", RUNNING, Some(4)), answer(Instant::now()));
        assert!(matches!(late, Ok(Taken::Nothing)));
        assert_eq!(shown(&present), [("a".into(), SUCCEEDED)]);
    }

    #[test]
    fn an_answer_of_a_newer_version_counts_and_the_push_does_not_go_back_behind_it() {
        let mut present = Present::new(Bound(10), Follows::Everything);
        present.see(sighting("a", RUNNING, Some(1)), PUSH).unwrap();
        present
            .see(sighting("a", SUCCEEDED, Some(3)), answer(Instant::now()))
            .unwrap();
        present.see(sighting("a", RUNNING, Some(2)), PUSH).unwrap();
        assert_eq!(shown(&present), [("a".into(), SUCCEEDED)]);
    }

    #[test]
    fn versions_may_decrease_when_the_provider_was_restarted_and_only_then() {
        let mut present = Present::new(Bound(10), Follows::Everything);
        present.see(sighting("a", RUNNING, Some(5)), PUSH).unwrap();
        let decreased = present.see(sighting("a", SUCCEEDED, Some(4)), PUSH);
        assert!(matches!(decreased, Ok(Taken::Decreased)));
        assert_eq!(shown(&present), [("a".into(), RUNNING)]);
        let next = Source::Push { restart_count: 1 };
        let taken = present.see(sighting("a", SUCCEEDED, Some(1)), next);
        assert!(matches!(taken, Ok(Taken::Change { .. })));
        let decreased = present.see(sighting("a", RUNNING, Some(0)), next);
        assert!(matches!(decreased, Ok(Taken::Decreased)));
    }

    #[test]
    fn an_answer_of_a_restarted_provider_counts_if_it_was_asked_for_after_what_is_known() {
        let mut present = Present::new(Bound(10), Follows::Everything);
        let at = Instant::now();
        present.see(sighting("a", RUNNING, Some(5)), PUSH).unwrap();
        let of_next = |at| {
            let restart_count = 1;
            Source::Answer(Asked { at, restart_count })
        };
        present
            .see(sighting("a", SUCCEEDED, Some(1)), of_next(at))
            .unwrap();
        assert_eq!(shown(&present), [("a".into(), RUNNING)]);
        present
            .see(sighting("a", SUCCEEDED, Some(1)), of_next(Instant::now()))
            .unwrap();
        assert_eq!(shown(&present), [("a".into(), SUCCEEDED)]);
    }

    #[test]
    fn without_versions_an_answer_counts_only_if_nothing_was_reported_since_it_was_asked_for() {
        let mut present = Present::new(Bound(10), Follows::Everything);
        let asked = Instant::now();
        present.see(sighting("a", SUCCEEDED, None), PUSH).unwrap();
        present
            .see(sighting("a", RUNNING, None), answer(asked))
            .unwrap();
        assert_eq!(shown(&present), [("a".into(), SUCCEEDED)]);
        present
            .see(sighting("a", RUNNING, None), answer(Instant::now()))
            .unwrap();
        assert_eq!(shown(&present), [("a".into(), RUNNING)]);
    }

    #[test]
    fn an_answer_does_not_bring_back_an_execution_that_was_removed_since() {
        let mut present = Present::new(Bound(10), Follows::Everything);
        present
            .see(sighting("a", SUCCEEDED, Some(1)), PUSH)
            .unwrap();
        let asked = Instant::now();
        present.forget(&id("a"));
        present
            .see(sighting("a", SUCCEEDED, Some(1)), answer(asked))
            .unwrap();
        assert_eq!(shown(&present), []);
        // The same id, started again.
        present
            .see(sighting("a", RUNNING, Some(2)), answer(Instant::now()))
            .unwrap();
        assert_eq!(shown(&present), [("a".into(), RUNNING)]);
    }

    #[test]
    fn more_removals_than_are_remembered_make_older_answers_doubtful() {
        let mut present = Present::new(Bound(10), Follows::Everything);
        let asked = Instant::now();
        for number in 0..=MOST_GONE {
            present.forget(&id(&format!("x{number}")));
        }
        present
            .see(sighting("x0", RUNNING, None), answer(asked))
            .unwrap();
        assert_eq!(shown(&present), []);
        present
            .see(sighting("x0", RUNNING, None), answer(Instant::now()))
            .unwrap();
        assert_eq!(shown(&present).len(), 1);
    }

    #[test]
    fn the_bound_holds_for_the_push_too_and_known_executions_still_change() {
        let mut present = Present::new(Bound(1), Follows::Everything);
        present.see(sighting("a", RUNNING, None), PUSH).unwrap();
        let more = present.see(sighting("b", RUNNING, None), PUSH);
        assert!(matches!(more, Err(TooMany)));
        present.see(sighting("a", SUCCEEDED, None), PUSH).unwrap();
        assert_eq!(shown(&present), [("a".into(), SUCCEEDED)]);
    }

    #[test]
    fn what_is_not_seen_in_a_round_is_absent_also_if_it_did_not_change() {
        let mut present = Present::new(Bound(10), Follows::Everything);
        for name in ["a", "b"] {
            present.see(sighting(name, RUNNING, Some(1)), PUSH).unwrap();
        }
        present.begin_round();
        present.see(sighting("a", RUNNING, Some(1)), PUSH).unwrap();
        assert_eq!(present.absent().collect::<Vec<_>>(), [&id("b")]);
    }

    #[test]
    fn a_row_that_reopens_a_finished_execution_is_doubtful_unless_versions_decide() {
        let mut present = Present::new(Bound(10), Follows::Everything);
        present.see(sighting("a", SUCCEEDED, None), PUSH).unwrap();
        present
            .see(sighting("b", SUCCEEDED, Some(1)), PUSH)
            .unwrap();
        assert!(present.is_doubtful(&sighting("a", RUNNING, None)));
        assert!(!present.is_doubtful(&sighting("a", SUCCEEDED, None)));
        assert!(!present.is_doubtful(&sighting("b", RUNNING, Some(2))));
    }

    fn open_within(hints: Hints, since: Timestamp) -> Present {
        let within = Arc::new(hints);
        Present::new(Bound(10_000), Follows::Open { within, since })
    }

    fn open_only(since: Timestamp) -> Present {
        open_within(Hints::open(), since)
    }

    #[test]
    fn a_set_of_open_executions_reports_an_end_and_forgets_it() {
        let mut present = open_only(Timestamp::now());
        // What had finished before is no part of the set.
        let before = present.see(sighting("old", SUCCEEDED, Some(1)), PUSH);
        assert!(matches!(before, Ok(Taken::Nothing)));
        present.see(sighting("a", RUNNING, Some(1)), PUSH).unwrap();
        present.end_round();
        let end = present.see(sighting("a", SUCCEEDED, Some(2)), PUSH);
        assert!(matches!(
            end,
            Ok(Taken::Change {
                before: Some(_),
                ..
            })
        ));
        assert_eq!(shown(&present), []);
        // An execution that began and ended between two reports.
        let short = present.see(sighting("b", SUCCEEDED, Some(1)), PUSH);
        assert!(matches!(short, Ok(Taken::Change { before: None, .. })));
        let again = present.see(sighting("b", SUCCEEDED, Some(1)), PUSH);
        assert!(matches!(again, Ok(Taken::Nothing)));
        // A read of an execution that finished before the watch began is not a change.
        let read = present.see(sighting("old", SUCCEEDED, Some(1)), answer(Instant::now()));
        assert!(matches!(read, Ok(Taken::Nothing)));
        // An execution that is open again is part of the set again.
        present.see(sighting("a", RUNNING, Some(3)), PUSH).unwrap();
        assert_eq!(shown(&present), [("a".into(), RUNNING)]);
    }

    #[test]
    fn the_memory_of_finished_executions_is_bounded() {
        let mut present = open_only(Timestamp::now());
        present.end_round();
        for number in 0..3 * MOST_LEFT {
            let name = format!("e{number}");
            present
                .see(sighting(&name, RUNNING, Some(1)), PUSH)
                .unwrap();
            present
                .see(sighting(&name, SUCCEEDED, Some(2)), PUSH)
                .unwrap();
        }
        assert_eq!(present.known.len(), MOST_LEFT);
        present.begin_round();
        assert_eq!(present.absent().count(), 0);
    }

    #[test]
    fn a_narrowed_set_of_open_executions_forgets_what_leaves_it_and_has_no_others() {
        let mut hints = Hints::open();
        hints.sub_states = vec![WAITING];
        let mut present = open_within(hints, Timestamp::now());
        present.end_round();
        for number in 0..3 * MOST_LEFT {
            let name = format!("e{number}");
            let other = present.see(sighting(&name, RUNNING, Some(1)), PUSH);
            assert!(matches!(other, Ok(Taken::Nothing)));
            present.see(waiting(&name, 2), PUSH).unwrap();
            assert_eq!(shown(&present), [(name.clone(), WAITING)]);
            // Readers learn that it has left.
            let left = present.see(sighting(&name, RUNNING, Some(3)), PUSH);
            let Ok(Taken::Change { before, .. }) = left else {
                panic!("no change");
            };
            assert!(before.is_some());
            assert_eq!(shown(&present), []);
        }
        assert_eq!(present.known.len(), MOST_LEFT);
        // One that comes again is part of the set again.
        let name = format!("e{}", 3 * MOST_LEFT - 1);
        present.see(waiting(&name, 4), PUSH).unwrap();
        assert_eq!(shown(&present), [(name, WAITING)]);
    }

    #[test]
    fn a_set_narrowed_by_a_label_does_not_report_the_ends_of_others() {
        let mut hints = Hints::open();
        hints.labels = vec![("team".into(), "red".into())];
        let mut present = open_within(hints, Timestamp::now());
        present.end_round();
        let other = present.see(sighting("other", SUCCEEDED, Some(1)), PUSH);
        assert!(matches!(other, Ok(Taken::Nothing)));
        let labelled = |sub_state, version| {
            let mut sighting = sighting("ours", sub_state, Some(version));
            let labels = &mut sighting.execution.labels;
            labels.insert("team".into(), "red".into());
            sighting
        };
        let end = present.see(labelled(SUCCEEDED, 1), PUSH);
        assert!(matches!(end, Ok(Taken::Change { before: None, .. })));
        present.see(labelled(RUNNING, 2), PUSH).unwrap();
        assert_eq!(shown(&present), [("ours".into(), RUNNING)]);
    }

    #[test]
    fn a_narrowed_set_takes_up_only_what_the_hints_admit() {
        let mut hints = Hints::none();
        hints.sub_states = vec![SUCCEEDED];
        let mut present = Present::new(Bound(10), Follows::Within(Arc::new(hints)));
        present.see(sighting("a", RUNNING, Some(1)), PUSH).unwrap();
        assert_eq!(shown(&present), []);
        present
            .see(sighting("a", SUCCEEDED, Some(2)), PUSH)
            .unwrap();
        assert_eq!(shown(&present), [("a".into(), SUCCEEDED)]);
        // Readers learn that it has left.
        let left = present.see(sighting("a", RUNNING, Some(3)), PUSH);
        assert!(matches!(
            left,
            Ok(Taken::Change {
                before: Some(_),
                ..
            })
        ));
    }
}
