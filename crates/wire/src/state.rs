//! States: the engine's word, and the six of ours where a message has them.

use stateway_model::SubState;
use stateway_provider_api::NativeState;

use crate::misfit::required;
use crate::{Misfit, v1};

/// The longest native state, in bytes.
const MAX_STATE_BYTES: usize = 256;

/// The engine's word for the wire.
#[must_use]
pub fn native_state(native: &NativeState) -> v1::NativeState {
    v1::NativeState {
        state: native.state.clone(),
        qualifiers: native.qualifiers.clone().into_iter().collect(),
    }
}

/// The engine's word of the wire.
///
/// # Errors
/// It is missing, empty or too long.
pub fn read_native_state(native: Option<v1::NativeState>) -> Result<NativeState, Misfit> {
    let native = required("native_state", native)?;
    let rule = match native.state.len() {
        0 => "is empty",
        1..=MAX_STATE_BYTES => {
            return Ok(NativeState {
                state: native.state,
                qualifiers: native.qualifiers.into_iter().collect(),
            });
        }
        _ => "is longer than 256 bytes",
    };
    Err(Misfit::new("native_state.state", rule))
}

/// One of the six states for the wire.
#[must_use]
pub const fn sub_state(state: SubState) -> v1::SubState {
    match state {
        SubState::Running => v1::SubState::Running,
        SubState::Waiting => v1::SubState::Waiting,
        SubState::BackingOff => v1::SubState::BackingOff,
        SubState::Error => v1::SubState::Error,
        SubState::Succeeded => v1::SubState::Succeeded,
        SubState::Failed => v1::SubState::Failed,
    }
}

/// One of the six states of the wire.
///
/// # Errors
/// It is none of them.
pub fn read_sub_state(state: i32) -> Result<SubState, Misfit> {
    match v1::SubState::try_from(state) {
        Ok(v1::SubState::Running) => Ok(SubState::Running),
        Ok(v1::SubState::Waiting) => Ok(SubState::Waiting),
        Ok(v1::SubState::BackingOff) => Ok(SubState::BackingOff),
        Ok(v1::SubState::Error) => Ok(SubState::Error),
        Ok(v1::SubState::Succeeded) => Ok(SubState::Succeeded),
        Ok(v1::SubState::Failed) => Ok(SubState::Failed),
        Ok(v1::SubState::Unspecified) | Err(_) => {
            Err(Misfit::new("sub_state", "is not one of the six states"))
        }
    }
}
