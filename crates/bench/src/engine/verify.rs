//! How long it takes to hold every execution to its log.

use stateway_client::{Call, Client, v1};

use super::{IN_FLIGHT, Lab, chain, load};
use crate::Outcome;

/// Executions that are verified unless another number is given.
const EXECUTIONS: u64 = 100_000;
/// Steps of each.
const STEPS: u32 = 5;
/// How long executions are made before they are counted.
const SECONDS: u64 = 5;
/// The required rate, in executions per second.
const LEAST: f64 = 2_000.0;

pub(crate) async fn run(executions: Option<u64>) -> Outcome<()> {
    let wanted = executions.unwrap_or(EXECUTIONS);
    let lab = Lab::new().await?;
    chain::apply(&lab).await?;
    let mut made = 0;
    while made < wanted {
        let run = load::lanes(&lab, &format!("chain-{STEPS}"), IN_FLIGHT, SECONDS).await?;
        made += run.count();
        println!("{made} executions of {STEPS} steps made");
    }
    let client = Client::connect(&lab.gateway.url).await?;
    let request = v1::VerifyExecutionsRequest {
        parent: "providers/builtin".to_owned(),
    };
    let mut scan = client.verify_all(Call::from_message(request)).await?;
    let mut last = v1::VerifyExecutionsResponse::default();
    while let Some(told) = scan.next().await? {
        if let Some(wrong) = told.verdicts.first() {
            return Err(format!("{} is not as its log says: {wrong:?}", wrong.name).into());
        }
        last = told;
    }
    let elapsed = last.elapsed_duration.unwrap_or_default();
    let seconds = elapsed.seconds as f64 + f64::from(elapsed.nanos) / 1e9;
    let rate = last.checked_count as f64 / seconds;
    println!(
        "{} executions with {} events verified in {seconds:.1} s ({rate:.0}/s): no problem found",
        last.checked_count, last.event_count
    );
    println!("{:.0} MiB resident", lab.gateway.resident_mib()?);
    if !last.done || u64::try_from(last.checked_count).is_ok_and(|checked| checked < made) {
        return Err(format!("only {} of {made} were verified", last.checked_count).into());
    }
    if rate < LEAST {
        return Err(format!("{rate:.0} executions/s, {LEAST:.0} wanted").into());
    }
    Ok(())
}
