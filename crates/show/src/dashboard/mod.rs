//! `--tui`: a full-screen display with keys that control the copy. Output before and after it is as usual. It starts
//! with the first connection, since ssh may ask for a password before.
//!
//! State and drawing (`board`, `draw`, `layout`, `words`) have no terminal; `screen` has it.

mod ansi;
mod board;
mod draw;
mod keys;
mod lanes;
mod layout;
mod message_log;
mod rate_history;
pub mod screen;
mod steps;
mod words;

use std::cell::RefCell;
use std::io::{self, Write};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::Context;
use haul_base::copy::error::Outcome;
use haul_base::copy::event::{Event, Observer};
use haul_base::copy::runtime_control::RuntimeControl;
use ratatui_core::terminal::Terminal;
use rustix::process::{Signal, getpid, kill_process};

use self::ansi::Ansi;
use self::board::{Board, Wish};
use self::draw::{TerminalStyle, draw};
use super::Show;
use super::human::{Human, Verbosity};
use crate::terminal;
use crate::text::TextOutput;

/// Time to wait for a key between screen updates.
const TICK: Duration = Duration::from_millis(100);

/// A dashboard.
pub struct Dashboard {
    human: Human,
    /// Formats messages.
    inner: Human,
    slip: Slip,
    shared: Arc<DrawState>,
    begun: Instant,
    thread: Option<JoinHandle<()>>,
}

/// State shared with the drawing thread.
struct DrawState {
    board: Mutex<Board>,
    steering: RuntimeControl,
    terminal: TerminalStyle,
    has_ended: AtomicBool,
}

/// Messages for the dashboard.
#[derive(Clone, Default)]
struct Slip(Rc<RefCell<Vec<u8>>>);

/// Writes to the dashboard, or without one to standard error.
pub struct Words;

impl Write for Words {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        screen::say(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Write for Slip {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Dashboard {
    /// A dashboard for the copy of `steering`, with this title. `human` writes its messages to [`Words`].
    pub fn new(human: Human, level: Verbosity, title: &str, steering: &RuntimeControl) -> anyhow::Result<Self> {
        screen::open().context("--tui: the terminal cannot be opened")?;
        let slip = Slip::default();
        let inner = Human::new(TextOutput::new(Box::new(slip.clone()), false), level);
        let terminal = TerminalStyle { colour: terminal::stderr_takes_colour(), unicode: terminal::takes_unicode() };
        let shared = Arc::new(DrawState {
            board: Mutex::new(Board::new(title)),
            steering: steering.clone(),
            terminal,
            has_ended: AtomicBool::new(false),
        });
        let drawing = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("haul-tui".to_owned()).spawn(move || run(&drawing))?;
        Ok(Self { human, inner, slip, shared, begun: Instant::now(), thread: Some(thread) })
    }

    /// Adds a message to the dashboard.
    fn say(&mut self, is_error: bool, words: impl Fn(&mut Human)) {
        words(&mut self.human);
        words(&mut self.inner);
        let messages = std::mem::take(&mut *self.slip.0.borrow_mut());
        if !messages.is_empty() {
            let messages = String::from_utf8_lossy(&messages);
            let lines: Vec<_> = messages.lines().map(|line| line.strip_prefix("haul: ").unwrap_or(line)).collect();
            self.shared.board().messages.add(&lines.join("\n"), is_error);
        }
    }

    /// Restores the terminal and ends the drawing thread.
    fn end(&mut self) {
        self.shared.has_ended.store(true, Ordering::Release);
        screen::give_back_for_good();
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

impl Observer for Dashboard {
    fn event(&mut self, event: &Event) {
        let is_error = matches!(event, Event::FileFailed { .. } | Event::Differs { .. });
        self.say(is_error, |human| human.event(event));
        self.shared.board().event(self.begun.elapsed(), event);
        match event {
            Event::Connected { .. } | Event::Progress(_) => screen::enter(),
            // ssh restarts, and may ask for a password.
            Event::Restarted { .. } => screen::give_back(),
            _ => {}
        }
    }
}

impl Show for Dashboard {
    fn complain(&mut self, message: &str) {
        self.say(true, |human| human.complain(message));
    }

    fn finish(&mut self, outcome: &Outcome) -> io::Result<()> {
        self.end();
        self.human.finish(outcome)
    }
}

impl Drop for Dashboard {
    fn drop(&mut self) {
        self.end();
    }
}

impl DrawState {
    fn board(&self) -> MutexGuard<'_, Board> {
        self.board.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn carry_out(&self, request: Wish) {
        match request {
            Wish::Rate(limit) => self.steering.rate().set(limit),
            Wish::Streams(streams) => self.steering.fix_streams(streams),
            Wish::Pause(is_paused) => self.steering.pause(is_paused),
            // Same as Ctrl-C.
            Wish::End => drop(kill_process(getpid(), Signal::TERM)),
        }
    }
}

/// Draws, and handles keys, until the copy ends.
fn run(shared: &DrawState) {
    let mut canvas: Option<(u64, Terminal<Ansi>)> = None;
    while !shared.has_ended.load(Ordering::Acquire) {
        let Some(taken) = screen::taken() else {
            canvas = None;
            std::thread::park_timeout(TICK);
            continue;
        };
        if canvas.as_ref().is_none_or(|(of, terminal)| *of != taken || terminal.backend().is_torn()) {
            canvas = Terminal::new(Ansi::default()).ok().map(|mut terminal| {
                let _ = terminal.clear();
                (taken, terminal)
            });
        }
        if let Some((_, terminal)) = &mut canvas {
            // A failed write causes a complete redraw.
            let _ = terminal.draw(|frame| draw(frame.buffer_mut(), &shared.board(), shared.terminal));
        }
        let before = Instant::now();
        let keys = keys::keys(&screen::typed(TICK));
        let requests: Vec<_> = keys.into_iter().filter_map(|key| shared.board().key(key)).collect();
        requests.into_iter().for_each(|request| shared.carry_out(request));
        // A closed terminal is always ready.
        if before.elapsed() < TICK / 10 {
            std::thread::park_timeout(TICK / 10);
        }
    }
}
