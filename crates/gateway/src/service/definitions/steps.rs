//! The steps of a definition as clients see them.

use stateway_definition::{Definition, OnExpiry, OnReject, Step, StepKind, format_duration};
use stateway_proto::v1;
use stateway_proto::v1::definition_step::{Consequence, Kind};

/// Every step, in the order of the file.
pub(super) fn of(definition: &Definition) -> Vec<v1::DefinitionStep> {
    let steps = definition.steps.iter();
    steps.map(|step| shown(definition, step)).collect()
}

fn shown(definition: &Definition, step: &Step) -> v1::DefinitionStep {
    let (role, summary) = told(&step.kind);
    let mut shown = v1::DefinitionStep {
        name: step.name.clone(),
        kind: kind(&step.kind).into(),
        depends_on: step.depends_on.clone(),
        role,
        summary,
        condition: step
            .when
            .as_ref()
            .map(|when| when.source().to_owned())
            .unwrap_or_default(),
        compensated: definition.compensation_of(&step.name).is_some(),
        ..v1::DefinitionStep::default()
    };
    if let StepKind::Approval(approval) = &step.kind {
        shown.on_reject = match approval.on_reject {
            OnReject::Cancel => Consequence::Cancel,
            OnReject::Fail => Consequence::Fail,
        }
        .into();
        shown.on_expiry = match approval.on_expiry {
            OnExpiry::Cancel => Consequence::Cancel,
            OnExpiry::Fail => Consequence::Fail,
            OnExpiry::Escalate => Consequence::Escalate,
        }
        .into();
    }
    shown
}

const fn kind(kind: &StepKind) -> Kind {
    match kind {
        StepKind::Task { .. } => Kind::Task,
        StepKind::Http { .. } => Kind::Http,
        StepKind::Sleep { .. } => Kind::Sleep,
        StepKind::Signal { .. } => Kind::Signal,
        StepKind::Approval(_) => Kind::Approval,
        StepKind::Workflow { .. } => Kind::Workflow,
    }
}

/// Whose it is, and what it does.
fn told(kind: &StepKind) -> (String, String) {
    match kind {
        StepKind::Task { agent, action, .. } => (agent.clone(), action.clone()),
        StepKind::Http { method, url, .. } => {
            let url = serde_json::to_value(url).unwrap_or_default();
            let url = url.as_str().unwrap_or_default();
            (String::new(), format!("{method} {url}"))
        }
        StepKind::Sleep { lasts } => (String::new(), format_duration(*lasts)),
        StepKind::Signal { name } => (String::new(), name.clone()),
        StepKind::Approval(approval) => {
            let summary = approval.expires_after.map(|after| {
                let after = format_duration(after);
                format!("expires after {after}")
            });
            (approval.role.clone(), summary.unwrap_or_default())
        }
        StepKind::Workflow { definition } => (String::new(), definition.clone()),
    }
}
