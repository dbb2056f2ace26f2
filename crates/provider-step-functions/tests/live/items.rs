//! Distributed Maps.

use serde_json::json;
use stateway_model::SubState;

use super::rig::{Rig, ensure};
use crate::Outcome;

pub(crate) async fn a_distributed_map_counts_its_items(rig: &Rig) -> Outcome {
    let work = rig.activity("work").await?;
    let task = json!({"Type": "Task", "Resource": work, "End": true});
    let mode = json!({"Mode": "DISTRIBUTED", "ExecutionType": "STANDARD"});
    let processor = json!({"ProcessorConfig": mode, "StartAt": "T", "States": {"T": task}});
    let states = json!({
        "Items": {"Type": "Pass", "Result": [0, 1, 2], "Next": "M"},
        "M": {"Type": "Map", "ItemProcessor": processor, "MaxConcurrency": 3, "End": true}
    });
    let id = rig.run(&states, "Items").await?;
    let counted = |done: &'static str| {
        move |seen: &stateway_model::Execution| {
            let progress = seen.steps.iter().find_map(|step| step.progress.as_ref());
            progress.is_some_and(|progress| progress.detail.contains(done))
        }
    };
    let seen = rig
        .until(&id, "counting", counted("0 of 3 items succeeded"))
        .await?;
    let step = seen.steps.iter().find(|step| step.name == "M");
    let word = step.map(|step| step.native_state.as_str());
    ensure(word == Some("MapRunStarted"), "at its run", &seen)?;
    ensure(seen.sub_state == SubState::Running, "it runs", &seen)?;
    let task = rig.take(&work).await?;
    rig.succeed(task).await?;
    rig.until(&id, "one is done", counted("1 of 3 items succeeded"))
        .await?;
    for _ in 0..2 {
        let task = rig.take(&work).await?;
        rig.succeed(task).await?;
    }
    rig.until_shown(&id, SubState::Succeeded).await?;
    Ok(())
}
