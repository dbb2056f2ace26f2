//! The definitions of the examples.

macro_rules! examples {
    ($($file:literal),+ $(,)?) => {
        [$(include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/", $file))),+]
    };
}

/// Each after those that it starts.
pub(super) const DEFINITIONS: [&str; 6] = examples![
    "order-saga/order-saga.yaml",
    "release-approval/release.yaml",
    "fan-out/fan-out.yaml",
    "agent-correction/brief.yaml",
    "nightly/import.yaml",
    "nightly/nightly.yaml",
];
