//! The state machines of the account, and which of them are listed.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use stateway_provider_api::Result;
use stateway_provider_api::adapter::lock;

use crate::client::{Ask, Client};
use crate::response::Machine;
use crate::{Clock, Config};

/// For how long the state machines of the account are taken as known.
const MACHINES_KNOWN: Duration = Duration::from_secs(60);
/// How many pages of state machines are read: the service allows 100,000 of them.
const MOST_MACHINE_PAGES: usize = 100;

/// The account's state machines, read once in a while.
pub(crate) struct Machines {
    client: Arc<Client>,
    clock: Clock,
    /// Names or ARNs of those that are listed; all when empty.
    configured: Vec<String>,
    known: Mutex<Option<(Instant, Vec<Machine>)>>,
}

impl Machines {
    pub(crate) fn new(client: Arc<Client>, clock: Clock, config: &Config) -> Self {
        Self {
            client,
            clock,
            configured: config.state_machines.clone(),
            known: Mutex::new(None),
        }
    }

    /// The account's state machines, by ARN. Known for a while.
    pub(crate) async fn all(&self, ask: Ask<'_>, afresh: bool) -> Result<Vec<Machine>> {
        let known = self.known().clone();
        if let (Some((at, machines)), false) = (known, afresh)
            && self.clock.now().saturating_duration_since(at) < MACHINES_KNOWN
        {
            return Ok(machines);
        }
        let (mut machines, mut token) = (Vec::new(), None);
        for _ in 0..MOST_MACHINE_PAGES {
            let page = self.client.machines(ask, 1_000, token).await?;
            machines.extend(page.rows);
            token = page.next;
            if token.is_none() {
                break;
            }
        }
        machines.sort_by(|one, other| one.arn.cmp(&other.arn));
        *self.known() = Some((self.clock.now(), machines.clone()));
        Ok(machines)
    }

    /// A state machine was made: the next call shows it.
    pub(crate) fn forget(&self) {
        *self.known() = None;
    }

    /// The ARNs of the state machines to list, ordered.
    pub(crate) async fn listed(&self, ask: Ask<'_>, only: Option<&str>) -> Result<Vec<String>> {
        let configured = &self.configured;
        let is_arn = |name: &String| name.starts_with("arn:");
        let mut arns: Vec<String> = if !configured.is_empty() && configured.iter().all(is_arn) {
            configured.clone()
        } else {
            let machines = self.all(ask, false).await?.into_iter();
            let wanted = |machine: &Machine| {
                !machine.express
                    && (configured.is_empty()
                        || configured.contains(&machine.name)
                        || configured.contains(&machine.arn))
            };
            machines.filter(wanted).map(|machine| machine.arn).collect()
        };
        arns.sort();
        arns.dedup();
        if let Some(only) = only {
            arns.retain(|arn| arn == only || crate::id::machine_name(arn) == Some(only));
        }
        Ok(arns)
    }

    fn known(&self) -> std::sync::MutexGuard<'_, Option<(Instant, Vec<Machine>)>> {
        lock(&self.known)
    }
}
