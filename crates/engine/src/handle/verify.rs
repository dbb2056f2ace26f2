//! Verifying executions and recovering them.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::oneshot;

use super::Engine;
use crate::EngineError;
use crate::error::Result;
use crate::keeper::Message;
use crate::recovery::inspect::{Eye, inspect};
use crate::recovery::{Inspected, Recover, Recovered, Remedy, Verdict};
use crate::request::{ActorName, RequestKey};

impl Engine {
    /// Compares everything that is kept of an execution with its log.
    ///
    /// # Errors
    /// There is none of this id, or the store cannot be read.
    pub async fn verify(&self, id: Arc<str>) -> Result<Verdict> {
        let (catalogue, now) = (Arc::clone(&self.inner.catalogue), self.now());
        let memory = self.inner.request_memory;
        let found = self.read(move |reader| {
            reader.at_once(|store| {
                let Some(number) = store.number_of(&id)? else {
                    return Err(EngineError::no_execution(&id));
                };
                let eye = Eye {
                    catalogue: &catalogue,
                    now,
                    memory,
                };
                let found = inspect(store, number, eye)?;
                found.ok_or_else(|| EngineError::no_execution(&id))
            })
        });
        let mut verdicts = vec![found.await?.verdict];
        self.recall(&mut verdicts).await?;
        verdicts.pop().ok_or_else(EngineError::stopped)
    }

    /// Verifies executions in the order of their creation: at most `limit`, after a number.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn verify_batch(&self, after: i64, limit: usize) -> Result<Inspected> {
        let (catalogue, now) = (Arc::clone(&self.inner.catalogue), self.now());
        let memory = self.inner.request_memory;
        let page = self.read(move |reader| {
            reader.at_once(|store| {
                let eye = Eye {
                    catalogue: &catalogue,
                    now,
                    memory,
                };
                let mut verdicts = Vec::new();
                for number in store.numbers(after, limit)? {
                    // One that is gone by now needs no verdict.
                    verdicts.extend(inspect(store, number, eye)?.map(|found| found.verdict));
                }
                Ok(verdicts)
            })
        });
        let mut verdicts = page.await?;
        let full = verdicts.len() == limit;
        self.recall(&mut verdicts).await?;
        let next = verdicts.last().filter(|_| full).map(|last| last.number);
        Ok(Inspected {
            executions: verdicts.len() as u64,
            events: verdicts.iter().map(|verdict| verdict.events).sum(),
            wrong: verdicts
                .into_iter()
                .filter(|verdict| !verdict.findings.is_empty())
                .collect(),
            next,
        })
    }

    /// Adds what is wrong in memory.
    async fn recall(&self, verdicts: &mut [Verdict]) -> Result<()> {
        let (send, answer) = oneshot::channel();
        let numbers = verdicts
            .iter()
            .map(|verdict| (verdict.number, verdict.findings.is_empty()))
            .collect();
        self.inner.inbox.ask(Message::Recall {
            numbers,
            answer: send,
        })?;
        let found = answer
            .await
            .unwrap_or_else(|_| Err(EngineError::stopped()))?;
        let mut found: HashMap<_, _> = found.into_iter().collect();
        for verdict in verdicts {
            let Some(more) = found.remove(&verdict.number) else {
                continue;
            };
            verdict.findings.extend(more);
            if verdict.remedy == Remedy::Nothing {
                verdict.remedy = Remedy::Repair;
            }
        }
        Ok(())
    }

    /// How many executions there are.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn count(&self) -> Result<u64> {
        self.read(|reader| reader.at_once(|store| Ok(store.count()?)))
            .await
    }

    /// Puts right what contradicts an execution's log; where the log is not whole, the work goes
    /// on as a new branch from the last event that can be trusted.
    ///
    /// # Errors
    /// There is none of this id, it has changed since it was looked at, it cannot be recovered, or
    /// recovering it would do work again and that is not wanted.
    pub async fn recover(
        &self,
        id: Arc<str>,
        ask: Recover,
        actor: ActorName,
        request: RequestKey,
    ) -> Result<Recovered> {
        let (send, answer) = oneshot::channel();
        self.inner.inbox.ask(Message::Recover {
            id: Arc::clone(&id),
            ask,
            actor,
            request,
            answer: send,
        })?;
        let mended = answer
            .await
            .unwrap_or_else(|_| Err(EngineError::stopped()))?;
        Ok(Recovered {
            view: self.get(id).await?,
            repaired: mended.repaired,
            from: mended.from,
            branched: mended.branched,
            cutoff: mended.cutoff,
            again: mended.again,
        })
    }
}
