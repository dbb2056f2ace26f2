//! The Step Functions provider, in front of a service in memory, against the contract through the wire.

#[allow(dead_code)] // Its own main.
#[path = "../../provider-step-functions/tests/contract.rs"]
mod contract;

fn main() -> std::process::ExitCode {
    let harness = stateway_conformance::OverWire::new(contract::Mocked);
    stateway_contract_kit::main("step-functions over the wire", harness)
}
