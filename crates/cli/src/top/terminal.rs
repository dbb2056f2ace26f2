//! Takes over the terminal, draws on it, and restores it, however the process ends.

use std::io::{self, IsTerminal, Read, Write};
use std::sync::{Mutex, PoisonError};

use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetwinsize, tcsetattr,
};
use tokio::sync::mpsc;

use super::{Key, Size, keys};

/// The maximum number of keys that wait to be processed.
const MOST_KEYS: usize = 64;

/// Switches to the alternate screen and hides the cursor.
const ENTER: &str = "\u{1b}[?1049h\u{1b}[?25l\u{1b}[2J";
const LEAVE: &str = "\u{1b}[?25h\u{1b}[?1049l";

/// The settings of the terminal before it was taken over; none while it is not.
static TAKEN: Mutex<Option<Before>> = Mutex::new(None);

struct Before {
    modes: Option<Termios>,
}

/// A terminal that was taken over. It is restored when this value is dropped, and by a panic.
pub struct Terminal {
    shown: Vec<String>,
    size: Size,
}

impl Terminal {
    /// Takes over the terminal. The receiver gets the keys.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn take() -> io::Result<(Self, mpsc::Receiver<Key>)> {
        let input = io::stdin();
        let modes = if input.is_terminal() {
            tcgetattr(&input).ok()
        } else {
            None
        };
        *taken() = Some(Before {
            modes: modes.clone(),
        });
        give_back_on_panic();
        let (press, pressed) = mpsc::channel(MOST_KEYS);
        if let Some(modes) = modes {
            tcsetattr(&input, OptionalActions::Now, &single_keys(modes))?;
            // It ends with the process: a read cannot be interrupted.
            std::thread::spawn(move || read(&press));
        }
        let mut output = io::stdout().lock();
        output.write_all(ENTER.as_bytes())?;
        output.flush()?;
        let size = Size {
            rows: 0,
            columns: 0,
        };
        let shown = Vec::new();
        Ok((Self { shown, size }, pressed))
    }

    /// The current size of the terminal.
    #[must_use]
    pub fn size() -> Size {
        let size = tcgetwinsize(io::stdout()).map(|size| (size.ws_row, size.ws_col));
        let (rows, columns) = size.unwrap_or_default();
        Size {
            rows: if rows == 0 { 24 } else { rows.into() },
            columns: if columns == 0 { 80 } else { columns.into() },
        }
    }

    /// Draws the lines that have changed.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn draw(&mut self, lines: Vec<String>, size: Size) -> io::Result<()> {
        let mut text = String::new();
        if size != self.size {
            text.push_str("\u{1b}[2J");
            self.shown.clear();
            self.size = size;
        }
        for (index, line) in lines.iter().enumerate() {
            if self.shown.get(index) != Some(line) {
                text.push_str(&format!("\u{1b}[{};1H{line}\u{1b}[K", index + 1));
            }
        }
        self.shown = lines;
        let mut output = io::stdout().lock();
        output.write_all(text.as_bytes())?;
        output.flush()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        give_back();
    }
}

fn taken() -> std::sync::MutexGuard<'static, Option<Before>> {
    TAKEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Restores the terminal, once.
fn give_back() {
    let Some(before) = taken().take() else {
        return;
    };
    let mut output = io::stdout().lock();
    // If the terminal cannot be written, nothing can be restored.
    let _ = output.write_all(LEAVE.as_bytes());
    let _ = output.flush();
    if let Some(modes) = before.modes {
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &modes);
    }
}

/// Restores the terminal before a panic prints its message, so that the message is readable.
fn give_back_on_panic() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        give_back();
        before(panic);
    }));
}

/// Keys arrive immediately and are not echoed. Ctrl-C stays a signal; Ctrl-Z has no effect.
fn single_keys(mut modes: Termios) -> Termios {
    modes.local_modes &= !(LocalModes::ICANON | LocalModes::ECHO);
    modes.special_codes[SpecialCodeIndex::VSUSP] = 0;
    modes.special_codes[SpecialCodeIndex::VMIN] = 1;
    modes.special_codes[SpecialCodeIndex::VTIME] = 0;
    modes
}

fn read(press: &mpsc::Sender<Key>) {
    let mut bytes = [0; 256];
    while let Ok(length @ 1..) = io::stdin().lock().read(&mut bytes) {
        for key in keys(&bytes[..length]) {
            if press.blocking_send(key).is_err() {
                return;
            }
        }
    }
}
