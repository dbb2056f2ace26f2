//! `cargo run --release -p stateway-examples -- order-saga`: runs an example, prints its changes, and
//! compares its trajectory with the expected one. `--bless` saves the trajectory as the expected one.

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
        eprintln!("Give the name of an example, or `all`:");
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
                Verdict::Blessed => println!("   saved as expected\n"),
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
