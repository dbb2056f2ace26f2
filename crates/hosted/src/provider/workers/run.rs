//! The loop around the book, and the calls to objects.

use std::collections::BTreeSet;
use std::sync::Arc;

use stateway_machine::Verb as Command;
use stateway_model::ErrorKind;
use stateway_provider_api::{Call, Error, Result, Verb};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::book::Order;
use super::{
    HostPort, LONGEST_SCAN_PAUSE, MOST_CLAIMS, PATIENCE, PAUSE, SCAN, SHARE_OF_SCANS, Shared,
};
use crate::message::{Claim, Done, HandOut, ObjectRequest, StoredView, VERSION, Work};
use crate::object::VIEW;
use crate::provider::{ObjectKind, ViewQuery, place, stored};

/// How many views are read at a time.
const VIEWS_PER_READ: usize = 1_000;

/// Hands out tasks until the provider is dropped.
pub(super) async fn run<P: HostPort>(shared: Arc<Shared<P>>) {
    // Side by side: an engine that is slow to answer a query must not delay the renewal of leases.
    tokio::join!(hand_out(&shared), look(&shared));
}

/// Reads the stored views again and again while workers are known.
async fn look<P: HostPort>(shared: &Shared<P>) {
    loop {
        let began = Instant::now();
        let mut pause = SCAN;
        if !shared.book().is_empty() {
            match scan(shared).await {
                Ok(()) => {
                    pause = (began.elapsed() * SHARE_OF_SCANS).clamp(SCAN, LONGEST_SCAN_PAUSE);
                }
                Err(error) => tracing::debug!("open tasks cannot be read: {error}"),
            }
            shared.wake.notify_one();
        }
        tokio::time::sleep(pause).await;
    }
}

/// Hands out the tasks that are known, renews leases and takes tasks from workers that are silent.
async fn hand_out<P: HostPort>(shared: &Arc<Shared<P>>) {
    let claims = Arc::new(Semaphore::new(MOST_CLAIMS));
    loop {
        tokio::select! {
            () = shared.wake.notified() => {}
            () = tokio::time::sleep(SCAN) => {}
        }
        let now = Instant::now();
        let lost = shared.book().lapse(now);
        for (execution, hand_out) in lost {
            tokio::spawn(release(Arc::clone(shared), execution, hand_out));
        }
        let renewals = shared.book().renewals(now);
        for (execution, worker) in renewals {
            tokio::spawn(renew(Arc::clone(shared), execution, worker));
        }
        let missed = shared.book().ask_for_missed();
        for (execution, worker) in missed {
            tokio::spawn(ask_again(Arc::clone(shared), execution, worker));
        }
        let orders = shared.book().claims(claims.available_permits(), now);
        for order in orders {
            let Ok(permit) = Arc::clone(&claims).acquire_owned().await else {
                return;
            };
            let shared = Arc::clone(shared);
            tokio::spawn(async move {
                claim(&shared, &order).await;
                drop(permit);
                shared.wake.notify_one();
            });
        }
    }
}

impl<P: HostPort> Shared<P> {
    /// Takes note of what an object answered.
    pub(super) fn learn(&self, done: &Done) {
        self.book().learn(done, Instant::now());
        self.wake.notify_one();
    }

    /// Sends work to the object of an execution.
    pub(super) async fn send(
        &self,
        execution: &str,
        (cause, work): (&str, Work),
        claim: Option<Claim>,
    ) -> Result<Done> {
        let request = ObjectRequest {
            v: VERSION,
            id: cause.into(),
            at: self.host.now(),
            body: None,
            work,
            claim,
        };
        let call = Call::within(PATIENCE);
        self.host.send(&call, Verb::Work, execution, &request).await
    }

    /// The same, made again until there is an answer.
    pub(super) async fn send_surely(
        &self,
        execution: &str,
        (cause, work): (&str, &Work),
        claim: Option<&Claim>,
        go_on: impl Fn() -> bool,
    ) -> Result<Done> {
        let mut pause = PAUSE.0;
        let mut claim = claim.cloned();
        loop {
            let sent = self.send(execution, (cause, work.clone()), claim.clone());
            match sent.await {
                Err(error) if error.kind.is_retryable() && go_on() => {
                    // The request may have been carried out: then its tasks are asked for again.
                    if let Some(claim) = &mut claim {
                        claim.again = true;
                    }
                    tracing::debug!("a result is sent again: {error}");
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(PAUSE.1);
                }
                answer => return answer,
            }
        }
    }
}

async fn claim<P: HostPort>(shared: &Shared<P>, order: &Order) {
    let claim = Some(order.claim.clone());
    let answer = shared.send(&order.execution, ("hand-out", Work::Claim), claim);
    match answer.await {
        Ok(done) => {
            // In one step, so that the room of the claim is not given away before its tasks are there.
            let mut book = shared.book();
            book.claimed(order, None);
            book.learn(&done, Instant::now());
        }
        Err(error) => {
            shared.book().claimed(order, Some(Instant::now()));
            failed(shared, &order.execution, &error);
        }
    }
}

/// Asks an execution again for the tasks of a worker.
async fn ask_again<P: HostPort>(shared: Arc<Shared<P>>, execution: Arc<str>, worker: Arc<str>) {
    let claim = shared.book().ask_again(&worker, &execution);
    if let Some(claim) = claim {
        let answer = shared.send(&execution, ("hand-out", Work::Claim), Some(claim));
        match answer.await {
            Ok(done) => shared.learn(&done),
            Err(error) => failed(&shared, &execution, &error),
        }
    }
    shared.book().asked_again(&(execution, worker));
}

fn failed<P: HostPort>(shared: &Shared<P>, execution: &str, error: &Error) {
    if error.kind == ErrorKind::NotFound {
        shared.book().forget(execution);
    } else {
        tracing::debug!(execution, "a task cannot be handed out: {error}");
    }
}

/// Gives a task of a lost worker to another one. If the call fails, the lease in the object ends.
pub(super) async fn release<P: HostPort>(
    shared: Arc<Shared<P>>,
    execution: Arc<str>,
    hand_out: HandOut,
) {
    let task = hand_out.task.clone();
    let verb = Box::new(Command::ReleaseTask { task, lost: true });
    let work = Work::Settle { hand_out, verb };
    match shared.send(&execution, ("lease", work), None).await {
        Ok(done) => shared.learn(&done),
        Err(error) => tracing::debug!("the task of a silent worker had already ended: {error}"),
    }
}

async fn renew<P: HostPort>(shared: Arc<Shared<P>>, execution: Arc<str>, worker: Arc<str>) {
    let work = Work::Renew {
        worker: Arc::clone(&worker),
        lease: shared.host.port.pace().lease,
    };
    match shared.send(&execution, ("lease", work), None).await {
        Ok(done) => shared.learn(&done),
        Err(error) => {
            shared.book().renew_again(&worker, Instant::now());
            failed(&shared, &execution, &error);
        }
    }
}

/// Sends a worker that connected the tasks that it has by the log: it may have lost them.
pub(super) async fn recover<P: HostPort>(shared: Arc<Shared<P>>, worker: Arc<str>) {
    if let Err(error) = send_held(&shared, &worker).await {
        // The scan finds them later.
        tracing::debug!(%worker, "the tasks of a worker cannot be read: {error}");
    }
    shared.book().recovered(&worker);
    shared.wake.notify_one();
}

async fn send_held<P: HostPort>(shared: &Arc<Shared<P>>, worker: &Arc<str>) -> Result<()> {
    let mut having: Vec<StoredView> = Vec::new();
    each_open_view(shared, |seen| {
        if seen
            .tasks
            .iter()
            .any(|it| it.worker.as_ref() == Some(worker))
        {
            having.push(seen);
        }
    })
    .await?;
    for seen in having {
        let id = &seen.view.id;
        let Some(mut claim) = shared.book().claim_again(worker) else {
            return Ok(());
        };
        let tasks = seen.tasks.iter();
        let tasks = tasks.filter(|task| task.worker.as_ref() == Some(worker));
        let (own, others): (Vec<_>, Vec<_>) = tasks.partition(|task| {
            let identity = task.identity.as_ref().map_or("", |identity| identity);
            identity.eq_ignore_ascii_case(&claim.identity)
        });
        // A task that was handed out in another name goes to another worker.
        for hand_out in others.into_iter().filter_map(|task| task.hand_out()) {
            release(Arc::clone(shared), Arc::clone(id), hand_out).await;
        }
        // One answer has room for a part of the tasks only.
        while claim.has.len() < own.len() {
            let sent = shared.send(id, ("hand-out", Work::Claim), Some(claim.clone()));
            let done = match sent.await {
                Ok(done) => done,
                Err(error) => {
                    failed(shared, id, &error);
                    break;
                }
            };
            let sent = done.claimed.iter().filter_map(|it| it.open.hand_out());
            let before = claim.has.len();
            claim.has.extend(sent);
            shared.learn(&done);
            if claim.has.len() == before {
                break;
            }
        }
    }
    Ok(())
}

/// Reads all executions with open tasks, and those of which a worker has a task or a task was waiting.
async fn scan<P: HostPort>(shared: &Shared<P>) -> Result<()> {
    let mut seen_ids = BTreeSet::new();
    each_open_view(shared, |seen| {
        shared.book().note(&seen);
        seen_ids.insert(seen.view.id.to_string());
    })
    .await?;
    let (held, waiting) = {
        let book = shared.book();
        (book.executions_held(), book.executions_waiting())
    };
    let known = held
        .into_iter()
        .chain(waiting.iter().map(ToString::to_string));
    let rest: Vec<String> = known.filter(|id| !seen_ids.contains(id)).collect();
    if rest.is_empty() {
        return Ok(());
    }
    let call = Call::within(PATIENCE);
    let keys: Vec<_> = rest.iter().map(String::as_str).collect();
    let objects = (ObjectKind::Execution, &keys[..]);
    let found = shared
        .host
        .port
        .values(&call, Verb::Work, objects, VIEW)
        .await?;
    let mut gone: BTreeSet<_> = rest.iter().map(String::as_str).collect();
    for found in &found {
        gone.remove(found.object.as_str());
        if let Ok(seen) = stored(Verb::Work, found) {
            shared.book().note(&seen);
        }
    }
    for id in gone {
        shared.book().forget(id);
    }
    Ok(())
}

/// Reads the views of all executions with open tasks, page by page. One that cannot be read is left out.
pub(super) async fn each_open_view<P: HostPort>(
    shared: &Shared<P>,
    mut take: impl FnMut(StoredView) + Send,
) -> Result<()> {
    let mut before = None;
    loop {
        let query = ViewQuery {
            before: before.take(),
            limit: VIEWS_PER_READ,
            open_only: true,
            awaits_person: false,
            forked_from: None,
            definition: None,
        };
        let call = Call::within(PATIENCE);
        let found = shared.host.port.views(&call, Verb::Work, &query).await?;
        for found in &found {
            match stored(Verb::Work, found) {
                Ok(seen) => take(seen),
                Err(error) => tracing::debug!(execution = found.object, "skipped: {error}"),
            }
        }
        let Some(last) = found.last().filter(|_| found.len() >= VIEWS_PER_READ) else {
            return Ok(());
        };
        before = Some(place(Verb::Work, last)?);
    }
}
