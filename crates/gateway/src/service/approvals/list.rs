//! Lists of approvals and escalations over one provider or several, a page at a time.
//!
//! The providers are asked one after the other. A provider that does not answer is named in
//! `unreachable` and keeps its cursor: the next page asks it again. The list ends when only providers that
//! did not answer are left.
//!
//! Order: by the id of the provider; of one provider as it answers, which is the newest execution first. A
//! provider that did not answer follows after the others.

use std::sync::Arc;

use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};
use stateway_model::{ExecutionName, ProviderId};
use stateway_proto::v1;
use stateway_provider_api::{
    Approvals as Inbox, Call, ErrorKind, InboxPage, InboxRequest, Result as ProviderResult, Verb,
    View,
};
use tonic::Status;

use super::filter::Filter;
use super::name::Kind;
use super::{Approvals, shown};
use crate::access::{Access, ApiCall};
use crate::parent::Parent;
use crate::service::executions::page_token_refused;
use crate::service::validate;
use crate::status::Refusal;
use crate::upstream::{CallError, Topic, Upstream};

const ROWS_PER_PAGE: usize = 50;
/// The most often providers are asked for one page: a filter may admit little of what they answer.
const MOST_ROUNDS: usize = 8;

/// Where a list continues: at these providers, each from its own cursor.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Position(Vec<(ProviderId, Option<String>)>);

/// What a list request has in common for both kinds.
struct Listing<'r> {
    parent: &'r str,
    page_size: i32,
    page_token: &'r str,
    filter: &'r str,
}

/// The rows of one page, with the providers they come from.
struct Page<T> {
    rows: Vec<(ProviderId, T)>,
    next_page_token: String,
    unreachable: Vec<String>,
}

/// A page that was requested from a provider.
type Asked<'c, T> = BoxFuture<'c, ProviderResult<InboxPage<T>>>;

/// How one kind of rows is asked for and filtered.
struct Asking<T> {
    kind: Kind,
    verb: Verb,
    ask: for<'c> fn(&'c dyn Inbox, &'c Call, InboxRequest) -> Asked<'c, T>,
    admits: fn(&Filter, &ProviderId, &T) -> bool,
    /// Whether the caller may know of a row.
    reads: fn(&Access, &ProviderId, &T) -> bool,
}

impl Approvals {
    pub(super) async fn list(
        &self,
        call: ApiCall,
        request: v1::ListApprovalsRequest,
    ) -> Result<v1::ListApprovalsResponse, Status> {
        let listing = Listing {
            parent: &request.parent,
            page_size: request.page_size,
            page_token: &request.page_token,
            filter: &request.filter,
        };
        let asking = Asking {
            kind: Kind::Approval,
            verb: Verb::ListApprovals,
            ask: |inbox, call, request| inbox.list_approvals(call, request),
            admits: Filter::admits_approval,
            reads: |access, provider, row| access.approval(provider, row).0,
        };
        let page = self.page(&call, listing, asking).await?;
        let rows = page.rows.into_iter();
        Ok(v1::ListApprovalsResponse {
            approvals: rows
                .map(|(provider, row)| shown::approval(&call.access, &provider, row))
                .collect(),
            next_page_token: page.next_page_token,
            unreachable: page.unreachable,
        })
    }

    pub(super) async fn escalations(
        &self,
        call: ApiCall,
        request: v1::ListEscalationsRequest,
    ) -> Result<v1::ListEscalationsResponse, Status> {
        let listing = Listing {
            parent: &request.parent,
            page_size: request.page_size,
            page_token: &request.page_token,
            filter: &request.filter,
        };
        let asking = Asking {
            kind: Kind::Escalation,
            verb: Verb::ListEscalations,
            ask: |inbox, call, request| inbox.list_escalations(call, request),
            admits: Filter::admits_escalation,
            reads: Access::escalation,
        };
        let page = self.page(&call, listing, asking).await?;
        let rows = page.rows.into_iter();
        Ok(v1::ListEscalationsResponse {
            escalations: rows
                .map(|(provider, row)| shown::escalation(&provider, row))
                .collect(),
            next_page_token: page.next_page_token,
            unreachable: page.unreachable,
        })
    }

    async fn page<T: Send + 'static>(
        &self,
        call: &ApiCall,
        listing: Listing<'_>,
        asking: Asking<T>,
    ) -> Result<Page<T>, Status> {
        let parent = validate::parent(listing.parent)?;
        let filter = Filter::parse(asking.kind, listing.filter)?;
        let parent = narrowed(parent, filter.execution().as_ref())?;
        let upstreams = self
            .directory
            .under(&call.access, &parent, Topic::APPROVALS)?;
        let size = validate::page_size(listing.page_size, ROWS_PER_PAGE)?;
        let collection = asking.kind.collection();
        let purpose = format!("{collection}|{}|{}", listing.parent, listing.filter);
        let purpose = call.access.bound(purpose);
        let Position(mut pending) = match listing.page_token {
            "" => Position(
                upstreams
                    .iter()
                    .map(|upstream| (upstream.id.clone(), None))
                    .collect(),
            ),
            token => self
                .sealer
                .open(&purpose, token)
                .map_err(page_token_refused)?,
        };
        if let Some(execution) = filter.execution()
            && !self.reads(call, &upstreams, &execution).await?
        {
            // Even an empty page with a token would say that the execution exists.
            pending.clear();
        }
        let (mut rows, mut failed) = (Vec::new(), Vec::new());
        for _ in 0..MOST_ROUNDS {
            if rows.len() >= size || pending.is_empty() {
                break;
            }
            let (id, cursor) = pending.remove(0);
            // A provider that does not offer approvals any more has none to show.
            let Some(upstream) = upstreams.iter().find(|upstream| upstream.id == id) else {
                continue;
            };
            let mut hints = filter.hints();
            call.access.narrow_inbox(&id, &mut hints);
            let request = InboxRequest {
                hints,
                page_size: size - rows.len(),
                cursor: cursor.clone(),
            };
            match (
                ask(call, upstream, &parent, (&asking, request)).await,
                &parent,
            ) {
                (Ok(page), _) => {
                    let admitted = page.items.into_iter();
                    let admitted = admitted.filter(|row| {
                        (asking.admits)(&filter, &id, row) && (asking.reads)(&call.access, &id, row)
                    });
                    rows.extend(admitted.map(|row| (id.clone(), row)));
                    if page.next.is_some() {
                        pending.insert(0, (id, page.next));
                    }
                }
                // An execution that does not exist has as many requests as one that may not be read.
                (Err(failed), Parent::One(id))
                    if failed.error.kind == ErrorKind::NotFound && !call.access.reads_all(id) => {}
                (Err(error), Parent::One(_)) => return Err(error.into()),
                (Err(error), Parent::All) => {
                    tracing::info!("left out of a page: {error}");
                    failed.push((id, cursor));
                }
            }
        }
        let unreachable = failed.iter().map(|(id, _)| id.resource_name()).collect();
        let next_page_token = if pending.is_empty() {
            String::new()
        } else {
            pending.append(&mut failed);
            self.sealer.seal(&purpose, Position(pending))
        };
        Ok(Page {
            rows,
            next_page_token,
            unreachable,
        })
    }

    /// Whether the caller may read the one execution whose requests are listed.
    async fn reads(
        &self,
        call: &ApiCall,
        upstreams: &[&Arc<Upstream>],
        name: &ExecutionName,
    ) -> Result<bool, Status> {
        if call.access.reads_all(&name.provider) {
            return Ok(true);
        }
        let Some(upstream) = upstreams.iter().find(|it| it.id == name.provider) else {
            return Ok(false);
        };
        let guarded = upstream.within(call);
        let found = guarded.call_boxed(Verb::Get, |provider, call| {
            provider.get(call, &name.id, View::Basic)
        });
        match found.await {
            Ok(found) => Ok(call.access.reads(&upstream.execution(*found))),
            Err(failed) if failed.error.kind == ErrorKind::NotFound => Ok(false),
            Err(failed) => Err(failed.into()),
        }
    }
}

async fn ask<T: Send + 'static>(
    call: &ApiCall,
    upstream: &Arc<Upstream>,
    parent: &Parent,
    (asking, request): (&Asking<T>, InboxRequest),
) -> Result<InboxPage<T>, CallError> {
    let guarded = match parent {
        Parent::All => upstream.merged(call),
        Parent::One(_) => upstream.within(call),
    };
    let asked = asking.ask;
    let page = guarded.approvals(asking.verb, |inbox, call| asked(inbox, call, request));
    page.await
}

/// The parent, narrowed to the provider of the one execution that a filter names.
pub(super) fn narrowed(
    parent: Parent,
    execution: Option<&ExecutionName>,
) -> Result<Parent, Status> {
    match (parent, execution) {
        (Parent::One(id), Some(execution)) if id != execution.provider => {
            let message = "`parent` and `execution` name different providers";
            Err(Refusal::invalid("filter", message)
                .reason("INVALID_FILTER")
                .into())
        }
        (_, Some(execution)) => Ok(Parent::One(execution.provider.clone())),
        (parent, None) => Ok(parent),
    }
}
