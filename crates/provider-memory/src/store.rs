//! Every execution there is. Bounded, in the order of acceptance, and updated at every read.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use jiff::Timestamp;
use stateway_model::ExecutionId;
use stateway_provider_api::{Error, RequestId, Result, StartRequest, Verb, Version};
use tokio::sync::watch;

use crate::error::{full, refused};
use crate::script::{Ask, Run, Script};

/// The most requests remembered per execution, so that memory stays bounded. Older ones are
/// forgotten first.
const MOST_REQUESTS: usize = 1_000;

/// One execution.
pub(crate) struct Record {
    pub(crate) id: ExecutionId,
    /// Its place in the order of acceptance. Never used again.
    pub(crate) number: u64,
    /// The request that started it.
    pub(crate) request: StartRequest,
    pub(crate) run: Run,
    asked: Vec<(RequestId, Ask)>,
    /// Notifies watchers of a request, or of the removal of the record.
    changed: watch::Sender<()>,
}

impl Record {
    pub(crate) fn definition(&self) -> &str {
        self.request.definition.id()
    }

    /// Grows with each change, also when the id is used again.
    pub(crate) fn version(&self) -> Version {
        Version::of_parts([self.number, self.run.revision() as u64, 0])
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }
}

/// Every execution, newest last.
#[derive(Default)]
pub(crate) struct Store {
    records: BTreeMap<u64, Record>,
    by_id: HashMap<ExecutionId, u64>,
    by_request: HashMap<RequestId, u64>,
    accepted: u64,
}

/// A start that was checked.
pub(crate) struct Start {
    pub(crate) script: Arc<Script>,
    pub(crate) request: StartRequest,
}

impl Store {
    /// The execution that the start is about, and the executions that this changed: the new one,
    /// and the one that made room for it. None is, when the start is a repeated one.
    pub(crate) fn start(
        &mut self,
        start: Start,
        most: usize,
        now: Timestamp,
    ) -> Result<(&Record, Vec<ExecutionId>)> {
        let request = start.request;
        if let Some(number) = self.by_request.get(&request.request_id).copied() {
            let record = self.up_to_date(number, now).ok_or_else(|| full(most))?;
            if !record.request.has_same_body(&request) {
                return Err(Error::request_id_reused(Verb::Start));
            }
            return Ok((record, Vec::new()));
        }
        let id = self.free_id(&request)?;
        let mut changed = vec![id.clone()];
        changed.extend(self.make_room(most, now)?);
        self.accepted += 1;
        let number = self.accepted;
        self.by_id.insert(id.clone(), number);
        self.by_request.insert(request.request_id.clone(), number);
        let record = Record {
            id,
            number,
            run: Run::new(start.script, now, request.delay),
            request,
            asked: Vec::new(),
            changed: watch::Sender::new(()),
        };
        Ok((self.records.entry(number).or_insert(record), changed))
    }

    fn free_id(&self, request: &StartRequest) -> Result<ExecutionId> {
        if let Some(id) = &request.execution_id {
            return if self.by_id.contains_key(id) {
                Err(Error::execution_exists(id))
            } else {
                Ok(id.clone())
            };
        }
        let definition = request.definition.id();
        let mut number = self.accepted + 1;
        loop {
            let id = ExecutionId::new(format!("{definition}-{number}"))
                .map_err(|error| Error::invalid(Verb::Start, error.to_string()))?;
            if !self.by_id.contains_key(&id) {
                return Ok(id);
            }
            number += 1;
        }
    }

    /// Drops the oldest finished execution if there is no room, and says which.
    fn make_room(&mut self, most: usize, now: Timestamp) -> Result<Option<ExecutionId>> {
        if self.records.len() < most {
            return Ok(None);
        }
        let finished = self.records.iter_mut().find_map(|(number, record)| {
            record.run.advance(now);
            record.run.is_over().then_some(*number)
        });
        let dropped = finished.and_then(|number| self.drop_record(number));
        dropped.map(Some).ok_or_else(|| full(most))
    }

    fn drop_record(&mut self, number: u64) -> Option<ExecutionId> {
        let record = self.records.remove(&number)?;
        self.by_id.remove(&record.id);
        self.by_request.remove(&record.request.request_id);
        Some(record.id)
    }

    /// Drops a finished execution.
    pub(crate) fn purge(&mut self, id: &ExecutionId, now: Timestamp) -> Result<()> {
        if !self.get(id, now, Verb::Purge)?.run.is_over() {
            return Err(Error::not_finished(Verb::Purge));
        }
        if let Some(number) = self.by_id.get(id).copied() {
            self.drop_record(number);
        }
        Ok(())
    }

    fn up_to_date(&mut self, number: u64, now: Timestamp) -> Option<&Record> {
        let record = self.records.get_mut(&number)?;
        record.run.advance(now);
        Some(record)
    }

    /// The execution, as of now.
    pub(crate) fn get(&mut self, id: &ExecutionId, now: Timestamp, verb: Verb) -> Result<&Record> {
        let number = self.by_id.get(id).copied();
        let record = number.and_then(|number| self.up_to_date(number, now));
        record.ok_or_else(|| Error::not_found(verb, id))
    }

    /// Does what is asked, once per request id.
    pub(crate) fn ask(
        &mut self,
        id: &ExecutionId,
        request_id: RequestId,
        ask: Ask,
        (verb, now): (Verb, Timestamp),
    ) -> Result<&Record> {
        let number = self.by_id.get(id).copied();
        let record = number.and_then(|number| self.records.get_mut(&number));
        let record = record.ok_or_else(|| Error::not_found(verb, id))?;
        let before = record.asked.iter().find(|(known, _)| *known == request_id);
        if let Some((_, same)) = before {
            if *same != ask {
                return Err(Error::request_id_reused(verb));
            }
            record.run.advance(now);
            return Ok(record);
        }
        record
            .run
            .ask(&ask, now)
            .map_err(|refusal| refused(verb, refusal))?;
        if record.asked.len() == MOST_REQUESTS {
            record.asked.remove(0);
        }
        record.asked.push((request_id, ask));
        record.changed.send_replace(());
        Ok(record)
    }

    /// The executions accepted before a number, newest first, as of now.
    pub(crate) fn before(
        &mut self,
        number: Option<u64>,
        now: Timestamp,
    ) -> impl Iterator<Item = (u64, &Record)> {
        let range = ..number.unwrap_or(u64::MAX);
        self.records
            .range_mut(range)
            .rev()
            .map(move |(number, record)| {
                record.run.advance(now);
                (*number, &*record)
            })
    }
}
