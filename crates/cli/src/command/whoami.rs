//! `stateway whoami`: the identity of the caller at the gateway.

use clap::Args;
use serde::Serialize;

use crate::arguments::{Globals, Output};
use crate::context::{print, to_json};
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::sign_in::{CallerIdentity, Web, current_token};
use crate::target::Target;

/// Shows the identity of the caller at the gateway.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  stateway whoami
  stateway whoami --context prod -o json")]
pub struct Whoami {}

/// What `-o json` prints.
#[derive(Debug, Serialize)]
struct IdentityReport<'w> {
    server: &'w str,
    context: Option<&'w str>,
    #[serde(flatten)]
    who: &'w CallerIdentity,
}

impl Whoami {
    pub(super) async fn run(self, globals: &Globals) -> Outcome {
        let target = Target::of(globals)?;
        let web = Web::new(&target, true)?;
        let token = current_token(&target)?;
        let who = ask(&web, &target, token.as_deref()).await?;
        let shown = IdentityReport {
            server: &target.server,
            context: target.context.as_deref(),
            who: &who,
        };
        match globals.output {
            Output::Json => print(&to_json(&shown)?)?,
            Output::Table => {
                let context = target.context.as_deref().unwrap_or("none");
                let more = format!("gateway  {}\ncontext  {context}", target.server);
                print(&format!("{}\n{more}", text(&who)))?;
            }
        }
        Ok(Exit::Ok)
    }
}

/// Reads the identity that a token has at a gateway.
pub(super) async fn ask(
    web: &Web,
    target: &Target,
    token: Option<&str>,
) -> Result<CallerIdentity, Failure> {
    let address = format!("{}/whoami", target.server.trim_end_matches('/'));
    let answer = web.get(&address, token).await?;
    if answer.status == 200 {
        let parsed = serde_json::from_slice(&answer.body);
        return parsed.map_err(|_| Failure::new(Exit::Unreachable, "the answer is not readable"));
    }
    let text = String::from_utf8_lossy(&answer.body).into_owned();
    let mut lines = text.lines().filter(|line| !line.is_empty());
    let message = lines.next().unwrap_or("the gateway refused the request");
    let exit = if answer.status == 401 {
        Exit::Refused
    } else {
        Exit::Unreachable
    };
    let message = format!(
        "{} (status {})",
        message.trim_end_matches('.'),
        answer.status
    );
    Err(Failure::new(exit, message).hint(lines.next().unwrap_or_default()))
}

/// For people.
pub(super) fn text(who: &CallerIdentity) -> String {
    let roles = if who.roles.is_empty() {
        "none".to_owned()
    } else {
        who.roles.join(", ")
    };
    let tenant = who.tenant.as_deref().unwrap_or("none");
    let may = match &who.permissions {
        None => "everything: the gateway has no access rules".to_owned(),
        Some(none) if none.is_empty() => "nothing".to_owned(),
        Some(some) => some.join(", "),
    };
    let text = format!(
        "subject  {}\nroles    {roles}\ntenant   {tenant}\nproved   by {}\nmay      {may}",
        who.subject, who.method
    );
    text.lines()
        .map(stateway_phrases::visible)
        .collect::<Vec<_>>()
        .join("\n")
}
