//! How late timers fire when very many are due within a few seconds.

use std::time::{Duration, Instant};

use futures::future::try_join_all;
use stateway_proto::v1;
use stateway_proto::v1::definitions_client::DefinitionsClient;
use stateway_proto::v1::executions_client::ExecutionsClient;

use super::Lab;
use crate::Outcome;
use crate::grpc::Grpc;

const TIMERS: usize = 40_000;
/// The time in which all of them are due.
const WITHIN: Duration = Duration::from_secs(3);
/// The time for the starts, at least: executions whose timer is near stay in memory, and these are to leave it.
const STARTS: Duration = Duration::from_secs(30);
/// The lengths of the sleeps differ by this much.
const STEP: Duration = Duration::from_millis(250);
const LANES: usize = 64;
/// How late a timer may fire.
const LATEST: Duration = Duration::from_secs(1);

pub(crate) async fn run() -> Outcome<()> {
    let lab = Lab::new().await?;
    apply(&lab).await?;
    let began = Instant::now();
    let first_due = began + STARTS + WITHIN;
    let connection = Grpc::connect(&lab.gateway.url).await?;
    let lanes = (0..LANES).map(|lane| {
        let connection = connection.clone();
        tokio::spawn(async move { start(&connection, lane, first_due).await })
    });
    for lane in try_join_all(lanes).await? {
        lane?;
    }
    let started = began.elapsed();
    println!(
        "{TIMERS} sleeps started in {started:.1?}, {:.0} MiB resident",
        lab.gateway.resident_mib()?
    );
    if Instant::now() + Duration::from_secs(12) > first_due {
        return Err(
            "this machine is too slow: the executions do not leave memory before they are due"
                .into(),
        );
    }
    tokio::time::sleep_until((first_due + WITHIN + 5 * LATEST).into()).await;
    let (mut late, span) = lateness(&lab).await?;
    late.sort_unstable();
    let at = |percent: usize| late[(late.len() - 1) * percent / 100];
    println!(
        "{} timers due within {span:.1?} fired {:.0?} late (median), 99 % within {:.0?}, all within {:.0?}; \
         {:.0} MiB resident",
        late.len(),
        at(50),
        at(99),
        at(100),
        lab.gateway.resident_mib()?
    );
    if at(100) > LATEST {
        return Err(format!("a timer fired {:.1?} late, {LATEST:.0?} allowed", at(100)).into());
    }
    Ok(())
}

fn name(sleep: Duration) -> String {
    format!("sleep-{}", sleep.as_millis())
}

/// Definitions with sleeps of every length that is needed.
async fn apply(lab: &Lab) -> Outcome<()> {
    let mut client = DefinitionsClient::connect(lab.gateway.url.clone()).await?;
    let mut sleep = Duration::ZERO;
    while sleep <= STARTS + 2 * WITHIN {
        sleep += STEP;
        let source = format!(
            "name: {}\nsteps:\n  - {{name: s, sleep: {}ms}}\n",
            name(sleep),
            sleep.as_millis()
        );
        let request = v1::ApplyDefinitionRequest {
            source,
            source_name: "sleep.yaml".to_owned(),
            ..Default::default()
        };
        client.apply_definition(request).await?;
    }
    Ok(())
}

/// Starts a part of the executions. Each is due at a time of its own.
async fn start(connection: &Grpc, lane: usize, first_due: Instant) -> Outcome<()> {
    let method = connection.method("Executions/StartExecution")?;
    for timer in (lane..TIMERS).step_by(LANES) {
        // Over the whole time, in no order.
        let place = (timer * 7_919 % TIMERS) as f64 / TIMERS as f64;
        let due = first_due + WITHIN.mul_f64(place);
        let left = due.saturating_duration_since(Instant::now());
        let steps = (left.as_secs_f64() / STEP.as_secs_f64()).round().max(1.0);
        let request = v1::StartExecutionRequest {
            parent: "providers/builtin".to_owned(),
            definition: format!("definitions/{}", name(STEP.mul_f64(steps))),
            request_id: format!("timer-{timer}"),
            ..Default::default()
        };
        let _: v1::Execution = connection.call(&method, &request).await?;
    }
    Ok(())
}

/// How late each execution ended, and the time in which all of them were due.
async fn lateness(lab: &Lab) -> Outcome<(Vec<Duration>, Duration)> {
    let mut client = ExecutionsClient::connect(lab.gateway.url.clone()).await?;
    let (mut late, mut dues) = (Vec::with_capacity(TIMERS), Vec::with_capacity(TIMERS));
    let mut page_token = String::new();
    loop {
        let request = v1::ListExecutionsRequest {
            parent: "providers/builtin".to_owned(),
            page_size: 1_000,
            page_token,
            ..Default::default()
        };
        let page = client.list_executions(request).await?.into_inner();
        for execution in page.executions {
            let sleep = execution.definition.rsplit('-').next().unwrap_or_default();
            let sleep = Duration::from_millis(sleep.parse()?);
            let (Some(begun), Some(ended)) = (execution.create_time, execution.end_time) else {
                return Err(format!("{} has not ended", execution.name).into());
            };
            let due = since_epoch(&begun)? + sleep;
            late.push(since_epoch(&ended)?.saturating_sub(due));
            dues.push(due);
        }
        page_token = page.next_page_token;
        if page_token.is_empty() {
            break;
        }
    }
    if late.len() != TIMERS {
        return Err(format!("{} of {TIMERS} executions are listed", late.len()).into());
    }
    dues.sort_unstable();
    let span = dues[dues.len() - 1] - dues[0];
    Ok((late, span))
}

fn since_epoch(time: &prost_types::Timestamp) -> Outcome<Duration> {
    Ok(Duration::new(
        time.seconds.try_into()?,
        time.nanos.try_into()?,
    ))
}
