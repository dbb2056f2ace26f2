//! `WatchApprovals`: one follower per provider keeps its pending approvals up to date, any number of
//! readers share it.
//!
//! The follower takes the provider's push where it has one (`watch_approvals`) and lists again and again
//! where not. It is the sibling of `crate::watch`, which follows executions; approvals are few and need
//! neither versions nor cursors.

mod follow;
mod hub;
mod reader;
mod topic;

pub(crate) use hub::ApprovalHub;
pub(super) use reader::Reader;

use stateway_proto::v1;
use tonic::Status;

use self::reader::WatchRequest;
use super::Approvals;
use super::filter::Filter;
use super::list::narrowed;
use super::name::Kind;
use crate::access::ApiCall;
use crate::front::Peer;
use crate::parent::Parent;
use crate::service::validate;
use crate::status::Refusal;
use crate::upstream::Topic as Extension;

impl Approvals {
    pub(super) async fn watch(
        &self,
        call: ApiCall,
        peer: Option<Peer>,
        request: v1::WatchApprovalsRequest,
    ) -> Result<Reader, Status> {
        let parent = validate::parent(&request.parent)?;
        let filter = Filter::parse(Kind::Approval, &request.filter)?;
        if !filter.may_admit_pending() {
            let message = "filter: a watch shows only pending approvals, and this filter matches none of them";
            return Err(Refusal::invalid("filter", message)
                .reason("INVALID_FILTER")
                .hint("Leave `state` out. {ListApprovals} lists approvals in other states.")
                .into());
        }
        let parent = narrowed(parent, filter.execution().as_ref())?;
        let upstreams = self
            .directory
            .under(&call.access, &parent, Extension::APPROVALS)?;
        let request = WatchRequest {
            tolerant: parent == Parent::All,
            filter,
            access: call.access.clone(),
            permit: self.watches.open(peer, &call)?,
        };
        let upstreams = upstreams.into_iter().cloned().collect();
        Reader::open(&self.hub, upstreams, request, call.deadline).await
    }
}
