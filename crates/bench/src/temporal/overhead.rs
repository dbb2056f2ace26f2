//! What a read of one workflow costs beside the bare description of it: in the provider, and through the gateway.

use std::time::{Duration, Instant};

use stateway_model::ExecutionId;
use stateway_proto::v1::executions_client::ExecutionsClient;
use stateway_provider_api::table::compiled_in;
use stateway_provider_api::{Call, Provider, View};
use stateway_provider_temporal::{Config, TemporalProvider};
use tonic::transport::Channel;

use super::lab::Lab;
use super::wire::Frontend;
use super::{get, median, milliseconds, name_of};
use crate::Outcome;

const ROUNDS: usize = 21;
const CALLS: usize = 60;
/// The provider may take this much longer than the description that it reads.
const MOST_OVERHEAD: f64 = 0.15;
const DEADLINE: Duration = Duration::from_secs(10);

/// The three that are compared follow each other in every order. The last call only shows what a call of the
/// gateway costs that asks nothing of a server.
const ORDERS: [[usize; 4]; 6] = [
    [0, 1, 2, 3],
    [0, 2, 1, 3],
    [1, 0, 2, 3],
    [1, 2, 0, 3],
    [2, 0, 1, 3],
    [2, 1, 0, 3],
];

/// In turns, one call in flight, because that is where an overhead shows. Each round gives ratios of
/// medians, and the median of those decides: other work on the machine meets all alike. True if the provider
/// takes no longer than promised.
pub(super) async fn measure(
    lab: &Lab,
    client: &ExecutionsClient<Channel>,
    id: &str,
) -> Outcome<bool> {
    let (name, execution) = (name_of(id), ExecutionId::new(id)?);
    let frontend = Frontend::connect(&lab.address).await?;
    let table = compiled_in("temporal").ok_or("the table is not compiled in")?;
    let config = Config::at(lab.address.clone());
    let provider = TemporalProvider::new("lab".parse()?, &config, table)?;
    println!(
        "the provider's get and GetExecution beside the bare DescribeWorkflowExecution, one call in flight, {CALLS} of each a round"
    );
    println!(
        "round  Describe p50 ms  provider p50 ms  GetExecution p50 ms  no upstream p50 ms  provider  GetExecution"
    );
    let mut rounds = Vec::new();
    for round in 0..=ROUNDS {
        let mut took = [const { Vec::new() }; 4];
        for call in 0..CALLS {
            for way in ORDERS[call % ORDERS.len()] {
                let began = Instant::now();
                match way {
                    0 => frontend.describe(id).await?,
                    1 => {
                        let call = Call::within(DEADLINE);
                        drop(provider.get(&call, &execution, View::Basic).await?);
                    }
                    2 => drop(get(client, &name).await?),
                    _ => drop(get(client, "providers/nobody/executions/x").await),
                }
                took[way].push(began.elapsed());
            }
        }
        // The first round warms everything up.
        if round > 0 {
            let round = Round::of(took);
            round.print(rounds.len() + 1);
            rounds.push(round);
        }
    }
    let provider = spread(&rounds, Round::provider_overhead);
    println!(
        "provider: overhead {} (limit: {:.0}%)",
        provider.shown(),
        MOST_OVERHEAD * 100.0
    );
    println!(
        "GetExecution: overhead {}; {:.0}% of it is the call of the gateway itself, which asks nothing of the server\n",
        spread(&rounds, Round::gateway_overhead).shown(),
        spread(&rounds, Round::share_of_call).middle * 100.0
    );
    Ok(provider.middle <= MOST_OVERHEAD)
}

/// Medians of a round, in milliseconds.
struct Round {
    bare: f64,
    provider: f64,
    gateway: f64,
    empty: f64,
}

impl Round {
    fn of(took: [Vec<Duration>; 4]) -> Self {
        let [bare, provider, gateway, empty] = took.map(|took| milliseconds(median(took)));
        Self {
            bare,
            provider,
            gateway,
            empty,
        }
    }

    fn provider_overhead(&self) -> f64 {
        self.provider / self.bare - 1.0
    }

    fn gateway_overhead(&self) -> f64 {
        self.gateway / self.bare - 1.0
    }

    /// The call without a server behind it, as a part of what GetExecution adds.
    fn share_of_call(&self) -> f64 {
        self.empty / (self.gateway - self.bare)
    }

    fn print(&self, number: usize) {
        println!(
            "{number:5}  {:15.2}  {:15.2}  {:19.2}  {:18.2}  {:7.1}%  {:11.1}%",
            self.bare,
            self.provider,
            self.gateway,
            self.empty,
            self.provider_overhead() * 100.0,
            self.gateway_overhead() * 100.0
        );
    }
}

/// The median and the quartiles of all rounds.
struct Spread {
    low: f64,
    middle: f64,
    high: f64,
}

impl Spread {
    fn shown(&self) -> String {
        format!(
            "{:.1}% (median of {ROUNDS} rounds, quartiles {:.1}% and {:.1}%)",
            self.middle * 100.0,
            self.low * 100.0,
            self.high * 100.0
        )
    }
}

fn spread(rounds: &[Round], figure: fn(&Round) -> f64) -> Spread {
    let mut figures: Vec<f64> = rounds.iter().map(figure).collect();
    figures.sort_by(f64::total_cmp);
    let at = |part: usize| figures[figures.len() * part / 4];
    Spread {
        low: at(1),
        middle: at(2),
        high: at(3),
    }
}
