//! Pages as one stream.
//!
//! An empty token is the only end mark: a page may be empty and not be the last.

use std::collections::VecDeque;
use std::future::Future;

use futures::stream::{BoxStream, StreamExt, unfold};
use stateway_proto::v1;

use crate::{Client, Error, Events, List, ListProviders, ListWorkers};

/// Items as they come, page by page. It ends after the first error.
pub type Items<T> = BoxStream<'static, Result<T, Error>>;

impl Client {
    /// Every execution that passes, page by page as the stream is read.
    ///
    /// With `providers/-` the providers that did not answer are left out in silence here; read
    /// [`Client::list_page`] where that matters.
    #[must_use]
    pub fn list(&self, call: List) -> Items<v1::Execution> {
        let client = self.clone();
        pages(move |token| {
            let (client, call) = (client.clone(), after(&call, token, List::page_token));
            async move {
                let page = client.list_page(call).await?;
                Ok((page.executions, page.next_page_token))
            }
        })
    }

    /// An execution's whole history, page by page as the stream is read.
    #[must_use]
    pub fn events(&self, call: Events) -> Items<v1::Event> {
        let client = self.clone();
        pages(move |token| {
            let (client, call) = (client.clone(), after(&call, token, Events::page_token));
            async move {
                let page = client.events_page(call).await?;
                Ok((page.events, page.next_page_token))
            }
        })
    }

    /// Every worker, page by page as the stream is read.
    ///
    /// With `providers/-` the providers that did not answer are left out in silence here; read
    /// [`Client::workers_page`] where that matters.
    #[must_use]
    pub fn workers_all(&self, parent: impl Into<String>) -> Items<v1::Worker> {
        let (client, parent) = (self.clone(), parent.into());
        pages(move |token| {
            let call = ListWorkers::from_message(v1::ListWorkersRequest {
                parent: parent.clone(),
                page_token: token.unwrap_or_default(),
                ..v1::ListWorkersRequest::default()
            });
            let client = client.clone();
            async move {
                let page = client.workers_page(call).await?;
                Ok((page.workers, page.next_page_token))
            }
        })
    }

    /// Every provider, page by page as the stream is read.
    #[must_use]
    pub fn providers_all(&self) -> Items<v1::Provider> {
        let client = self.clone();
        pages(move |token| {
            let call = after(&ListProviders::new(), token, ListProviders::page_token);
            let client = client.clone();
            async move {
                let page = client.providers_page(call).await?;
                Ok((page.providers, page.next_page_token))
            }
        })
    }
}

/// The first page keeps the token the caller gave.
fn after<C: Clone>(call: &C, token: Option<String>, set: impl FnOnce(C, String) -> C) -> C {
    match token {
        None => call.clone(),
        Some(token) => set(call.clone(), token),
    }
}

/// Where a listing is: what is read and not yet given out, and where the next page begins.
struct Place<T, Fetch> {
    read: VecDeque<T>,
    next: Next,
    fetch: Fetch,
}

enum Next {
    First,
    After(String),
    End,
}

fn pages<T, F>(fetch: impl Fn(Option<String>) -> F + Send + 'static) -> Items<T>
where
    T: Send + 'static,
    F: Future<Output = Result<(Vec<T>, String), Error>> + Send + 'static,
{
    let start = Place {
        read: VecDeque::new(),
        next: Next::First,
        fetch,
    };
    unfold(start, async |mut place| Some((place.item().await?, place))).boxed()
}

impl<T, F, Fetch> Place<T, Fetch>
where
    Fetch: Fn(Option<String>) -> F,
    F: Future<Output = Result<(Vec<T>, String), Error>>,
{
    async fn item(&mut self) -> Option<Result<T, Error>> {
        loop {
            if let Some(item) = self.read.pop_front() {
                return Some(Ok(item));
            }
            let token = match std::mem::replace(&mut self.next, Next::End) {
                Next::End => return None,
                Next::First => None,
                Next::After(token) => Some(token),
            };
            match (self.fetch)(token).await {
                Err(error) => return Some(Err(error)),
                Ok((items, token)) => {
                    self.read = items.into();
                    if !token.is_empty() {
                        self.next = Next::After(token);
                    }
                }
            }
        }
    }
}
