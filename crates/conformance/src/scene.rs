//! Scenes, faults and workloads as messages.

use std::time::Duration;

use stateway_contract_kit::{Fault, Scene, Workload};
use stateway_model::Payload;
use stateway_provider_api::table::Scope;
use stateway_wire::v1::inject_fault_request::Fault as WireFault;
use stateway_wire::v1::native_scene::Scope as WireScope;
use stateway_wire::v1::scene::Scene as WireScene;
use stateway_wire::{Misfit, convert, v1};

pub(crate) fn scene(scene: &Scene) -> v1::Scene {
    let scene = match scene {
        Scene::Native { scope, native } => WireScene::Native(v1::NativeScene {
            scope: match scope {
                Scope::Execution => WireScope::Execution,
                Scope::Step => WireScope::Step,
            }
            .into(),
            native_state: Some(convert::native_state(native)),
        }),
        Scene::Steps(states) => {
            let states = states.iter().map(|state| convert::sub_state(*state).into());
            WireScene::Steps(v1::StepsScene {
                sub_states: states.collect(),
            })
        }
        Scene::NoMetadata => WireScene::NoMetadata(v1::NoMetadataScene {}),
        Scene::BackingOff { attempt } => WireScene::BackingOff(v1::BackingOffScene {
            attempt: i32::try_from(*attempt).unwrap_or(i32::MAX),
        }),
        Scene::AwaitingSignal { signal } => WireScene::AwaitingSignal(v1::AwaitingSignalScene {
            signal: signal.clone(),
        }),
        Scene::AwaitingApproval => WireScene::AwaitingApproval(v1::AwaitingApprovalScene {}),
        Scene::Stuck => WireScene::Stuck(v1::StuckScene {}),
        Scene::CleansUp => WireScene::CleansUp(v1::CleansUpScene {}),
        Scene::Succeeded => WireScene::Succeeded(v1::SucceededScene {}),
        Scene::Failed => WireScene::Failed(v1::FailedScene {}),
    };
    v1::Scene { scene: Some(scene) }
}

pub(crate) fn read_scene(scene: Option<v1::Scene>) -> Result<Scene, Misfit> {
    let unknown = || Misfit::new("scene", "is not known");
    let scene = scene.and_then(|scene| scene.scene).ok_or_else(unknown)?;
    Ok(match scene {
        WireScene::Native(native) => Scene::Native {
            scope: match WireScope::try_from(native.scope) {
                Ok(WireScope::Execution) => Scope::Execution,
                Ok(WireScope::Step) => Scope::Step,
                Ok(WireScope::Unspecified) | Err(_) => return Err(unknown()),
            },
            native: convert::read_native_state(native.native_state)?,
        },
        WireScene::Steps(steps) => {
            let states = steps.sub_states.into_iter().map(convert::read_sub_state);
            Scene::Steps(states.collect::<Result<_, _>>()?)
        }
        WireScene::NoMetadata(_) => Scene::NoMetadata,
        WireScene::BackingOff(backing_off) => Scene::BackingOff {
            attempt: u32::try_from(backing_off.attempt).map_err(|_| unknown())?,
        },
        WireScene::AwaitingSignal(waits) => Scene::AwaitingSignal {
            signal: waits.signal,
        },
        WireScene::AwaitingApproval(_) => Scene::AwaitingApproval,
        WireScene::Stuck(_) => Scene::Stuck,
        WireScene::CleansUp(_) => Scene::CleansUp,
        WireScene::Succeeded(_) => Scene::Succeeded,
        WireScene::Failed(_) => Scene::Failed,
    })
}

pub(crate) fn fault(fault: Fault) -> v1::InjectFaultRequest {
    let (fault, delay) = match fault {
        Fault::Hang => (WireFault::Hang, None),
        Fault::Slow(delay) => (WireFault::Slow, Some(delay)),
        Fault::Throttle(delay) => (WireFault::Throttle, Some(delay)),
        Fault::Unavailable => (WireFault::Unavailable, None),
        Fault::Malformed => (WireFault::Malformed, None),
        Fault::Denied => (WireFault::Denied, None),
    };
    v1::InjectFaultRequest {
        fault: fault.into(),
        delay: delay.map(convert::duration),
    }
}

pub(crate) fn read_fault(request: v1::InjectFaultRequest) -> Result<Fault, Misfit> {
    let delay = match request.delay {
        Some(delay) => convert::read_duration("delay", delay)?,
        None => Duration::ZERO,
    };
    Ok(match WireFault::try_from(request.fault) {
        Ok(WireFault::Hang) => Fault::Hang,
        Ok(WireFault::Slow) => Fault::Slow(delay),
        Ok(WireFault::Throttle) => Fault::Throttle(delay),
        Ok(WireFault::Unavailable) => Fault::Unavailable,
        Ok(WireFault::Malformed) => Fault::Malformed,
        Ok(WireFault::Denied) => Fault::Denied,
        Ok(WireFault::Unspecified) | Err(_) => return Err(Misfit::new("fault", "is not known")),
    })
}

pub(crate) fn workload(workload: &Workload) -> v1::Workload {
    v1::Workload {
        definition: workload.definition.clone(),
        input: Some(convert::payload(&workload.input)),
        other_input: Some(convert::payload(&workload.other_input)),
        step_input: workload.step_input.as_ref().map(convert::payload),
        takes_feedback: workload.takes_feedback,
        takes_from_start: workload.takes_from_start,
    }
}

pub(crate) fn read_workload(workload: Option<v1::Workload>) -> Workload {
    let workload = workload.unwrap_or_default();
    let input = |input: Option<v1::Payload>| match input {
        Some(input) => convert::read_payload(input),
        None => Payload::json("null"),
    };
    Workload {
        definition: workload.definition,
        input: input(workload.input),
        other_input: input(workload.other_input),
        step_input: workload.step_input.map(convert::read_payload),
        takes_feedback: workload.takes_feedback,
        takes_from_start: workload.takes_from_start,
    }
}
