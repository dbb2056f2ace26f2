//! ExplainExecution names the row and the evidence.

use std::time::Duration;

use stateway_client::v1::{ExplainExecutionRequest, MappingBasis, StartExecutionRequest, SubState};

use crate::support::{Puppet, TestGateway, clock};

#[tokio::test]
async fn a_back_off_is_explained_by_its_step_and_attempts() {
    let clock = clock();
    let gateway = TestGateway::new().with_memory("m", &clock).start().await;
    let mut client = gateway.executions().await;
    let start = StartExecutionRequest {
        definition: "providers/m/definitions/flaky".into(),
        ..Default::default()
    };
    let name = client
        .start_execution(start)
        .await
        .unwrap()
        .into_inner()
        .name;
    clock.advance(Duration::from_millis(1_200));
    let answer = client
        .explain_execution(ExplainExecutionRequest { name })
        .await
        .unwrap()
        .into_inner();
    assert_eq!(answer.execution.unwrap().sub_state(), SubState::BackingOff);
    assert!(
        answer.summary.starts_with("backing-off: "),
        "{}",
        answer.summary
    );
    assert!(answer.summary.contains("`charge`"), "{}", answer.summary);
    assert_eq!(answer.row.expect("a row").native_state, "ACTIVE");
    let charge = &answer.steps[0];
    assert_eq!(charge.row.as_ref().expect("a row").native_state, "RESTING");
    let attempts = charge
        .evidence
        .iter()
        .find(|line| line.starts_with("attempt 1 of 5"));
    assert!(
        attempts
            .expect("attempts")
            .contains("card gateway timed out")
    );
}

#[tokio::test]
async fn an_unknown_state_is_running_and_owns_up_to_it() {
    let puppet = Puppet::new();
    puppet.show("x", "BRAND_NEW");
    let gateway = TestGateway::new().with_puppet("p", &puppet).start().await;
    let request = ExplainExecutionRequest {
        name: "providers/p/executions/x".into(),
    };
    let answer = gateway
        .executions()
        .await
        .explain_execution(request)
        .await
        .unwrap()
        .into_inner();
    let shown = answer.execution.unwrap();
    assert_eq!(
        (shown.sub_state(), shown.mapping_basis()),
        (SubState::Running, MappingBasis::Defaulted)
    );
    assert_eq!(shown.native_state, "BRAND_NEW");
    assert!(answer.row.is_none());
    assert!(answer.summary.contains("in no table"), "{}", answer.summary);
}
