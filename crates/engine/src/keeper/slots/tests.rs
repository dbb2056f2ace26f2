//! Rules of the queue for slots.

use std::time::Duration;

use stateway_chance::Chance;

use super::*;

/// Slots with the executions that have begun, driven like the keeper does.
struct Run {
    slots: Slots,
    active: Vec<(i64, Arc<str>)>,
    now: Instant,
}

impl Run {
    fn new(most: usize) -> Self {
        Self {
            slots: Slots::new(most),
            active: Vec::new(),
            now: Instant::now(),
        }
    }

    fn queued(&self, number: i64, definition: &str, limit: Option<usize>) -> Queued {
        Queued {
            number,
            tenant: "".into(),
            definition: definition.into(),
            limit,
            since: self.now,
        }
    }

    fn queue(&mut self, number: i64, definition: &str, limit: Option<usize>) -> Vec<i64> {
        let queued = self.queued(number, definition, limit);
        self.slots.push(queued);
        self.grant()
    }

    /// The executions that begin now.
    fn grant(&mut self) -> Vec<i64> {
        let mut begun = Vec::new();
        while let Some(next) = self.slots.next(self.active.len(), self.now) {
            self.slots.begin(&next.definition, next.number);
            self.active
                .push((next.number, Arc::clone(&next.definition)));
            begun.push(next.number);
        }
        begun
    }

    fn end(&mut self, number: i64) -> Vec<i64> {
        let at = self.active.iter().position(|(active, _)| *active == number);
        let (_, definition) = self.active.remove(at.expect("it is active"));
        self.slots.end(&definition, number);
        self.grant()
    }

    fn cancel(&mut self, number: i64) -> Vec<i64> {
        self.slots.leave(number);
        self.grant()
    }

    fn cause(&self, number: i64) -> Option<QueueCause> {
        self.slots.cause(number, self.active.len())
    }
}

fn concurrency(running: usize, limit: usize) -> QueueCause {
    QueueCause::Concurrency { running, limit }
}

#[test]
fn the_next_one_moves_up_when_an_execution_that_got_a_slot_does_not_begin() {
    let mut run = Run::new(2);
    run.slots.push(run.queued(1, "one", Some(1)));
    run.slots.push(run.queued(2, "one", Some(1)));
    let ended = run.slots.next(0, run.now).map(|queued| queued.definition);
    let ended = ended.expect("the first execution gets the slot");
    assert!(run.slots.next(0, run.now).is_none());
    run.slots.give_up(&ended);
    let next = run.slots.next(0, run.now).map(|queued| queued.number);
    assert_eq!(next, Some(2));
}

#[test]
fn no_more_begin_than_the_limit_in_all() {
    let mut run = Run::new(2);
    assert_eq!(run.queue(1, "d", None), [1]);
    assert_eq!(run.queue(2, "d", None), [2]);
    assert_eq!(run.queue(3, "d", None), [] as [i64; 0]);
    let (active, limit) = (2, 2);
    assert_eq!(run.cause(3), Some(QueueCause::MaxActive { active, limit }));
    assert_eq!(run.end(1), [3]);
}

#[test]
fn a_definition_at_its_limit_delays_no_other_definition() {
    let mut run = Run::new(10);
    assert_eq!(run.queue(1, "one", Some(1)), [1]);
    assert_eq!(run.queue(2, "one", Some(1)), [] as [i64; 0]);
    assert_eq!(run.queue(3, "other", None), [3]);
    assert_eq!(run.cause(2), Some(concurrency(1, 1)));
    assert_eq!(run.end(1), [2]);
    assert_eq!(run.cause(2), None);
}

#[test]
fn the_next_one_moves_up_when_the_one_that_moved_up_is_cancelled() {
    let mut run = Run::new(2);
    assert_eq!(run.queue(1, "one", Some(1)), [1]);
    assert_eq!(run.queue(2, "one", Some(1)), [] as [i64; 0]);
    assert_eq!(run.queue(3, "one", Some(1)), [] as [i64; 0]);
    assert_eq!(run.queue(4, "other", None), [4]);
    assert_eq!(run.queue(5, "other", None), [] as [i64; 0]);
    // 5 begins in the place of 1, and 2 moves up behind it.
    assert_eq!(run.end(1), [5]);
    assert_eq!(run.cancel(2), [] as [i64; 0]);
    assert_eq!(run.end(4), [3]);
}

#[test]
fn an_execution_that_could_not_begin_is_tried_again() {
    let mut run = Run::new(2);
    let queued = run.queued(1, "one", Some(1));
    run.slots.push(queued);
    let next = run.slots.next(0, run.now).expect("one may begin");
    run.slots.postpone(next, run.now + Duration::from_secs(1));
    assert_eq!(
        run.queue(2, "one", Some(1)),
        [2],
        "other definitions are not delayed"
    );
    run.now += Duration::from_secs(1);
    assert_eq!(run.grant(), [] as [i64; 0]);
    assert_eq!(run.end(2), [1]);
}

#[test]
fn a_postponed_execution_that_was_cancelled_does_not_begin() {
    let mut run = Run::new(2);
    let queued = run.queued(1, "one", None);
    let until = run.now + Duration::from_secs(1);
    run.slots.postpone(queued, until);
    assert_eq!(run.slots.next_postponed(), Some(until));
    run.slots.leave(1);
    run.now = until;
    assert_eq!(run.grant(), [] as [i64; 0]);
    assert_eq!(run.slots.next_postponed(), None);
}

#[test]
fn an_execution_that_begins_without_waiting_counts_and_keeps_the_order() {
    let mut run = Run::new(2);
    run.queue(1, "other", None);
    run.queue(2, "other", None);
    assert_eq!(run.queue(3, "one", Some(1)), [] as [i64; 0]);
    assert_eq!(run.queue(4, "one", Some(1)), [] as [i64; 0]);
    // One that had ended runs again.
    run.slots.begin(&"one".into(), 9);
    run.active.push((9, "one".into()));
    run.end(1);
    assert_eq!(run.end(2), [] as [i64; 0]);
    assert_eq!(run.cause(3), Some(concurrency(1, 1)));
    assert_eq!(run.end(9), [3]);
    assert_eq!(run.end(3), [4]);
}

#[test]
fn an_execution_waits_once_and_may_wait_again() {
    let mut run = Run::new(1);
    run.queue(1, "d", None);
    run.queue(2, "d", None);
    run.queue(2, "d", None);
    assert_eq!(run.cancel(2), [] as [i64; 0]);
    run.queue(2, "d", None);
    assert_eq!(run.end(1), [2]);
    assert_eq!(run.end(2), [] as [i64; 0]);
}

/// Every queued execution begins in the end, whatever begins, ends and leaves in between.
#[test]
fn every_execution_begins_under_random_ends_and_cancellations() {
    for seed in 0..2_000_u64 {
        let mut chance = Chance::new(seed);
        let mut run = Run::new(2);
        let mut waiting = BTreeSet::new();
        let mut last = 0;
        for _ in 0..60 {
            let begun = match chance.below(4) {
                0 | 1 => {
                    last += 1;
                    waiting.insert(last);
                    let definitions = [("a", Some(1)), ("b", Some(2)), ("c", None)];
                    let (name, limit) = definitions[chance.below(3)];
                    run.queue(last, name, limit)
                }
                2 if !run.active.is_empty() => {
                    let at = chance.below(run.active.len());
                    run.end(run.active[at].0)
                }
                _ => {
                    let all: Vec<i64> = waiting.iter().copied().collect();
                    if all.is_empty() {
                        continue;
                    }
                    let gone = all[chance.below(all.len())];
                    waiting.remove(&gone);
                    run.cancel(gone)
                }
            };
            for number in begun {
                assert!(waiting.remove(&number), "seed {seed}: {number} began twice");
            }
            for (definition, limit) in [("a", 1), ("b", 2)] {
                let running = run.active.iter().filter(|(_, of)| **of == *definition);
                assert!(running.count() <= limit, "seed {seed}");
            }
        }
        while let Some((number, _)) = run.active.first().cloned() {
            for begun in run.end(number) {
                waiting.remove(&begun);
            }
        }
        assert_eq!(waiting, BTreeSet::new(), "seed {seed}: these never begin");
    }
}
