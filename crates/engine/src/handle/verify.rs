//! Verifying executions and recovering them.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::oneshot;

use super::Engine;
use crate::EngineError;
use crate::error::Result;
use crate::keeper::Message;
use crate::recovery::inspect::{Inspection, InspectionContext, verify, verify_several};
use crate::recovery::{Inspected, Recover, Recovered, Verdict};
use crate::request::{ActorName, RequestKey};

impl Engine {
    /// Compares everything that is kept of an execution with its log.
    ///
    /// # Errors
    /// There is none of this id, or the store cannot be read.
    pub async fn verify(&self, id: Arc<str>) -> Result<Verdict> {
        let (catalogue, now) = (Arc::clone(&self.inner.catalogue), self.now());
        let memory = self.inner.request_id_retention;
        let found = self.read(move |reader| {
            let context = InspectionContext {
                catalogue: &catalogue,
                now,
                memory,
            };
            let none = || EngineError::no_execution(&id);
            let number = reader.store().number_of(&id)?.ok_or_else(none)?;
            verify(reader.store(), number, context)?.ok_or_else(none)
        });
        let found = self.recall(vec![found.await?]).await?;
        found.into_iter().next().ok_or_else(EngineError::stopped)
    }

    /// Verifies executions in the order of their creation: at most `limit`, after a number.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn verify_batch(&self, after: i64, limit: usize) -> Result<Inspected> {
        let (catalogue, now) = (Arc::clone(&self.inner.catalogue), self.now());
        let memory = self.inner.request_id_retention;
        let page = self.read(move |reader| {
            let context = InspectionContext {
                catalogue: &catalogue,
                now,
                memory,
            };
            Ok(verify_several(reader.store(), (after, limit), context)?)
        });
        let (found, next) = page.await?;
        Ok(Inspected::of(self.recall(found).await?, next))
    }

    /// Adds what is wrong in memory.
    async fn recall(&self, found: Vec<Inspection>) -> Result<Vec<Verdict>> {
        let (send, answer) = oneshot::channel();
        let numbers = found
            .iter()
            .map(|one| (one.verdict.number, one.verdict.findings.is_empty()))
            .collect();
        self.inner.inbox.ask(Message::Recall {
            numbers,
            answer: send,
        })?;
        let recalled = answer.await.unwrap_or_else(|_| Err(self.lost()))?;
        let mut recalled: HashMap<_, _> = recalled.into_iter().collect();
        let verdict = |mut one: Inspection| {
            if let Some(more) = recalled.remove(&one.verdict.number) {
                one.add(more);
            }
            one.verdict
        };
        Ok(found.into_iter().map(verdict).collect())
    }

    /// The number of executions.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn total(&self) -> Result<u64> {
        self.read(|reader| Ok(reader.store().total()?)).await
    }

    /// Whether this very request was carried out before.
    ///
    /// # Errors
    /// The request id was used for another request, or the store cannot be read.
    pub async fn was_asked(&self, request: &RequestKey) -> Result<bool> {
        let request = request.clone();
        self.read(move |reader| {
            let found = reader.store().answered(&request.id)?;
            match found {
                None => Ok(false),
                Some(found) if request.repeats(&found.body) => Ok(true),
                Some(_) => Err(EngineError::request_reused()),
            }
        })
        .await
    }

    /// Repairs stored data that contradicts the log of an execution. If the log itself is damaged, the execution
    /// continues on a new branch after the last event that can be trusted.
    ///
    /// # Errors
    /// The execution is unknown, has changed since it was verified, cannot be recovered, or would run steps again
    /// although the caller excludes that.
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
        let mended = answer.await.unwrap_or_else(|_| Err(self.lost()))?;
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
