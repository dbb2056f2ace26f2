//! State machines as definitions, on the real thing.

use serde_json::{Value, json};
use stateway_model::{Labels, SubState};
use stateway_provider_api::{
    ApplyDefinitionRequest, ErrorKind, Provider, StartDefinition, StartRequest,
};
use stateway_provider_step_functions::Config;

use super::rig::{Rig, emulated, ensure, told};
use super::watching::Gateway;
use crate::Outcome;

const ROLE: &str = "arn:aws:iam::000000000000:role/sfn";

fn machine(result: u32) -> Value {
    let state = json!({"Type": "Pass", "Result": result, "End": true});
    json!({"StartAt": "P", "States": {"P": state}})
}

pub(crate) async fn a_state_machine_is_made_changed_read_and_started(rig: &Rig) -> Outcome {
    let config = Config {
        region: "us-east-1".to_owned(),
        endpoint: rig.endpoint.clone(),
        role: ROLE.to_owned(),
        ..Config::default()
    };
    let provider = emulated(&config)?;
    let apply = async |source: &str, labels: &[(&str, &str)]| {
        let label = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        let request = ApplyDefinitionRequest {
            name: rig.unique.clone(),
            source: source.to_owned(),
            labels: labels.iter().map(label).collect(),
            request_id: "apply-1".parse().expect("a request id"),
        };
        provider.apply_definition(&Rig::call(), request).await
    };
    let first = machine(1).to_string();
    let made = apply(&first, &[("team", "payments")]).await.map_err(told)?;
    let right = (made.revision.as_str(), made.changed) == ("1", true);
    ensure(right, "the first version", &made)?;
    let again = apply(&first, &[]).await.map_err(told)?;
    let right = (again.revision.as_str(), again.changed) == ("1", false);
    ensure(right, "nothing new", &again)?;
    let second = apply(&machine(2).to_string(), &[]).await.map_err(told)?;
    let right = (second.revision.as_str(), second.changed) == ("2", true);
    ensure(right, "the second version", &second)?;
    let read = provider.definition(&Rig::call(), &rig.unique, None).await;
    let read = read.map_err(told)?;
    ensure(read.revisions == ["2", "1"], "both versions", &read)?;
    let team = Labels::from([("team".to_owned(), "payments".to_owned())]);
    ensure(read.labels == team, "its tags", &read)?;
    let old = provider
        .definition(&Rig::call(), &rig.unique, Some("1"))
        .await;
    let old: Value = serde_json::from_str(&old.map_err(told)?.source)?;
    ensure(old == machine(1), "the first one's text", &old)?;
    let start = StartRequest {
        definition: StartDefinition::native(rig.unique.clone()),
        ..rig.start_request("{}")
    };
    let started = provider.start(&Rig::call(), start).await.map_err(told)?;
    let seen = rig.until_shown(&started.id, SubState::Succeeded).await?;
    let output = seen.output.as_ref().map(|output| output.data.to_vec());
    ensure(output.as_deref() == Some(b"2"), "the newest one ran", &seen)?;
    let refused = apply("{\"StartAt\": \"X\"}", &[]).await.err();
    let kind = refused.as_ref().map(|error| error.kind);
    ensure(
        kind == Some(ErrorKind::InvalidArgument),
        "refused",
        &refused,
    )?;
    let checked = provider.validate_definition(&Rig::call(), "{}").await;
    let checked = checked.map_err(told)?;
    let wrong = checked.iter().any(|problem| problem.is_error);
    ensure(wrong, "what is wrong is said", &checked)
}

pub(crate) async fn the_command_line_applies_lists_and_checks(rig: &Rig) -> Outcome {
    let gateway = Gateway::begin(rig)?;
    let (good, bad) = (
        gateway.home.join("good.json"),
        gateway.home.join("bad.json"),
    );
    std::fs::write(&good, machine(1).to_string())?;
    std::fs::write(&bad, "{}")?;
    let (good, bad) = (good.to_string_lossy(), bad.to_string_lossy());
    let own = ["--provider", "payments"];
    let apply = [
        "definitions",
        "apply",
        &good,
        own[0],
        own[1],
        "--name",
        &rig.unique,
        "--label",
        "team=payments",
    ];
    for said in ["applied", "unchanged"] {
        let told = gateway.ask(&apply)?;
        ensure(told.contains(said), said, &told)?;
    }
    let told = gateway.ask(&["definitions", "list", own[0], own[1], "--all"])?;
    ensure(told.contains(&rig.unique), "it is listed", &told)?;
    let told = gateway.ask(&["definitions", "get", &rig.unique, own[0], own[1]])?;
    for part in ["StartAt", "team=payments", "revisions"] {
        ensure(told.contains(part), part, &told)?;
    }
    let told = gateway.ask(&["definitions", "validate", &good, own[0], own[1]])?;
    ensure(told.contains("is valid"), "it is valid", &told)?;
    let told = gateway.ask(&["definitions", "validate", &bad, own[0], own[1]])?;
    ensure(told.contains("error["), "what is wrong", &told)
}
