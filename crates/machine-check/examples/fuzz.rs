//! `cargo run --release -p stateway-machine-check --example fuzz -- --seconds 60 [--seed 1]`

use std::time::Duration;

use stateway_machine_check::fuzz::{definitions, events, hostile};

fn main() {
    let seconds = argument("--seconds").unwrap_or(60);
    let seed = argument("--seed").unwrap_or(1);
    let half = Duration::from_secs(seconds).div_f64(2.0);
    for source in hostile() {
        let refused = stateway_definition::parse(&source, "hostile.yaml").is_err();
        println!(
            "hostile     {:>8} bytes, {}",
            source.len(),
            if refused { "refused" } else { "read" }
        );
    }
    let tally = definitions(seed, u64::MAX, half);
    println!(
        "definitions {:>8} inputs, {} read",
        tally.inputs, tally.accepted
    );
    let tally = events(seed, u64::MAX, half);
    println!(
        "events      {:>8} inputs, {} read",
        tally.inputs, tally.accepted
    );
}

fn argument(name: &str) -> Option<u64> {
    let mut arguments = std::env::args().skip_while(|argument| argument != name);
    arguments.nth(1).and_then(|value| value.parse().ok())
}
