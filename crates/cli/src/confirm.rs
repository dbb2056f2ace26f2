//! Asking the person in front of the screen before something happens that cannot be taken back.

use std::io::{self, BufRead, IsTerminal, Write};

use crate::exit::Exit;
use crate::failure::Failure;

/// Asks a question that must be answered with yes. `risk` is the reason for the question, printed where
/// standard input is not a terminal; `nothing` is printed after any other answer than yes.
///
/// # Errors
/// Standard input is no terminal, or the answer is not yes.
pub fn confirm(question: &str, risk: &str, nothing: &str) -> Result<(), Failure> {
    let stdin = io::stdin();
    if !stdin.is_terminal() {
        let message =
            format!("{risk}, so a confirmation is needed; standard input is not a terminal");
        return Err(Failure::usage(message).hint("Add --yes to confirm."));
    }
    let mut screen = io::stderr();
    write!(screen, "{question} [y/N] ")?;
    screen.flush()?;
    let mut answer = String::new();
    stdin.lock().read_line(&mut answer)?;
    match answer.trim() {
        "y" | "Y" | "yes" => Ok(()),
        _ => Err(Failure::new(Exit::Refused, nothing)),
    }
}
