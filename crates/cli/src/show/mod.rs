//! What people and programs see of a job. One form a file; each observes the engine's events.

mod bar;
mod bbcp;
mod differences;
mod human;
mod json;
mod meter;
mod names;
pub mod partials;
mod paths;
pub mod served;
mod summary;
pub mod text;
pub mod units;

use std::io::{self, BufWriter};

use haul_engine::error::Outcome;
use haul_engine::event::Observer;

use crate::resolve::{Display, Mode};
use crate::terminal;
use text::Text;

/// Bytes of events that are collected before they are written, unless one of them cannot wait.
const EVENT_BUFFER: usize = 64 << 10;

/// A form of output.
pub trait Show: Observer {
    /// Says something that the engine does not know of.
    fn complain(&mut self, message: &str);

    /// Shows the result and ends. Fails only where lines were for a program and could not be written.
    fn finish(&mut self, outcome: &Outcome) -> io::Result<()>;
}

/// The form that `display` asks for. `title` names what is copied.
pub fn new(display: Display, title: &str) -> Box<dyn Show> {
    let level = match (display.mode, display.verbose) {
        (Mode::Quiet | Mode::Json, _) => human::Level::Errors,
        (_, true) => human::Level::Verbose,
        (_, false) => human::Level::Normal,
    };
    let human = human::Human::new(stderr(), level);
    match display.mode {
        Mode::Plain | Mode::Quiet => Box::new(human),
        Mode::Bar => Box::new(bar::Bar::new(human, title)),
        Mode::BbcpLines => Box::new(bbcp::Lines::new(human, stderr(), display.verbose)),
        Mode::Json => Box::new(json::Json::new(Box::new(BufWriter::with_capacity(EVENT_BUFFER, io::stdout())), human)),
    }
}

/// Standard error as lines of text.
pub fn stderr() -> Text {
    Text::new(Box::new(io::stderr()), terminal::stderr_takes_colour())
}
