//! The Temporal provider, in front of a server in memory, against the contract through the wire.

#![allow(clippy::needless_pass_by_value, clippy::unwrap_used)]
#![allow(clippy::duplicate_mod)] // `support` is in the contract and, for paths from the root, here.

#[allow(dead_code)] // Its own main.
#[path = "contract.rs"]
mod contract;
#[allow(dead_code)] // The modules of the contract name it by its path from the root.
mod support;

fn main() -> std::process::ExitCode {
    let harness = stateway_conformance::OverWire::new(contract::Temporal);
    stateway_contract_kit::main("temporal over the wire", harness)
}
