//! What happens between two turns: clients ask, workers answer, clocks move, processes end.

use std::sync::Arc;
use std::time::Duration;

use stateway_engine::{Steer, View};
use stateway_machine::{Awaited, CancelMode, Data, Resolution};
use stateway_model::Progress;

use super::World;
use crate::client::{Wish, deep, large, padded, payload};
use crate::definitions::{APPLIED, HOSTILE, KNOWN};
use crate::worker::AnswerKind;

/// The most executions that clients start in one schedule.
const MOST_STARTS: usize = 14;
/// The deepest payload that a client sends.
const DEEPEST: usize = 160;
/// The farthest the wall clock is from the steady one, in milliseconds.
const MOST_AHEAD: i64 = 30 * 24 * 3_600_000;

impl World {
    pub(super) fn act(&mut self) -> Result<(), String> {
        match self.chance.below(100) {
            0..45 => self.client(),
            45..95 => {
                self.worker();
                Ok(())
            }
            _ => self.process(),
        }
    }

    /// Time passes between turns; now and then somebody sets the clock.
    pub(super) fn time_passes(&mut self) -> Result<(), String> {
        let milliseconds = match self.chance.below(20) {
            0..9 => self.chance.between(0, 50),
            9..15 => self.chance.between(50, 3_000),
            15..18 => self.chance.between(3_000, 40_000),
            _ => self.chance.between(40_000, 700_000),
        };
        self.clock
            .pass(Duration::from_millis(milliseconds.unsigned_abs()));
        if self.chance.percent(4) {
            let jump = self.chance.between(-7_200_000, 7_200_000);
            if (self.clock.since_beginning() + jump).abs() < MOST_AHEAD {
                self.trace
                    .note(format_args!("the clock jumps by {jump} ms"));
                self.totals.count("clock: jumps");
                self.clock.jump(jump);
                let sent = self.pending.iter().filter_map(|pending| {
                    let request = self.book.requests.get(pending.request)?;
                    match request.wish {
                        Wish::Purge { before } => Some(before),
                        _ => None,
                    }
                });
                for before in sent.collect::<Vec<_>>() {
                    self.note_removable(before)?;
                }
            }
        }
        Ok(())
    }

    fn process(&mut self) -> Result<(), String> {
        match self.chance.below(10) {
            0..4 if self.owner.is_some() => self.crash(),
            4..7 if self.owner.is_some() => return self.second_process(),
            7 | 8 if self.owner.is_some() && self.deposed.is_none() => self.depose(),
            _ => self.end_deposed(),
        }
        Ok(())
    }

    /// A second process tries to open the disk while the first has it.
    fn second_process(&mut self) -> Result<(), String> {
        let second = stateway_engine::simulation::Process::open(
            &self.disk,
            &self.config,
            |_| stateway_engine::simulation::StoreFate::Works,
            self.clock.now(),
        );
        self.totals.count("engine: second openers refused");
        match second {
            Ok(_) => Err("two processes have the disk".to_owned()),
            Err(_) => Ok(()),
        }
    }

    /// The disk goes to another process; the first one does not know.
    fn depose(&mut self) {
        self.trace.note(format_args!("the engine loses the disk"));
        self.totals.count("engine: processes that lost the disk");
        self.disk.revoke();
        self.deposed = self.owner.take();
        for pending in &mut self.pending {
            pending.deposed = true;
        }
        for worker in &mut self.workers {
            if let Some(session) = &mut worker.session {
                session.deposed = true;
            }
        }
        self.open();
    }

    fn client(&mut self) -> Result<(), String> {
        let wish = match self.chance.below(100) {
            0..30 => self.start(),
            30..42 => return self.repeat(),
            42..44 => self.publish(),
            44..46 => return self.purge(),
            46..48 => self.define(),
            _ => self.steer()?,
        };
        if let Some(wish) = wish {
            self.ask(wish);
        }
        Ok(())
    }

    fn start(&mut self) -> Option<Wish> {
        let starts = self.book.inputs.len();
        if starts >= MOST_STARTS {
            return None;
        }
        let definition = match self.chance.below(100) {
            0..3 => self.chance.pick(APPLIED)?.0,
            3..9 => self.chance.pick(HOSTILE)?.0,
            9 => "unknown",
            _ => self.chance.pick(KNOWN)?.0,
        };
        let input = self.input(1_000_000 + starts);
        let named = self.chance.percent(50);
        let later = self.chance.percent(10);
        Some(Wish::Start {
            definition,
            id: named.then(|| self.id(starts)),
            input,
            tenant: self.chance.pick(&["", "", "blue", "green"])?,
            labels: if self.chance.percent(3) { 200 } else { 0 },
            not_before: later.then(|| {
                let ahead = self.chance.between(1_000, 600_000);
                let at = self.clock.wall();
                at + jiff::SignedDuration::from_millis(ahead)
            }),
        })
    }

    /// A payload of a client: mostly small, now and then nearly too large, too large or too deep.
    fn input(&mut self, nonce: usize) -> Data {
        match self.chance.below(60) {
            0 => large(3_000),
            1 => {
                let levels = self.chance.below(DEEPEST);
                deep(levels)
            }
            2..5 => padded(nonce),
            _ => payload(nonce),
        }
    }

    /// The id of a new execution: now and then one that the engine must refuse.
    fn id(&mut self, starts: usize) -> Arc<str> {
        match self.chance.below(40) {
            0 => "x".repeat(2_000).into(),
            1 => format!("x{starts}~a~1").into(),
            _ => format!("x{starts}").into(),
        }
    }

    /// A client repeats a request, because the answer was lost or for no reason.
    fn repeat(&mut self) -> Result<(), String> {
        let request = self.chance.below(self.book.requests.len());
        let Some(known) = self.book.requests.get(request) else {
            return Ok(());
        };
        let keyed = !matches!(
            known.wish,
            Wish::Purge { .. } | Wish::Remove { .. } | Wish::Publish { .. }
        );
        let altered = keyed && self.chance.percent(5);
        self.trace.note(format_args!("{} again", known.key.id));
        self.totals.count("clients: repeated requests");
        match known.wish {
            Wish::Purge { before } => self.note_removable(before)?,
            Wish::Remove { .. } => {
                let ended = self.ended()?;
                self.book.removable.extend(ended);
            }
            _ => {}
        }
        self.send(request, altered);
        Ok(())
    }

    /// Notes what a purge may remove: what has ended, and everything if the clock was set back behind the
    /// time that the purge names. Then an execution may end in the turn of the purge and be removed.
    pub(super) fn note_removable(&mut self, before: jiff::Timestamp) -> Result<(), String> {
        let ended = self.ended()?;
        self.book.removable.extend(ended);
        if before > self.clock.wall() {
            for number in self.numbers()? {
                let view = self.view(number)?;
                self.book.removable.extend(view.map(|view| view.id));
            }
        }
        Ok(())
    }

    fn publish(&mut self) -> Option<Wish> {
        let starts = self.book.inputs.len();
        if starts >= MOST_STARTS {
            return None;
        }
        Some(Wish::Publish {
            payload: self.input(1_000_000 + starts),
        })
    }

    fn purge(&mut self) -> Result<(), String> {
        let ended = self.ended()?;
        let one = self.chance.pick(&ended).cloned();
        let wish = match one {
            Some(execution) if self.chance.percent(50) => {
                self.book.removable.insert(Arc::clone(&execution));
                Wish::Remove { execution }
            }
            _ => {
                let before = self.clock.wall();
                self.note_removable(before)?;
                Wish::Purge { before }
            }
        };
        self.ask(wish);
        Ok(())
    }

    fn define(&mut self) -> Option<Wish> {
        let (definition, source) = *self.chance.pick(APPLIED)?;
        Some(match self.chance.below(6) {
            0 => Wish::Delete { definition },
            1 => Wish::SwitchTrigger {
                definition,
                enabled: self.chance.percent(50),
            },
            _ => Wish::Apply { source },
        })
    }

    /// A client does something to an execution.
    fn steer(&mut self) -> Result<Option<Wish>, String> {
        let numbers = self.numbers()?;
        let Some(number) = self.chance.pick(&numbers) else {
            return Ok(None);
        };
        let Some(view) = self.view(*number)? else {
            return Ok(None);
        };
        let answer = self.chance.percent(60);
        let awaited = self.chance.pick(&view.awaited).cloned();
        if let Some(awaited) = awaited.filter(|_| answer)
            && let Some(wish) = self.meet(&view, awaited)
        {
            return Ok(Some(wish));
        }
        Ok(self.intervene(&view))
    }

    /// Somebody does what an execution waits for.
    fn meet(&mut self, view: &View, awaited: Awaited) -> Option<Wish> {
        let execution = Arc::clone(&view.id);
        Some(match awaited {
            Awaited::Trigger => return None,
            Awaited::Resume => Wish::Steer {
                execution,
                steer: Steer::Resume,
            },
            Awaited::Signal { name, .. } => self.signal(execution, name),
            Awaited::Approval {
                step,
                attempt,
                branch,
                ..
            } => Wish::Decide {
                execution,
                step,
                attempt,
                branch,
                grant: self.chance.percent(75),
            },
            Awaited::Person {
                step,
                attempt,
                branch,
                ..
            } => Wish::Resolve {
                execution,
                step,
                attempt,
                branch,
                resolution: match self.chance.below(3) {
                    0 => Resolution::Cancel,
                    1 => Resolution::Reassign { role: "r1".into() },
                    _ => Resolution::Resume,
                },
            },
        })
    }

    fn signal(&mut self, execution: Arc<str>, name: Arc<str>) -> Wish {
        let payload = self.input(self.book.requests.len());
        let steer = Steer::Signal { name, payload };
        Wish::Steer { execution, steer }
    }

    fn intervene(&mut self, view: &View) -> Option<Wish> {
        let execution = Arc::clone(&view.id);
        let steps: Vec<Arc<str>> = view
            .steps
            .iter()
            .map(|step| Arc::from(step.name.as_str()))
            .collect();
        let step = self.chance.pick(&steps).cloned().unwrap_or_default();
        let steer = match self.chance.below(20) {
            0..3 => Steer::Cancel {
                mode: *self.chance.pick(&[
                    CancelMode::Policy,
                    CancelMode::Compensate,
                    CancelMode::Kill,
                ])?,
                cause: "".into(),
            },
            3..6 => Steer::Pause { cause: "".into() },
            6..11 => Steer::Resume,
            11..14 => Steer::RetryNow {
                step: if self.chance.percent(50) {
                    step
                } else {
                    "".into()
                },
            },
            14..17 => return Some(self.signal(execution, "go".into())),
            _ => {
                let step = if self.chance.percent(60) {
                    step
                } else {
                    "".into()
                };
                return Some(Wish::RetryFrom { execution, step });
            }
        };
        Some(Wish::Steer { execution, steer })
    }

    fn worker(&mut self) {
        let which = self.chance.below(self.workers.len());
        let Some(worker) = self.workers.get(which) else {
            return;
        };
        if worker.session.is_none() {
            self.connect(which);
            return;
        }
        match self.chance.below(100) {
            0..60 => self.answer(which),
            60..68 => self.late(which),
            68..72 => self.other(which),
            72..74 => self.garbage(which),
            74..86 => self.heartbeat(which),
            86..90 => self.offer(which),
            90..95 => self.vanish(which),
            _ => self.reconnect(which),
        }
    }

    fn roles(&mut self) -> &'static [&'static str] {
        match self.chance.below(4) {
            0 => &["r1"],
            1 => &["r2"],
            _ => &["r1", "r2"],
        }
    }

    fn connect(&mut self, which: usize) {
        let deposed = self.deposed.is_some() && self.chance.percent(20);
        let roles = self.roles();
        let capacity = u32::try_from(self.chance.below(4)).unwrap_or(1);
        let process = if deposed { &self.deposed } else { &self.owner };
        let (Some(process), Some(worker)) = (process, self.workers.get_mut(which)) else {
            return;
        };
        let offer = worker.offer(roles, capacity);
        self.trace.note(format_args!(
            "{} connects for {roles:?}, {capacity} tasks",
            worker.id
        ));
        worker.connect(process.engine(), offer, deposed);
    }

    fn reconnect(&mut self, which: usize) {
        self.totals.count("workers: reconnections");
        self.vanish(which);
        self.connect(which);
    }

    fn vanish(&mut self, which: usize) {
        if let Some(worker) = self.workers.get_mut(which) {
            self.totals.count("workers: vanished");
            self.trace.note(format_args!("{} vanishes", worker.id));
            worker.session = None;
        }
    }

    fn said(&mut self) -> AnswerKind {
        match self.chance.below(40) {
            0..22 => AnswerKind::Completed,
            22..26 => AnswerKind::Large,
            26 => AnswerKind::Oversize,
            27 => AnswerKind::Deep,
            28..36 => AnswerKind::Failed,
            _ => AnswerKind::Released,
        }
    }

    /// A worker answers one of its tasks, sometimes twice.
    fn answer(&mut self, which: usize) {
        let said = self.said();
        let twice = self.chance.percent(8);
        let chosen = self.chance.next();
        let Some(session) = self.session(which) else {
            return;
        };
        let count = session.held.len();
        let at = usize::try_from(chosen).unwrap_or(0) % count.max(1);
        let Some(given) = session.held.values().nth(at).cloned() else {
            return;
        };
        self.say(which, given.clone(), said);
        if twice {
            self.totals.count("workers: answers sent twice");
            let said = self.said();
            self.say(which, given, said);
        }
    }

    /// A worker answers a task that it had at some time.
    fn late(&mut self, which: usize) {
        let Some(worker) = self.workers.get(which) else {
            return;
        };
        if let Some(given) = self.chance.pick(&worker.past).cloned() {
            self.totals.count("workers: late answers");
            let said = self.said();
            self.say(which, given, said);
        }
    }

    /// A worker answers with the token of another worker.
    fn other(&mut self, which: usize) {
        let other = self.chance.below(self.workers.len());
        let Some(worker) = self.workers.get(other) else {
            return;
        };
        if let Some(given) = self.chance.pick(&worker.past).cloned() {
            self.totals
                .count("workers: answers with the token of another");
            let said = self.said();
            self.say(which, given, said);
        }
    }

    /// A worker answers with a token that the engine never gave.
    fn garbage(&mut self, which: usize) {
        let Some(worker) = self.workers.get(which) else {
            return;
        };
        let Some(given) = worker.past.last().cloned() else {
            return;
        };
        let texts = [
            "1.0.1.d.nothing",
            "999999.0.1.d.a",
            "1.7.1.d.a",
            "1.0.9.u.a",
        ];
        let Some(text) = self.chance.pick(&texts) else {
            return;
        };
        let Ok(token) = text.parse() else { return };
        self.totals.count("workers: answers with an invented token");
        let given = crate::worker::ReceivedTask { token, ..given };
        self.say(which, given, AnswerKind::Released);
    }

    fn say(&mut self, which: usize, given: crate::worker::ReceivedTask, said: AnswerKind) {
        let place = self.sent.len();
        self.trace
            .note(format_args!("w{which} answers {} {said:?}", given.token));
        if let Some(session) = self.session(which) {
            let sent = session.answer(given, said, place);
            self.sent.push(sent);
        }
    }

    fn heartbeat(&mut self, which: usize) {
        let with_task = self.chance.percent(60);
        let progress = self.chance.percent(50).then(|| self.chance.below(100));
        let count = if self.chance.percent(3) { 200 } else { 1 };
        let Some(session) = self.session(which) else {
            return;
        };
        let token = session.held.values().next();
        let token = token.filter(|_| with_task).map(|given| given.token.clone());
        for _ in 0..count {
            let progress = progress.and_then(|done| Progress::new(done as f64 / 100.0, "busy"));
            session.answers.heartbeat(token.clone(), progress);
        }
    }

    fn offer(&mut self, which: usize) {
        let roles = self.roles();
        let capacity = u32::try_from(self.chance.below(6)).unwrap_or(1);
        let Some(worker) = self.workers.get(which) else {
            return;
        };
        let offer = worker.offer(roles, capacity);
        self.trace.note(format_args!(
            "{} offers {roles:?}, {capacity} tasks",
            worker.id
        ));
        if let Some(session) = self.session(which) {
            session.answers.offer(offer);
        }
    }

    pub(crate) fn session(&mut self, which: usize) -> Option<&mut crate::worker::Session> {
        self.workers.get_mut(which)?.session.as_mut()
    }
}

impl Wish {
    /// Under which name an acknowledged request is counted.
    pub(crate) const fn figure(&self) -> &'static str {
        match self {
            Self::Start { .. } => "acknowledged: starts",
            Self::Steer {
                steer: Steer::Signal { .. },
                ..
            } => "acknowledged: signals",
            Self::Steer { .. } | Self::RetryFrom { .. } => "acknowledged: steering",
            Self::Decide { .. } | Self::Resolve { .. } => "acknowledged: decisions",
            Self::Publish { .. } => "acknowledged: events",
            Self::Purge { .. } | Self::Remove { .. } => "acknowledged: removals",
            Self::Apply { .. } | Self::Delete { .. } | Self::SwitchTrigger { .. } => {
                "acknowledged: definitions"
            }
        }
    }
}
