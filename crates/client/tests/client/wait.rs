//! A wait ends with what it waits for, or with its own deadline, and with nothing else.

use std::sync::Arc;
use std::time::{Duration, Instant};

use stateway_client::{Client, Code, Wait, v1};
use tonic::Status;

use crate::fake::{Script, serve};

fn answer(reached: bool) -> Result<v1::WaitExecutionResponse, Status> {
    let execution = v1::Execution {
        name: "a".into(),
        ..Default::default()
    };
    Ok(v1::WaitExecutionResponse {
        execution: Some(execution),
        reached,
    })
}

async fn client(answers: Vec<Result<v1::WaitExecutionResponse, Status>>) -> (Client, Arc<Script>) {
    let script = Arc::<Script>::default();
    *script.waits.lock().unwrap() = answers.into();
    let client = Client::connect(&format!("http://{}", serve(&script).await))
        .await
        .unwrap();
    (client, script)
}

#[tokio::test]
async fn a_gateway_that_shuts_down_does_not_end_it() {
    let (client, script) = client(vec![answer(false), answer(true)]).await;
    let wait = Wait::new("a").timeout(Duration::from_secs(20));
    assert!(client.wait(wait).await.unwrap().reached);
    assert_eq!(script.asked().len(), 2);
}

#[tokio::test]
async fn a_gateway_that_was_there_is_given_time_to_come_back() {
    let down = || Err(Status::unavailable("restarting"));
    let gone = (0..8).map(|_| down());
    let answers = [answer(false)]
        .into_iter()
        .chain(gone)
        .chain([answer(true)]);
    let (client, script) = client(answers.collect()).await;
    assert!(client.wait(Wait::new("a")).await.unwrap().reached);
    assert_eq!(script.asked().len(), 10);
}

#[tokio::test]
async fn a_gateway_that_never_was_there_is_not_waited_for() {
    let client = Client::lazy("http://127.0.0.1:1").unwrap();
    let begin = Instant::now();
    let error = client.wait(Wait::new("a")).await.unwrap_err();
    assert_eq!(error.code(), Code::Unavailable);
    assert!(begin.elapsed() < Duration::from_secs(5));
}

#[tokio::test]
async fn its_own_timeout_is_an_answer() {
    let (client, _) = client(vec![answer(false)]).await;
    let wait = Wait::new("a").timeout(Duration::from_millis(200));
    assert!(!client.wait(wait).await.unwrap().reached);
}

#[tokio::test]
async fn a_refusal_ends_it() {
    let (client, script) = client(vec![Err(Status::not_found("no"))]).await;
    let error = client.wait(Wait::new("a")).await.unwrap_err();
    assert_eq!(error.code(), Code::NotFound);
    assert_eq!(script.asked().len(), 1);
}
