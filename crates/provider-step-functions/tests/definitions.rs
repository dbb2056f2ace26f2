//! State machines as definitions: versions, tags, checks, and what is refused.

#[allow(dead_code, reason = "each test uses a part of it")]
use crate::mock;

use std::time::Duration;

use mock::{Service, config};
use serde_json::json;
use stateway_model::Labels;
use stateway_provider_api::{
    ApplyDefinitionRequest, Call, Error, ErrorKind, NativeDefinition, Provider, Result,
    StartDefinition, StartRequest,
};
use stateway_provider_step_functions::{Config, StepFunctionsProvider};
use wiremock::MockServer;

struct Bench {
    service: Service,
    provider: StepFunctionsProvider,
    _server: MockServer,
}

impl Bench {
    async fn new(change: impl FnOnce(&mut Config)) -> Self {
        let service = Service::default();
        let server = service.open().await;
        let mut config = config(&server);
        change(&mut config);
        let provider = mock::provider(&config);
        Self {
            service,
            provider: provider.expect("a good configuration"),
            _server: server,
        }
    }

    async fn apply(&self, source: &str, labels: &[(&str, &str)]) -> Result<NativeDefinition> {
        let request = ApplyDefinitionRequest {
            name: "order".to_owned(),
            source: source.to_owned(),
            labels: made(labels),
            request_id: "r-1".parse().expect("a request id"),
        };
        self.provider.apply_definition(&call(), request).await
    }

    async fn read(&self, revision: Option<&str>) -> Result<NativeDefinition> {
        self.provider.definition(&call(), "order", revision).await
    }
}

fn call() -> Call {
    Call::within(Duration::from_secs(10))
}

fn made(labels: &[(&str, &str)]) -> Labels {
    let label = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
    labels.iter().map(label).collect()
}

fn machine(first: &str) -> String {
    json!({"StartAt": first, "States": {first: {"Type": "Pass", "End": true}}}).to_string()
}

#[tokio::test]
async fn every_change_is_a_version_that_can_be_read_and_started() -> std::result::Result<(), Error>
{
    let bench = Bench::new(|_| {}).await;
    let first = bench.apply(&machine("A"), &[]).await?;
    assert_eq!((first.revision.as_str(), first.changed), ("1", true));
    // The same in other letters is the same.
    let spaced = machine("A").replace(':', " : ");
    let again = bench.apply(&spaced, &[]).await?;
    assert_eq!((again.revision.as_str(), again.changed), ("1", false));
    let second = bench.apply(&machine("B"), &[]).await?;
    assert_eq!((second.revision.as_str(), second.changed), ("2", true));
    let newest = bench.read(None).await?;
    assert_eq!(newest.revision, "2");
    assert_eq!(newest.revisions, ["2", "1"]);
    assert!(newest.source.contains("\"B\""));
    let older = bench.read(Some("1")).await?;
    assert!(older.source.contains("\"A\""), "{}", older.source);
    for missing in ["3", "newest"] {
        let refused = bench.read(Some(missing)).await.unwrap_err();
        assert_eq!(refused.reason(), "DEFINITION_NOT_FOUND");
    }
    Ok(())
}

#[tokio::test]
async fn tags_of_a_state_machine_are_its_labels_and_executions_have_none()
-> std::result::Result<(), Error> {
    let bench = Bench::new(|_| {}).await;
    bench.apply(&machine("A"), &[("team", "payments")]).await?;
    bench.apply(&machine("A"), &[("tier", "1")]).await?;
    let read = bench.read(None).await?;
    assert_eq!(read.labels, made(&[("team", "payments"), ("tier", "1")]));
    let start = StartRequest {
        definition: StartDefinition::native("order".to_owned()),
        options: Default::default(),
        execution_id: None,
        input: None,
        labels: made(&[("order", "7")]),
        delay: None,
        request_id: "r-2".parse().expect("a request id"),
    };
    let refused = bench.provider.start(&call(), start).await.unwrap_err();
    assert_eq!(refused.reason(), "CAPABILITY_NOT_SUPPORTED");
    assert!(
        refused.hint.contains("tags state machines"),
        "{}",
        refused.hint
    );
    assert!(bench.service.world().executions.is_empty());
    Ok(())
}

#[tokio::test]
async fn without_a_role_nothing_is_made_and_what_is_there_can_be_changed()
-> std::result::Result<(), Error> {
    let bench = Bench::new(|config| config.role.clear()).await;
    let refused = bench.apply(&machine("A"), &[]).await.unwrap_err();
    assert_eq!(refused.reason(), "ROLE_NOT_CONFIGURED");
    let there = json!({"States": {}});
    bench
        .service
        .world()
        .machines
        .insert("order".to_owned(), there);
    assert!(bench.apply(&machine("A"), &[]).await?.changed);
    Ok(())
}

#[tokio::test]
async fn the_service_says_what_is_wrong_and_where() -> std::result::Result<(), Error> {
    let bench = Bench::new(|_| {}).await;
    let checked = bench.provider.validate_definition(&call(), "{}").await?;
    assert_eq!(checked.len(), 1);
    assert!(checked[0].is_error && !checked[0].location.is_empty());
    let good = machine("A");
    let checked = bench.provider.validate_definition(&call(), &good).await?;
    assert_eq!(checked, []);
    for wrong in ["{}", "nonsense"] {
        let refused = bench.apply(wrong, &[]).await.unwrap_err();
        assert_eq!(refused.kind, ErrorKind::InvalidArgument, "{wrong}");
    }
    assert!(bench.service.world().machines.is_empty());
    Ok(())
}
