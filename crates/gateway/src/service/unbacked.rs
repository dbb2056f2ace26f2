//! Services whose backing is not in this build. They say so; none pretends.

use stateway_proto::v1;
use tonic::{Request, Response, Status};

use crate::status::Refusal;

/// Stands in for every service that has nothing behind it.
pub(crate) struct Unbacked;

fn refused<T>(what: &str) -> Result<T, Status> {
    Err(Refusal::unsupported(what).into())
}

/// A method that only refuses.
macro_rules! refusing {
    ($( $method:ident($request:ty) -> $answer:ty, $what:literal; )+) => {
        $(
            fn $method<'life0, 'async_trait>(
                &'life0 self,
                _: Request<$request>,
            ) -> std::pin::Pin<Box<
                dyn Future<Output = Result<Response<$answer>, Status>> + Send + 'async_trait,
            >>
            where
                'life0: 'async_trait,
                Self: 'async_trait,
            {
                Box::pin(std::future::ready(refused($what)))
            }
        )+
    };
}

impl v1::recovery_server::Recovery for Unbacked {
    refusing! {
        verify_execution(v1::VerifyExecutionRequest) -> v1::VerifyExecutionResponse, "recovery";
        recover_execution(v1::RecoverExecutionRequest) -> v1::RecoverExecutionResponse, "recovery";
        replay_execution(v1::ReplayExecutionRequest) -> v1::ReplayExecutionResponse, "replay";
        list_branches(v1::ListBranchesRequest) -> v1::ListBranchesResponse, "branches";
    }
}
