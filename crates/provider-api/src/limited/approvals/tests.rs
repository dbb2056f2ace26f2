//! What is off is neither asked for nor shown.

use std::sync::Arc;
use std::time::Duration;

use futures::{FutureExt, stream};
use jiff::Timestamp;
use stateway_model::{ExecutionId, Labels, Payload};

use super::*;
use crate::table::compiled_in;
use crate::{
    ApprovalState, Capabilities, Description, ErrorKind, Health, InboxHints, Observation, View,
};

/// A provider with one pending approval.
struct Asking;

fn whole() -> Approval {
    Approval {
        id: InboxId {
            execution: ExecutionId::new("e").unwrap(),
            id: "ask~1".to_owned(),
        },
        state: ApprovalState::Pending,
        step: "ask".to_owned(),
        attempt: 1,
        branch: 0,
        role: "ops".to_owned(),
        policy_rule: String::new(),
        create_time: Timestamp::UNIX_EPOCH,
        expire_time: None,
        decision: None,
        definition: "d".to_owned(),
        revision: String::new(),
        initiator: "ada".to_owned(),
        labels: Labels::from([("team".to_owned(), "shop".to_owned())]),
        input: Some(Payload::json("7")),
    }
}

#[async_trait]
impl Provider for Asking {
    fn describe(&self) -> Arc<Description> {
        Description::fixed(Capabilities::ALL, compiled_in("memory").unwrap())
    }

    async fn health(&self, _: &Call) -> Result<Health> {
        Ok(Health::default())
    }

    async fn get(&self, _: &Call, id: &ExecutionId, _: View) -> Result<Observation> {
        Err(Error::not_found(Verb::Get, id))
    }

    async fn observe(&self, _: &Call, _: &[ExecutionId]) -> Vec<Result<Observation>> {
        Vec::new()
    }

    fn approvals(&self) -> Option<&dyn Approvals> {
        Some(self)
    }
}

#[async_trait]
impl Approvals for Asking {
    async fn list_approvals(&self, _: &Call, _: InboxRequest) -> Result<InboxPage<Approval>> {
        Ok(InboxPage {
            items: vec![whole()],
            next: None,
        })
    }

    async fn watch_approvals(&self, _: &Call) -> Result<ApprovalStream> {
        let seen = WatchedApproval::Seen(Box::new(whole()));
        Ok(stream::iter([Ok(seen), Ok(WatchedApproval::InSync)]).boxed())
    }

    async fn get_approval(&self, _: &Call, _: &InboxId) -> Result<Approval> {
        Ok(whole())
    }

    async fn decide(&self, _: &Call, _: DecideRequest) -> Result<Approval> {
        Ok(whole())
    }

    async fn list_escalations(&self, _: &Call, _: InboxRequest) -> Result<InboxPage<Escalation>> {
        Ok(InboxPage::default())
    }

    async fn get_escalation(&self, _: &Call, _: &InboxId) -> Result<Escalation> {
        Err(Error::unsupported(Verb::GetEscalation))
    }

    async fn resolve(&self, _: &Call, _: ResolveRequest) -> Result<Escalation> {
        Err(Error::unsupported(Verb::ResolveEscalation))
    }
}

fn without(disabled: &str) -> Limited<Asking> {
    Limited::without(Arc::new(Asking), &[disabled.to_owned()]).unwrap()
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    future.now_or_never().expect("it answers immediately")
}

fn request() -> InboxRequest {
    InboxRequest {
        hints: InboxHints::default(),
        page_size: 1,
        cursor: None,
    }
}

#[test]
fn payloads_and_labels_that_are_off_are_not_shown_wherever_an_approval_comes_from() {
    let call = Call::within(Duration::from_secs(1));
    for disabled in ["payloads", "labels"] {
        let mut expected = whole();
        match disabled {
            "payloads" => expected.input = None,
            _ => expected.labels.clear(),
        }
        let provider = without(disabled);
        let inbox = provider.approvals().unwrap();
        let listed = block_on(inbox.list_approvals(&call, request())).unwrap();
        assert_eq!(listed.items, [expected.clone()], "{disabled}");
        let got = block_on(inbox.get_approval(&call, &whole().id)).unwrap();
        assert_eq!(got, expected, "{disabled}");
        let watched = block_on(inbox.watch_approvals(&call)).unwrap();
        let watched: Vec<_> = block_on(watched.map(Result::unwrap).collect());
        let seen = WatchedApproval::Seen(Box::new(expected));
        assert_eq!(watched, [seen, WatchedApproval::InSync], "{disabled}");
    }
}

#[test]
fn a_watch_that_is_off_is_refused_and_the_rest_is_not() {
    let call = Call::within(Duration::from_secs(1));
    let provider = without("watch_approvals");
    let inbox = provider.approvals().unwrap();
    let refused = block_on(inbox.watch_approvals(&call)).err().unwrap();
    assert_eq!(refused.kind, ErrorKind::Unsupported);
    assert!(block_on(inbox.list_approvals(&call, request())).is_ok());
    assert!(without("approvals").approvals().is_none());
}
