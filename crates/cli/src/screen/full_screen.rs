//! The whole terminal for one view: drawn with `ratatui`, restored however the process ends.

use std::io::{self, BufWriter, IsTerminal, Stdout};
use std::sync::atomic::{AtomicBool, Ordering};

use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyModifiers};
use ratatui::crossterm::terminal::{
    BeginSynchronizedUpdate, EndSynchronizedUpdate, EnterAlternateScreen, LeaveAlternateScreen,
    disable_raw_mode, enable_raw_mode,
};
use ratatui::crossterm::{cursor, execute, queue};
use ratatui::layout::Rect;
use ratatui::{Frame, Terminal, TerminalOptions, Viewport};
use rustix::termios::tcgetwinsize;
use tokio::sync::mpsc;

/// The maximum number of events that wait to be processed.
const MOST_EVENTS: usize = 64;
/// The size of a terminal that does not know its own.
const UNKNOWN: Rect = Rect::new(0, 0, 80, 24);

/// Whether the terminal is taken over.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// A terminal that was taken over. It is restored when this value is dropped, and by a panic.
pub struct FullScreen {
    terminal: Terminal<CrosstermBackend<BufWriter<Stdout>>>,
    area: Rect,
}

impl FullScreen {
    /// Takes over the terminal. The receiver gets keys and changes of the size; without a terminal
    /// on standard input it gets nothing.
    ///
    /// # Errors
    /// The terminal cannot be written.
    pub fn take() -> io::Result<(Self, mpsc::Receiver<Event>)> {
        restore_on_panic();
        TAKEN.store(true, Ordering::SeqCst);
        let taken = Self::begin();
        if taken.is_err() {
            restore();
        }
        taken
    }

    fn begin() -> io::Result<(Self, mpsc::Receiver<Event>)> {
        let (send, events) = mpsc::channel(MOST_EVENTS);
        if io::stdin().is_terminal() {
            enable_raw_mode()?;
            // The thread ends with the process: a read cannot be interrupted.
            std::thread::spawn(move || read(&send));
        }
        execute!(io::stdout(), EnterAlternateScreen, cursor::Hide)?;
        let area = area();
        let terminal = Terminal::with_options(
            CrosstermBackend::new(BufWriter::new(io::stdout())),
            TerminalOptions {
                viewport: Viewport::Fixed(area),
            },
        )?;
        Ok((Self { terminal, area }, events))
    }

    /// Draws what has changed, in the current size of the terminal.
    ///
    /// # Errors
    /// The terminal cannot be written.
    pub fn draw(&mut self, render: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        queue!(self.terminal.backend_mut(), BeginSynchronizedUpdate)?;
        let area = area();
        if area != self.area {
            self.terminal.resize(area)?;
            self.area = area;
        }
        self.terminal.draw(render)?;
        execute!(self.terminal.backend_mut(), EndSynchronizedUpdate)
    }
}

impl Drop for FullScreen {
    fn drop(&mut self) {
        restore();
    }
}

/// The key of an event: none for other events and for the release of a key.
#[must_use]
pub fn pressed(event: &Event) -> Option<KeyEvent> {
    event.as_key_press_event()
}

/// Whether the key is Ctrl-C or Ctrl-D: with single keys, the terminal sends no signal.
#[must_use]
pub fn interrupts(key: KeyEvent) -> bool {
    key.modifiers.contains(KeyModifiers::CONTROL) && matches!(key.code, KeyCode::Char('c' | 'd'))
}

/// The size of the terminal on standard output, which need not be the controlling one.
fn area() -> Rect {
    match tcgetwinsize(io::stdout()) {
        Ok(size) if size.ws_row > 0 && size.ws_col > 0 => Rect::new(0, 0, size.ws_col, size.ws_row),
        _ => UNKNOWN,
    }
}

/// Restores the terminal, once.
fn restore() {
    if TAKEN.swap(false, Ordering::SeqCst) {
        // If the terminal cannot be written, nothing can be restored.
        let _ = execute!(io::stdout(), cursor::Show, LeaveAlternateScreen);
        let _ = disable_raw_mode();
    }
}

/// Restores the terminal before a panic prints its message, so that the message is readable.
fn restore_on_panic() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        restore();
        before(panic);
    }));
}

fn read(send: &mpsc::Sender<Event>) {
    while let Ok(event) = event::read() {
        if send.blocking_send(event).is_err() {
            return;
        }
    }
}
