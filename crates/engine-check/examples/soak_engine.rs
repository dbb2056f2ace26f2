//! `cargo run --release -p stateway-engine-check --example soak_engine -- --schedules 100000 [--seed 1]
//! [--jobs 2] [--trace]`
//!
//! Runs with neighbouring ranges of seeds add up: `--seed 1 --schedules 500000`, then `--seed 500001`.

use std::process::ExitCode;
use std::time::Instant;

use stateway_engine_check::soak::Soak;
use stateway_engine_check::{Schedule, Template};

/// Schedules allocate much.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let schedules = argument("--schedules").unwrap_or(100_000);
    let seed = argument("--seed").unwrap_or(1);
    let jobs = argument("--jobs").unwrap_or(1);
    if std::env::args().any(|argument| argument == "--trace") {
        return trace(seed);
    }
    let soak = Soak {
        seed,
        schedules,
        jobs: usize::try_from(jobs).unwrap_or(1),
        bug: None,
    };
    let step = (schedules / 100).max(1);
    let began = Instant::now();
    let progress = |done: u64| {
        if done.is_multiple_of(step) {
            let seconds = began.elapsed().as_secs_f64();
            let rate = done as f64 / seconds;
            eprintln!("{done} of {schedules} schedules in {seconds:.0} s, {rate:.0} per second");
        }
    };
    match soak.run(&progress) {
        Ok(totals) => {
            print!("{totals}");
            let seconds = began.elapsed().as_secs_f64();
            println!(
                "{schedules} schedules, seeds {seed} to {}, in {seconds:.1} seconds on {jobs} threads \
                 ({:.0} per second): nothing that was acknowledged was lost or done twice",
                seed.wrapping_add(schedules.saturating_sub(1)),
                schedules as f64 / seconds
            );
            ExitCode::SUCCESS
        }
        Err(broken) => {
            eprintln!("broken:\n{broken}");
            eprintln!(
                "again: cargo xtask soak engine --schedules 1 --seed {}",
                broken.seed
            );
            ExitCode::FAILURE
        }
    }
}

/// One schedule with everything that happens in it.
fn trace(seed: u64) -> ExitCode {
    let schedule = Schedule {
        seed,
        trace: true,
        ..Schedule::default()
    };
    let run = Template::new().map(|template| schedule.run(&template));
    match run {
        Ok(Ok(story)) => {
            story.lines.iter().for_each(|line| println!("{line}"));
            println!("digest {:016x}", story.digest);
            ExitCode::SUCCESS
        }
        Ok(Err(broken)) => {
            println!("{broken}");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn argument(name: &str) -> Option<u64> {
    let mut arguments = std::env::args().skip_while(|argument| argument != name);
    arguments.nth(1).and_then(|value| value.parse().ok())
}
