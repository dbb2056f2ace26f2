//! Ids the engine gives: sortable by time, unique by chance.

use std::sync::Arc;

use jiff::Timestamp;

/// Crockford's letters: no two of them look alike.
const LETTERS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
/// Ten letters of time, ten of chance.
const LENGTH: usize = 20;

pub(crate) fn new_id(now: Timestamp) -> Arc<str> {
    let mut chance = [0_u8; 8];
    // Without the system's randomness ids stay unique by the store's own check.
    let _ = getrandom::fill(&mut chance);
    let time = u64::try_from(now.as_millisecond()).unwrap_or(0);
    let mut text = [0_u8; LENGTH];
    write(&mut text[..10], time);
    write(&mut text[10..], u64::from_le_bytes(chance));
    text.iter()
        .map(|byte| char::from(*byte))
        .collect::<String>()
        .into()
}

fn write(place: &mut [u8], mut value: u64) {
    for letter in place.iter_mut().rev() {
        *letter = LETTERS[(value % 32) as usize];
        value /= 32;
    }
}
