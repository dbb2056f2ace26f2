//! `stateway logout`: forgets the credentials of a context, and gives the refresh token back.

use clap::Args;
use stateway_identity::oidc::form;

use crate::arguments::Globals;
use crate::context::print_message;
use crate::contexts::{Grant, Store};
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::sign_in::{Web, discover};
use crate::target::Target;

/// Signs out.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  stateway logout
  stateway logout --context prod

The context and its address stay; `stateway contexts delete` removes them.")]
pub struct Logout {}

impl Logout {
    pub(super) async fn run(self, globals: &Globals) -> Outcome {
        let store = Store::required()?;
        let target = Target::without_credentials(globals)?;
        let name = target
            .context
            .clone()
            .ok_or_else(|| Failure::usage("no context is selected").hint("Give --context NAME."))?;
        forget(&store, &target, &name).await?;
        Ok(Exit::Ok)
    }
}

/// Deletes the credentials of a context, even if the provider fails to revoke them.
pub(super) async fn forget(store: &Store, target: &Target, name: &str) -> Result<(), Failure> {
    let grant = store.grant(name, &target.server);
    let had = store.forget(name)?;
    match grant {
        Ok(Some(grant)) => match give_back(target, &grant).await {
            Ok(true) => print_message("the refresh token was revoked at the provider"),
            Ok(false) => {}
            Err(failure) => print_message(&format!("the refresh token was not revoked: {failure}")),
        },
        Ok(None) => {}
        Err(failure) => print_message(&format!("the refresh token was not revoked: {failure}")),
    }
    if had {
        print_message(&format!("signed out of context `{name}`"));
    } else {
        print_message(&format!("context `{name}` had no credentials"));
    }
    Ok(())
}

/// Answers whether there was something to give back.
async fn give_back(target: &Target, grant: &Grant) -> Result<bool, Failure> {
    let Some(token) = &grant.refresh_token else {
        return Ok(false);
    };
    let web = Web::new(target, false)?;
    let discovery = discover(&web, &grant.issuer).await?;
    let Some(endpoint) = &discovery.revocation_endpoint else {
        return Ok(false);
    };
    let fields = [
        ("token", token.as_str()),
        ("token_type_hint", "refresh_token"),
        ("client_id", &grant.client_id),
    ];
    let answer = web.post(endpoint, form(&fields)).await?;
    if answer.status == 200 {
        Ok(true)
    } else {
        let message = format!("the provider answers with status {}", answer.status);
        Err(Failure::new(Exit::Refused, message))
    }
}
