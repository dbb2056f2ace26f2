//! The tasks of a worker: ready, in progress, or answered but not acknowledged.
//!
//! Bookkeeping only: nothing here waits, sends or runs. A token has at most one record, so a
//! task that arrives twice runs once.

use std::collections::{HashMap, VecDeque};

use stateway_proto::v1;
use stateway_proto::v1::stream_tasks_request::Message;
use tokio_util::sync::CancellationToken;

/// Everything a worker has.
pub(super) struct TaskRecords {
    capacity: usize,
    busy: usize,
    arrivals: u64,
    ready: VecDeque<(u64, v1::Task)>,
    places: HashMap<String, Place>,
}

/// Where a token is.
enum Place {
    Ready(u64),
    UnderWay(u64, Signals),
    /// Answered; kept until the gateway says that it has it.
    Answered(Message),
}

/// A task to begin with.
pub(super) struct Begun {
    /// Tells this piece of work from a later one with the same token.
    pub(super) arrival: u64,
    pub(super) task: v1::Task,
    pub(super) signals: Signals,
}

/// The messages that a running handler can receive.
#[derive(Debug, Clone)]
pub(super) struct Signals {
    /// It is asked to stop.
    pub(super) cancelled: CancellationToken,
    /// Its answer is not wanted any more, so it is asked to stop too.
    pub(super) withdrawn: CancellationToken,
}

impl Signals {
    pub(super) fn new() -> Self {
        let withdrawn = CancellationToken::new();
        Self {
            cancelled: withdrawn.child_token(),
            withdrawn,
        }
    }
}

impl TaskRecords {
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            capacity,
            busy: 0,
            arrivals: 0,
            ready: VecDeque::new(),
            places: HashMap::new(),
        }
    }

    /// Takes a task, unless it is here already.
    pub(super) fn take(&mut self, task: v1::Task) {
        if self.places.contains_key(&task.task_token) {
            return;
        }
        self.arrivals += 1;
        let place = Place::Ready(self.arrivals);
        self.places.insert(task.task_token.clone(), place);
        self.ready.push_back((self.arrivals, task));
    }

    /// The next task to begin with, while there are hands free.
    pub(super) fn begin(&mut self) -> Option<Begun> {
        while self.busy < self.capacity {
            let (arrival, task) = self.ready.pop_front()?;
            let Some(place) = self.places.get_mut(&task.task_token) else {
                continue;
            };
            if !matches!(place, Place::Ready(ready) if *ready == arrival) {
                continue;
            }
            let signals = Signals::new();
            *place = Place::UnderWay(arrival, signals.clone());
            self.busy += 1;
            return Some(Begun {
                arrival,
                task,
                signals,
            });
        }
        None
    }

    /// Notes an answer; it is given back when it is still wanted.
    pub(super) fn finish(&mut self, arrival: u64, answer: Message) -> Option<Message> {
        self.busy -= 1;
        let place = self.places.get_mut(token(&answer))?;
        if !matches!(place, Place::UnderWay(begun, _) if *begun == arrival) {
            return None;
        }
        *place = Place::Answered(answer.clone());
        Some(answer)
    }

    /// The gateway has the answer, or does not want it.
    pub(super) fn settle(&mut self, token: &str) {
        if let Some(Place::Answered(_)) = self.places.get(token) {
            self.places.remove(token);
        }
    }

    /// Asks for a task to be stopped; the answer is still wanted. A task that has not begun is taken
    /// out of the records and has to be given back.
    pub(super) fn cancel(&mut self, token: &str) -> Option<String> {
        match self.places.get(token)? {
            Place::UnderWay(_, signals) => {
                signals.cancelled.cancel();
                None
            }
            Place::Ready(_) => {
                self.places.remove(token);
                Some(token.to_owned())
            }
            Place::Answered(_) => None,
        }
    }

    /// A task need not be done any more. An answer on its way stays: it is accepted or refused.
    pub(super) fn withdraw(&mut self, token: &str) {
        match self.places.get(token) {
            Some(Place::UnderWay(_, signals)) => signals.withdrawn.cancel(),
            Some(Place::Ready(_)) => {}
            Some(Place::Answered(_)) | None => return,
        }
        self.places.remove(token);
    }

    /// The answers that the gateway has not acknowledged.
    pub(super) fn unacknowledged(&self) -> impl Iterator<Item = &Message> {
        self.places.values().filter_map(|place| match place {
            Place::Answered(answer) => Some(answer),
            Place::Ready(_) | Place::UnderWay(..) => None,
        })
    }

    /// Removes all tasks that have not begun, and returns their tokens.
    pub(super) fn give_back_ready(&mut self) -> Vec<String> {
        self.ready.clear();
        self.give_back(|place| matches!(place, Place::Ready(_)))
    }

    /// Removes all tasks that have begun and are not answered, and returns their tokens.
    pub(super) fn give_back_begun(&mut self) -> Vec<String> {
        self.give_back(|place| match place {
            Place::UnderWay(_, signals) => {
                signals.withdrawn.cancel();
                true
            }
            Place::Ready(_) | Place::Answered(_) => false,
        })
    }

    fn give_back(&mut self, which: impl Fn(&Place) -> bool) -> Vec<String> {
        self.places
            .extract_if(|_, place| which(place))
            .map(|(token, _)| token)
            .collect()
    }

    /// How many tasks are under way, withdrawn ones included.
    pub(super) const fn busy(&self) -> usize {
        self.busy
    }

    /// Nothing is under way and every answer is acknowledged.
    pub(super) fn is_clear(&self) -> bool {
        self.busy == 0 && self.places.is_empty()
    }
}

fn token(answer: &Message) -> &str {
    match answer {
        Message::Completed(done) => &done.task_token,
        Message::Failed(failed) => &failed.task_token,
        Message::Released(released) => &released.task_token,
        Message::Heartbeat(heartbeat) => &heartbeat.task_token,
        Message::Offer(_) => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(token: &str) -> v1::Task {
        v1::Task {
            task_token: token.into(),
            ..v1::Task::default()
        }
    }

    fn done(token: &str) -> Message {
        Message::Completed(v1::TaskCompleted {
            task_token: token.into(),
            ..v1::TaskCompleted::default()
        })
    }

    fn records(capacity: usize, tokens: &[&str]) -> TaskRecords {
        let mut records = TaskRecords::new(capacity);
        tokens.iter().for_each(|token| records.take(task(token)));
        records
    }

    fn tokens(begun: &[Begun]) -> Vec<&str> {
        begun
            .iter()
            .map(|begun| begun.task.task_token.as_str())
            .collect()
    }

    fn begin(records: &mut TaskRecords) -> Vec<Begun> {
        std::iter::from_fn(|| records.begin()).collect()
    }

    #[test]
    fn no_more_is_begun_than_there_are_hands() {
        let mut records = records(2, &["a", "b", "c"]);
        let begun = begin(&mut records);
        assert_eq!(tokens(&begun), ["a", "b"]);
        assert_eq!(records.finish(begun[0].arrival, done("a")), Some(done("a")));
        assert_eq!(tokens(&begin(&mut records)), ["c"]);
    }

    #[test]
    fn a_task_that_comes_twice_is_worked_on_once() {
        let mut records = records(4, &["a", "a"]);
        let begun = begin(&mut records);
        assert_eq!(tokens(&begun), ["a"]);
        records.take(task("a"));
        assert_eq!(tokens(&begin(&mut records)), [""; 0]);
        records.finish(begun[0].arrival, done("a"));
        records.take(task("a"));
        assert_eq!(
            tokens(&begin(&mut records)),
            [""; 0],
            "its answer is on its way"
        );
    }

    #[test]
    fn an_answer_is_kept_until_it_is_settled() {
        let mut records = records(1, &["a"]);
        let begun = begin(&mut records);
        records.finish(begun[0].arrival, done("a"));
        assert_eq!(records.unacknowledged().collect::<Vec<_>>(), [&done("a")]);
        assert!(!records.is_clear());
        records.settle("a");
        assert!(records.is_clear());
    }

    #[test]
    fn the_answer_to_a_withdrawn_task_is_dropped_and_its_hand_is_free() {
        let mut records = records(1, &["a", "b"]);
        let begun = begin(&mut records);
        records.withdraw("a");
        assert!(begun[0].signals.cancelled.is_cancelled());
        assert_eq!(
            tokens(&begin(&mut records)),
            [""; 0],
            "its hand is still busy"
        );
        assert_eq!(records.finish(begun[0].arrival, done("a")), None);
        assert_eq!(tokens(&begin(&mut records)), ["b"]);
    }

    #[test]
    fn the_answer_to_a_cancelled_task_is_sent() {
        let mut records = records(1, &["a"]);
        let begun = begin(&mut records);
        assert_eq!(records.cancel("a"), None);
        assert!(begun[0].signals.cancelled.is_cancelled());
        assert!(!begun[0].signals.withdrawn.is_cancelled());
        assert_eq!(records.finish(begun[0].arrival, done("a")), Some(done("a")));
        assert_eq!(records.cancel("a"), None, "its answer is on its way");
        assert_eq!(records.unacknowledged().collect::<Vec<_>>(), [&done("a")]);
    }

    #[test]
    fn a_task_that_was_cancelled_before_it_began_is_given_back() {
        let mut records = records(1, &["a", "b"]);
        assert_eq!(records.cancel("a").as_deref(), Some("a"));
        assert_eq!(records.cancel("unknown"), None);
        assert_eq!(tokens(&begin(&mut records)), ["b"]);
    }

    #[test]
    fn a_task_that_was_withdrawn_before_it_began_is_not_begun() {
        let mut records = records(1, &["a", "b"]);
        records.withdraw("a");
        assert_eq!(tokens(&begin(&mut records)), ["b"]);
    }

    #[test]
    fn a_withdrawn_task_may_come_back_and_only_its_new_answer_counts() {
        let mut records = records(2, &["a"]);
        let first = begin(&mut records);
        records.withdraw("a");
        records.take(task("a"));
        let second = begin(&mut records);
        assert_eq!(records.finish(first[0].arrival, done("a")), None);
        assert_eq!(
            records.finish(second[0].arrival, done("a")),
            Some(done("a"))
        );
    }

    #[test]
    fn what_has_not_begun_is_given_back() {
        let mut records = records(1, &["a", "b"]);
        let begun = begin(&mut records);
        assert_eq!(records.give_back_ready(), ["b"]);
        assert_eq!(records.give_back_begun(), ["a"]);
        assert!(begun[0].signals.cancelled.is_cancelled());
        records.finish(begun[0].arrival, done("a"));
        assert!(records.is_clear());
    }
}
