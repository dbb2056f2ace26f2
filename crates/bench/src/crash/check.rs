//! The check of a store in which every execution has ended.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::{Duration, Instant};

use stateway_proto::v1;
use stateway_proto::v1::executions_client::ExecutionsClient;
use tonic::Code;
use tonic::transport::Channel;

use super::book::{Attempt, Book};
use super::load::{CHAIN, PARENT, SAGA};
use super::progress::Totals;
use crate::Outcome;
use crate::process::Server;

/// How often a read is tried on a machine that is too busy to answer.
const ATTEMPTS: u32 = 5;

/// What was checked.
pub(super) struct Found {
    executions: usize,
    answers: usize,
    again: usize,
}

impl Found {
    /// The figures, for the progress of the campaign.
    pub(super) fn totals(&self) -> Totals {
        Totals {
            executions: self.executions as u64,
            answers: self.answers as u64,
            handed_out_again: self.again as u64,
            ..Totals::default()
        }
    }
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} acknowledged starts ended, {} acknowledged answers kept, {} tasks handed out again \
             before they were answered",
            self.executions, self.answers, self.again
        )
    }
}

/// What earlier checks found right. An execution that has ended does not change, so its log is checked
/// once; that the execution still exists is checked every time.
#[derive(Default)]
pub(super) struct Checked {
    executions: BTreeSet<String>,
    attempts: BTreeSet<Attempt>,
}

/// Waits until every execution has ended.
pub(super) async fn settle(server: &Server, patience: Duration) -> Outcome<()> {
    let client = ExecutionsClient::connect(server.url.clone()).await?;
    let until = Instant::now() + patience;
    loop {
        let open = names(&client, OPEN).await?;
        if open.is_empty() {
            return Ok(());
        }
        if Instant::now() > until {
            let some: Vec<_> = open.keys().take(3).collect();
            return Err(format!("{} executions do not end, such as {some:?}", open.len()).into());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Compares the store, in which everything has ended, with what was acknowledged.
pub(super) async fn check(server: &Server, book: &Book, checked: &mut Checked) -> Outcome<Found> {
    let client = ExecutionsClient::connect(server.url.clone()).await?;
    // A moment for acknowledgements that are on their way.
    tokio::time::sleep(Duration::from_millis(100)).await;
    let record = book.record();
    if let Some(fault) = record.faults.first() {
        return Err(format!("{} faults, the first: {fault}", record.faults.len()).into());
    }
    let succeeded = names(&client, r#"sub_state = "succeeded""#).await?;
    let failed = names(&client, r#"sub_state = "failed""#).await?;
    for name in &record.started {
        if !succeeded.contains_key(name) && !failed.contains_key(name) {
            return Err(format!("{name} was acknowledged and is gone").into());
        }
    }
    // The children are checked like the executions that the load started.
    for (name, definition) in succeeded.iter().chain(&failed) {
        if checked.executions.insert(name.clone()) {
            let attempts = one(&client, name, definition, succeeded.contains_key(name)).await?;
            checked.attempts.extend(attempts);
        }
    }
    if let Some(lost) = record.acknowledged.difference(&checked.attempts).next() {
        return Err(
            format!("the answer to {lost:?} was acknowledged and is not in the log").into(),
        );
    }
    Ok(Found {
        executions: record.started.len(),
        answers: record.acknowledged.len(),
        again: record.handed_out_again,
    })
}

const OPEN: &str = r#"sub_state != "succeeded" AND sub_state != "failed""#;

/// Every execution that a filter admits, and what it runs. The filter is answered from the rows.
async fn names(
    client: &ExecutionsClient<Channel>,
    filter: &str,
) -> Outcome<BTreeMap<String, String>> {
    let mut names = BTreeMap::new();
    let mut page_token = String::new();
    loop {
        let request = v1::ListExecutionsRequest {
            parent: "providers/builtin".to_owned(),
            page_size: 1000,
            page_token,
            filter: filter.to_owned(),
        };
        let page = read(async || client.clone().list_executions(request.clone()).await).await?;
        let found = page.executions.into_iter();
        names.extend(found.map(|execution| (execution.name, execution.definition)));
        page_token = page.next_page_token;
        if page_token.is_empty() {
            return Ok(names);
        }
    }
}

/// Checks one execution by its log; the attempts it has answers of.
async fn one(
    client: &ExecutionsClient<Channel>,
    name: &str,
    definition: &str,
    succeeded: bool,
) -> Outcome<Vec<Attempt>> {
    let wrong = |what: &str| -> Box<dyn std::error::Error + Send + Sync> {
        format!("{name} ({definition}): {what}").into()
    };
    let get = v1::GetExecutionRequest {
        name: name.to_owned(),
        ..Default::default()
    };
    let shown = read(async || client.clone().get_execution(get.clone()).await).await?;
    let by_log = shown.sub_state() == v1::SubState::Succeeded;
    if by_log != succeeded {
        return Err(wrong("its row and its log do not agree"));
    }
    let events = events(client, name).await?;
    for (wanted, event) in (1..).zip(&events) {
        if event.sequence != wanted {
            return Err(wrong("its log has a gap or a repetition"));
        }
    }
    let mut completed = Vec::new();
    let mut undone = Vec::new();
    let mut settled = Vec::new();
    let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
    for event in &events {
        let undo = event.native_type.starts_with("StepCompensat");
        match event.native_type.as_str() {
            "StepCompleted" => {
                completed.push(event.step.as_str());
                *counts.entry(&event.step).or_default() += 1;
            }
            "StepCompensated" => undone.push(event.step.as_str()),
            "AttemptFailed" => {}
            _ => continue,
        }
        settled.push(Attempt {
            execution: name.to_owned(),
            step: event.step.clone(),
            attempt: event.attempt,
            undo,
        });
    }
    if counts.values().any(|count| *count > 1) {
        return Err(wrong("a step was completed twice"));
    }
    match definition.trim_start_matches("definitions/") {
        CHAIN if !succeeded || completed.len() != 5 => Err(wrong("a chain did not succeed")),
        PARENT if !succeeded || completed.len() != 3 => Err(wrong("a parent did not succeed")),
        SAGA if shown.reason().label() != "ROLLED_BACK" => Err(wrong("a saga was not rolled back")),
        SAGA if undone != ["b", "a"] => Err(wrong("what was done was not undone in reverse")),
        _ => Ok(settled),
    }
}

async fn events(client: &ExecutionsClient<Channel>, name: &str) -> Outcome<Vec<v1::Event>> {
    let request = v1::ListEventsRequest {
        parent: name.to_owned(),
        page_size: 1000,
        ..Default::default()
    };
    let page = read(async || client.clone().list_events(request.clone()).await).await?;
    Ok(page.events)
}

/// Reads, and reads again when the machine was too busy to answer in time. Nobody kills the gateway
/// during a check, so every other error is a finding.
async fn read<T>(call: impl AsyncFn() -> Result<tonic::Response<T>, tonic::Status>) -> Outcome<T> {
    let mut attempt = 1;
    loop {
        match call().await {
            Ok(answer) => return Ok(answer.into_inner()),
            Err(status) if status.code() == Code::DeadlineExceeded && attempt < ATTEMPTS => {
                attempt += 1;
            }
            Err(status) => return Err(status.into()),
        }
    }
}
