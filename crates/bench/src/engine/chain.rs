//! What is run: chains of task steps that do nothing.

use std::fmt::Write as _;

use stateway_proto::v1;
use stateway_proto::v1::definitions_client::DefinitionsClient;

use super::Lab;
use crate::Outcome;

/// Makes chains of one and of five steps known.
pub(super) async fn apply(lab: &Lab) -> Outcome<()> {
    let mut client = DefinitionsClient::connect(lab.gateway.url.clone()).await?;
    for steps in [1, 5] {
        let request = v1::ApplyDefinitionRequest {
            source: source(steps),
            source_name: "chain.yaml".to_owned(),
            ..Default::default()
        };
        client.apply_definition(request).await?;
    }
    Ok(())
}

/// A chain with this number of steps.
pub(crate) fn source(steps: u32) -> String {
    let mut source = format!("name: chain-{steps}\nsteps:\n");
    for step in 1..=steps {
        let after = match step {
            1 => String::new(),
            _ => format!(", dependsOn: [s{}]", step - 1),
        };
        // Writing to a text cannot fail.
        let _ = writeln!(
            source,
            "  - {{name: s{step}, agent: bench, timeout: 1m{after}}}"
        );
    }
    source
}
