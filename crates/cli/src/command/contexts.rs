//! `stateway contexts`: the gateways that were signed in to.

use clap::{Args, Subcommand};
use serde::Serialize;

use super::logout;
use crate::arguments::{Globals, Output};
use crate::context::{print, print_message, to_json};
use crate::contexts::{Contexts, Store};
use crate::exit::Exit;
use crate::failure::Outcome;
use crate::screen::{Paint, Table};
use crate::target::{Target, unknown};

/// Lists, chooses and deletes contexts.
#[derive(Debug, Subcommand)]
pub enum ContextsCommand {
    /// List the contexts. An asterisk marks the current one
    List(List),
    /// Choose the context that commands use
    Use(Use),
    /// Sign out of a context and delete it
    Delete(Delete),
}

/// Lists contexts.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  stateway contexts list
  stateway contexts list -o json")]
pub struct List {}

/// Chooses a context.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  stateway contexts use prod")]
pub struct Use {
    /// Name of the context
    name: String,
}

/// Deletes a context.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  stateway contexts delete prod")]
pub struct Delete {
    /// Name of the context
    name: String,
}

/// What `-o json` prints for each context.
#[derive(Debug, Serialize)]
struct ContextReport<'c> {
    name: &'c str,
    server: &'c str,
    is_current: bool,
    has_credentials: bool,
}

impl ContextsCommand {
    pub(super) async fn run(self, globals: &Globals) -> Outcome {
        let store = Store::required()?;
        match self {
            Self::List(List {}) => list(&store, &store.read()?, globals.output),
            Self::Use(Use { name }) => {
                store.change(|contexts| {
                    if !contexts.contexts.contains_key(&name) {
                        return Err(unknown(&name));
                    }
                    contexts.current = Some(name.clone());
                    Ok(())
                })?;
                print_message(&format!("context `{name}` is now the current one"));
                Ok(Exit::Ok)
            }
            Self::Delete(Delete { name }) => {
                let chosen = Globals {
                    context: Some(name.clone()),
                    server: None,
                    ..globals.clone()
                };
                logout::forget(&store, &Target::without_credentials(&chosen)?, &name).await?;
                store.change(|contexts| {
                    contexts.contexts.remove(&name);
                    if contexts.current.as_ref() == Some(&name) {
                        contexts.current = None;
                    }
                    Ok(())
                })?;
                print_message(&format!("context `{name}` was deleted"));
                Ok(Exit::Ok)
            }
        }
    }
}

fn list(store: &Store, contexts: &Contexts, output: Output) -> Outcome {
    let shown: Vec<_> = contexts
        .contexts
        .iter()
        .map(|(name, saved)| ContextReport {
            name,
            server: &saved.server,
            is_current: contexts.current.as_ref() == Some(name),
            has_credentials: store.token_file(name, &saved.server).is_some(),
        })
        .collect();
    match output {
        Output::Json => print(&to_json(&serde_json::json!({ "contexts": shown }))?)?,
        Output::Table => {
            let mut table = Table::new(&["", "NAME", "GATEWAY", "SIGNED IN"], Paint::new(false));
            for context in &shown {
                let mark = |is: bool, text: &str| if is { text.to_owned() } else { String::new() };
                table.row(vec![
                    mark(context.is_current, "*"),
                    context.name.to_owned(),
                    context.server.to_owned(),
                    mark(context.has_credentials, "yes"),
                ]);
            }
            print(&table.text())?;
        }
    }
    Ok(Exit::Ok)
}
