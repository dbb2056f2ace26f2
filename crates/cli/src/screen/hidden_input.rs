//! A line from the keyboard that the terminal does not show, for secrets.

use std::io::{self, Write};

use ratatui::crossterm::event::{self, KeyCode};
use ratatui::crossterm::terminal::{disable_raw_mode, enable_raw_mode};

use super::{interrupts, pressed};

/// Single keys, until this value is dropped.
struct RawMode;

impl RawMode {
    fn begin() -> io::Result<Self> {
        enable_raw_mode()?;
        Ok(Self)
    }
}

impl Drop for RawMode {
    fn drop(&mut self) {
        // A terminal that is gone needs nothing.
        let _ = disable_raw_mode();
    }
}

/// Asks for a line of at most `longest` bytes; none if the person interrupts it.
///
/// # Errors
/// The terminal cannot be read.
pub fn hidden_line(prompt: &str, longest: usize) -> io::Result<Option<String>> {
    // Before the prompt, so that nothing is shown that is typed after it.
    let _raw = RawMode::begin()?;
    write!(io::stderr(), "{prompt}\r\n")?;
    let mut line = String::new();
    loop {
        let Some(key) = pressed(&event::read()?) else {
            continue;
        };
        if interrupts(key) {
            return Ok(None);
        }
        match key.code {
            KeyCode::Enter => return Ok(Some(line)),
            KeyCode::Backspace => drop(line.pop()),
            KeyCode::Char(sign) if line.len() < longest => line.push(sign),
            _ => {}
        }
    }
}
