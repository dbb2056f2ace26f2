//! `cargo run --release -p stateway-machine-check --example soak -- --cases 100000 [--seed 1]`

use std::io::Write as _;
use std::process::ExitCode;

use stateway_machine_check::soak::{Soak, soak};

fn main() -> ExitCode {
    let cases = argument("--cases").unwrap_or(100_000);
    let seed = argument("--seed").unwrap_or(1);
    let step = (cases / 20).max(1);
    let progress = |done: u64| {
        if done.is_multiple_of(step) {
            eprint!("\r{done} of {cases} worlds");
            let _ = std::io::stderr().flush();
        }
    };
    match soak(seed, cases, &progress) {
        Ok(soak) => report(&soak),
        Err(broken) => {
            eprintln!("\nbroken: {broken}");
            ExitCode::FAILURE
        }
    }
}

fn report(soak: &Soak) -> ExitCode {
    eprintln!();
    println!("worlds    {}", soak.cases);
    println!("commands  {} ({} refused)", soak.commands, soak.refused);
    println!("events    {}", soak.events);
    println!("took      {:.1} s", soak.took.as_secs_f64());
    for (ending, count) in &soak.coverage.endings {
        println!("ended     {ending} {count}");
    }
    for ((name, from, to), count) in &soak.coverage.outside {
        println!("outside   {name}: {from} → {to} {count}");
    }
    let missing = soak.missing();
    println!("unreached {}", missing.len());
    missing.iter().for_each(|entry| println!("  {entry}"));
    if missing.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn argument(name: &str) -> Option<u64> {
    let mut arguments = std::env::args().skip_while(|argument| argument != name);
    arguments.nth(1).and_then(|value| value.parse().ok())
}
