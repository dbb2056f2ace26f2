//! What operators see of a worker besides its tasks: its versions, its answers of the last minutes and its last
//! failure. The gateway counts them; no provider needs them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use stateway_model::{ExecutionError, ProviderId};
use stateway_proto::v1;
use stateway_provider_api::TaskOutcome;

use crate::convert;

/// The length of one slot of the counts, and how many slots are kept.
const SLOT: Duration = Duration::from_secs(10);
const SLOTS: usize = 30;
/// The most workers without a session that are remembered.
const MOST_IDLE: usize = 1_000;
/// The number of workers from which on idle ones are forgotten.
const FIRST_SWEEP: usize = 64;

/// The workers that this gateway has seen.
#[derive(Default)]
pub(crate) struct Activities(Mutex<ActivityIndex>);

#[derive(Default)]
struct ActivityIndex {
    workers: HashMap<(ProviderId, Arc<str>), Arc<Activity>>,
    /// The number of workers at which the next connection forgets idle ones.
    sweep_at: usize,
}

impl Activities {
    /// The activity of a worker that connects. A worker that reconnects continues its counts.
    pub(super) fn connect(&self, provider: &ProviderId, worker: &Arc<str>) -> Arc<Activity> {
        let mut known = locked(&self.0);
        if known.workers.len() >= known.sweep_at.max(FIRST_SWEEP) {
            forget_idle(&mut known.workers);
            known.sweep_at = known.workers.len() * 2;
        }
        let key = (provider.clone(), Arc::clone(worker));
        let activity = known.workers.entry(key).or_default();
        Arc::clone(activity)
    }

    pub(super) fn of(&self, provider: &ProviderId, worker: &Arc<str>) -> Option<Arc<Activity>> {
        let key = (provider.clone(), Arc::clone(worker));
        locked(&self.0).workers.get(&key).cloned()
    }
}

/// Forgets workers without a session whose counts are over, and all idle ones if they are many.
fn forget_idle(workers: &mut HashMap<(ProviderId, Arc<str>), Arc<Activity>>) {
    let in_use = |activity: &Arc<Activity>| Arc::strong_count(activity) > 1;
    workers.retain(|_, activity| in_use(activity) || !activity.is_over());
    let idle = workers.values().filter(|activity| !in_use(activity));
    if idle.count() > MOST_IDLE {
        workers.retain(|_, activity| in_use(activity));
    }
}

/// One worker, over all its connections.
pub(super) struct Activity {
    since: Instant,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    version: String,
    sdk: String,
    recent: RecentAnswers,
    last_failure: Option<(Duration, ExecutionError)>,
}

impl Default for Activity {
    fn default() -> Self {
        Self {
            since: Instant::now(),
            state: Mutex::default(),
        }
    }
}

impl Activity {
    /// Notes the versions of an offer; an offer without them keeps the earlier ones.
    pub(super) fn offered(&self, software: Software) {
        let mut state = locked(&self.state);
        if !software.version.is_empty() {
            state.version = software.version;
        }
        if !software.sdk.is_empty() {
            state.sdk = software.sdk;
        }
    }

    /// Counts an answer of the worker.
    pub(super) fn answered(&self, outcome: &TaskOutcome) {
        let age = self.since.elapsed();
        let mut state = locked(&self.state);
        match outcome {
            TaskOutcome::Completed { .. } => state.recent.at(age).completed += 1,
            TaskOutcome::Failed(failure) => {
                state.recent.at(age).failed += 1;
                let error = ExecutionError {
                    message: failure.message.clone(),
                    native_code: failure.code.clone(),
                    category: Some(failure.category),
                    at: Some(Timestamp::now()),
                    ..ExecutionError::default()
                };
                state.last_failure = Some((age, error));
            }
            TaskOutcome::Released { .. } => {}
        }
    }

    /// Counts an answer that the provider refused.
    pub(super) fn refused(&self) {
        let age = self.since.elapsed();
        locked(&self.state).recent.at(age).refused += 1;
    }

    /// Adds what is known to the worker as clients see it.
    pub(super) fn describe(&self, worker: &mut v1::Worker) {
        let age = self.since.elapsed();
        let state = locked(&self.state);
        worker.version.clone_from(&state.version);
        worker.sdk.clone_from(&state.sdk);
        worker.recent_tasks = Some(state.recent.within(age));
        let recent = |(failed, _): &&(Duration, ExecutionError)| age - *failed < SLOT * SLOTS_U32;
        let failure = state.last_failure.as_ref().filter(recent);
        worker.last_failure = failure.map(|(_, error)| convert::error(error.clone()));
    }

    /// Whether nothing was answered in the time that the counts cover.
    fn is_over(&self) -> bool {
        let age = self.since.elapsed();
        age > SLOT * SLOTS_U32 && locked(&self.state).recent.is_over(age)
    }
}

const SLOTS_U32: u32 = SLOTS as u32;

/// A lock whose owner panicked still has counts that can be read.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a worker says about its program.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Software {
    pub(super) version: String,
    pub(super) sdk: String,
}

/// Counts of the last minutes, in slots that are used again in turn. Pure: the age of the worker is the clock.
#[derive(Default)]
struct RecentAnswers {
    slots: [Counts; SLOTS],
    /// The number of the newest slot, from the first message of the worker on.
    newest: u64,
}

#[derive(Default, Clone, Copy)]
struct Counts {
    completed: u32,
    failed: u32,
    refused: u32,
}

impl RecentAnswers {
    /// The slot of a moment; slots that have passed since the newest one are emptied.
    fn at(&mut self, age: Duration) -> &mut Counts {
        let number = (age.as_secs() / SLOT.as_secs()).max(self.newest);
        let passed = (number - self.newest).min(SLOTS as u64);
        for slot in number + 1 - passed..=number {
            self.slots[index(slot)] = Counts::default();
        }
        self.newest = number;
        &mut self.slots[index(number)]
    }

    fn within(&self, age: Duration) -> v1::RecentTasks {
        let number = age.as_secs() / SLOT.as_secs();
        let oldest = (number + 1).saturating_sub(SLOTS as u64);
        let first = oldest.max((self.newest + 1).saturating_sub(SLOTS as u64));
        let counts = (first..=self.newest).map(|slot| self.slots[index(slot)]);
        let (mut completed, mut failed, mut refused) = (0_u32, 0_u32, 0_u32);
        for slot in counts {
            completed = completed.saturating_add(slot.completed);
            failed = failed.saturating_add(slot.failed);
            refused = refused.saturating_add(slot.refused);
        }
        let window = age - Duration::from_secs(oldest * SLOT.as_secs());
        v1::RecentTasks {
            window_duration: Some(convert::duration(window)),
            completed_count: convert::int32(completed),
            failed_count: convert::int32(failed),
            refused_count: convert::int32(refused),
        }
    }

    fn is_over(&self, age: Duration) -> bool {
        let number = age.as_secs() / SLOT.as_secs();
        number - self.newest.min(number) >= SLOTS as u64
    }
}

fn index(slot: u64) -> usize {
    usize::try_from(slot % SLOTS as u64).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn shown(recent: &RecentAnswers, age: u64) -> (i64, i32, i32) {
        let shown = recent.within(seconds(age));
        let window = shown.window_duration.unwrap_or_default().seconds;
        (window, shown.completed_count, shown.failed_count)
    }

    #[test]
    fn answers_count_for_five_minutes() {
        let mut recent = RecentAnswers::default();
        recent.at(seconds(3)).completed += 2;
        recent.at(seconds(65)).failed += 1;
        assert_eq!(shown(&recent, 65), (65, 2, 1));
        assert_eq!(shown(&recent, 299), (299, 2, 1));
        // The slot of the first answers is over, and so is its time.
        assert_eq!(shown(&recent, 300), (290, 0, 1));
        assert_eq!(shown(&recent, 400), (290, 0, 0));
        assert!(recent.is_over(seconds(400)));
    }

    #[test]
    fn a_slot_that_is_used_again_starts_at_zero() {
        let mut recent = RecentAnswers::default();
        recent.at(seconds(5)).completed += 7;
        recent.at(seconds(305)).completed += 1;
        assert_eq!(shown(&recent, 305), (295, 1, 0));
        recent.at(seconds(10_000)).completed += 3;
        assert_eq!(shown(&recent, 10_001), (291, 3, 0));
    }

    #[test]
    fn idle_workers_are_forgotten() {
        let (activities, provider) = (Activities::default(), "p".parse::<ProviderId>().unwrap());
        let open = activities.connect(&provider, &"open".into());
        for number in 0..10_000 {
            let id = format!("w{number}").into();
            drop(activities.connect(&provider, &id));
        }
        let known = locked(&activities.0).workers.len();
        assert!(known <= 2 * (MOST_IDLE + FIRST_SWEEP), "{known}");
        let again = activities.connect(&provider, &"open".into());
        assert!(Arc::ptr_eq(&open, &again));
    }
}
