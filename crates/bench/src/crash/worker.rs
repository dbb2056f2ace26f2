//! Workers that implement the protocol themselves, so that they know exactly which answers were acknowledged.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use stateway_proto::v1;
use stateway_proto::v1::stream_tasks_request::Message as Say;
use stateway_proto::v1::stream_tasks_response::Message as Hear;
use stateway_proto::v1::workers_client::WorkersClient;
use tokio::sync::mpsc;
use tokio_stream::wrappers::UnboundedReceiverStream;

use super::book::{Attempt, Book};

/// A worker that always reconnects, and sends the answers again that were not acknowledged.
pub(super) async fn run(url: String, index: usize, book: Arc<Book>) {
    let mut unanswered = BTreeMap::new();
    loop {
        let memory = book.memory(index);
        // A broken connection is what this is about.
        let _ = session(&url, index, &book, &mut unanswered).await;
        if book.memory(index) != memory {
            unanswered.clear();
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn session(
    url: &str,
    index: usize,
    book: &Book,
    unanswered: &mut BTreeMap<String, v1::StreamTasksRequest>,
) -> Result<(), tonic::Status> {
    let mut client = WorkersClient::connect(url.to_owned())
        .await
        .map_err(|error| tonic::Status::unavailable(error.to_string()))?;
    let (say, said) = mpsc::unbounded_channel();
    let offer = Say::Offer(v1::Offer {
        worker_id: format!("crash-{index}"),
        roles: vec!["crash".to_owned()],
        capacity: 8,
        ..Default::default()
    });
    // A closed channel is not an error here: the end of the response stream shows it.
    let tell = |message: v1::StreamTasksRequest| drop(say.send(message));
    tell(v1::StreamTasksRequest {
        message: Some(offer),
    });
    let heard = client
        .stream_tasks(UnboundedReceiverStream::new(said))
        .await?;
    unanswered.values().cloned().for_each(tell);
    let mut heard = heard.into_inner();
    while let Some(message) = heard.message().await? {
        match message.message {
            Some(Hear::Task(task)) if !unanswered.contains_key(&task.task_token) => {
                let attempt = Attempt {
                    execution: task.execution.clone(),
                    step: task.step.clone(),
                    attempt: task.attempt,
                    undo: task.compensation,
                };
                book.handed_out(&task.task_token, attempt);
                let answer = answer(&task);
                unanswered.insert(task.task_token, answer.clone());
                tell(answer);
            }
            Some(Hear::Accepted(accepted)) => {
                unanswered.remove(&accepted.task_token);
                book.acknowledged(&accepted.task_token);
            }
            Some(Hear::Refused(refused)) => {
                unanswered.remove(&refused.task_token);
            }
            Some(Hear::Closed(_)) => return Ok(()),
            _ => {}
        }
    }
    Ok(())
}

fn answer(task: &v1::Task) -> v1::StreamTasksRequest {
    let task_token = task.task_token.clone();
    let shaky = task.action == "shaky" && task.attempt < 3;
    let message = if task.action == "fail" || shaky {
        let category = if shaky {
            v1::ErrorCategory::Transient
        } else {
            v1::ErrorCategory::Validation
        };
        Say::Failed(v1::TaskFailed {
            task_token,
            category: category.into(),
            message: "as it was asked to".to_owned(),
            ..Default::default()
        })
    } else {
        Say::Completed(v1::TaskCompleted {
            task_token,
            ..Default::default()
        })
    };
    v1::StreamTasksRequest {
        message: Some(message),
    }
}
