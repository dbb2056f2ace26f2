//! The load: lanes that start an execution, are answered when it has ended, and start the next.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures::future::try_join_all;
use stateway_proto::v1;

use super::Lab;
use crate::Outcome;
use crate::grpc::Grpc;

const CONNECTIONS: usize = 2;

/// The results of the lanes.
pub(super) struct Run {
    pub(super) took: Vec<Duration>,
    pub(super) lasted: Duration,
}

impl Run {
    pub(super) fn count(&self) -> u64 {
        self.took.len() as u64
    }

    /// The time by which this part of the executions had ended.
    pub(super) fn percentile(&self, percent: usize) -> Duration {
        let at = self.took.len() * percent / 100;
        self.took.get(at).copied().unwrap_or_default()
    }
}

/// Request ids are never used twice, whatever was measured before.
static NUMBER: AtomicU64 = AtomicU64::new(0);

pub(super) async fn lanes(lab: &Lab, definition: &str, lanes: usize, seconds: u64) -> Outcome<Run> {
    let connections = (0..CONNECTIONS).map(|_| Grpc::connect(&lab.gateway.url));
    let connections = try_join_all(connections).await?;
    let definition: Arc<str> = format!("definitions/{definition}").into();
    let began = Instant::now();
    let until = began + Duration::from_secs(seconds);
    let running = (0..lanes).map(|lane| {
        let connection = connections[lane % CONNECTIONS].clone();
        tokio::spawn(one_lane(connection, Arc::clone(&definition), until))
    });
    let mut took = Vec::new();
    for lane in running.collect::<Vec<_>>() {
        took.extend(lane.await??);
    }
    took.sort_unstable();
    Ok(Run {
        took,
        lasted: began.elapsed(),
    })
}

async fn one_lane(
    connection: Grpc,
    definition: Arc<str>,
    until: Instant,
) -> Outcome<Vec<Duration>> {
    let start = connection.method("Executions/StartExecution")?;
    let list_events = connection.method("Executions/ListEvents")?;
    let mut took = Vec::new();
    while Instant::now() < until {
        let began = Instant::now();
        let request = v1::StartExecutionRequest {
            parent: "providers/builtin".to_owned(),
            definition: definition.to_string(),
            input: Some(v1::Payload {
                data: (&br#"{"order":42}"#[..]).into(),
                ..Default::default()
            }),
            request_id: format!("bench-{}", NUMBER.fetch_add(1, Ordering::Relaxed)),
            wait: true,
            ..Default::default()
        };
        let ended: v1::Execution = connection.call(&start, &request).await?;
        let state = ended.sub_state();
        if state != v1::SubState::Succeeded {
            let name = ended.name;
            let request = v1::ListEventsRequest {
                parent: name.clone(),
                ..Default::default()
            };
            let events: v1::ListEventsResponse = connection.call(&list_events, &request).await?;
            let last = events.events.iter().map(|event| event.native_type.as_str());
            let last: Vec<_> = last.collect();
            let lasted = began.elapsed();
            return Err(format!("{name} is {state:?} after {lasted:.0?}: {last:?}").into());
        }
        took.push(began.elapsed());
    }
    Ok(took)
}
