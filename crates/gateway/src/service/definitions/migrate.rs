//! Moving the default of a portable definition to another provider.
//!
//! The order of the writes keeps a trigger from starting anything twice: it is disabled on the provider before it
//! is enabled on the other one, which is the last write. A migration that is interrupted may leave a disabled
//! trigger; repeating it completes it.

use std::collections::BTreeSet;
use std::sync::Arc;

use stateway_access::Permission;
use stateway_definition::StepKind;
use stateway_model::{DefinitionName, ProviderId};
use stateway_proto::v1;
use stateway_proto::v1::portability::Verdict;
use stateway_provider_api::{
    ApplyPortableRequest, DisabledTrigger, ErrorKind, PortableDefinition, SetHomeRequest, Verb,
};
use tonic::{Code, Status};

use super::super::home::{self, Placed, Places};
use super::super::{triggers, validate};
use super::{Definitions, report, shown};
use crate::access::ApiCall;
use crate::convert;
use crate::similar;
use crate::status::Refusal;
use crate::upstream::{Topic, Upstream};

/// The most definitions that are moved together.
const MOST_DEFINITIONS: usize = 200;

impl Definitions {
    pub(super) async fn migrate(
        &self,
        call: ApiCall,
        request: v1::MigrateDefinitionRequest,
    ) -> Result<v1::MigrateDefinitionResponse, Status> {
        let name = triggers::portable(&request.name)?;
        let wanted = validate::required("provider", &request.provider)?;
        let topic = Topic::PORTABLE_DEFINITIONS;
        let target = self
            .directory
            .one(&call.access, "provider", wanted, topic)?;
        let upstreams = self.directory.in_order(&call.access, topic)?;
        for upstream in &upstreams {
            call.require_definition(Permission::Define, &upstream.id, &name)?;
        }
        validate::request_id(&call, &request.request_id)?;
        let places = home::places(&call, &upstreams, &name.id).await?;
        let Some(home) = &places.home else {
            let refusal = similar::no_portable_definition(&call, &upstreams, &name.id);
            return Err(refusal.await.into());
        };
        let family = self.family(&call, home).await?;
        let mut portability = v1::Portability::default();
        for member in &family {
            let report = report::portability(&call, target, &member.source).await;
            refuse_unportable(member, &report)?;
            if member.name == home.found.name {
                portability = report;
            }
        }
        let mut answer = v1::MigrateDefinitionResponse {
            previous_provider: home.upstream.id.resource_name(),
            portability: Some(portability),
            children: family
                .iter()
                .filter(|member| member.name != home.found.name)
                .map(|member| triggers::definition_name(&member.name))
                .collect(),
            ..v1::MigrateDefinitionResponse::default()
        };
        if !request.validate_only {
            self.move_home(&call, target, (&places, &family)).await?;
        }
        answer.definition = Some(self.migrated(&call, target, home, &request).await?);
        for upstream in upstreams {
            let count = open(&call, upstream, &name).await?;
            if count > 0 {
                answer.open_executions.push(v1::OpenExecutions {
                    provider: upstream.id.resource_name(),
                    count: convert::int64(count),
                });
            }
        }
        Ok(answer)
    }

    /// The definition and those that its `workflow` steps start, as the default provider has them.
    async fn family(
        &self,
        call: &ApiCall,
        home: &Placed<'_>,
    ) -> Result<Vec<PortableDefinition>, Status> {
        let mut names = BTreeSet::from([home.found.name.clone()]);
        let mut family = vec![home.found.clone()];
        let mut next = 0;
        while let Some(member) = family.get(next) {
            next += 1;
            for child in children(member) {
                if !names.insert(child.clone()) {
                    continue;
                }
                if family.len() >= MOST_DEFINITIONS {
                    let message =
                        format!("more than {MOST_DEFINITIONS} definitions belong together");
                    return Err(Refusal::invalid("name", message).into());
                }
                let guarded = home.upstream.within(call);
                let found = guarded
                    .portable_definitions(Verb::PortableDefinitions, |definitions, call| {
                        definitions.get_portable(call, &child, None)
                    });
                match found.await {
                    Ok(found) => family.push(found),
                    // A child that does not exist fails its step, here as there.
                    Err(failed) if failed.error.kind == ErrorKind::NotFound => {}
                    Err(failed) => return Err(failed.into()),
                }
            }
        }
        Ok(family)
    }

    async fn move_home(
        &self,
        call: &ApiCall,
        target: &Arc<Upstream>,
        (places, family): (&Places<'_>, &[PortableDefinition]),
    ) -> Result<(), Status> {
        let Some(home) = &places.home else {
            return Ok(());
        };
        // A trigger that a person disabled stays disabled.
        let mark = home.found.disabled_trigger.clone();
        let by_person = mark.filter(|mark| mark.by != home::GATEWAY);
        for member in family {
            // A definition that the provider had before keeps its trigger as it is.
            if let Some(new) = apply_to(call, target, member).await? {
                home::disable_elsewhere(call, &new, home.upstream).await?;
            }
        }
        let name = &home.found.name;
        // A provider that cannot store the choice refuses before anything has changed.
        if !self.is_first(call, target, places)? {
            set_home(call, target, name, true).await?;
        }
        let others = places.others.iter().chain(Some(home));
        for other in others.filter(|other| other.upstream.id != target.id) {
            if other.found.home {
                set_home(call, other.upstream, name, false).await?;
            }
            home::disable_elsewhere(call, other, target).await?;
        }
        let found = super::find(call, target, name, None).await?;
        let placed = Placed {
            upstream: target,
            found,
        };
        match by_person {
            None => home::enable_here(call, &placed).await?,
            Some(mark) => take_over(call, &placed, &mark).await?,
        }
        Ok(())
    }

    /// Whether a provider is the default of a definition when no provider stores that it is.
    fn is_first(
        &self,
        call: &ApiCall,
        target: &Upstream,
        places: &Places<'_>,
    ) -> Result<bool, Status> {
        let upstreams = self
            .directory
            .in_order(&call.access, Topic::PORTABLE_DEFINITIONS)?;
        let has_it = |id: &ProviderId| {
            let mut placed = places.others.iter().chain(&places.home);
            *id == target.id || placed.any(|placed| placed.upstream.id == *id)
        };
        let first = upstreams.into_iter().find(|upstream| has_it(&upstream.id));
        Ok(first.is_some_and(|first| first.id == target.id))
    }

    async fn migrated(
        &self,
        call: &ApiCall,
        target: &Arc<Upstream>,
        home: &Placed<'_>,
        request: &v1::MigrateDefinitionRequest,
    ) -> Result<v1::Definition, Status> {
        let (found, provider) = if request.validate_only {
            (home.found.clone(), home.upstream)
        } else {
            let found = super::find(call, target, &home.found.name, None).await?;
            (found, target)
        };
        Ok(v1::Definition {
            default_provider: provider.id.resource_name(),
            ..shown(found, true)
        })
    }
}

/// The names of the definitions that a definition starts.
fn children(member: &PortableDefinition) -> Vec<String> {
    let Ok(parsed) = stateway_definition::parse(&member.source, &member.name) else {
        return Vec::new();
    };
    let steps = parsed.definition.steps.into_iter();
    steps
        .filter_map(|step| match step.kind {
            StepKind::Workflow { definition } => Some(definition),
            _ => None,
        })
        .collect()
}

fn refuse_unportable(member: &PortableDefinition, report: &v1::Portability) -> Result<(), Status> {
    let reason = report.reasons.first().cloned().unwrap_or_default();
    let provider = &report.provider;
    if report.verdict == i32::from(Verdict::Impossible) {
        let message = format!(
            "{provider} cannot run the definition `{}`: {reason}",
            member.name
        );
        return Err(
            Refusal::new(Code::InvalidArgument, "DEFINITION_NOT_PORTABLE", message)
                .hint("{ValidateDefinition} lists everything that a provider cannot do.")
                .into(),
        );
    }
    if report.verdict == i32::from(Verdict::Unspecified) {
        let message = format!("{provider} does not answer: {reason}");
        return Err(Refusal::new(Code::Unavailable, "PROVIDER_UNAVAILABLE", message).into());
    }
    Ok(())
}

/// Disables the trigger as a person had disabled it on the provider before.
async fn take_over(
    call: &ApiCall,
    placed: &Placed<'_>,
    mark: &DisabledTrigger,
) -> Result<(), Status> {
    let own = placed.found.disabled_trigger.as_ref();
    if own.is_some_and(|own| own.by != home::GATEWAY) {
        return Ok(());
    }
    if own.is_some() {
        home::enable_here(call, placed).await?;
    }
    Ok(home::switch(call, placed, (false, &mark.comment), &mark.by).await?)
}

async fn set_home(
    call: &ApiCall,
    upstream: &Upstream,
    name: &str,
    is_home: bool,
) -> Result<(), Status> {
    let set = SetHomeRequest {
        name: name.to_owned(),
        home: is_home,
        request_id: home::fresh_id(),
    };
    let guarded = upstream.within(call);
    let set = guarded.portable_definitions(Verb::ApplyPortable, |definitions, call| {
        definitions.set_home(call, set)
    });
    Ok(set.await?)
}

async fn open(call: &ApiCall, upstream: &Upstream, name: &DefinitionName) -> Result<u64, Status> {
    let guarded = upstream.within(call);
    let open = guarded.portable_definitions(Verb::PortableDefinitions, |definitions, call| {
        definitions.open_executions(call, &name.id)
    });
    Ok(open.await?)
}

/// Gives a provider the revision that the default provider has. The definition, if the provider did not have it.
async fn apply_to<'u>(
    call: &ApiCall,
    target: &'u Arc<Upstream>,
    member: &PortableDefinition,
) -> Result<Option<Placed<'u>>, Status> {
    let before = match super::find(call, target, &member.name, None).await {
        Ok(found) => Some(found),
        Err(failed) if failed.error.kind == ErrorKind::NotFound => None,
        Err(failed) => return Err(failed.into()),
    };
    if before
        .as_ref()
        .is_some_and(|it| it.revision == member.revision)
    {
        return Ok(None);
    }
    let apply = ApplyPortableRequest {
        source: member.source.clone(),
        source_name: member.name.clone(),
        request_id: home::fresh_id(),
    };
    let guarded = target.within(call);
    let applied = guarded.portable_definitions(Verb::ApplyPortable, |definitions, call| {
        definitions.apply_portable(call, apply)
    });
    applied.await?;
    if before.is_some() {
        return Ok(None);
    }
    let found = super::find(call, target, &member.name, None).await?;
    Ok(Some(Placed {
        upstream: target,
        found,
    }))
}
