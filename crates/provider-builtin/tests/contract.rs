//! The built-in engine against the contract.

mod harness;

fn main() -> std::process::ExitCode {
    stateway_contract_kit::main("builtin", harness::Builtin)
}
