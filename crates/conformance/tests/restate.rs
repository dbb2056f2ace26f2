//! The Restate provider, in front of a stand-in for the server, against the contract through the wire.

#[allow(dead_code)] // Its own main.
#[path = "../../provider-restate/tests/contract.rs"]
mod contract;

fn main() -> std::process::ExitCode {
    let harness = stateway_conformance::OverWire::new(contract::Restate);
    stateway_contract_kit::main("restate over the wire", harness)
}
