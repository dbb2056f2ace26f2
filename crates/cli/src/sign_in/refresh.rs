//! A new token before the old one expires, where the provider gave a refresh token.

use std::time::Duration;

use jiff::Timestamp;
use stateway_identity::oidc::form;
use tokio::task::JoinHandle;

use super::{Oidc, TokenResponse, Web, discover, refused};
use crate::arguments::Globals;
use crate::context::print_message;
use crate::contexts::{Grant, Store};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::target::{Target, TokenSource};

/// How long before its end a token is replaced.
const EARLY: Duration = Duration::from_secs(60);

/// How long to wait after a refresh that failed.
const PAUSE: Duration = Duration::from_secs(10);

/// Keeps the token of a context fresh until it is dropped.
#[derive(Debug)]
pub struct Fresh(Option<JoinHandle<()>>);

impl Drop for Fresh {
    fn drop(&mut self) {
        if let Some(task) = &self.0 {
            task.abort();
        }
    }
}

/// Gets a new token for the context of a command if the old one is about to expire, and later again.
///
/// # Errors
/// The provider refuses, or the files cannot be used.
pub async fn keep_fresh(globals: &Globals) -> Result<Fresh, Failure> {
    let target = Target::of(globals)?;
    // A token that was given as an option is not ours to renew.
    let (Some(name), Some(TokenSource::Kept(_)), Some(store)) =
        (target.context.clone(), &target.token, Store::here())
    else {
        return Ok(Fresh(None));
    };
    let server = target.server.clone();
    let Some(mut next) = due(&store, &name, &server)? else {
        return Ok(Fresh(None));
    };
    if next.is_zero() {
        refresh(&target, &store, &name).await?;
        next = due(&store, &name, &server)?.unwrap_or(PAUSE);
    }
    let task = tokio::spawn(async move {
        let mut pause = next;
        loop {
            tokio::time::sleep(pause.max(PAUSE)).await;
            if let Err(failure) = refresh(&target, &store, &name).await {
                print_message(&format!("the token was not renewed: {failure}"));
            }
            let next = due(&store, &name, &server);
            pause = next.ok().flatten().unwrap_or(PAUSE);
        }
    });
    Ok(Fresh(Some(task)))
}

/// How long until a token should be replaced. None if it cannot be.
fn due(store: &Store, name: &str, server: &str) -> Result<Option<Duration>, Failure> {
    let grant = store.grant(name, server)?;
    Ok(grant.and_then(|grant| until_due(&grant, Timestamp::now())))
}

fn until_due(grant: &Grant, now: Timestamp) -> Option<Duration> {
    grant.refresh_token.as_ref()?;
    let rest = grant.expires?.duration_since(now);
    let rest = Duration::try_from(rest).unwrap_or_default();
    Some(rest.saturating_sub(EARLY))
}

/// Replaces the token of a context, unless another process has just done so.
async fn refresh(target: &Target, store: &Store, name: &str) -> Result<(), Failure> {
    // A refresh token counts once: only one process may use it.
    let lock = {
        let (store, name) = (store.clone(), format!("refresh-{name}"));
        tokio::task::spawn_blocking(move || store.lock(&name)).await
    };
    let _lock = lock.map_err(|error| Failure::new(Exit::Internal, error.to_string()))??;
    let server = &target.server;
    let Some(grant) = store.grant(name, server)? else {
        return Ok(());
    };
    let is_due = until_due(&grant, Timestamp::now()).is_some_and(|rest| rest.is_zero());
    let Some(token) = grant.refresh_token.filter(|_| is_due) else {
        return Ok(());
    };
    let oidc = Oidc {
        issuer: grant.issuer,
        client_id: grant.client_id,
        scopes: Vec::new(),
        token: grant.token,
        resource: None,
    };
    let web = Web::new(target, false)?;
    let discovery = discover(&web, &oidc.issuer).await?;
    let fields = [
        ("grant_type", "refresh_token"),
        ("refresh_token", token.as_str()),
        ("client_id", &oidc.client_id),
    ];
    let answer = web.post(&discovery.token_endpoint, form(&fields)).await?;
    let signed = match serde_json::from_slice::<TokenResponse>(&answer.body) {
        Ok(response) if answer.status == 200 => response.signed(&oidc, None, Some(token))?,
        _ => return Err(refused(&answer.body, answer.status)),
    };
    let grant = Grant {
        server: server.clone(),
        ..signed.grant
    };
    // The name may have been used for another gateway meanwhile.
    if store.grant(name, server)?.is_none() {
        return Ok(());
    }
    store.keep(name, server, (signed.token.expose(), Some(&grant)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_replaced_a_minute_before_its_end() {
        let now = Timestamp::UNIX_EPOCH;
        let grant = |refresh: bool, seconds: Option<u64>| Grant {
            server: String::new(),
            issuer: String::new(),
            client_id: String::new(),
            token: "id_token".into(),
            refresh_token: refresh.then(String::new),
            expires: seconds.map(|seconds| now + Duration::from_secs(seconds)),
        };
        let due = |refresh, seconds| until_due(&grant(refresh, seconds), now);
        assert_eq!(due(true, Some(90)), Some(Duration::from_secs(30)));
        assert_eq!(due(true, Some(60)), Some(Duration::ZERO));
        assert_eq!(
            until_due(&grant(true, Some(1)), now + EARLY),
            Some(Duration::ZERO)
        );
        assert_eq!(due(false, Some(90)), None);
        assert_eq!(due(true, None), None);
    }
}
