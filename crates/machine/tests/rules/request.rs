//! What an HTTP step sends.

use crate::kit::Run;
use serde_json::json;
use stateway_machine::{HttpRequest, last_error, task_request};

const CALL: &str = r#"
steps:
  - {name: login, agent: w, timeout: 1m}
  - name: call
    dependsOn: [login]
    timeout: 1m
    http:
      method: PUT
      url: "https://x.example/${execution.id}/${input.total}"
      headers:
        authorization: "Bearer ${steps.login.output.token}"
        x-total: "${input.total}"
        x-plain: "$${kept}"
        x-number: 7
"#;

fn called(token: &str) -> Run {
    let mut run = Run::started(CALL);
    run.complete("login", json!({"token": token}));
    run
}

#[test]
fn references_are_resolved_in_the_address_and_in_headers() {
    let run = called("s3cret");
    let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let expected = HttpRequest {
        method: "PUT".into(),
        url: "https://x.example/e1/50".into(),
        headers: vec![
            header("authorization", "Bearer s3cret"),
            header("x-number", "7"),
            header("x-plain", "${kept}"),
            header("x-total", "50"),
        ],
    };
    assert_eq!(task_request(&run.state, "call"), Ok(Some(expected)));
    assert_eq!(task_request(&run.state, "login"), Ok(None));
    assert_eq!(task_request(&run.state, "nobody"), Ok(None));
}

#[test]
fn a_value_with_a_line_break_fails_the_step_and_is_never_sent() {
    let run = called("a\r\nx-admin: yes");
    assert_eq!(run.step("call"), stateway_machine::StepState::Failed);
    let error = last_error(&run.state).unwrap();
    assert!(error.message.contains("`authorization`"), "{error:?}");
    assert!(!error.message.contains("x-admin"), "{error:?}");
}

#[test]
fn a_header_without_a_value_fails_the_step() {
    let mut run = Run::started(CALL);
    run.complete("login", json!({}));
    let error = last_error(&run.state).unwrap();
    assert_eq!(error.message, "`${steps.login.output.token}` has no value");
}

#[test]
fn a_step_whose_header_needs_a_skipped_step_is_skipped_too() {
    let yaml = CALL.replace("name: login,", "name: login, onFailure: skip,");
    let mut run = Run::started(&yaml);
    run.fail("login", stateway_model::ErrorCategory::AgentError);
    assert_eq!(run.step("call"), stateway_machine::StepState::Skipped);
}
