//! Every state of one shard with two and three processes, visited by stateright.
//!
//! The database executes transactions one after the other, each as a whole: the row lock of the shard orders them. A
//! connection keeps the order of its transactions. Everything else is free: how long a transaction or an answer is on
//! its way, whether a connection breaks before or after the commit, whether the rest of a broken connection is
//! executed late or never, when a process pauses, crashes and starts again, and how fast the clock of the database
//! runs compared with the processes. No process reads a clock, so that any skew of their clocks is covered.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

use stateright::{Checker as _, HasDiscoveries, Model, Property};
use stateway_lease::{Answer, Effect, Epoch, Ownership, Position, Request};

/// The clock of the database advances in this many ticks from the begin of a lease to its end.
const TERM: u8 = 1;

type Process = usize;
type TurnId = u8;

/// A stored turn: its id, the epoch in which it was stored, and the turn after which it was decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Stored {
    id: TurnId,
    epoch: Epoch,
    after: Option<TurnId>,
}

/// The row of the shard.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Row {
    epoch: Epoch,
    since: Epoch,
    /// The process and which of its lives.
    owner: Option<(Process, u8)>,
    /// Ticks until the lease ends.
    left: u8,
    position: Position,
}

/// A turn that a process has decided: its id and the turn before it.
type Turn = (TurnId, Option<TurnId>);

/// A transaction on its way to the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Flight {
    from: (Process, u8),
    request: Request,
    turn: Option<Turn>,
    /// The connection is broken: no answer will arrive.
    orphan: bool,
    /// Only in a defective variant: the row was checked, and the write follows later.
    checked: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Member {
    life: u8,
    ownership: Ownership,
    /// The last turn in memory.
    last: Option<TurnId>,
    /// The turns that are sent, by their position.
    decided: Vec<(Position, TurnId)>,
    answers: VecDeque<(Request, Answer)>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct World {
    row: Row,
    log: Vec<Stored>,
    flights: Vec<Flight>,
    members: Vec<Member>,
    turns: TurnId,
    acknowledged: Vec<TurnId>,
    discarded: Vec<TurnId>,
    breaks: u8,
    crashes: u8,
    failures: u8,
    releases: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Action {
    Take(Process),
    Write(Process),
    Renew(Process),
    Release(Process),
    /// The database executes a transaction.
    Execute(usize),
    /// The database refuses a transaction, for example after a timeout.
    Fail(usize),
    /// A transaction of a broken connection never arrives.
    Lose(usize),
    Deliver(Process),
    Break(Process),
    Crash(Process),
    /// The clock of the database advances.
    Tick,
}

/// The protocol, and defects that the model must find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Variant {
    Right,
    /// The condition of a turn has no position.
    WithoutPosition,
    /// The row is checked before the transaction that writes.
    CheckedBefore,
    /// An unknown outcome is settled by reading the row.
    SettledByRead,
    /// A take-over is always treated as a continuation.
    PositionAlone,
    /// A take-over is treated as a continuation if the row names the process.
    OwnerAlone,
    /// The lease of a process that has crashed does not end.
    EndlessLease,
}

#[derive(Debug, Clone)]
struct Shard {
    variant: Variant,
    processes: usize,
    turns: TurnId,
    epochs: Epoch,
    breaks: u8,
    crashes: u8,
    failures: u8,
    releases: u8,
}

impl Shard {
    fn take(&self, world: &mut World, flight: &Flight) -> Answer {
        let row = &mut world.row;
        let own = row.owner == Some(flight.from);
        let free = row.owner.is_none() || row.left == 0;
        if !free && !own {
            return Answer::Refused;
        }
        if self.variant == Variant::SettledByRead && own {
            // Nothing is changed: the answer describes the row.
            let Row {
                epoch,
                since,
                position,
                ..
            } = *row;
            return Answer::Taken {
                epoch,
                position,
                since,
            };
        }
        row.epoch += 1;
        if !own {
            row.since = row.epoch;
        }
        row.owner = Some(flight.from);
        row.left = TERM;
        let known = world.members[flight.from.0].ownership.since();
        let since = match self.variant {
            Variant::PositionAlone => known,
            Variant::OwnerAlone if own => known,
            _ => row.since,
        };
        Answer::Taken {
            epoch: row.epoch,
            position: row.position,
            since,
        }
    }

    fn write(
        &self,
        world: &mut World,
        flight: &Flight,
        epoch: Epoch,
        position: Position,
    ) -> Answer {
        let row = &mut world.row;
        let in_order = row.position + 1 == position || self.variant == Variant::WithoutPosition;
        if !flight.checked && (row.epoch != epoch || !in_order) {
            return Answer::Failed;
        }
        let Some((id, after)) = flight.turn else {
            return Answer::Failed;
        };
        row.position = position;
        row.left = TERM;
        world.log.push(Stored { id, epoch, after });
        Answer::Done
    }

    fn execute(&self, world: &mut World, flight: &Flight) -> Answer {
        match flight.request {
            Request::Take => self.take(world, flight),
            Request::Write { epoch, position } => self.write(world, flight, epoch, position),
            Request::Renew { epoch } => conditionally(&mut world.row, epoch, |row| row.left = TERM),
            Request::Release { epoch } => conditionally(&mut world.row, epoch, |row| {
                row.owner = None;
                row.left = 0;
            }),
        }
    }
}

fn conditionally(row: &mut Row, epoch: Epoch, change: impl FnOnce(&mut Row)) -> Answer {
    if row.epoch != epoch {
        return Answer::Failed;
    }
    change(row);
    Answer::Done
}

impl World {
    fn send(&mut self, from: Process, request: Option<Request>, turn: Option<Turn>) -> Option<()> {
        let life = self.members[from].life;
        self.flights.push(Flight {
            from: (from, life),
            request: request?,
            turn,
            orphan: false,
            checked: false,
        });
        Some(())
    }

    /// Nothing that was sent over the connection of this process will be answered.
    fn disconnect(&mut self, process: Process) -> Vec<Request> {
        let mut open: Vec<_> = self.members[process]
            .answers
            .drain(..)
            .map(|(request, _)| request)
            .collect();
        for flight in &mut self.flights {
            if flight.from.0 == process && !flight.orphan {
                flight.orphan = true;
                open.push(flight.request);
            }
        }
        open
    }

    fn answered(&mut self, process: Process, request: Request, answer: Answer) {
        let effects = self.members[process].ownership.answered(request, answer);
        for effect in effects {
            self.apply(process, effect);
        }
    }

    fn apply(&mut self, process: Process, effect: Effect) {
        let member = &mut self.members[process];
        match effect {
            Effect::Acknowledge(position) => {
                self.acknowledged
                    .extend(removed(&mut member.decided, position));
            }
            Effect::Discard(position) => {
                self.discarded
                    .extend(removed(&mut member.decided, position));
            }
            Effect::Abandon(position) => {
                removed(&mut member.decided, position);
            }
            Effect::Load(position) => {
                let stored = usize::try_from(position).unwrap_or(usize::MAX);
                let loaded = self.log.get(..stored).unwrap_or(&self.log);
                member.last = loaded.last().map(|turn| turn.id);
            }
        }
        self.acknowledged.sort_unstable();
        self.discarded.sort_unstable();
    }

    /// A process that may write, as far as it and the database know.
    fn has_owner(&self) -> bool {
        self.members.iter().enumerate().any(|(process, member)| {
            member.ownership.epoch() == Some(self.row.epoch)
                && self.row.owner == Some((process, member.life))
        })
    }
}

fn removed(decided: &mut Vec<(Position, TurnId)>, position: Position) -> Option<TurnId> {
    let at = decided.iter().position(|(sent, _)| *sent == position)?;
    Some(decided.remove(at).1)
}

impl Model for Shard {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        vec![World {
            row: Row::default(),
            log: Vec::new(),
            flights: Vec::new(),
            members: vec![Member::default(); self.processes],
            turns: 0,
            acknowledged: Vec::new(),
            discarded: Vec::new(),
            breaks: 0,
            crashes: 0,
            failures: 0,
            releases: 0,
        }]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        for (process, member) in world.members.iter().enumerate() {
            let sent = |flight: &&Flight| flight.from.0 == process && !flight.orphan;
            let is_busy =
                world.flights.iter().any(|flight| sent(&flight)) || !member.answers.is_empty();
            // A process reads the row before it sends a take-over, which can be late.
            let may_take =
                world.row.left == 0 || world.row.owner.is_none() || member.ownership.is_unsettled();
            if member.ownership.clone().take().is_some() && !is_busy && may_take {
                actions.push(Action::Take(process));
            }
            if world.turns < self.turns && member.ownership.clone().write().is_some() {
                actions.push(Action::Write(process));
            }
            if member.ownership.renew().is_some() && !is_busy && world.row.left < TERM {
                actions.push(Action::Renew(process));
            }
            let may_release = !is_busy && world.releases < self.releases;
            if member.ownership.clone().release().is_some() && may_release {
                actions.push(Action::Release(process));
            }
            if !member.answers.is_empty() {
                actions.push(Action::Deliver(process));
            }
            if is_busy && world.breaks < self.breaks {
                actions.push(Action::Break(process));
            }
            if world.crashes < self.crashes {
                actions.push(Action::Crash(process));
            }
        }
        for (at, flight) in world.flights.iter().enumerate() {
            let before = &world.flights[..at];
            let is_next = flight.orphan
                || !before
                    .iter()
                    .any(|other| other.from.0 == flight.from.0 && !other.orphan);
            if is_next {
                actions.push(Action::Execute(at));
            }
            if is_next && !flight.orphan && world.failures < self.failures {
                actions.push(Action::Fail(at));
            }
            if flight.orphan {
                actions.push(Action::Lose(at));
            }
        }
        if world.row.left > 0 && self.variant != Variant::EndlessLease {
            actions.push(Action::Tick);
        }
    }

    fn next_state(&self, world: &World, action: Action) -> Option<World> {
        let mut world = world.clone();
        match action {
            Action::Take(process) => {
                let request = world.members[process].ownership.take();
                world.send(process, request, None)?;
            }
            Action::Write(process) => {
                let request = world.members[process].ownership.write()?;
                let Request::Write { position, .. } = request else {
                    return None;
                };
                let id = world.turns;
                world.turns += 1;
                let member = &mut world.members[process];
                let after = member.last.replace(id);
                member.decided.push((position, id));
                world.send(process, Some(request), Some((id, after)))?;
            }
            Action::Renew(process) => {
                let request = world.members[process].ownership.renew();
                world.send(process, request, None)?;
            }
            Action::Release(process) => {
                world.releases += 1;
                let request = world.members[process].ownership.release();
                world.send(process, request, None)?;
            }
            Action::Execute(at) => {
                let flight = world.flights[at];
                if let (Variant::CheckedBefore, Request::Write { epoch, position }, false) =
                    (self.variant, flight.request, flight.checked)
                    && world.row.epoch == epoch
                    && world.row.position + 1 == position
                {
                    world.flights[at].checked = true;
                    return Some(world);
                }
                world.flights.remove(at);
                let answer = self.execute(&mut world, &flight);
                if !flight.orphan {
                    let answers = &mut world.members[flight.from.0].answers;
                    answers.push_back((flight.request, answer));
                }
            }
            Action::Fail(at) => {
                let flight = world.flights.remove(at);
                world.failures += 1;
                let answers = &mut world.members[flight.from.0].answers;
                answers.push_back((flight.request, Answer::Failed));
            }
            Action::Lose(at) => {
                world.flights.remove(at);
            }
            Action::Deliver(process) => {
                let (request, answer) = world.members[process].answers.pop_front()?;
                world.answered(process, request, answer);
            }
            Action::Break(process) => {
                world.breaks += 1;
                for request in world.disconnect(process) {
                    world.answered(process, request, Answer::Unknown);
                }
            }
            Action::Crash(process) => {
                world.crashes += 1;
                world.disconnect(process);
                world.members[process] = Member {
                    life: world.members[process].life + 1,
                    ..Member::default()
                };
            }
            Action::Tick => world.row.left -= 1,
        }
        // The order in which transactions of broken connections wait has no meaning.
        world.flights.sort_by_key(|flight| !flight.orphan);
        Some(world)
    }

    fn within_boundary(&self, world: &World) -> bool {
        world.row.epoch <= self.epochs
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(
                "turns of two epochs do not interleave",
                |_, world: &World| world.log.is_sorted_by_key(|turn| turn.epoch),
            ),
            Property::always(
                "a turn follows the turn it was decided after",
                |_, world: &World| {
                    let before = world.log.iter().map(|turn| Some(turn.id));
                    let before = std::iter::once(None).chain(before);
                    world
                        .log
                        .iter()
                        .zip(before)
                        .all(|(turn, before)| turn.after == before)
                },
            ),
            Property::always("an acknowledged turn is stored", |_, world: &World| {
                let stored = |id: &TurnId| world.log.iter().any(|turn| turn.id == *id);
                world.acknowledged.iter().all(stored)
            }),
            Property::always(
                "a turn that was reported as failed is not stored",
                |_, world: &World| {
                    let stored = |id: &TurnId| world.log.iter().any(|turn| turn.id == *id);
                    !world.discarded.iter().any(stored)
                },
            ),
            Property::always("a turn is stored once", |_, world: &World| {
                let mut ids: Vec<_> = world.log.iter().map(|turn| turn.id).collect();
                ids.sort_unstable();
                ids.windows(2).all(|pair| pair[0] != pair[1])
            }),
            Property::sometimes(
                "every turn is acknowledged",
                |shard: &Self, world: &World| world.acknowledged.len() == usize::from(shard.turns),
            ),
            Property::sometimes("two processes store turns", |_, world: &World| {
                world.log.len() > 1
                    && world.log.first().map(|turn| turn.epoch)
                        != world.log.last().map(|turn| turn.epoch)
            }),
        ]
    }
}

/// Two processes, each fault as often as a check adds it.
const TWO: Shard = Shard {
    variant: Variant::Right,
    processes: 2,
    turns: 2,
    epochs: 3,
    breaks: 1,
    crashes: 0,
    failures: 0,
    releases: 0,
};

/// Visits every state, and returns how many there are.
fn visit(shard: Shard) -> usize {
    let checker = shard.checker().threads(2).spawn_bfs().join();
    checker.assert_properties();
    checker.unique_state_count()
}

#[test]
fn two_broken_connections_lose_nothing() {
    assert_eq!(visit(Shard { breaks: 2, ..TWO }), 788_636);
}

#[test]
fn a_crash_beside_a_broken_connection_loses_nothing() {
    let shard = Shard {
        crashes: 1,
        epochs: 2,
        ..TWO
    };
    assert_eq!(visit(shard), 309_859);
}

#[test]
fn a_failed_transaction_beside_a_broken_connection_loses_nothing() {
    assert_eq!(visit(Shard { failures: 1, ..TWO }), 452_172);
}

#[test]
fn a_release_beside_a_broken_connection_loses_nothing() {
    assert_eq!(visit(Shard { releases: 1, ..TWO }), 341_371);
}

#[test]
fn a_third_process_loses_nothing() {
    let shard = Shard {
        processes: 3,
        epochs: 2,
        ..TWO
    };
    assert_eq!(visit(shard), 390_136);
}

const WITH_CRASH: Shard = Shard {
    turns: 1,
    epochs: 4,
    crashes: 1,
    ..TWO
};

/// A state from which no order of events leads to an owner that can write. The last epochs of a check do not count: a
/// take-over uses up one epoch, and so can a broken connection and a crash.
fn without_owner_for_ever(shard: &Shard) -> (usize, Option<World>) {
    let spare = 1 + u64::from(shard.breaks + shard.crashes);
    let graph = Graph::of(shard);
    let mut stuck = graph.without_way_to(World::has_owner).into_iter();
    let stuck = stuck.find(|world| world.row.epoch + spare <= shard.epochs);
    (graph.states.len(), stuck.cloned())
}

#[test]
fn an_owner_is_always_found_again() {
    assert_eq!(without_owner_for_ever(&WITH_CRASH), (862_797, None));
}

#[test]
fn a_lease_without_an_end_is_found() {
    let variant = Variant::EndlessLease;
    let (_, stuck) = without_owner_for_ever(&Shard {
        variant,
        ..WITH_CRASH
    });
    assert!(stuck.is_some());
}

/// The states within the boundary, and for each of them the states before it.
struct Graph {
    states: Vec<World>,
    before: Vec<Vec<usize>>,
}

impl Graph {
    fn of(shard: &Shard) -> Self {
        let mut states = shard.init_states();
        let mut before = vec![Vec::new()];
        let mut numbers: HashMap<World, usize> = HashMap::new();
        numbers.insert(states[0].clone(), 0);
        let mut at = 0;
        while at < states.len() {
            let world = states[at].clone();
            for next in shard.next_states(&world) {
                if !shard.within_boundary(&next) {
                    continue;
                }
                let number = *numbers.entry(next.clone()).or_insert_with(|| {
                    states.push(next);
                    before.push(Vec::new());
                    states.len() - 1
                });
                before[number].push(at);
            }
            at += 1;
        }
        Self { states, before }
    }

    fn without_way_to(&self, goal: impl Fn(&World) -> bool) -> Vec<&World> {
        let mut reaches: Vec<bool> = self.states.iter().map(goal).collect();
        let mut open: Vec<usize> = (0..reaches.len()).filter(|at| reaches[*at]).collect();
        while let Some(at) = open.pop() {
            for before in &self.before[at] {
                if !std::mem::replace(&mut reaches[*before], true) {
                    open.push(*before);
                }
            }
        }
        let states = self.states.iter().zip(&reaches);
        states
            .filter(|(_, reaches)| !**reaches)
            .map(|(world, _)| world)
            .collect()
    }
}

/// The model finds a defect by the property that it breaks.
fn assert_found(shard: Shard, property: &'static str) {
    let variant = shard.variant;
    let finished = HasDiscoveries::AllOf([property].into());
    let checker = shard.checker().threads(2).finish_when(finished);
    let checker = checker.spawn_bfs().join();
    let found = checker.discoveries();
    assert!(
        found.contains_key(property),
        "{variant:?}: {:?}",
        found.keys()
    );
}

#[test]
fn a_turn_without_the_position_in_its_condition_is_found() {
    let variant = Variant::WithoutPosition;
    let property = "a turn follows the turn it was decided after";
    assert_found(
        Shard {
            variant,
            failures: 1,
            ..TWO
        },
        property,
    );
}

#[test]
fn a_check_outside_the_transaction_is_found() {
    let variant = Variant::CheckedBefore;
    let property = "turns of two epochs do not interleave";
    assert_found(
        Shard {
            variant,
            turns: 3,
            breaks: 0,
            ..TWO
        },
        property,
    );
}

#[test]
fn a_read_that_settles_an_unknown_outcome_is_found() {
    let variant = Variant::SettledByRead;
    let property = "a turn that was reported as failed is not stored";
    assert_found(Shard { variant, ..TWO }, property);
}

#[test]
fn a_position_that_decides_alone_is_found() {
    let variant = Variant::PositionAlone;
    let property = "an acknowledged turn is stored";
    assert_found(Shard { variant, ..TWO }, property);
}

#[test]
fn an_owner_that_decides_alone_is_found() {
    let variant = Variant::OwnerAlone;
    let property = "an acknowledged turn is stored";
    let shard = Shard {
        variant,
        turns: 3,
        epochs: 4,
        breaks: 2,
        ..TWO
    };
    assert_found(shard, property);
}
