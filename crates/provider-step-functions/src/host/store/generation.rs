//! Generations: an object outlives the limits of one execution of Step Functions.

use std::sync::atomic::Ordering;

use jiff::{SignedDuration, Timestamp};
use stateway_hosted::object::{DEFINITION, INPUT};
use stateway_hosted::provider::ObjectKind;
use stateway_provider_api::Result;

use super::{Store, is_used};
use crate::client::Ask;
use crate::host::envelope::MOST_BYTES;
use crate::host::machine::{self, MOST_DAYS};
use crate::host::mirror::{Head, Key};
use crate::host::name;

impl Store {
    /// Whether an execution comes near the limits of Step Functions.
    pub(crate) fn is_long(&self, key: &Key, head: &Head) -> bool {
        let age = SignedDuration::from_hours(24 * MOST_DAYS);
        let started = self.mirror().started(key, head.generation);
        let is_old = started.is_some_and(|started| Timestamp::now().duration_since(started) > age);
        head.last_event >= self.config.most_events || is_old
    }

    /// Leaves a generation: with a turn that has what the next one needs, then by the machine.
    pub(super) async fn leave(
        &self,
        ask: Ask<'_>,
        key: &Key,
        head: &Head,
        token: &str,
    ) -> Result<()> {
        let next = name::of_generation(&key.1, head.generation + 1);
        if head.envelope.carried && head.envelope.next == next {
            return self.next_generation(ask, key, head, token).await;
        }
        let values = self.values(ask, key, head).await?;
        let is_needed =
            |name: &str| key.0 == ObjectKind::Definition || [DEFINITION, INPUT].contains(&name);
        let values = values.values.iter().filter(|(name, _)| is_needed(name));
        let values = values.map(|(name, value)| (name.clone(), value.clone()));
        let write = self.writes.fetch_add(1, Ordering::Relaxed);
        let by = || (format!("{}.{write}", self.writer), next.clone());
        let mut carried = head.envelope.carry(by(), values);
        if carried.encode().len() > MOST_BYTES {
            // What was written in this generation is readable as long as AWS keeps its history.
            carried = head.envelope.carry(by(), []);
        }
        let text = carried.encode();
        self.complete(ask, key, (token, &carried), &text)
            .await
            .map(drop)
    }

    /// Lets the machine start the next generation with the newest turn.
    pub(super) async fn next_generation(
        &self,
        ask: Ask<'_>,
        key: &Key,
        head: &Head,
        token: &str,
    ) -> Result<()> {
        let cause = format!("continues as {}", head.envelope.next);
        match self
            .client
            .fail_task(ask, token, (machine::CONTINUED, &cause))
            .await
        {
            Ok(()) => {}
            Err(error) if is_used(&error) => {}
            Err(error) => return Err(error),
        }
        loop {
            let found = self.find(ask, key).await?;
            if found
                .head
                .is_none_or(|now| now.generation > head.generation)
            {
                return Ok(());
            }
            self.settled(ask).await?;
        }
    }

    /// Lets an execution that comes near the limits continue in another one.
    pub(crate) async fn keep_alive(&self, ask: Ask<'_>, key: &Key) -> Result<()> {
        let (head, _) = self.mirror().head(key);
        let Some(head) = head.filter(|head| head.closed.is_none() && self.is_long(key, head))
        else {
            return Ok(());
        };
        match self.token(ask, key, &head).await? {
            Some(token) => Box::pin(self.leave(ask, key, &head, &token)).await,
            None => Ok(()),
        }
    }
}
