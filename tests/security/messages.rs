//! Messages that cannot be read, errors that quote too much, and answers that are too large.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use prost::Message;
use serde_json::{Value, json};
use stateway_client::v1;
use stateway_client::v1::read_payload_request::Source;
use tonic::Code;

use super::wire::{Answer, Ask, every_method, framed};
use crate::support::{BuiltInRig, Puppet, TestGateway, error_info, hint_of, reason_of};

/// Code and reason of an answer that is an error.
fn error_of(answer: &Answer) -> (String, String) {
    let details = &answer.headers["grpc-status-details-bin"];
    let details = STANDARD_NO_PAD.decode(details).expect("base64");
    let status = tonic_types::Status::decode(&*details).expect("a status");
    let first = &status.details[0];
    let info = tonic_types::pb::ErrorInfo::decode(&*first.value).expect("an ErrorInfo");
    assert_eq!(info.domain, stateway_gateway::DOMAIN);
    (answer.headers["grpc-status"].clone(), info.reason)
}

#[tokio::test]
async fn a_message_that_is_no_protobuf_is_an_invalid_argument_for_every_method() {
    let gateway = BuiltInRig::start().await.gateway;
    let headers = [("content-type", "application/grpc")];
    let ours = every_method().into_iter();
    for path in ours.filter(|path| path.starts_with("/stateway.")) {
        for body in [
            // A field of number zero; an end in the middle of a field; too little of the frame.
            framed(&[0x02, 0xff, 0xff]),
            framed(&[0x0a, 0x7f]),
            vec![0, 0, 0, 0, 9, 1],
        ] {
            let ask = Ask::new("POST", &path, &headers).body(&body);
            let answer = ask.http2(gateway.address).await;
            let expected = ("3".to_owned(), "INVALID_MESSAGE".to_owned());
            assert_eq!(error_of(&answer), expected, "{path} {body:?}");
        }
    }
}

#[tokio::test]
async fn an_error_that_quotes_a_long_text_fits_into_the_headers_of_every_client() {
    let rig = BuiltInRig::start().await;
    rig.apply("name: gate\nsteps: [{name: a, signal: go}]")
        .await;
    let long = ["x".repeat(5_000), "ä".repeat(5_000)];
    for text in long {
        let get = v1::GetExecutionRequest {
            name: text.clone(),
            view: 0,
        };
        let start = v1::StartExecutionRequest {
            definition: "definitions/gate".into(),
            input: Some(v1::Payload {
                data: b"1".to_vec().into(),
                content_type: text.clone(),
            }),
            ..v1::StartExecutionRequest::default()
        };
        let list = v1::ListExecutionsRequest {
            parent: "providers/-".into(),
            filter: format!("\"{text}\" = {text}"),
            ..v1::ListExecutionsRequest::default()
        };
        let apply = v1::ApplyDefinitionRequest {
            source: format!("name: {text}\nsteps: [{{name: {text}, {text}: 1}}]"),
            ..v1::ApplyDefinitionRequest::default()
        };
        let asks = [
            ("Executions/GetExecution", get.encode_to_vec()),
            ("Executions/StartExecution", start.encode_to_vec()),
            ("Executions/ListExecutions", list.encode_to_vec()),
            ("Definitions/ApplyDefinition", apply.encode_to_vec()),
        ];
        for (method, message) in asks {
            let (path, body) = (format!("/stateway.v1.{method}"), framed(&message));
            let headers = [("content-type", "application/grpc")];
            let ask = Ask::new("POST", &path, &headers).body(&body);
            let answer = ask.http2(rig.gateway.address).await;
            assert_eq!(error_of(&answer).0, "3", "{method}");
            let size: usize = answer
                .headers
                .iter()
                .map(|(name, value)| name.len() + value.len() + 32)
                .sum();
            assert!(size < 8 * 1024, "{method}: {size}");
        }
    }
}

/// A gateway with small messages, and an execution with an input and an output that fit alone.
async fn with_large_payloads() -> (BuiltInRig, Value) {
    let rig = BuiltInRig::start_beside(|mut gateway| {
        gateway.settings.max_message_bytes = 100_000;
        gateway
    })
    .await;
    rig.apply("name: echo\nsteps: [{name: a, agent: w, timeout: 5m}]\noutput: '${steps.a.output}'")
        .await;
    let payload = json!("x".repeat(70_000));
    rig.begin("echo", "e1", "ada", payload.clone()).await;
    let offer = v1::Offer {
        worker_id: "w1".into(),
        roles: vec!["w".into()],
        capacity: 1,
        ..v1::Offer::default()
    };
    let mut worker = rig.work(offer).await.unwrap();
    let task = worker.task().await;
    worker.complete(&task, &payload);
    let name = "providers/b/executions/e1".to_owned();
    let mut client = rig.gateway.executions().await;
    let waited = client
        .wait_execution(v1::WaitExecutionRequest {
            name,
            ..v1::WaitExecutionRequest::default()
        })
        .await
        .unwrap();
    assert!(waited.into_inner().reached);
    (rig, payload)
}

async fn read(rig: &BuiltInRig, name: &str, source: Source) -> Result<Vec<u8>, tonic::Status> {
    let request = v1::ReadPayloadRequest {
        name: name.into(),
        source: source.into(),
    };
    let mut client = rig.gateway.executions().await;
    let mut parts = client.read_payload(request).await?.into_inner();
    let mut whole = Vec::new();
    let mut size = 0;
    while let Some(part) = parts.message().await? {
        assert!(part.data.len() < 65_536);
        size += part.size_bytes;
        whole.extend_from_slice(&part.data);
    }
    assert_eq!(size, i64::try_from(whole.len()).unwrap());
    Ok(whole)
}

#[tokio::test]
async fn an_answer_that_is_too_large_names_its_field_and_the_payload_can_be_read_alone() {
    let (rig, payload) = with_large_payloads().await;
    let name = "providers/b/executions/e1";
    let mut client = rig.gateway.executions().await;
    let get = |view: v1::ExecutionView| v1::GetExecutionRequest {
        name: name.into(),
        view: view.into(),
    };
    let refused = client.get_execution(get(v1::ExecutionView::Full)).await;
    let refused = refused.unwrap_err();
    assert_eq!(refused.code(), Code::OutOfRange);
    let (reason, metadata) = error_info(&refused);
    assert_eq!(reason, "RESPONSE_TOO_LARGE");
    assert!(
        ["input.data", "output.data"].contains(&&*metadata["field"]),
        "{metadata:?}"
    );
    assert!(hint_of(&refused).contains("ReadPayload"), "{refused}");
    client
        .get_execution(get(v1::ExecutionView::Basic))
        .await
        .unwrap();
    for source in [Source::Input, Source::Output] {
        let whole = read(&rig, name, source).await.unwrap();
        assert_eq!(serde_json::from_slice::<Value>(&whole).unwrap(), payload);
        let of_step = read(&rig, &format!("{name}/steps/a"), source).await;
        let expected = (source == Source::Output).then_some(&payload);
        let of_step = of_step
            .ok()
            .and_then(|data| serde_json::from_slice::<Value>(&data).ok());
        if let Some(expected) = expected {
            assert_eq!(of_step.as_ref(), Some(expected));
        }
    }
    for n in 0..10 {
        let labels = (0..60).map(|key| (format!("key-{key}"), "x".repeat(200)));
        let start = v1::StartExecutionRequest {
            definition: "definitions/echo".into(),
            execution_id: format!("labelled-{n}"),
            labels: labels.collect(),
            ..v1::StartExecutionRequest::default()
        };
        client.start_execution(start).await.unwrap();
    }
    let list = |page_size| v1::ListExecutionsRequest {
        parent: "providers/b".into(),
        page_size,
        ..v1::ListExecutionsRequest::default()
    };
    let refused = client.list_executions(list(50)).await.unwrap_err();
    let (reason, metadata) = error_info(&refused);
    assert_eq!(reason, "RESPONSE_TOO_LARGE");
    assert_eq!(metadata["field"], "executions");
    assert!(hint_of(&refused).contains("page_size"), "{refused}");
    client.list_executions(list(5)).await.expect("five fit");
}

#[tokio::test]
async fn a_payload_that_does_not_exist_or_is_not_named_is_refused() {
    let (rig, _) = with_large_payloads().await;
    let name = "providers/b/executions/e1";
    let unnamed = read(&rig, name, Source::Unspecified).await.unwrap_err();
    assert_eq!(unnamed.code(), Code::InvalidArgument);
    let missing = read(&rig, "providers/b/executions/no", Source::Input).await;
    assert_eq!(missing.unwrap_err().code(), Code::NotFound);
    let wrong = read(&rig, "e1", Source::Input).await.unwrap_err();
    assert_eq!(wrong.code(), Code::InvalidArgument);
    let puppet = Puppet::new();
    puppet.show("x", "RUNNING");
    let gateway = TestGateway::new().with_puppet("p", &puppet).start().await;
    let request = v1::ReadPayloadRequest {
        name: "providers/p/executions/x".into(),
        source: Source::Output.into(),
    };
    let none = gateway.executions().await.read_payload(request).await;
    assert_eq!(reason_of(&none.unwrap_err()), "PAYLOAD_NOT_FOUND");
}

/// What a page of the dashboard shows of it.
#[tokio::test]
async fn the_dashboard_shows_an_execution_whose_payloads_are_too_large() {
    let (rig, payload) = with_large_payloads().await;
    let page = Ask::new("GET", "/executions/b/e1", &[]);
    let page = page.http1(rig.gateway.address).await;
    assert_eq!(page.status, 200);
    let body = String::from_utf8_lossy(&page.body);
    assert!(body.contains("Too large for this page."), "{body}");
    let whole = Ask::new("GET", "/executions/b/e1/output", &[]);
    let whole = whole.http1(rig.gateway.address).await;
    assert_eq!(whole.status, 200);
    let text = String::from_utf8_lossy(&whole.body);
    assert!(text.contains(payload.as_str().unwrap().get(..1_000).unwrap()));
}

/// An error in the middle of a stream has its details too.
#[tokio::test]
async fn a_worker_that_sends_nonsense_is_told_so_with_details() {
    let rig = BuiltInRig::start().await;
    let headers = [("content-type", "application/grpc")];
    let offer = v1::StreamTasksRequest {
        message: Some(v1::stream_tasks_request::Message::Offer(v1::Offer {
            worker_id: "w".into(),
            capacity: 1,
            ..v1::Offer::default()
        })),
    };
    let body = [framed(&offer.encode_to_vec()), framed(&[0x0a, 0x7f])].concat();
    let ask = Ask::new("POST", "/stateway.v1.Workers/StreamTasks", &headers).body(&body);
    let answer = ask.http2(rig.gateway.address).await;
    assert_eq!(
        error_of(&answer),
        ("3".to_owned(), "INVALID_MESSAGE".to_owned())
    );
}
