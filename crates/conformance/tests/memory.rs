//! The reference provider against the contract, through the wire.

#[path = "../../provider-memory/tests/harness/mod.rs"]
mod harness;

fn main() -> std::process::ExitCode {
    let harness = stateway_conformance::OverWire::new(harness::Memory);
    stateway_contract_kit::main("memory over the wire", harness)
}
