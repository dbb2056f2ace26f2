//! Workers receive only tasks of roles and tenants that they may work for.

use stateway_client::v1;
use stateway_client::v1::stream_tasks_request::Message as Said;
use stateway_client::v1::stream_tasks_response::Message as Told;
use tokio::sync::mpsc;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::{Code, Status, Streaming};

use super::rig::{AccessRig, ORDER, name};

pub(super) struct Worker {
    say: mpsc::UnboundedSender<v1::StreamTasksRequest>,
    told: Streaming<v1::StreamTasksResponse>,
}

fn said(message: Said) -> v1::StreamTasksRequest {
    v1::StreamTasksRequest {
        message: Some(message),
    }
}

pub(super) fn offer(role: &str, tenant: &str) -> v1::Offer {
    v1::Offer {
        roles: vec![role.into()],
        tenant: tenant.into(),
        capacity: 10,
        ..v1::Offer::default()
    }
}

impl Worker {
    pub(super) async fn connect(
        rig: &AccessRig,
        who: &str,
        offer: v1::Offer,
    ) -> Result<Self, Status> {
        let (say, messages) = mpsc::unbounded_channel();
        say.send(said(Said::Offer(offer))).unwrap();
        let request = rig.by(who, UnboundedReceiverStream::new(messages));
        let told = rig.workers().await.stream_tasks(request).await?;
        Ok(Self {
            say,
            told: told.into_inner(),
        })
    }

    pub(super) async fn next(&mut self) -> Result<Option<Told>, Status> {
        let next = tokio::time::timeout(std::time::Duration::from_secs(10), self.told.message());
        let next = next.await.expect("something comes")?;
        Ok(next.map(|told| told.message.unwrap()))
    }

    pub(super) async fn task(&mut self) -> v1::Task {
        loop {
            if let Told::Task(task) = self.next().await.unwrap().unwrap() {
                return task;
            }
        }
    }

    /// Fails a task so that a person has to decide.
    pub(super) fn fail(&self, task: &v1::Task) {
        let failed = v1::TaskFailed {
            task_token: task.task_token.clone(),
            category: v1::ErrorCategory::Governance.into(),
            message: "it did not work".into(),
            ..v1::TaskFailed::default()
        };
        self.say.send(said(Said::Failed(failed))).unwrap();
    }
}

#[tokio::test]
async fn a_worker_receives_the_tasks_of_its_own_tenant() {
    let rig = AccessRig::start().await;
    rig.apply(ORDER).await;
    let mut acme = Worker::connect(&rig, "wilma", offer("agent-billing", "acme"))
        .await
        .unwrap();
    // The tenant of the caller counts where the offer names none.
    let mut evil = Worker::connect(&rig, "walter", offer("agent-billing", ""))
        .await
        .unwrap();
    rig.begin("ada", "order", ("theirs", "acme")).await.unwrap();
    rig.begin("eve", "order", ("mine", "evil")).await.unwrap();
    rig.begin("ada", "order", ("theirs-2", "acme"))
        .await
        .unwrap();
    assert_eq!(evil.task().await.execution, name("mine"));
    let mut seen = [acme.task().await.execution, acme.task().await.execution];
    seen.sort();
    assert_eq!(seen, [name("theirs"), name("theirs-2")]);
}

#[tokio::test]
async fn other_roles_and_tenants_are_denied_at_every_offer() {
    let rig = AccessRig::start().await;
    for wrong in [
        offer("agent-billing", "acme"),
        offer("billing", "evil"),
        offer("", ""),
        v1::Offer {
            roles: vec!["agent-billing".into(), "admin".into()],
            ..offer("x", "evil")
        },
    ] {
        let mut wrong = wrong;
        wrong.roles.retain(|role| !role.is_empty());
        let status = Worker::connect(&rig, "walter", wrong.clone()).await.err();
        let status = status.unwrap_or_else(|| panic!("{wrong:?}"));
        assert_eq!(status.code(), Code::PermissionDenied, "{wrong:?}");
    }
    // A later offer on the same stream is decided again.
    let mut evil = Worker::connect(&rig, "walter", offer("agent-billing", "evil"))
        .await
        .unwrap();
    evil.say
        .send(said(Said::Offer(offer("agent-billing", "acme"))))
        .unwrap();
    let status = loop {
        match evil.next().await {
            Ok(Some(_)) => {}
            Ok(None) => panic!("it ended well"),
            Err(status) => break status,
        }
    };
    assert_eq!(status.code(), Code::PermissionDenied);
}

#[tokio::test]
async fn the_task_token_of_another_worker_settles_nothing() {
    let rig = AccessRig::start().await;
    rig.apply(ORDER).await;
    let mut acme = Worker::connect(&rig, "wilma", offer("agent-billing", "acme"))
        .await
        .unwrap();
    let mut evil = Worker::connect(&rig, "walter", offer("agent-billing", "evil"))
        .await
        .unwrap();
    rig.begin("ada", "order", ("theirs", "acme")).await.unwrap();
    let task = acme.task().await;
    let completed = v1::TaskCompleted {
        task_token: task.task_token.clone(),
        ..v1::TaskCompleted::default()
    };
    evil.say.send(said(Said::Completed(completed))).unwrap();
    let answer = loop {
        match evil.next().await.unwrap().unwrap() {
            Told::Welcome(_) => {}
            answer => break answer,
        }
    };
    assert!(matches!(answer, Told::Refused(_)), "{answer:?}");
    let seen = rig.get("ada", "theirs").await.unwrap();
    let step = seen
        .steps
        .iter()
        .find(|step| step.name == "charge")
        .unwrap();
    assert_eq!(step.sub_state(), v1::SubState::Running);
}

#[tokio::test]
async fn a_worker_with_the_id_of_another_tenant_does_not_take_its_place() {
    let rig = AccessRig::start().await;
    rig.apply(ORDER).await;
    let same = |tenant: &str| v1::Offer {
        worker_id: "w1".into(),
        ..offer("agent-billing", tenant)
    };
    let mut acme = Worker::connect(&rig, "wilma", same("acme")).await.unwrap();
    let Told::Welcome(welcome) = acme.next().await.unwrap().unwrap() else {
        panic!("no welcome");
    };
    assert_eq!(welcome.worker_id, "w1");
    rig.begin("ada", "order", ("theirs", "acme")).await.unwrap();
    let first = acme.task().await;
    let mut evil = Worker::connect(&rig, "walter", same("evil")).await.unwrap();
    rig.begin("eve", "order", ("mine", "evil")).await.unwrap();
    assert_eq!(evil.task().await.execution, name("mine"));
    // The worker of the other tenant was neither closed nor lost its task.
    let completed = v1::TaskCompleted {
        task_token: first.task_token,
        ..v1::TaskCompleted::default()
    };
    acme.say.send(said(Said::Completed(completed))).unwrap();
    rig.begin("ada", "order", ("theirs-2", "acme"))
        .await
        .unwrap();
    assert_eq!(acme.task().await.execution, name("theirs-2"));
    // The same worker can make another offer under its own id.
    acme.say.send(said(Said::Offer(same("acme")))).unwrap();
    rig.begin("ada", "order", ("theirs-3", "acme"))
        .await
        .unwrap();
    assert_eq!(acme.task().await.execution, name("theirs-3"));
}

#[tokio::test]
async fn queues_and_workers_are_shown_by_tenant() {
    let rig = AccessRig::start().await;
    rig.apply(ORDER).await;
    rig.begin("ada", "order", ("theirs", "acme")).await.unwrap();
    rig.begin("eve", "order", ("mine", "evil")).await.unwrap();
    let queue = v1::GetQueueRequest {
        name: "providers/b/queue".into(),
    };
    let mut client = rig.workers().await;
    let seen = client
        .get_queue(rig.by("eve", queue.clone()))
        .await
        .unwrap()
        .into_inner();
    let tenants: Vec<_> = seen.tasks.iter().map(|line| line.tenant.as_str()).collect();
    assert_eq!(tenants, ["evil"]);
    let seen = client
        .get_queue(rig.by("root", queue))
        .await
        .unwrap()
        .into_inner();
    assert_eq!(seen.tasks.len(), 2);
    let _acme = Worker::connect(&rig, "wilma", offer("agent-billing", "acme"))
        .await
        .unwrap();
    let list = v1::ListWorkersRequest {
        parent: "providers/b".into(),
        ..v1::ListWorkersRequest::default()
    };
    let seen = client
        .list_workers(rig.by("eve", list.clone()))
        .await
        .unwrap()
        .into_inner();
    assert_eq!(seen.workers, []);
    let seen = client
        .list_workers(rig.by("ada", list))
        .await
        .unwrap()
        .into_inner();
    assert_eq!(seen.workers.len(), 1);
}

#[tokio::test]
async fn approvals_follow_the_roles_of_the_identity_and_not_those_that_a_caller_claims() {
    let callers = [
        ("root", &["admin"] as &[&str], None),
        ("ada", &["member"], Some("acme")),
        ("otto", &["member", "ops"], Some("acme")),
        ("mia", &["member"], Some("acme")),
    ];
    let rig = AccessRig::with(super::rig::TENANTS, &callers).await;
    rig.apply(super::rig::RELEASE).await;
    rig.begin("ada", "release", ("a1", "acme")).await.unwrap();
    let decide = v1::DecideApprovalRequest {
        name: format!("{}/approvals/sign-off~1", name("a1")),
        decision: v1::decide_approval_request::Choice::Grant.into(),
        ..v1::DecideApprovalRequest::default()
    };
    let mut client = rig.approvals().await;
    // The rules let mia decide; the approval asks for a role that she does not have.
    let status = client
        .decide_approval(rig.by("mia", decide.clone()))
        .await
        .unwrap_err();
    assert_eq!(status.code(), Code::PermissionDenied);
    let mut claimed = rig.by("mia", decide.clone());
    claimed
        .metadata_mut()
        .insert("x-stateway-roles", "ops".parse().unwrap());
    let status = client.decide_approval(claimed).await.unwrap_err();
    assert_eq!(status.code(), Code::Unauthenticated, "{status}");
    client
        .decide_approval(rig.by("otto", decide))
        .await
        .unwrap();
}
