//! `Approvals::watch_approvals`.

use stateway_provider_api::{
    Approval, ApprovalState, ApprovalStream, Approvals, Call, DecideRequest, InboxHints,
    InboxRequest, WatchedApproval,
};

use crate::case::{cases, ensure};
use crate::stage::{answered, next_item};
use crate::{Case, Outcome, Scene, Stage, Stop};

pub(super) fn cases() -> Vec<Case> {
    cases!["approvals":
        a_watch_begins_with_what_is_pending_and_is_in_sync [watch_approvals],
        a_watch_reports_what_is_asked_for_later [watch_approvals],
        a_watch_reports_how_an_approval_ended [watch_approvals],
        a_watch_shows_what_a_list_shows [watch_approvals],
    ]
}

fn inbox(stage: &Stage) -> Result<&dyn Approvals, Stop> {
    let why = || Stop::Failed("the capability is on, and there are no approvals".to_owned());
    stage.provider.approvals().ok_or_else(why)
}

async fn open(stage: &Stage) -> Result<ApprovalStream, Stop> {
    let opened = inbox(stage)?.watch_approvals(&stage.call()).await;
    answered("watch_approvals", opened)
}

/// What a stream reports before it is in sync.
async fn present(stream: &mut ApprovalStream) -> Result<Vec<Approval>, Stop> {
    let mut present = Vec::new();
    loop {
        match next_item(stream).await? {
            WatchedApproval::Seen(seen) => present.push(*seen),
            WatchedApproval::Gone(_) => {}
            WatchedApproval::InSync => return Ok(present),
        }
    }
}

/// The next approval that a stream reports.
async fn next(stream: &mut ApprovalStream) -> Result<Approval, Stop> {
    loop {
        if let WatchedApproval::Seen(seen) = next_item(stream).await? {
            return Ok(*seen);
        }
    }
}

async fn a_watch_begins_with_what_is_pending_and_is_in_sync(stage: Stage) -> Outcome {
    let asking = stage.scene(Scene::AwaitingApproval).await?;
    let mut stream = open(&stage).await?;
    let present = present(&mut stream).await?;
    let [only] = present.as_slice() else {
        return Err(Stop::Failed(format!("one is pending, not {present:?}")));
    };
    ensure!(only.id.execution == asking, "{only:?} is not of {asking}");
    ensure!(only.state == ApprovalState::Pending, "{only:?}");
    Ok(())
}

async fn a_watch_reports_what_is_asked_for_later(stage: Stage) -> Outcome {
    let mut stream = open(&stage).await?;
    let before = present(&mut stream).await?;
    ensure!(before.is_empty(), "nothing is pending, not {before:?}");
    let asking = stage.scene(Scene::AwaitingApproval).await?;
    let asked = next(&mut stream).await?;
    let pending = asked.state == ApprovalState::Pending;
    ensure!(pending && asked.id.execution == asking, "{asked:?}");
    Ok(())
}

async fn a_watch_reports_how_an_approval_ended(stage: Stage) -> Outcome {
    stage.scene(Scene::AwaitingApproval).await?;
    let mut stream = open(&stage).await?;
    let pending = next(&mut stream).await?;
    let call = Call {
        actor: "kit-decider".into(),
        roles: [pending.role.as_str().into()].into(),
        ..stage.call()
    };
    let decide = DecideRequest {
        id: pending.id.clone(),
        grant: true,
        comment: "by the kit".to_owned(),
        etag: String::new(),
        request_id: stage.request_id(),
    };
    answered("decide", inbox(&stage)?.decide(&call, decide).await)?;
    let ended = next(&mut stream).await?;
    ensure!(ended.id == pending.id, "{ended:?} is another one");
    ensure!(ended.state == ApprovalState::Granted, "{ended:?}");
    let by = ended.decision.as_ref().map(|decision| decision.by.as_str());
    ensure!(by == Some("kit-decider"), "{ended:?}");
    Ok(())
}

async fn a_watch_shows_what_a_list_shows(stage: Stage) -> Outcome {
    stage.scene(Scene::AwaitingApproval).await?;
    let request = InboxRequest {
        hints: InboxHints {
            pending_only: true,
            ..InboxHints::default()
        },
        page_size: 10,
        cursor: None,
    };
    let listed = inbox(&stage)?.list_approvals(&stage.call(), request).await;
    let listed = answered("list_approvals", listed)?.items;
    let watched = present(&mut open(&stage).await?).await?;
    ensure!(listed == watched, "listed {listed:?}, watched {watched:?}");
    Ok(())
}
