//! Every verb on an execution that does not exist.

use futures::future::BoxFuture;
use stateway_provider_api::{
    CancelMode, Error, ErrorKind, EventOrder, HistoryRequest, Result, Verb, View, WatchScope,
};

use crate::stage::refused;
use crate::{Case, Outcome, Stage};

/// The verbs that name an execution, each with the capability it needs.
const VERBS: &[(Verb, &[&str])] = &[
    (Verb::History, &["history"]),
    (Verb::WatchOne, &["watch_one"]),
    (Verb::WatchEnd, &["watch_end"]),
    (Verb::Signal, &["signal"]),
    (Verb::Cancel, &["cancel"]),
    (Verb::Kill, &["kill"]),
    (Verb::Pause, &["pause"]),
    (Verb::Resume, &["resume"]),
    (Verb::RetryNow, &["retry_now"]),
    (Verb::RetryFrom, &["retry_from"]),
    (Verb::Purge, &["purge"]),
];

pub(super) fn cases() -> Vec<Case> {
    let case = |(verb, needs): &(Verb, &'static [&'static str])| {
        let verb = *verb;
        Case::new(
            format!("unknown_execution::{verb}_answers_not_found"),
            needs,
            move |stage| Box::pin(is_not_found(stage, verb)),
        )
    };
    VERBS.iter().map(case).collect()
}

async fn is_not_found(stage: Stage, verb: Verb) -> Outcome {
    refused(verb.as_str(), ask(&stage, verb).await, ErrorKind::NotFound)?;
    Ok(())
}

/// Asks the verb of an execution that does not exist; of no execution where it names none.
pub(super) fn ask(stage: &Stage, verb: Verb) -> BoxFuture<'_, Result<()>> {
    Box::pin(async move {
        let (provider, call, id) = (&stage.provider, &stage.call(), &stage.nobody());
        let done = |_| ();
        match verb {
            Verb::Start => {
                let request = stage.start_request();
                provider.start(call, request).await.map(done)
            }
            Verb::Get => provider.get(call, id, View::Basic).await.map(done),
            Verb::List => {
                let hints = stateway_provider_api::filter::Hints::none();
                let request = stateway_provider_api::ListRequest {
                    hints,
                    page_size: 10,
                    cursor: None,
                };
                provider.list(call, request).await.map(|_| ())
            }
            Verb::Count => provider.count(call).await.map(|_| ()),
            Verb::History => {
                let request = HistoryRequest {
                    id: id.clone(),
                    page_size: 10,
                    cursor: None,
                    view: View::Basic,
                    order: EventOrder::OldestFirst,
                };
                provider.history(call, request).await.map(|_| ())
            }
            Verb::WatchOne => {
                let scope = WatchScope::One(id.clone());
                provider.watch(call, scope).await.map(|_| ())
            }
            Verb::WatchEnd => {
                let scope = WatchScope::End(id.clone());
                provider.watch(call, scope).await.map(|_| ())
            }
            Verb::WatchAll => provider.watch(call, WatchScope::All).await.map(|_| ()),
            Verb::Signal => stage.signal(id, "kit-go").await.map(done),
            Verb::Cancel => stage.cancel(id, CancelMode::Graceful).await.map(done),
            Verb::Kill => stage.cancel(id, CancelMode::Kill).await.map(done),
            Verb::Pause => provider
                .pause(call, stage.pause_request(id))
                .await
                .map(done),
            Verb::Resume => provider
                .resume(call, stage.resume_request(id))
                .await
                .map(done),
            Verb::RetryNow => {
                let request = stage.retry_now_request(id);
                provider.retry_now(call, request).await.map(done)
            }
            Verb::RetryFrom => {
                let request = stage.retry_from_request(id);
                provider.retry_from(call, request).await.map(done)
            }
            Verb::Purge => stage.purge(id).await,
            Verb::Definitions => {
                let name = "kit-no-such-definition";
                let listed = provider
                    .definitions(call, stage.definitions_request())
                    .await;
                let read = provider.definition(call, name, None).await;
                read.and(listed.map(|_| ()))
            }
            Verb::ApplyDefinition => {
                let checked = provider.validate_definition(call, "{}").await;
                let request = stage.apply_request("kit-applied", "{}");
                let applied = provider.apply_definition(call, request).await;
                applied.and(checked.map(|_| ()))
            }
            Verb::WatchApprovals => match provider.approvals() {
                Some(inbox) => inbox.watch_approvals(call).await.map(|_| ()),
                None => Err(Error::unsupported(verb)),
            },
            // Observing answers for each id, and other extensions are traits of their own.
            _ => Err(Error::unsupported(verb)),
        }
    })
}
