//! `cargo run --release -p stateway-machine-check --example exhaustive`

use std::process::ExitCode;
use std::time::Instant;

use stateway_machine_check::exhaustive::visit;

fn main() -> ExitCode {
    let began = Instant::now();
    match visit() {
        Ok(visit) => {
            println!("states     {}", visit.unique);
            println!("generated  {}", visit.generated);
            println!("depth      {}", visit.depth);
            println!("took       {:.1} s", began.elapsed().as_secs_f64());
            println!("broken     {}", visit.broken.len());
            visit
                .broken
                .iter()
                .for_each(|broken| println!("  {broken}"));
            if visit.broken.is_empty() {
                ExitCode::SUCCESS
            } else {
                ExitCode::FAILURE
            }
        }
        Err(broken) => {
            eprintln!("{broken}");
            ExitCode::FAILURE
        }
    }
}
