//! Rules of the book of tasks and workers.

use super::*;

fn task(step: &str, attempt: u32) -> Task {
    Task::of(step, attempt)
}

fn role(role: &str) -> Need {
    Need::Role {
        role: role.into(),
        skill: "".into(),
    }
}

fn skill(role: &str, skill: &str) -> Need {
    Need::Role {
        role: role.into(),
        skill: skill.into(),
    }
}

/// The book, with a clock that the test moves.
struct Book {
    dispatch: Dispatch,
    now: Moment,
    sessions: u64,
}

impl Book {
    fn new() -> Self {
        let now = Moment {
            wall: Timestamp::UNIX_EPOCH,
            steady: Instant::now(),
        };
        Self {
            dispatch: Dispatch::default(),
            now,
            sessions: 0,
        }
    }

    fn connect(&mut self, offer: Offer) -> WorkerIx {
        self.sessions += 1;
        let (tell, _) = mpsc::unbounded_channel();
        let until = self.now.steady + Duration::from_secs(30);
        let session = (self.sessions, tell);
        self.dispatch.connect(offer, session, (until, false)).0
    }

    fn enter(&mut self, number: i64, need: &Need, tenant: &str) -> Option<WorkerIx> {
        let now = self.now.steady;
        self.dispatch
            .enter(number, (task("a", 1), 0), (need, tenant), now)
    }

    fn hold(&mut self, number: i64, hand_out: u32, worker: WorkerIx) {
        let held = (task("a", 1), 0, hand_out);
        self.dispatch.enter_held(number, held, worker, self.now);
    }

    fn pass(&mut self, by: Duration) {
        self.now.steady += by;
        self.now.wall = self.now.wall.checked_add(by).expect("a time");
    }
}

fn offer(worker: &str, roles: &[&str], capacity: u32) -> Offer {
    Offer {
        worker: worker.into(),
        roles: roles.iter().map(|role| (*role).into()).collect(),
        capacity,
        ..Offer::default()
    }
}

fn token(number: i64, hand_out: u32) -> TaskToken {
    TaskToken {
        number,
        branch: 0,
        task: task("a", 1),
        hand_out,
    }
}

fn numbers(book: &mut Book, worker: WorkerIx) -> Vec<i64> {
    std::iter::from_fn(|| book.dispatch.next_for(worker))
        .map(|(number, _)| number)
        .collect()
}

#[test]
fn a_task_goes_to_workers_of_its_role_in_turn() {
    let mut book = Book::new();
    let first = book.connect(offer("w1", &["x"], 2));
    let second = book.connect(offer("w2", &["x"], 2));
    book.connect(offer("w3", &["y"], 2));
    let given: Vec<_> = (1..=5)
        .map(|number| book.enter(number, &role("x"), ""))
        .collect();
    let expected = [Some(first), Some(second), Some(first), Some(second), None];
    assert_eq!(given, expected);
}

#[test]
fn a_worker_gets_waiting_tasks_up_to_its_capacity() {
    let mut book = Book::new();
    for number in 1..=3 {
        assert_eq!(book.enter(number, &role("x"), ""), None);
    }
    let worker = book.connect(offer("w1", &["x"], 2));
    assert_eq!(numbers(&mut book, worker), [1, 2]);
    book.dispatch.remove(1, &"a".into());
    assert_eq!(numbers(&mut book, worker), [3]);
}

#[test]
fn a_worker_gets_only_what_its_skills_and_its_tenant_allow() {
    let mut book = Book::new();
    book.enter(1, &skill("x", "rust"), "");
    book.enter(2, &skill("x", ""), "acme");
    book.enter(3, &skill("x", ""), "other");
    let acme = book.connect(Offer {
        tenant: "acme".into(),
        ..offer("w1", &["x"], 9)
    });
    assert_eq!(numbers(&mut book, acme), [2]);
    let skilled = book.connect(Offer {
        skills: vec!["rust".into()],
        ..offer("w2", &["x"], 9)
    });
    let mut given = numbers(&mut book, skilled);
    given.sort_unstable();
    assert_eq!(given, [1, 3]);
}

#[test]
fn a_task_that_was_taken_out_is_not_given_to_anyone() {
    let mut book = Book::new();
    book.enter(1, &role("x"), "");
    book.enter(2, &role("x"), "");
    book.dispatch.remove(1, &"a".into());
    let worker = book.connect(offer("w1", &["x"], 9));
    assert_eq!(numbers(&mut book, worker), [2]);
}

#[test]
fn a_silent_worker_gets_nothing_until_it_is_heard() {
    let mut book = Book::new();
    let worker = book.connect(offer("w1", &["x"], 2));
    book.dispatch.silence(worker);
    assert_eq!(book.enter(1, &role("x"), ""), None);
    assert_eq!(numbers(&mut book, worker), [] as [i64; 0]);
    let until = book.now.steady;
    let silent = book
        .dispatch
        .worker_mut(worker)
        .map(|worker| worker.heard(until));
    assert_eq!(silent, Some(true));
    assert_eq!(numbers(&mut book, worker), [1]);
}

#[test]
fn a_worker_that_reconnects_keeps_its_tasks_and_a_dismissed_one_loses_them() {
    let mut book = Book::new();
    let worker = book.connect(offer("w1", &["x"], 2));
    book.hold(1, 1, worker);
    book.dispatch.disconnect(1, book.now.steady);
    assert_eq!(book.connect(offer("w1", &["x"], 2)), worker);
    assert_eq!(book.dispatch.tasks_with(worker), [(1, task("a", 1))]);
    let (dismissed, had) = book.dispatch.dismiss(worker);
    assert!(dismissed.is_some());
    assert_eq!(had, [(1, task("a", 1))]);
    assert_eq!(book.dispatch.of_session(2), None);
}

#[test]
fn only_the_present_hand_out_of_a_worker_counts() {
    let mut book = Book::new();
    let first = book.connect(offer("w1", &["x"], 2));
    let second = book.connect(offer("w2", &["x"], 2));
    book.hold(1, 3, first);
    assert!(book.dispatch.has(first, &token(1, 3)));
    assert!(!book.dispatch.has(first, &token(1, 2)), "a straggler");
    assert!(!book.dispatch.has(second, &token(1, 3)), "another worker");
    assert!(!book.dispatch.has(first, &token(2, 3)), "another execution");
    let other_branch = TaskToken {
        branch: 1,
        ..token(1, 3)
    };
    assert!(!book.dispatch.has(first, &other_branch));
}

#[test]
fn progress_is_recorded_at_once_and_then_after_a_pause() {
    let mut book = Book::new();
    let worker = book.connect(offer("w1", &["x"], 2));
    book.hold(1, 1, worker);
    let step: Arc<str> = "a".into();
    let progress = |fraction| Progress::new(fraction, "");
    let now = book.now;
    let first = book.dispatch.heard((1, &step), progress(0.1), now);
    assert_eq!(first, progress(0.1));
    assert_eq!(book.dispatch.heard((1, &step), progress(0.2), now), None);
    assert_eq!(book.dispatch.heard((1, &step), progress(0.3), now), None);
    assert_eq!(book.dispatch.take_report(now.steady), None);
    book.pass(REPORTS_APART);
    let later = book.now.steady;
    let recorded = book.dispatch.take_report(later);
    let newest = progress(0.3).expect("progress");
    assert_eq!(recorded, Some((1, task("a", 1), newest)));
    assert_eq!(book.dispatch.take_report(later), None);
    assert_eq!(book.dispatch.next_report(), None);
}

#[test]
fn the_reports_of_a_task_that_was_taken_out_are_dropped() {
    let mut book = Book::new();
    let worker = book.connect(offer("w1", &["x"], 2));
    book.hold(1, 1, worker);
    let step: Arc<str> = "a".into();
    for fraction in [0.1, 0.2] {
        let progress = Progress::new(fraction, "");
        book.dispatch.heard((1, &step), progress, book.now);
    }
    book.dispatch.remove(1, &step);
    book.pass(REPORTS_APART);
    assert_eq!(book.dispatch.take_report(book.now.steady), None);
}
