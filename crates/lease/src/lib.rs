//! Which process may write to a shard of a shared store: the protocol, without IO.
//!
//! A shared store has a fixed number of shards, and every shard has one row with an epoch, an owner, the end of a
//! lease by the clock of the database, and the position of the last stored turn. The process that owns a shard is
//! the only one that writes to it. This crate decides what the process sends next and what an answer means. It does
//! not know SQL, connections or clocks. `tests/model.rs` visits every state of a shard with two and three processes.
//!
//! # Rules
//!
//! - **Every turn begins with the update of the shard's row**, in the same transaction, on the condition that the row
//!   has the epoch and the position that the process expects. The row lock orders the turn with every take-over, and
//!   no clock is compared by a client. The position is part of the condition because turns are pipelined: a turn must
//!   not be stored if the turn before it was not.
//! - **A take-over raises the epoch.** It is possible when the lease has ended, when the shard was released, and for
//!   the owner itself.
//! - **A turn whose outcome is unknown is settled by a take-over, not by a read.** The transaction of a broken
//!   connection can still be under way in the database. A read shows the row without it, and the turn is stored
//!   afterwards, although the process has reported it as failed. A take-over waits for the row lock of that
//!   transaction and fences it off if it has not begun.
//! - **The position decides only if the process has owned the shard without a break since it sent the turn.** Another
//!   owner stores other turns at the same positions. The row has the epoch in which its owner began (`since`). The name
//!   of the owner is not enough: a late take-over can make a process the owner again after another process was.

use std::collections::VecDeque;

/// How often the shard has had a new owner. Every take-over raises it.
pub type Epoch = u64;

/// The number of turns that a shard has stored.
pub type Position = u64;

/// The most turns that are sent and not yet answered.
pub const MOST_SENT: usize = 2;

/// What a process sends to the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Request {
    /// Become the owner: raises the epoch if the lease has ended, the shard is released, or this process owns it.
    Take,
    /// Store a turn if the row has this epoch and the position before the turn. Renews the lease.
    Write {
        /// The epoch in which the process owns the shard.
        epoch: Epoch,
        /// The position of the turn.
        position: Position,
    },
    /// Renew the lease if the row has this epoch.
    Renew {
        /// The epoch in which the process owns the shard.
        epoch: Epoch,
    },
    /// Give the shard up if the row has this epoch.
    Release {
        /// The epoch in which the process owns the shard.
        epoch: Epoch,
    },
}

/// What the store answers, or what a process knows instead of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Answer {
    /// The process is the owner.
    Taken {
        /// The new epoch.
        epoch: Epoch,
        /// The position of the last stored turn.
        position: Position,
        /// The epoch since which this process has owned the shard without a break.
        since: Epoch,
    },
    /// Another process owns the shard.
    Refused,
    /// The turn is stored, the lease renewed or the shard released.
    Done,
    /// The row had another epoch or position, or the transaction failed. Nothing of it is stored.
    Failed,
    /// The connection broke: each request that was not answered is done, lost or still under way.
    Unknown,
}

/// What the process does with its memory and its callers after an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Effect {
    /// The turn at this position is stored: answer its callers.
    Acknowledge(Position),
    /// The turn at this position is not stored and never will be: report the failure to its callers.
    Discard(Position),
    /// The outcome of the turn at this position is not known to this process. Callers repeat their requests; the
    /// owner of the shard recognises those that are stored.
    Abandon(Position),
    /// Load the log up to this position. Nothing else in memory is valid.
    Load(Position),
}

/// The ownership of one shard as one process sees it.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ownership {
    phase: Phase,
    /// The epoch since which the open turns were sent without another owner between them.
    since: Epoch,
    /// The positions of the turns whose outcome is open, oldest first.
    sent: VecDeque<Position>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Phase {
    /// Another process owns the shard, or none.
    #[default]
    Away,
    /// A take-over was sent.
    Taking,
    /// This process writes turns. `position` includes those that were sent.
    Owning { epoch: Epoch, position: Position },
    /// A turn failed or its outcome is unknown. Nothing is written until a take-over has settled it.
    Unsettled,
    /// The release was sent, and nothing is sent after it.
    Releasing,
}

impl Ownership {
    /// The epoch in which this process may write, as far as it knows.
    #[must_use]
    pub fn epoch(&self) -> Option<Epoch> {
        match self.phase {
            Phase::Owning { epoch, .. } => Some(epoch),
            _ => None,
        }
    }

    /// The epoch since which this process has owned the shard without a break, when it last knew.
    #[must_use]
    pub fn since(&self) -> Epoch {
        self.since
    }

    /// Whether a take-over must be sent before anything else, because turns are open.
    #[must_use]
    pub fn is_unsettled(&self) -> bool {
        self.phase == Phase::Unsettled
    }

    /// Become the owner of a shard, or settle turns that are open.
    pub fn take(&mut self) -> Option<Request> {
        if !matches!(self.phase, Phase::Away | Phase::Unsettled) {
            return None;
        }
        self.phase = Phase::Taking;
        Some(Request::Take)
    }

    /// Store the next turn. `None` if the process does not own the shard or too many turns are open.
    pub fn write(&mut self) -> Option<Request> {
        let Phase::Owning { epoch, position } = &mut self.phase else {
            return None;
        };
        if self.sent.len() >= MOST_SENT {
            return None;
        }
        *position += 1;
        self.sent.push_back(*position);
        Some(Request::Write {
            epoch: *epoch,
            position: *position,
        })
    }

    /// Renew the lease of an idle shard: a turn renews it too.
    #[must_use]
    pub fn renew(&self) -> Option<Request> {
        match self.phase {
            Phase::Owning { epoch, .. } if self.sent.is_empty() => Some(Request::Renew { epoch }),
            _ => None,
        }
    }

    /// Give the shard up. `None` while turns are open.
    pub fn release(&mut self) -> Option<Request> {
        match self.phase {
            Phase::Owning { epoch, .. } if self.sent.is_empty() => {
                self.phase = Phase::Releasing;
                Some(Request::Release { epoch })
            }
            _ => None,
        }
    }

    /// Take in the answer to the oldest request that is open. `request` is that request.
    pub fn answered(&mut self, request: Request, answer: Answer) -> Vec<Effect> {
        match (request, answer) {
            (Request::Take, Answer::Taken { .. }) => self.taken(answer),
            (Request::Take, Answer::Refused) => self.lost(),
            (Request::Take, Answer::Done | Answer::Failed | Answer::Unknown) => {
                // The next take-over settles what this one may have changed.
                self.phase = Phase::Unsettled;
                Vec::new()
            }
            (Request::Write { position, .. }, Answer::Done) => {
                self.sent.retain(|sent| *sent != position);
                vec![Effect::Acknowledge(position)]
            }
            // A release that is not confirmed is not repeated: the lease ends by itself.
            (Request::Release { .. }, _) => self.lost(),
            (Request::Renew { .. }, Answer::Done) => Vec::new(),
            (Request::Write { .. } | Request::Renew { .. }, _) => {
                if matches!(self.phase, Phase::Owning { .. }) {
                    self.phase = Phase::Unsettled;
                }
                Vec::new()
            }
        }
    }

    fn taken(&mut self, answer: Answer) -> Vec<Effect> {
        let Answer::Taken {
            epoch,
            position,
            since,
        } = answer
        else {
            return Vec::new();
        };
        let continued = since == self.since;
        self.since = since;
        self.phase = Phase::Owning { epoch, position };
        let outcome = |sent: Position| match (continued, sent <= position) {
            (true, true) => Effect::Acknowledge(sent),
            (true, false) => Effect::Discard(sent),
            (false, _) => Effect::Abandon(sent),
        };
        let mut effects: Vec<_> = self.sent.drain(..).map(outcome).collect();
        effects.push(Effect::Load(position));
        effects
    }

    fn lost(&mut self) -> Vec<Effect> {
        self.phase = Phase::Away;
        self.sent.drain(..).map(Effect::Abandon).collect()
    }
}
