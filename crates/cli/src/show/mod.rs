//! Displays of a copy for people and programs, one form per file. Each observes the engine's events.

mod bar;
#[cfg(feature = "tui")]
pub mod dashboard;
mod differences;
pub mod display;
pub mod human;
mod items;
pub mod json;
mod lines;
mod load;
pub mod meter;
mod names;
mod output_form;
pub mod partials;
pub mod parts;
pub mod paths;
mod progress_line;
pub mod served;
mod streams;
pub mod summary;
pub mod verdict;

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use display::{Display, Mode};
use haul_base::copy::runtime_control::RuntimeControl;
use haul_proto::path::escape;

pub use self::output_form::{Half, Show};
use crate::lost_output::CheckedOutput;
use crate::pending::{LOG_HEADER, ReplaceableFile};
use crate::stamped_lines::{self, StampedLines};
use crate::text::TextOutput;
use crate::{terminal, units};

/// Bytes of events collected before a write, unless an event is urgent.
const EVENT_BUFFER: usize = 64 << 10;

/// The display for a copy that `steering` controls. `title` names its data. Fails if a log cannot be opened.
#[cfg_attr(not(feature = "tui"), allow(unused_variables, reason = "only a dashboard steers"))]
pub fn new(display: &Display, title: &str, steering: &RuntimeControl) -> anyhow::Result<Box<dyn Show>> {
    if display.bits {
        units::show_bits();
    }
    let level = match (display.mode, display.verbosity) {
        (Mode::Quiet | Mode::Json, _) => human::Verbosity::Errors,
        (_, 0) => human::Verbosity::Normal,
        (_, 1) => human::Verbosity::Verbose,
        (_, 2) => human::Verbosity::Path,
        _ => human::Verbosity::Files,
    };
    let mut human = human::Human::new(output(display)?, level);
    if display.log.is_none() && terminal::stderr_is_terminal() {
        human = human.on_terminal();
    }
    let human = match display.mode {
        // Refuses other output to the terminal of a dashboard.
        Mode::Tui => human,
        _ => human.with_list(list()),
    };
    Ok(match display.mode {
        // bbcp's name has a display of its own (`commands::bbcp`).
        Mode::Plain | Mode::Quiet | Mode::BbcpLines => Box::new(human),
        Mode::Bar => Box::new(bar::BarView::new(human, title)),
        #[cfg(feature = "tui")]
        Mode::Tui => Box::new(dashboard::Dashboard::new(human, level, title, steering)?),
        // Refused with the options.
        #[cfg(not(feature = "tui"))]
        Mode::Tui => Box::new(human),
        Mode::ProgressLines => {
            let columns: fn() -> Option<usize> = match display.log {
                None if terminal::stderr_is_terminal() => || Some(terminal::stderr_columns()),
                _ => || None,
            };
            Box::new(lines::ProgressLines::new(human, output(display)?, title, columns))
        }
        Mode::Json => Box::new(json::Json::new(Box::new(BufWriter::with_capacity(EVENT_BUFFER, io::stdout())), human)),
    })
}

/// The output: standard error, or a log.
fn output(display: &Display) -> anyhow::Result<TextOutput> {
    let text = match &display.log {
        #[cfg(feature = "tui")]
        None if display.mode == Mode::Tui => {
            TextOutput::new(Box::new(dashboard::Words), terminal::stderr_takes_colour())
        }
        None => stderr(),
        Some(file) => {
            let log = StampedLines::new(open_log(file)?, stamped_lines::rfc3339, "");
            TextOutput::new(Box::new(CheckedOutput::new(log, log_name(file))), false)
        }
    };
    Ok(text.called(display.program))
}

/// Standard output, flushed by line on a terminal.
fn list() -> Box<dyn Write> {
    let out = io::stdout();
    if out.is_terminal() { Box::new(out) } else { Box::new(BufWriter::new(out)) }
}

/// Opens a log to append to, or creates it. A device or a FIFO has no header.
fn open_log(path: &Path) -> anyhow::Result<File> {
    let open = || {
        let mut log = ReplaceableFile::Log.open_to_append(path, |_| false)?;
        let found = log.metadata()?;
        if found.is_file() && found.len() == 0 {
            log.write_all(LOG_HEADER.as_bytes())?;
        }
        Ok(log)
    };
    open().map_err(|error: io::Error| anyhow::anyhow!("{}: {error}", log_name(path)))
}

/// A log in messages.
pub fn log_name(path: &Path) -> String {
    format!("--logfile {}", escape(path.as_os_str().as_bytes()))
}

/// Standard error as lines of text.
pub fn stderr() -> TextOutput {
    TextOutput::new(Box::new(io::stderr()), terminal::stderr_takes_colour())
}
