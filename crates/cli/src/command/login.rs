//! `stateway login`: signs in at the provider of a gateway, or takes a token or API key, and keeps the
//! credential in a context.

use std::io::{IsTerminal, Read};

use clap::Args;
use serde::Serialize;
use stateway_identity::Secret;

use super::whoami;
use crate::arguments::{Globals, Output};
use crate::confirm::confirm;
use crate::context::{print, print_message, to_json};
use crate::contexts::{self, Grant, SavedContext, Store};
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::screen::hidden_line;
use crate::sign_in::{
    CallerIdentity, Methods, Oidc, Signed, Web, check_protected, discover, in_browser, on_device,
};
use crate::target::Target;

/// The longest token that is read from standard input.
const LONGEST: usize = 64 * 1024;

/// Signs in.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  stateway login --server https://stateway.example.org
  stateway login --server https://stateway.example.org --name prod --browser
  stateway login --server https://stateway.example.org --with-token < key.txt

The gateway reports where to sign in, and it gets the token. The command prints both and asks for confirmation if you have not signed in there with this gateway before. Default: the device flow if the provider has it, which works on machines without a browser; else the browser flow. A gateway without sign-in takes an API key or a token.

Credentials are kept in the folder STATEWAY_HOME (default: ~/.config/stateway), readable by you only.")]
pub struct Login {
    /// Name of the context (default: the name of --context, or the host of the gateway)
    #[arg(long, value_name = "NAME", value_parser = contexts::name)]
    name: Option<String>,
    /// Sign in with a code that you confirm in any browser
    #[arg(long, group = "way")]
    device: bool,
    /// Sign in with a browser on this machine
    #[arg(long, group = "way")]
    browser: bool,
    /// Read a token or an API key from standard input
    #[arg(long, group = "way")]
    with_token: bool,
    /// Print the address of --browser and do not open it
    #[arg(long, requires = "browser")]
    no_open: bool,
    /// Do not ask for confirmation of a new provider; required without a terminal
    #[arg(long)]
    yes: bool,
}

/// What `-o json` prints.
#[derive(Debug, Serialize)]
struct LoginReport<'w> {
    context: &'w str,
    server: &'w str,
    #[serde(flatten)]
    who: Option<&'w CallerIdentity>,
}

impl Login {
    pub(super) async fn run(self, globals: &Globals) -> Outcome {
        let store = Store::required()?;
        let target = Target::without_credentials(globals)?;
        let web = Web::new(&target, true)?;
        let methods = methods(&web, &target).await?;
        let name = match (&self.name, &target.context) {
            (Some(name), _) | (None, Some(name)) => name.clone(),
            (None, None) => name_of(&target.server)?,
        };
        let credential = if methods.authentication {
            // Before anybody signs in: the token could not be sent.
            check_protected(&target.server)?;
            Some(self.credential(&store, &target, &methods).await?)
        } else {
            None
        };
        let who = match &credential {
            Some((token, _)) => Some(whoami::ask(&web, &target, Some(token.expose())).await?),
            None => None,
        };
        // The name may be that of another gateway until now: its credential goes first.
        store.forget(&name)?;
        let saved = SavedContext {
            server: target.server.clone(),
            tls_ca: target
                .tls_ca
                .as_deref()
                .map(std::path::absolute)
                .transpose()?,
            // A certificate would be a second proof beside the token.
            tls_cert: None,
            tls_key: None,
        };
        store.change(|contexts| {
            contexts.contexts.insert(name.clone(), saved);
            contexts.current = Some(name.clone());
            Ok(())
        })?;
        if let Some((token, grant)) = &credential {
            let server = &target.server;
            store.keep(&name, server, (token.expose(), grant.as_ref()))?;
        }
        let shown = LoginReport {
            context: &name,
            server: &target.server,
            who: who.as_ref(),
        };
        match (globals.output, &who) {
            (Output::Json, _) => print(&to_json(&shown)?)?,
            (Output::Table, Some(who)) => print(&whoami::text(who))?,
            (Output::Table, None) => {
                print_message("the gateway has no authentication, so a sign-in is not needed");
            }
        }
        print_message(&format!(
            "context `{name}` ({}) is now the current one",
            target.server
        ));
        Ok(Exit::Ok)
    }

    /// A token, by the way that was chosen or the best one that is offered.
    async fn credential(
        &self,
        store: &Store,
        target: &Target,
        methods: &Methods,
    ) -> Result<(Secret, Option<Grant>), Failure> {
        let offered = methods.oidc.as_ref().filter(|_| !self.with_token);
        let Some(oidc) = offered else {
            if self.device || self.browser {
                let message = "the gateway offers no sign-in to the command line";
                return Err(Failure::new(Exit::Unsupported, message).hint(
                    "Use --with-token with an API key or a token, or configure \
                     [authentication.sign_in.cli] of the gateway.",
                ));
            }
            return Ok((typed(methods)?, None));
        };
        show(target, oidc);
        if !self.yes && !is_known(store, target, oidc)? {
            confirm(
                "Do you want to sign in there, and to give the token to this gateway?",
                "the gateway gets a token in your name",
                "the sign-in was cancelled",
            )?;
        }
        let web = Web::new(target, false)?;
        let discovery = discover(&web, &oidc.issuer).await?;
        let is_device =
            self.device || (!self.browser && discovery.device_authorization_endpoint.is_some());
        let Signed { token, grant } = if is_device {
            on_device(&web, &discovery, oidc).await?
        } else {
            in_browser(&web, &discovery, oidc, !self.no_open).await?
        };
        let grant = Grant {
            server: target.server.clone(),
            ..grant
        };
        Ok((token, Some(grant)))
    }
}

/// Prints where the sign-in leads. The gateway chose all of it.
fn show(target: &Target, oidc: &Oidc) {
    let token = match &oidc.resource {
        Some(resource) => format!("{} for {resource}", oidc.token),
        None => oidc.token.clone(),
    };
    for (what, value) in [
        ("provider", &oidc.issuer),
        ("client  ", &oidc.client_id),
        ("scopes  ", &oidc.scopes.join(" ")),
        ("token   ", &token),
        ("gateway ", &target.server),
    ] {
        print_message(&format!("{what} {value}"));
    }
}

/// Whether the context has a sign-in to this gateway with this provider and client.
fn is_known(store: &Store, target: &Target, oidc: &Oidc) -> Result<bool, Failure> {
    let contexts = store.read()?.contexts;
    let mut of_gateway = contexts
        .iter()
        .filter(|(_, saved)| saved.server == target.server);
    Ok(of_gateway.any(|(name, _)| {
        // A file that cannot be read is not known.
        let grant = store.grant(name, &target.server).ok().flatten();
        grant.is_some_and(|grant| grant.issuer == oidc.issuer && grant.client_id == oidc.client_id)
    }))
}

async fn methods(web: &Web, target: &Target) -> Result<Methods, Failure> {
    let address = format!("{}/sign-in/methods", target.server.trim_end_matches('/'));
    let answer = web.get(&address, None).await?;
    let parsed = serde_json::from_slice(&answer.body);
    match parsed {
        Ok(methods) if answer.status == 200 => Ok(methods),
        _ => {
            let message = format!("{} is not a gateway of this version", target.server);
            Err(Failure::new(Exit::Unreachable, message).hint("Check the address."))
        }
    }
}

/// The token or API key on standard input.
fn typed(methods: &Methods) -> Result<Secret, Failure> {
    let wanted = match (methods.api_keys, methods.tokens) {
        (true, false) => "an API key",
        (false, true) => "a token",
        _ => "a token or an API key",
    };
    let stdin = std::io::stdin();
    let mut text = String::new();
    if stdin.is_terminal() {
        let prompt = format!("Type {wanted} (not shown) and press Enter:");
        let line = hidden_line(&prompt, LONGEST)?;
        text = line.ok_or_else(|| Failure::new(Exit::Interrupted, "interrupted"))?;
    } else {
        let most = LONGEST as u64;
        stdin.lock().take(most).read_to_string(&mut text)?;
    }
    let token = Secret::new(text.trim().to_owned());
    if token.expose().is_empty() {
        let message = format!("standard input has no token; the gateway asks for {wanted}");
        return Err(Failure::usage(message));
    }
    Ok(token)
}

/// The host of an address as the name of a context.
fn name_of(server: &str) -> Result<String, Failure> {
    let rest = server.split_once("://").map_or(server, |(_, rest)| rest);
    let authority = rest.split('/').next().unwrap_or_default();
    let name: String = authority
        .chars()
        .map(|sign| if sign == ':' { '-' } else { sign })
        .filter(|sign| !matches!(sign, '[' | ']'))
        .collect();
    contexts::name(&name).map_err(|_| {
        Failure::usage("the address cannot be used as the name of the context")
            .hint("Give --name NAME.")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_context_has_the_name_of_its_host() {
        for (server, expected) in [
            ("https://gw.example.org", "gw.example.org"),
            ("https://gw.example.org:8443/", "gw.example.org-8443"),
            ("http://127.0.0.1:7380", "127.0.0.1-7380"),
            ("http://[::1]:7380", "--1-7380"),
        ] {
            assert_eq!(name_of(server).unwrap(), expected);
        }
        assert!(name_of("https://").is_err());
    }
}
