//! The reference provider against the contract.

mod harness;

fn main() -> std::process::ExitCode {
    stateway_contract_kit::main("memory", harness::Memory)
}
