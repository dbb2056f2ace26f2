//! Streams that end when the rules change for their caller.

use futures::StreamExt;
use futures::stream::{self, BoxStream};
use tonic::Status;

use super::call::Access;
use super::refusal::changed;

/// The stream until the rules change for the caller: a stream must not outlive the permission that it was
/// opened with.
pub(crate) fn until_changed<M: Send + 'static>(
    access: &Access,
    messages: BoxStream<'static, Result<M, Status>>,
) -> BoxStream<'static, Result<M, Status>> {
    if access.is_open() {
        return messages;
    }
    let change = Box::pin(access.clone().changed());
    stream::unfold(Some((messages, change)), async |open| {
        let (mut messages, mut change) = open?;
        tokio::select! {
            biased;
            () = &mut change => Some((Err(changed()), None)),
            message = messages.next() => message.map(|message| (message, Some((messages, change)))),
        }
    })
    .boxed()
}
