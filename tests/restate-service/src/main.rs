//! A Restate service that does as it is told, so that an invocation of it can be walked through
//! every state. What it is told stands in files of one folder, one file per name: `hold` keeps an
//! attempt in flight, `fail` fails it, anything else lets it go on.
//!
//! `LAB_ADDRESS` is where to listen, `LAB_FOLDER` the folder. It says `ready` when it listens.

use std::path::PathBuf;
use std::time::Duration;

use restate_sdk::prelude::*;

/// How often a held attempt looks whether it is let go.
const LOOK: Duration = Duration::from_millis(20);

/// What an attempt was told.
enum Told {
    GoOn,
    Fail,
}

/// Waits until the attempt is told something.
async fn told(name: &str) -> Told {
    let file = PathBuf::from(std::env::var_os("LAB_FOLDER").unwrap_or_default()).join(name);
    loop {
        match std::fs::read_to_string(&file).unwrap_or_default().trim() {
            "hold" => tokio::time::sleep(LOOK).await,
            "fail" => return Told::Fail,
            _ => return Told::GoOn,
        }
    }
}

fn failure(name: &str) -> HandlerError {
    std::io::Error::other(format!("{name} was told to fail")).into()
}

struct Lab;

#[service(
    name = "Lab",
    inactivity_timeout = "300ms",
    invocation_retry_policy(
        initial_interval = "1h",
        factor = 1.0,
        max_attempts = 3,
        on_max_attempts = "pause",
    )
)]
impl Lab {
    /// Held or failed before it does anything, with a long rest between its three attempts; then
    /// waits for an awakeable.
    #[handler]
    async fn walk(&self, ctx: Context<'_>, name: String) -> HandlerResult<String> {
        if let Told::Fail = told(&name).await {
            return Err(failure(&name));
        }
        let (_, answer) = ctx.awakeable::<String>();
        Ok(answer.await?)
    }

    /// Fails in a named step, and has many attempts.
    #[handler(invocation_retry_policy(max_attempts = 1000))]
    async fn charge(&self, ctx: Context<'_>, name: String) -> HandlerResult<String> {
        let told_name = name.clone();
        ctx.run(|| async move {
            match told(&told_name).await {
                Told::Fail => Err(failure(&told_name)),
                Told::GoOn => Ok(()),
            }
        })
        .name("charge-card")
        .await?;
        Ok(name)
    }

    /// Uses up its attempts and is ended for it.
    #[handler(invocation_retry_policy(
        initial_interval = "50ms",
        max_attempts = 2,
        on_max_attempts = "kill"
    ))]
    async fn exhaust(&self, _ctx: Context<'_>, name: String) -> HandlerResult<String> {
        Err(failure(&name))
    }

    /// Refused for good.
    #[handler]
    async fn reject(&self, _ctx: Context<'_>, _name: String) -> HandlerResult<String> {
        Err(TerminalError::new_with_code(422, "order rejected").into())
    }

    /// Two steps, of which the second is refused for good as long as it is told to fail.
    #[handler]
    async fn two_steps(&self, ctx: Context<'_>, name: String) -> HandlerResult<String> {
        ctx.run(|| async move { Ok(()) }).name("first").await?;
        ctx.run(|| async move {
            match told(&name).await {
                Told::Fail => Err(TerminalError::new("second was told to fail").into()),
                Told::GoOn => Ok(()),
            }
        })
        .name("second")
        .await?;
        Ok("done".to_owned())
    }

    /// Sleeps this many milliseconds.
    #[handler]
    async fn sleep(&self, ctx: Context<'_>, milliseconds: u64) -> HandlerResult<String> {
        ctx.sleep(Duration::from_millis(milliseconds)).await?;
        Ok("awake".to_owned())
    }

    /// Waits for a child that sleeps.
    #[handler]
    async fn parent(&self, ctx: Context<'_>, milliseconds: u64) -> HandlerResult<String> {
        let child = ctx.service_client::<LabClient>().sleep(milliseconds).call();
        Ok(child.await?)
    }

    /// Answers at once.
    #[handler]
    async fn echo(&self, _ctx: Context<'_>, text: String) -> HandlerResult<String> {
        Ok(text)
    }
}

struct Cell;

#[object(name = "Cell", inactivity_timeout = "300ms")]
impl Cell {
    /// Keeps its key for as long as it is told to hold.
    #[handler]
    async fn keep(&self, _ctx: ObjectContext<'_>, name: String) -> HandlerResult<String> {
        match told(&name).await {
            Told::Fail => Err(failure(&name)),
            Told::GoOn => Ok(name),
        }
    }
}

struct Order;

#[workflow(name = "Order", inactivity_timeout = "300ms")]
impl Order {
    /// Waits to be approved.
    #[handler]
    async fn run(&self, ctx: WorkflowContext<'_>, _amount: u64) -> HandlerResult<String> {
        Ok(ctx.promise::<String>("approval").await?)
    }

    /// Approves.
    #[handler]
    async fn approve(&self, ctx: SharedWorkflowContext<'_>, by: String) -> HandlerResult<()> {
        ctx.resolve_promise("approval", by);
        Ok(())
    }
}

struct Chain;

#[service(name = "Chain")]
impl Chain {
    /// So many steps one after the other that do nothing, each of them durable. What `cargo xtask bench engine`
    /// compares the built-in engine with.
    #[handler]
    async fn run(&self, ctx: Context<'_>, steps: u32) -> HandlerResult<String> {
        for _ in 0..steps {
            ctx.run(|| async { Ok(Json(true)) }).await?;
        }
        Ok("done".to_owned())
    }
}

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let address = std::env::var("LAB_ADDRESS").unwrap_or_else(|_| "127.0.0.1:9080".to_owned());
    let listener = tokio::net::TcpListener::bind(address).await?;
    println!("ready");
    let endpoint = Endpoint::builder().bind(Lab).bind(Cell).bind(Order).bind(Chain);
    let endpoint = endpoint.build();
    HttpServer::new(endpoint).serve(listener).await;
    Ok(())
}
