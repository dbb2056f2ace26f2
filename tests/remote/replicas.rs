//! Several gateways behind one name, in front of one engine: which of them answers makes no difference, and one of
//! them can stop at any time.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use stateway_client::{Cancel, Change, Client, Get, List, Start, WatchRequest};
use stateway_gateway::TokenKey;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;

use super::process::{Process, Socket, remote};
use super::{PATIENCE, serves};
use crate::support::{Running, TestGateway};

/// One address for several gateways. Connections go to each of them in turn, and past those that have stopped.
struct Balancer {
    address: SocketAddr,
    /// How many connections each gateway got.
    taken: Arc<[AtomicUsize]>,
    task: AbortHandle,
}

impl Balancer {
    async fn new(gateways: &[&Running]) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let addresses: Vec<_> = gateways.iter().map(|gateway| gateway.address).collect();
        let taken: Arc<[AtomicUsize]> = addresses.iter().map(|_| AtomicUsize::new(0)).collect();
        let counts = taken.clone();
        let task = tokio::spawn(async move {
            for turn in 0.. {
                let Ok((mut client, _)) = listener.accept().await else {
                    return;
                };
                for next in 0..addresses.len() {
                    let index = (turn + next) % addresses.len();
                    if let Ok(mut gateway) = TcpStream::connect(addresses[index]).await {
                        counts[index].fetch_add(1, Ordering::SeqCst);
                        tokio::spawn(async move {
                            let _ = tokio::io::copy_bidirectional(&mut client, &mut gateway).await;
                        });
                        break;
                    }
                }
            }
        });
        Self {
            address,
            taken,
            task: task.abort_handle(),
        }
    }

    /// A client with a connection of its own.
    fn client(&self) -> Client {
        Client::lazy(&format!("http://{}", self.address)).unwrap()
    }
}

impl Drop for Balancer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn gateway(socket: &Socket, key: Option<[u8; 32]>) -> Running {
    let mut gateway = TestGateway::new();
    gateway.settings.token_key = key.map(TokenKey::new);
    let running = gateway.with("far", "remote", remote(socket)).start().await;
    serves(&running).await;
    running
}

fn direct(gateway: &Running) -> Client {
    Client::lazy(&format!("http://{}", gateway.address)).unwrap()
}

async fn start(client: &Client, id: &str) -> String {
    let work = r#"{"steps":[{"name":"work","takes":"1h"}]}"#;
    let start = Start::new("providers/far/definitions/script")
        .id(id)
        .json(work);
    client.start(start).await.unwrap().name
}

#[tokio::test]
async fn any_gateway_answers_for_what_another_one_started() {
    let socket = Socket::new();
    let _process = Process::start(&socket);
    let key = Some([7; 32]);
    let (one, two) = (gateway(&socket, key).await, gateway(&socket, key).await);
    let balancer = Balancer::new(&[&one, &two]).await;
    let mut names = BTreeSet::new();
    for number in 0..6 {
        let client = balancer.client();
        names.insert(start(&client, &format!("order-{number}")).await);
    }
    let taken: Vec<_> = balancer
        .taken
        .iter()
        .map(|it| it.load(Ordering::SeqCst))
        .collect();
    assert_eq!(taken, [3, 3]);
    for name in &names {
        let of_one = direct(&one).get(Get::new(name)).await.unwrap();
        let of_two = direct(&two).get(Get::new(name)).await.unwrap();
        assert_eq!(
            (of_one.etag, of_one.sub_state),
            (of_two.etag, of_two.sub_state)
        );
    }
    // Every page from another gateway.
    let (mut listed, mut token) = (BTreeSet::new(), String::new());
    for turn in 0.. {
        let from = if turn % 2 == 0 { &one } else { &two };
        let page = List::new("providers/far").page_size(2).page_token(&token);
        let page = direct(from).list_page(page).await.unwrap();
        listed.extend(page.executions.into_iter().map(|it| it.name));
        token = page.next_page_token;
        if token.is_empty() {
            assert!(turn >= 2, "{turn}");
            break;
        }
    }
    assert_eq!(listed, names);
}

#[tokio::test]
async fn without_a_shared_key_a_page_token_is_of_use_to_one_gateway_only() {
    let socket = Socket::new();
    let _process = Process::start(&socket);
    let (one, two) = (gateway(&socket, None).await, gateway(&socket, None).await);
    for number in 0..3 {
        start(&direct(&one), &format!("order-{number}")).await;
    }
    let page = || List::new("providers/far").page_size(1);
    let first = direct(&one).list_page(page()).await.unwrap();
    let next = page().page_token(&first.next_page_token);
    let refused = direct(&two).list_page(next).await.unwrap_err();
    assert_eq!(refused.reason(), "INVALID_PAGE_TOKEN");
}

#[tokio::test]
async fn a_gateway_that_stops_interrupts_a_watch_and_loses_no_change() {
    let socket = Socket::new();
    let _process = Process::start(&socket);
    let key = Some([7; 32]);
    let (mut one, two) = (gateway(&socket, key).await, gateway(&socket, key).await);
    let balancer = Balancer::new(&[&one, &two]).await;
    // The first connection goes to the first gateway.
    let client = balancer.client();
    let name = start(&client, "order-1").await;
    let mut watch = client.watch(WatchRequest::of([&name]));
    let begun = async {
        while let Some(change) = watch.next().await {
            if matches!(change.unwrap(), Change::Bookmark { .. }) {
                return;
            }
        }
    };
    tokio::time::timeout(PATIENCE, begun).await.unwrap();
    assert_eq!(balancer.taken[0].load(Ordering::SeqCst), 1);

    one.stop();
    one.stopped().await.unwrap();
    // Changed while the watch has no gateway.
    direct(&two)
        .cancel(Cancel::new(&name).kill())
        .await
        .unwrap();
    let seen = async {
        while let Some(change) = watch.next().await {
            let (Change::Added(execution) | Change::Modified(execution)) = change.unwrap() else {
                continue;
            };
            if stateway_client::is_finished(execution.sub_state) {
                return;
            }
        }
        panic!("the watch ended");
    };
    tokio::time::timeout(PATIENCE, seen).await.unwrap();
    assert!(balancer.taken[1].load(Ordering::SeqCst) >= 1);
    // Calls go on over the same client.
    assert_eq!(client.get(Get::new(&name)).await.unwrap().name, name);
}
