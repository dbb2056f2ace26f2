//! The pending approvals of one provider or a part of them, each as it was last seen, and the readers that share
//! them.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use stateway_model::ProviderId;
use stateway_provider_api::{Approval, ApprovalState, InboxHints, InboxId};
use tokio::sync::{Notify, broadcast, watch};
use tonic::Status;

use crate::access::Access;
use crate::settings::WatchSettings;

/// One difference. Both sides are kept, so that each reader's filter can tell whether the approval
/// came, changed or went without remembering anything.
pub(super) struct Change {
    /// As it was pending before.
    pub(super) before: Option<Arc<Approval>>,
    /// As it is now, pending or ended; none where that is not known.
    pub(super) after: Option<Arc<Approval>>,
}

/// What readers of a topic receive.
#[derive(Clone)]
pub(super) enum News {
    Change(Arc<Change>),
    /// The approvals can no longer be followed. None is known from now on.
    Failed(Arc<Status>),
}

/// Whether the pending approvals are known.
#[derive(Debug, Clone)]
enum Sync {
    NotYet,
    Done,
    /// Reading them failed. The follower may try again.
    Failed(Status),
}

/// There are more approvals than the bound allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TooMany;

/// Which approvals of a provider a topic has.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(super) struct Part {
    /// Only those of this portable definition.
    definition: Option<String>,
    /// Only those of executions with all of these labels.
    labels: Vec<(String, String)>,
}

impl Part {
    /// What every approval has that a caller may read, as far as the rules say so.
    pub(super) fn readable(access: &Access, provider: &ProviderId) -> Self {
        let mut hints = InboxHints::default();
        access.narrow_inbox(provider, &mut hints);
        Self {
            definition: hints.definition,
            labels: hints.labels,
        }
    }

    pub(super) fn hints(&self) -> InboxHints {
        InboxHints {
            pending_only: true,
            definition: self.definition.clone(),
            labels: self.labels.clone(),
            ..InboxHints::default()
        }
    }

    fn has(&self, approval: &Approval) -> bool {
        let definition = self.definition.as_ref();
        let mut labels = self.labels.iter();
        definition.is_none_or(|definition| *definition == approval.definition)
            && labels.all(|(key, value)| approval.labels.get(key) == Some(value))
    }
}

pub(super) struct Topic {
    pub(super) provider: ProviderId,
    pub(super) part: Part,
    inner: Mutex<Inner>,
    news: broadcast::Sender<News>,
    sync: watch::Sender<Sync>,
    hurried: Notify,
    /// The most approvals that are kept.
    most: usize,
}

struct Inner {
    pending: BTreeMap<InboxId, PendingApproval>,
    round: u64,
    unreachable: bool,
    /// The approvals can no longer be followed.
    has_ended: bool,
    readers: usize,
    idle_since: Instant,
}

struct PendingApproval {
    approval: Arc<Approval>,
    /// The round in which it was last seen.
    round: u64,
}

/// A consistent view to begin reading from.
pub(super) struct Snapshot {
    pub(super) pending: Vec<Arc<Approval>>,
    pub(super) news: broadcast::Receiver<News>,
}

impl Topic {
    pub(super) fn new(provider: ProviderId, part: Part, settings: &WatchSettings) -> Self {
        Self {
            provider,
            part,
            inner: Mutex::new(Inner {
                pending: BTreeMap::new(),
                round: 0,
                unreachable: false,
                has_ended: false,
                readers: 0,
                idle_since: Instant::now(),
            }),
            news: broadcast::channel(settings.buffer.max(1)).0,
            sync: watch::channel(Sync::NotYet).0,
            hurried: Notify::new(),
            most: settings.max_watched_executions,
        }
    }

    /// Waits until the pending approvals are known or reading them has failed.
    pub(super) async fn synced(&self) -> Result<(), Status> {
        let mut sync = self.sync.subscribe();
        // The sender lives in `self`, so the wait ends with a value.
        let known = sync.wait_for(|sync| !matches!(sync, Sync::NotYet)).await;
        match known.as_deref() {
            Ok(Sync::Failed(status)) => Err(status.clone()),
            _ => Ok(()),
        }
    }

    pub(super) fn is_synced(&self) -> bool {
        matches!(*self.sync.borrow(), Sync::Done)
    }

    /// Takes note that the pending approvals are known and the provider answers.
    pub(super) fn set_synced(&self) {
        self.inner().unreachable = false;
        self.sync.send_replace(Sync::Done);
    }

    /// Takes note that the pending approvals could not be read. The follower may try again.
    pub(super) fn set_failed(&self, status: Status) {
        self.sync.send_replace(Sync::Failed(status));
    }

    /// Ends the topic: its readers get the status, and the approvals are released.
    pub(super) fn end(&self, status: Status) {
        self.sync.send_replace(Sync::Failed(status.clone()));
        let mut inner = self.inner();
        inner.pending.clear();
        inner.has_ended = true;
        drop(inner);
        // Sending fails if there is no reader, which is not a problem.
        let _ = self.news.send(News::Failed(Arc::new(status)));
    }

    pub(super) fn has_ended(&self) -> bool {
        self.inner().has_ended
    }

    pub(super) fn set_unreachable(&self) {
        self.inner().unreachable = true;
    }

    /// Whether the provider does not answer at present.
    pub(super) fn is_unreachable(&self) -> bool {
        self.inner().unreachable || !self.is_synced()
    }

    /// The pending approvals and every change after them, without a gap.
    pub(super) fn snapshot(&self) -> Snapshot {
        let inner = self.inner();
        let pending = inner.pending.values();
        Snapshot {
            pending: pending.map(|known| known.approval.clone()).collect(),
            news: self.news.subscribe(),
        }
    }

    /// Begins to read the pending approvals again: one that is not seen before the reading ends is
    /// absent.
    pub(super) fn begin_round(&self) {
        self.inner().round += 1;
    }

    /// The approvals that were not seen since the round began.
    pub(super) fn absent(&self) -> Vec<InboxId> {
        let inner = self.inner();
        let absent = inner.pending.iter();
        let absent = absent.filter(|(_, known)| known.round < inner.round);
        absent.map(|(id, _)| id.clone()).collect()
    }

    /// Takes an approval as it is now. True if it is news.
    pub(super) fn see(&self, approval: Approval) -> Result<bool, TooMany> {
        if !self.part.has(&approval) {
            return Ok(false);
        }
        if approval.state != ApprovalState::Pending {
            let id = approval.id.clone();
            return Ok(self.remove(&id, Some(approval)));
        }
        let mut inner = self.inner();
        let (round, is_full) = (inner.round, inner.pending.len() >= self.most);
        let after = Arc::new(approval);
        let before = match inner.pending.entry(after.id.clone()) {
            Entry::Occupied(mut known) => {
                let known = known.get_mut();
                known.round = round;
                if known.approval == after {
                    return Ok(false);
                }
                Some(std::mem::replace(&mut known.approval, after.clone()))
            }
            Entry::Vacant(_) if is_full => return Err(TooMany),
            Entry::Vacant(place) => {
                let approval = after.clone();
                place.insert(PendingApproval { approval, round });
                None
            }
        };
        self.publish(before, Some(after));
        Ok(true)
    }

    /// Takes note that an approval is gone. True if it is news.
    pub(super) fn forget(&self, id: &InboxId) -> bool {
        self.remove(id, None)
    }

    fn remove(&self, id: &InboxId, after: Option<Approval>) -> bool {
        let mut inner = self.inner();
        let Some(before) = inner.pending.remove(id) else {
            return false;
        };
        self.publish(Some(before.approval), after.map(Arc::new));
        true
    }

    /// Called under the lock of the approvals, so that a snapshot has a change or is followed by it.
    fn publish(&self, before: Option<Arc<Approval>>, after: Option<Arc<Approval>>) {
        let change = Arc::new(Change { before, after });
        let _ = self.news.send(News::Change(change));
    }

    /// Asks for a poll now.
    pub(super) fn hurry(&self) {
        self.hurried.notify_one();
    }

    /// Ends when someone asks for a poll.
    pub(super) async fn hurried(&self) {
        self.hurried.notified().await;
    }

    pub(super) fn joined(&self) {
        self.inner().readers += 1;
    }

    pub(super) fn left(&self) {
        let mut inner = self.inner();
        inner.readers -= 1;
        inner.idle_since = Instant::now();
    }

    /// Whether there was no reader for this long.
    pub(super) fn is_idle_for(&self, linger: Duration) -> bool {
        let inner = self.inner();
        inner.readers == 0 && inner.idle_since.elapsed() >= linger
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use stateway_model::{ExecutionId, Labels};

    use super::*;

    fn approval(step: &str, state: ApprovalState) -> Approval {
        Approval {
            id: InboxId {
                execution: ExecutionId::new("e").unwrap(),
                id: format!("{step}~1"),
            },
            state,
            step: step.to_owned(),
            attempt: 1,
            branch: 0,
            role: "ops".to_owned(),
            policy_rule: String::new(),
            create_time: jiff::Timestamp::UNIX_EPOCH,
            expire_time: None,
            decision: None,
            definition: "d".to_owned(),
            revision: String::new(),
            initiator: String::new(),
            labels: Labels::new(),
            input: None,
        }
    }

    fn topic(most: usize) -> Topic {
        let settings = WatchSettings {
            max_watched_executions: most,
            ..WatchSettings::default()
        };
        Topic::new("p".parse().unwrap(), Part::default(), &settings)
    }

    /// The states of the next change, before and after.
    fn next(snapshot: &mut Snapshot) -> (Option<ApprovalState>, Option<ApprovalState>) {
        let Ok(News::Change(change)) = snapshot.news.try_recv() else {
            panic!("no change");
        };
        let state = |one: &Option<Arc<Approval>>| one.as_ref().map(|one| one.state);
        (state(&change.before), state(&change.after))
    }

    const PENDING: ApprovalState = ApprovalState::Pending;
    const GRANTED: ApprovalState = ApprovalState::Granted;

    #[test]
    fn an_approval_comes_once_and_goes_with_its_last_state() {
        let topic = topic(10);
        let mut snapshot = topic.snapshot();
        assert_eq!(topic.see(approval("a", PENDING)), Ok(true));
        assert_eq!(topic.see(approval("a", PENDING)), Ok(false));
        assert_eq!(next(&mut snapshot), (None, Some(PENDING)));
        assert_eq!(topic.see(approval("a", GRANTED)), Ok(true));
        assert_eq!(next(&mut snapshot), (Some(PENDING), Some(GRANTED)));
        assert!(topic.snapshot().pending.is_empty());
        assert!(snapshot.news.try_recv().is_err());
    }

    #[test]
    fn an_approval_that_was_never_pending_here_is_no_news() {
        let topic = topic(10);
        assert_eq!(topic.see(approval("a", GRANTED)), Ok(false));
        assert!(!topic.forget(&approval("a", GRANTED).id));
        assert!(topic.snapshot().pending.is_empty());
    }

    #[test]
    fn what_is_not_seen_in_a_round_is_absent_also_if_it_did_not_change() {
        let topic = topic(10);
        for step in ["a", "b"] {
            topic.see(approval(step, PENDING)).unwrap();
        }
        topic.begin_round();
        topic.see(approval("a", PENDING)).unwrap();
        assert_eq!(topic.absent(), [approval("b", PENDING).id]);
    }

    #[test]
    fn a_topic_of_a_part_takes_nothing_else() {
        let acme = ("tenant".to_owned(), "acme".to_owned());
        let topic = Topic {
            part: Part {
                definition: Some("d".to_owned()),
                labels: vec![acme.clone()],
            },
            ..topic(1)
        };
        let of = |definition: &str, labels: &[(String, String)]| Approval {
            definition: definition.to_owned(),
            labels: labels.iter().cloned().collect(),
            ..approval(definition, PENDING)
        };
        assert_eq!(topic.see(of("d", &[])), Ok(false));
        assert_eq!(topic.see(of("e", std::slice::from_ref(&acme))), Ok(false));
        assert_eq!(topic.see(of("d", &[acme])), Ok(true));
    }

    #[test]
    fn the_bound_holds_and_known_approvals_still_change() {
        let topic = topic(1);
        topic.see(approval("a", PENDING)).unwrap();
        assert_eq!(topic.see(approval("b", PENDING)), Err(TooMany));
        let mut other = approval("a", PENDING);
        other.role = "sre".to_owned();
        assert_eq!(topic.see(other), Ok(true));
        assert_eq!(topic.see(approval("a", GRANTED)), Ok(true));
    }
}
