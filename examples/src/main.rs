//! `cargo run --release -p stateway-examples -- order-saga`: runs an example, shows what happens,
//! and compares what it came to with what it is known to come to. `--bless` writes that down anew.

use std::process::ExitCode;

use stateway_examples::catalogue::EXAMPLES;
use stateway_examples::stage::{Verdict, run};

#[tokio::main]
async fn main() -> ExitCode {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let bless = arguments.iter().any(|argument| argument == "--bless");
    arguments.retain(|argument| argument != "--bless");
    let wanted = arguments.first().map_or("", String::as_str);
    let chosen: Vec<_> = EXAMPLES
        .iter()
        .filter(|example| wanted == "all" || wanted == example.name)
        .collect();
    if chosen.is_empty() {
        eprintln!("Which one? Say `all`, or one of:");
        for example in EXAMPLES {
            eprintln!("  {:<18} {}", example.name, example.about);
        }
        return ExitCode::from(2);
    }
    let mut exit = ExitCode::SUCCESS;
    for example in chosen {
        println!("{}: {}", example.name, example.about);
        match run(example, &|line| println!("{line}")).await {
            Ok(trajectory) => match example.judge(&trajectory, bless) {
                Verdict::Same => println!("   as expected\n"),
                Verdict::Blessed => println!("   written down\n"),
                Verdict::Other => {
                    println!(
                        "   not as expected ({}):\n{trajectory}",
                        example.golden_path
                    );
                    exit = ExitCode::FAILURE;
                }
            },
            Err(error) => {
                eprintln!("   {error}");
                exit = ExitCode::FAILURE;
            }
        }
    }
    exit
}
