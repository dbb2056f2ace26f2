//! Watches: what they see, and how soon.

use std::time::{Duration, Instant};

use futures::StreamExt;
use serde_json::json;
use stateway_model::{Execution, SubState};
use stateway_provider_api::adapter::Quota;
use stateway_provider_api::filter::Hints;
use stateway_provider_api::{
    CancelMode, ErrorKind, ListRequest, Provider, WatchScope, WatchStream, Watched,
};

use crate::lab::{PATIENCE, activity};
use crate::rig::{Rig, call, config, provider, shown};

/// The namespace whose limits are reached.
pub(crate) const LIMITED: &str = "limited";

/// The next execution that a stream shows with this id and sub-state.
async fn until(stream: &mut WatchStream, id: &str, wanted: SubState) -> Execution {
    let look = async {
        loop {
            let item = stream.next().await.expect("the stream ended").unwrap();
            if let Watched::Seen(seen) = item
                && seen.id.as_str() == id
            {
                let seen = shown(*seen);
                if seen.sub_state == wanted {
                    return seen;
                }
            }
        }
    };
    let found = tokio::time::timeout(PATIENCE, look).await;
    found.unwrap_or_else(|_| panic!("`{id}` was not seen {wanted} within {PATIENCE:?}"))
}

pub(crate) async fn a_watch_of_one_sees_every_change(rig: &Rig) {
    let name = rig.id("watched");
    rig.lab.tell(&name, "fail");
    let retry = json!({"initial": 1, "coefficient": 1.0});
    let charge = json!({"type": "obey", "input": {"name": name}, "retry": retry});
    let id = rig
        .start(&name, json!([{"signal": "go"}, activity(charge)]))
        .await;
    let scope = WatchScope::One(id.clone());
    let mut stream = rig.provider.watch(&call(), scope).await.unwrap();
    until(&mut stream, &name, SubState::Waiting).await;
    // Not through the provider, which would report its own writes.
    rig.at.signal(&name, "go");
    let began = Instant::now();
    until(&mut stream, &name, SubState::BackingOff).await;
    let first = began.elapsed();
    rig.lab.tell(&name, "go");
    until(&mut stream, &name, SubState::Succeeded).await;
    println!("summary: temporal: a watch of one execution saw a back-off after {first:?}");
}

pub(crate) async fn a_watch_of_all_sees_starts_back_offs_and_ends(rig: &Rig) {
    let mut stream = rig.provider.watch(&call(), WatchScope::All).await.unwrap();
    let (failing, waiting) = (rig.id("failing"), rig.id("waiting"));
    rig.lab.tell(&failing, "fail");
    let charge = json!({"type": "obey", "input": {"name": failing}, "retry": {"initial": 600}});
    rig.at.start(&failing, json!([activity(charge)]));
    rig.at.start(&waiting, json!([{"signal": "go"}]));
    let began = Instant::now();
    until(&mut stream, &failing, SubState::BackingOff).await;
    let seen = began.elapsed();
    rig.at.terminate(&failing);
    rig.at.signal(&waiting, "go");
    let began = Instant::now();
    until(&mut stream, &waiting, SubState::Succeeded).await;
    let ended = began.elapsed();
    println!(
        "summary: temporal: a watch of all executions saw a back-off after {seen:?} and an end after {ended:?}"
    );
    rig.cancel(&crate::rig::execution_id(&waiting), CancelMode::Kill)
        .await
        .unwrap_err();
}

pub(crate) async fn a_limit_of_the_server_is_named_and_respected(rig: &Rig) {
    let mut greedy = config(rig.lab.server.address(), LIMITED);
    greedy.quotas.visibility = Quota {
        burst: 10_000,
        per_second: 10_000,
    };
    let provider = provider(&greedy);
    let list = || async {
        let request = ListRequest {
            hints: Hints::none(),
            page_size: 1,
            cursor: None,
        };
        provider.list(&call(), request).await
    };
    // The development server refuses lists above about a hundred a second.
    let lists = futures::stream::iter((0..2_000).map(|_| list())).buffer_unordered(32);
    let refused = lists
        .filter_map(|answer| std::future::ready(answer.err()))
        .next()
        .await
        .expect("the server refuses some of 2,000 lists");
    assert_eq!(refused.kind, ErrorKind::Throttled, "{refused}");
    let cause = refused.metadata.iter();
    let cause = cause
        .clone()
        .find(|(name, _)| name == "resource_exhausted_cause");
    assert_eq!(
        cause.map(|(_, cause)| &**cause),
        Some("RpsLimit"),
        "{refused:?}"
    );
    let began = Instant::now();
    list().await.unwrap();
    let waited = began.elapsed();
    assert!(waited > Duration::from_millis(300), "waited {waited:?}");
}
