//! The port of hosted executions for Step Functions.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use aws_credential_types::Credentials;
use stateway_hosted::definition_object::CURRENT;
use stateway_hosted::object::VIEW;
use stateway_hosted::portability::{EngineLimits, RunLimits};
use stateway_hosted::provider::{CAPABILITIES, HostPort, ObjectKind, Pace, StoredValue, ViewQuery};
use stateway_model::SubState;
use stateway_provider_api::{Call, Capabilities, Error, ErrorKind, Health, Result, Verb};
use tokio::sync::OnceCell;
use tokio::task::JoinHandle;

use super::config::HostConfig;
use super::controller::{self, list_all};
use super::envelope::MOST_BYTES;
use super::machine::MOST_DAYS;
use super::mirror::{Head, Key};
use super::name;
use super::store::Store;
use crate::client::Ask;
use crate::quota::Api;

/// How old a turn may be that a read shows, while other gateways may have written another one.
const FRESH: Duration = Duration::from_secs(1);
/// The same when the quota is scarce.
const SCARCE: Duration = Duration::from_secs(10);
/// The part of the quota that reads leave for writes.
const RESERVE: f64 = 0.5;
/// The most bytes of a definition's source: its object stores it twice.
const MOST_SOURCE_BYTES: usize = 96 * 1024;
/// The events that a turn adds to the history.
const EVENTS_PER_TURN: u64 = 6;
/// How many executions before and after a page are read, so that their order by creation is known.
const SLACK: usize = 20;

/// Step Functions as an engine that hosts objects.
pub struct StepFunctionsPort {
    store: Arc<Store>,
    endpoint: String,
    controller: OnceCell<Controller>,
}

/// The task of the controller; it ends with the port.
struct Controller(JoinHandle<()>);

impl Drop for Controller {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl StepFunctionsPort {
    pub(crate) fn new(config: &HostConfig, credentials: Option<Credentials>) -> Self {
        Self {
            store: Arc::new(Store::new(config, credentials)),
            endpoint: config.endpoint.clone(),
            controller: OnceCell::new(),
        }
    }

    /// The store, with a controller that attends to its objects from the first call on: a gateway asks for the
    /// health of its providers when it starts. A configuration that is only checked calls nothing.
    async fn store(&self) -> &Store {
        let begin = async || Controller(tokio::spawn(controller::run(Arc::clone(&self.store))));
        self.controller.get_or_init(begin).await;
        &self.store
    }

    /// The newest turn of an object, as new as the quota allows.
    async fn head(&self, ask: Ask<'_>, key: &Key) -> Result<Option<Arc<Head>>> {
        let store = self.store().await;
        let (head, read) = store.mirror().head(key);
        let age = read.map(|read| read.elapsed());
        let is_closed = head.as_ref().is_some_and(|head| head.closed.is_some());
        let is_final = is_closed && head.as_ref().is_some_and(|head| head.has_succeeded());
        let fresh = if is_closed { SCARCE } else { FRESH };
        let is_fresh = age.is_some_and(|age| age < fresh);
        if is_final || (head.is_some() && is_fresh) {
            return Ok(head);
        }
        let is_usable = head.is_some() && age.is_some_and(|age| age < SCARCE);
        if is_usable && store.client.turns(Api::GetExecutionHistory, RESERVE).await == 0 {
            return Ok(head);
        }
        store.read(ask, key).await
    }

    /// Waits until every open execution was read once.
    async fn swept(&self, ask: Ask<'_>) -> Result<&Store> {
        let store = self.store().await;
        let mut swept = store.swept.subscribe();
        let deadline = tokio::time::Instant::from_std(ask.call.deadline);
        let waiting = tokio::time::timeout_at(deadline, swept.wait_for(|swept| *swept));
        if matches!(waiting.await, Ok(Ok(_))) {
            return Ok(store);
        }
        let message = "this gateway has not read the open executions of Step Functions yet";
        Err(Error::new(ErrorKind::Unavailable, ask.verb, message)
            .with_reason("NOT_READ_YET")
            .with_retry_after(Duration::from_secs(2)))
    }

    /// Reads executions in the order of their start until enough views are known.
    async fn listed(&self, ask: Ask<'_>, query: &ViewQuery) -> Result<Vec<Arc<Head>>> {
        let store = self.swept(ask).await?;
        list_all(store, ask).await?;
        let (mut found, mut fitting) = (Vec::new(), 0);
        let rows = store.mirror().rows();
        for (key, row, head) in rows {
            // The creation of an object may differ from the start of its execution by clocks and generations.
            let is_after = query.before.as_ref().is_some_and(|(created, _)| {
                let started = row.started.map(|it| it.as_millisecond());
                row.generation == 1 && started.is_some_and(|it| it > created + 60_000)
            });
            if is_after {
                continue;
            }
            if fitting >= query.limit + SLACK {
                break;
            }
            let head = match head {
                Some(head) => Some(head),
                None => store.read(ask, &key).await?,
            };
            if let Some(head) = head {
                fitting += usize::from(admits(query, &head));
                found.push(head);
            }
        }
        Ok(found)
    }
}

/// Whether a query wants the view of an execution.
fn admits(query: &ViewQuery, head: &Head) -> bool {
    let Some(seen) = &head.view else { return false };
    let place = (seen.n, head.envelope.id.as_str());
    let view = &seen.view;
    query
        .before
        .as_ref()
        .is_none_or(|(created, id)| place < (*created, id))
        && (!query.open_only || seen.o > 0)
        && (!query.awaits_person || seen.awaits_person())
        && query
            .forked_from
            .as_ref()
            .is_none_or(|from| view.forked_from.as_deref() == Some(from))
        && query
            .definition
            .as_ref()
            .is_none_or(|name| *view.definition == **name)
}

fn stored(head: &Head, key: &str) -> Option<StoredValue> {
    Some(StoredValue {
        object: head.envelope.id.clone(),
        key: key.to_owned(),
        value: head.envelope.w.get(key)?.clone().into_bytes(),
    })
}

#[async_trait]
impl HostPort for StepFunctionsPort {
    /// A gateway fires the alarms of definitions, as it does those of executions.
    fn has_schedules(&self) -> bool {
        true
    }

    /// Step Functions deletes a history by itself, 90 days after its end, and not earlier.
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            purge: false,
            ..CAPABILITIES
        }
    }

    fn limits(&self) -> EngineLimits {
        EngineLimits {
            engine: "Step Functions",
            source_bytes: Some(MOST_SOURCE_BYTES),
            // Quotes are escaped where values are stored as texts.
            stored_bytes: Some(MOST_BYTES / 5 * 4),
            stores_messages: true,
            state_bytes: Some(MOST_BYTES),
            log_bytes: None,
            runs: Some(RunLimits {
                run: "execution",
                requests: self.store.most_events() / EVENTS_PER_TURN,
                events: 25_000,
                days: Some((MOST_DAYS.unsigned_abs(), 365)),
            }),
        }
    }

    /// Every renewal is a turn, which costs events of the history and money.
    fn pace(&self) -> Pace {
        Pace {
            lease: Duration::from_mins(10),
            renew: Duration::from_mins(4),
        }
    }

    async fn health(&self, call: &Call) -> Result<Health> {
        let ask = Ask {
            call,
            verb: Verb::Health,
        };
        self.store().await.machines(ask).await?;
        self.store.client.machines(ask, 1, None).await?;
        Ok(Health {
            engine_version: String::new(),
            detail: match self.endpoint.as_str() {
                "" => "AWS Step Functions answers".to_owned(),
                endpoint => format!("{endpoint} answers"),
            },
        })
    }

    async fn send(
        &self,
        call: &Call,
        verb: Verb,
        (kind, key): (ObjectKind, &str),
        request: Vec<u8>,
    ) -> Result<Vec<u8>> {
        let store = self.store().await;
        Box::pin(store.send(Ask { call, verb }, kind, key, &request)).await
    }

    async fn values(
        &self,
        call: &Call,
        verb: Verb,
        (kind, objects): (ObjectKind, &[&str]),
        key: &str,
    ) -> Result<Vec<StoredValue>> {
        let ask = Ask { call, verb };
        let mut found = Vec::new();
        for object in objects {
            let at = (kind, name::base(object));
            let Some(head) = self.head(ask, &at).await? else {
                continue;
            };
            let value = self.store.value(ask, &at, &head, key).await?;
            found.extend(value.map(|value| StoredValue {
                object: (*object).to_owned(),
                key: key.to_owned(),
                value: value.into_bytes(),
            }));
        }
        Ok(found)
    }

    async fn values_from(
        &self,
        call: &Call,
        verb: Verb,
        (kind, object): (ObjectKind, &str),
        (prefix, from, limit): (&str, &str, usize),
    ) -> Result<Vec<StoredValue>> {
        let ask = Ask { call, verb };
        let at = (kind, name::base(object));
        let Some(head) = self.head(ask, &at).await? else {
            return Ok(Vec::new());
        };
        let values = self.store.values(ask, &at, &head).await?;
        let begin = if from > prefix { from } else { prefix };
        let found = values.values.range(begin.to_owned()..);
        let found = found
            .take_while(|(key, _)| key.starts_with(prefix))
            .take(limit);
        let found = found.map(|(key, value)| StoredValue {
            object: object.to_owned(),
            key: key.clone(),
            value: value.clone().into_bytes(),
        });
        Ok(found.collect())
    }

    async fn views(&self, call: &Call, verb: Verb, query: &ViewQuery) -> Result<Vec<StoredValue>> {
        let ask = Ask { call, verb };
        // What waits for somebody is open, and every open execution is known. Forks are those that are known.
        let is_known = query.open_only || query.awaits_person || query.forked_from.is_some();
        let heads = if is_known {
            self.swept(ask).await?.mirror().heads(ObjectKind::Execution)
        } else {
            Box::pin(self.listed(ask, query)).await?
        };
        let mut heads: Vec<_> = heads
            .into_iter()
            .filter(|head| admits(query, head))
            .collect();
        let place = |head: &Head| (head.view.as_ref().map(|it| it.n), head.envelope.id.clone());
        heads.sort_by_cached_key(|head| std::cmp::Reverse(place(head)));
        Ok(heads
            .iter()
            .filter_map(|head| stored(head, VIEW))
            .take(query.limit)
            .collect())
    }

    async fn counts(&self, call: &Call) -> Result<Vec<(String, u64)>> {
        let ask = Ask {
            call,
            verb: Verb::Count,
        };
        let store = self.swept(ask).await?;
        list_all(store, ask).await?;
        let mut counts = std::collections::BTreeMap::new();
        for (_, row, head) in store.mirror().rows() {
            let seen = head.as_ref().and_then(|head| head.view.as_ref());
            let sub_state = match seen {
                Some(seen) => seen.view.sub_state,
                None if row.is_open => SubState::Running,
                None if row.has_succeeded => SubState::Succeeded,
                None => SubState::Failed,
            };
            *counts.entry(sub_state.as_str().to_owned()).or_default() += 1;
        }
        Ok(counts.into_iter().collect())
    }

    async fn definitions(
        &self,
        call: &Call,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<StoredValue>> {
        let ask = Ask {
            call,
            verb: Verb::PortableDefinitions,
        };
        let heads = self
            .swept(ask)
            .await?
            .mirror()
            .heads(ObjectKind::Definition);
        let mut found: Vec<_> = heads
            .iter()
            .filter_map(|head| stored(head, CURRENT))
            .collect();
        found.retain(|it| after.is_none_or(|after| it.object.as_str() > after));
        found.sort_by(|one, other| one.object.cmp(&other.object));
        found.truncate(limit);
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use jiff::Timestamp;
    use stateway_hosted::Plans;
    use stateway_hosted::message::{ObjectRequest, StartWork, VERSION, Work};
    use stateway_hosted::object;

    use super::super::envelope::{Envelope, Place};
    use super::*;

    /// An execution that was just started.
    fn started(source: &str, input: serde_json::Value) -> Head {
        let start = StartWork {
            definition: "test".into(),
            source: source.into(),
            labels: Default::default(),
            not_before: None,
            input: Arc::new(input),
            by: "ada".into(),
            child: None,
        };
        let request = ObjectRequest {
            v: VERSION,
            id: "r1".into(),
            at: Timestamp::UNIX_EPOCH,
            body: None,
            work: Work::Start(Box::new(start)),
            claim: None,
        };
        let request = serde_json::to_vec(&request).unwrap();
        let turn = object::handle("order", &request, &mut |_| Ok(None), &Plans::default());
        let place = Place {
            id: "order",
            by: "a.1".to_owned(),
            next: "order_g2".to_owned(),
            fires: None,
            delivered: &BTreeSet::new(),
        };
        let envelope = Envelope::after(None, &turn.unwrap(), place);
        Head {
            arn: "arn".to_owned(),
            generation: 1,
            view: serde_json::from_str(&envelope.w[VIEW]).ok(),
            envelope,
            token: None,
            closed: None,
            last_event: 6,
            is_derived: false,
        }
    }

    #[test]
    fn the_text_of_an_input_is_no_request_to_a_person() {
        let query = ViewQuery {
            awaits_person: true,
            ..ViewQuery::default()
        };
        let approval =
            "name: test\nsteps: [{name: check, approval: {role: boss, expiresAfter: 1h}}]";
        assert!(admits(&query, &started(approval, 1.into())));
        let signal = "name: test\nsteps: [{name: go, signal: go, timeout: 1m}]";
        let input = serde_json::json!({"approval": {"step": "check"}});
        assert!(!admits(&query, &started(signal, input)));
    }
}
