//! The topics that a request covers, and how a reader joins them.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use stateway_model::{ExecutionName, ProviderId};
use stateway_provider_api::filter::Filter;
use tokio::time::Instant;
use tonic::Status;

use super::hub::{Hub, Membership};
use super::reader::{Target, WatchRequest, not_in_time};
use super::topic::{Subject, TopicKey};
use crate::access::Access;
use crate::parent::Parent;

/// What a reader covers, whatever topics that takes.
#[derive(Debug)]
pub(super) struct Coverage {
    target: Covered,
    /// A provider that cannot be watched is named in the bookmarks and does not end the stream.
    pub(super) tolerant: bool,
}

#[derive(Debug)]
enum Covered {
    Names(Vec<ExecutionName>),
    Collection(Parent, Filter),
}

impl Coverage {
    pub(super) fn of(request: &WatchRequest) -> Self {
        let (target, tolerant) = match &request.target {
            Target::One(name) => (Covered::Names(vec![name.clone()]), false),
            Target::Some(names) => (Covered::Names(names.clone()), true),
            Target::Collection(parent) => {
                let tolerant = matches!(parent, Parent::All);
                let filter = request.filter.clone();
                (Covered::Collection(parent.clone(), filter), tolerant)
            }
        };
        Self { target, tolerant }
    }

    /// Joins the topics and waits for their current sets, until `deadline`. A provider that turns out to have
    /// too many open executions is joined again, with a narrower topic.
    pub(super) async fn join(
        &self,
        hub: &Arc<Hub>,
        access: &Access,
        deadline: std::time::Instant,
    ) -> Result<Vec<Membership>, Status> {
        let (members, patience) = self.members(hub, access)?;
        let synced = self.synced(&members, patience, deadline).await;
        if !self.is_narrower_than(&members, hub, access) {
            return synced.map(|()| members);
        }
        let (narrower, patience) = self.members(hub, access)?;
        let synced = self.synced(&narrower, patience, deadline).await;
        synced.map(|()| narrower)
    }

    /// Whether another topic is to be joined than one of these, because its provider has too many open
    /// executions.
    pub(super) fn is_narrower_than(
        &self,
        members: &[Membership],
        hub: &Hub,
        access: &Access,
    ) -> bool {
        let known = |key: &TopicKey| hub.upstreams.contains_key(&key.provider);
        let keys = self.topics(hub, access).into_iter().filter(known);
        let joined = members.iter().map(|member| &member.topic);
        keys.zip(joined)
            .any(|(key, topic)| key != topic.key && topic.has_ended())
    }

    /// The members of the topics, and how long a watch of several providers waits for them.
    fn members(
        &self,
        hub: &Arc<Hub>,
        access: &Access,
    ) -> Result<(Vec<Membership>, Duration), Status> {
        let mut members = Vec::new();
        let mut patience = Duration::ZERO;
        for key in self.topics(hub, access) {
            if let Some(upstream) = hub.upstreams.get(&key.provider) {
                patience = patience.max(upstream.settings.multi_provider_timeout);
                members.push(hub.join(upstream, key)?);
            }
        }
        Ok((members, patience))
    }

    async fn synced(
        &self,
        members: &[Membership],
        patience: Duration,
        deadline: std::time::Instant,
    ) -> Result<(), Status> {
        let synced = join_all(members.iter().map(|member| member.topic.synced()));
        if self.tolerant {
            // A provider that takes longer is named in the bookmark; its executions come later, as
            // changes.
            let patience = (Instant::now() + patience).min(deadline.into());
            let _ = tokio::time::timeout_at(patience, synced).await;
            return Ok(());
        }
        let synced = tokio::time::timeout_at(deadline.into(), synced).await;
        synced.map_err(|_| not_in_time())?.into_iter().collect()
    }

    fn topics(&self, hub: &Hub, access: &Access) -> Vec<TopicKey> {
        match &self.target {
            Covered::Names(names) => {
                let keys = names.iter().map(|name| TopicKey {
                    provider: name.provider.clone(),
                    subject: Subject::One(name.id.clone()),
                });
                keys.collect()
            }
            Covered::Collection(Parent::One(provider), filter) => {
                vec![collection(provider, filter, hub, access)]
            }
            Covered::Collection(Parent::All, filter) => {
                let concerned = hub
                    .upstreams
                    .keys()
                    .filter(|id| filter.concerns(id) && access.may_read(id));
                let keys = concerned.map(|id| collection(id, filter, hub, access));
                keys.collect()
            }
        }
    }
}

/// The executions of a provider that a filter may admit and the caller may read, as far as the rules say what these
/// have. Finished executions, which may be many more than open ones, are followed only if the filter asks for them.
/// Watches of open executions share one topic, unless there are more of them than a watch follows. So the bound of a
/// watch does not count what others have.
fn collection(provider: &ProviderId, filter: &Filter, hub: &Hub, access: &Access) -> TopicKey {
    let mut hints = filter.hints(provider);
    access.narrow(provider, &mut hints);
    let subject = if filter.decides_on_finished() && hints.admit_finished() {
        Subject::Within(Arc::new(hints))
    } else if hub.is_crowded(provider) {
        Subject::Open(Arc::new(hints.open_part()))
    } else {
        Subject::all_open()
    };
    TopicKey {
        provider: provider.clone(),
        subject,
    }
}
