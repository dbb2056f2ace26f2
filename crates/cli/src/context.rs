//! What a command needs to call a gateway and to print the answer.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use serde::Serialize;
use stateway_client::{Call, Client, v1};
use stateway_phrases::visible;
use stateway_provider_api::ANONYMOUS;

use crate::arguments::{Globals, Output};
use crate::failure::Failure;
use crate::screen::{self, Paint};
use crate::target::Target;
use crate::view;

/// What a command needs.
pub struct Context {
    /// The gateway.
    pub client: Client,
    /// The output format.
    pub output: Output,
    /// How to colour them.
    pub paint: Paint,
    /// How long a call may take, if the user gave a timeout.
    pub timeout: Option<Duration>,
    /// Whether standard output is a terminal.
    pub terminal: bool,
}

impl Context {
    /// From the arguments. Nothing is connected yet.
    ///
    /// # Errors
    /// An address that is not one.
    pub fn new(globals: &Globals) -> Result<Self, Failure> {
        let terminal = io::stdout().is_terminal();
        let target = Target::of(globals)?;
        let mut client = Client::lazy_with(&target.server, &target.security()?)?;
        let timeout = globals.timeout.map(Duration::from);
        if let Some(timeout) = timeout {
            client = client.with_timeout(timeout);
        }
        if let Some(actor) = actor(globals, &target) {
            client = client.acting_as(&actor, &globals.roles)?;
        }
        Ok(Self {
            client,
            output: globals.output,
            paint: Paint::new(globals.color.on(terminal)),
            timeout,
            terminal,
        })
    }

    /// A call with the timeout that the user gave.
    #[must_use]
    pub fn call<M>(&self, call: Call<M>) -> Call<M> {
        match self.timeout {
            Some(timeout) => call.timeout(timeout),
            None => call,
        }
    }

    /// Shows an answer: as JSON, or as the text that is made for people.
    ///
    /// # Errors
    /// Standard output cannot be written.
    pub fn show<V: Serialize>(
        &self,
        view: &V,
        text: impl FnOnce() -> String,
    ) -> Result<(), Failure> {
        match self.output {
            Output::Json => print(&to_json(view)?),
            Output::Table => print(&text()),
        }
    }

    /// Shows one execution.
    ///
    /// # Errors
    /// Standard output cannot be written.
    pub fn show_execution(&self, execution: &v1::Execution) -> Result<(), Failure> {
        let view = view::Execution::from(execution);
        self.show(&view, || {
            screen::details(&view, self.paint, jiff::Timestamp::now())
        })
    }
}

/// Who asks. A login name that no header takes is as good as none; one that was given is not.
pub fn actor(globals: &Globals, target: &Target) -> Option<String> {
    if globals.actor.is_none() && target.has_credentials() {
        // The gateway takes the name from them, and refuses another.
        return None;
    }
    globals.actor.clone().or_else(|| {
        let login = std::env::var("USER").unwrap_or_default();
        let plain = !login.is_empty() && login.bytes().all(|byte| byte.is_ascii_graphic());
        // Roles count without a name too.
        let roles = (!globals.roles.is_empty()).then(|| ANONYMOUS.to_owned());
        plain.then_some(login).or(roles)
    })
}

/// Writes one line, or several, of data.
///
/// # Errors
/// Standard output cannot be written.
pub fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    writeln!(out, "{}", text.trim_end_matches('\n'))?;
    Ok(out.flush()?)
}

/// Prints one line to standard error, with line breaks and control characters escaped.
pub fn print_message(text: &str) {
    // If standard error cannot be written, the message is lost.
    let _ = writeln!(io::stderr(), "{}", visible(text));
}

/// Prints text to standard error as it is: lines and colours of this program, whose texts of others are
/// escaped already.
pub fn announce(text: &str) {
    // If standard error cannot be written, the message is lost.
    let _ = writeln!(io::stderr(), "{text}");
}

/// Pretty JSON.
///
/// # Errors
/// Never for the views of this crate.
pub fn to_json(view: &impl Serialize) -> Result<String, Failure> {
    serde_json::to_string_pretty(view).map_err(|error| io::Error::from(error).into())
}

/// JSON on one line, for streams.
///
/// # Errors
/// Never for the views of this crate.
pub fn to_json_line(view: &impl Serialize) -> Result<String, Failure> {
    serde_json::to_string(view).map_err(|error| io::Error::from(error).into())
}
