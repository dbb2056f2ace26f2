//! Approvals for the reference provider, which has none of its own, so that the cases about them can be
//! failed too.

#![allow(clippy::unwrap_used)]

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::{StreamExt, stream};
use jiff::Timestamp;
use stateway_model::{ExecutionId, Labels};
use stateway_provider_api::{
    Approval, ApprovalState, ApprovalStream, Call, Capabilities, DecideRequest, Error, ErrorKind,
    InboxId, PersonDecision, Result, Verb, WatchedApproval,
};
use tokio::sync::broadcast;

use super::defect::Defect;

/// What waits for a person.
#[derive(Clone)]
pub(crate) struct Inbox {
    defect: Defect,
    can: Capabilities,
    asked: Arc<Mutex<Vec<Approval>>>,
    news: broadcast::Sender<WatchedApproval>,
}

impl Inbox {
    pub(crate) fn new(defect: Defect, can: Capabilities) -> Self {
        Self {
            defect,
            can,
            asked: Arc::default(),
            news: broadcast::Sender::new(100),
        }
    }

    pub(crate) const fn capabilities(&self, others: Capabilities) -> Capabilities {
        Capabilities {
            approvals: self.can.approvals,
            watch_approvals: self.can.watch_approvals,
            ..others
        }
    }

    /// An execution that asks for an approval.
    pub(crate) fn ask(&self) -> ExecutionId {
        let mut asked = self.asked();
        let execution = ExecutionId::new(format!("asking-{}", asked.len())).unwrap();
        let approval = Approval {
            id: InboxId {
                execution: execution.clone(),
                id: "ask~1".to_owned(),
            },
            state: ApprovalState::Pending,
            step: "ask".to_owned(),
            attempt: 1,
            branch: 0,
            role: "boss".to_owned(),
            policy_rule: String::new(),
            create_time: Timestamp::UNIX_EPOCH,
            expire_time: None,
            decision: None,
            definition: "script".to_owned(),
            revision: String::new(),
            initiator: "kit".to_owned(),
            labels: Labels::new(),
            input: None,
        };
        asked.push(approval.clone());
        if self.defect != Defect::ApprovalsAskedForLaterAreNotReported {
            self.tell(approval);
        }
        execution
    }

    pub(crate) fn pending(&self) -> Result<Vec<Approval>> {
        self.offered(Verb::ListApprovals)?;
        let mut pending = self.asked().clone();
        pending.retain(|one| one.state == ApprovalState::Pending);
        Ok(pending)
    }

    pub(crate) fn watch(&self) -> Result<ApprovalStream> {
        self.offered(Verb::WatchApprovals)?;
        let asked = self.asked();
        let news = stream::unfold(self.news.subscribe(), |mut news| async move {
            let item = news.recv().await.ok()?;
            Some((item, news))
        });
        let mut present = asked.clone();
        present.retain(|one| one.state == ApprovalState::Pending);
        if self.defect == Defect::PendingApprovalsAreLeftOut {
            present.clear();
        }
        if self.defect == Defect::ApprovalsAreWatchedUnderOtherRoles {
            for one in &mut present {
                "deputy".clone_into(&mut one.role);
            }
        }
        let in_sync =
            (self.defect != Defect::ApprovalsAreNeverInSync).then_some(WatchedApproval::InSync);
        let present = present.into_iter();
        let present = present.map(|one| WatchedApproval::Seen(Box::new(one)));
        let present: Vec<_> = present.chain(in_sync).collect();
        Ok(stream::iter(present).chain(news).map(Ok).boxed())
    }

    pub(crate) fn decide(&self, call: &Call, request: &DecideRequest) -> Result<Approval> {
        self.offered(Verb::DecideApproval)?;
        let mut asked = self.asked();
        let found = asked.iter_mut().find(|one| one.id == request.id);
        let found = found.ok_or_else(|| {
            let verb = Verb::DecideApproval;
            Error::new(ErrorKind::NotFound, verb, "nobody asked for it")
        })?;
        found.state = if request.grant {
            ApprovalState::Granted
        } else {
            ApprovalState::Rejected
        };
        found.decision = Some(PersonDecision {
            by: call.actor.to_string(),
            time: Timestamp::UNIX_EPOCH,
            comment: request.comment.clone(),
        });
        match self.defect {
            Defect::TheEndOfAnApprovalIsNotReported => {}
            Defect::AnApprovalIsGoneWithoutItsEnd => {
                let _ = self.news.send(WatchedApproval::Gone(found.id.clone()));
            }
            _ => self.tell(found.clone()),
        }
        Ok(found.clone())
    }

    fn tell(&self, approval: Approval) {
        let _ = self.news.send(WatchedApproval::Seen(Box::new(approval)));
    }

    fn offered(&self, verb: Verb) -> Result<()> {
        if verb.is_offered(&self.can) {
            Ok(())
        } else {
            Err(Error::unsupported(verb))
        }
    }

    fn asked(&self) -> MutexGuard<'_, Vec<Approval>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
