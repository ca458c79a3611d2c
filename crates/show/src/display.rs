//! The display of a copy: progress, verbosity and the log.

use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use haul_base::copy::runtime_control::RuntimeControl;
use haul_base::copy::spec::ReportOptions;
use haul_proto::path::escape;

#[cfg(feature = "tui")]
use crate::dashboard;
use crate::lost_output::CheckedOutput;
use crate::output_form::{ListForm, Show};
use crate::pending::{LOG_HEADER, ReplaceableFile};
use crate::stamped_lines::{self, StampedLines};
use crate::text::{self, TextOutput};
use crate::whole_lines::WholeLines;
use crate::{bar, human, json, lines, terminal, units};

/// Default interval of progress as events.
pub const JSON_PROGRESS_EVERY: Duration = Duration::from_secs(1);

/// The display.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Display {
    /// The form of progress.
    pub mode: Mode,
    /// The number of `-v` options.
    pub verbosity: u8,
    /// Whether bbcp's lines include progress: `-P`.
    pub progress_lines: bool,
    /// The program's name before messages: haul, or bbcp.
    pub program: &'static str,
    /// `--bits`: rates are in bits per second.
    pub bits: bool,
    /// `--stats`: the summary has the bytes between the hosts.
    pub has_statistics: bool,
    /// The target of this copy, if there are several (`--to`).
    pub target: Option<String>,
    /// `--logfile`: the log; `None` for standard error.
    pub log: Option<PathBuf>,
    /// The lines of changed entries.
    pub list: ListForm,
}

/// The form of progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// A bar on the terminal.
    Bar,
    /// Errors and the summary, without progress.
    Plain,
    /// The full-screen display with keys.
    Tui,
    /// haul's progress line, printed at intervals.
    ProgressLines,
    /// bbcp's lines.
    BbcpLines,
    /// Events on standard output.
    Json,
    /// Errors only.
    Quiet,
}

impl Mode {
    /// The form of haul's progress.
    pub fn of_copy(is_json: bool, is_quiet: bool, has_lines: bool, has_bar: bool) -> Self {
        match (is_json, is_quiet, has_lines, has_bar) {
            (true, _, _, _) => Self::Json,
            (_, true, _, _) => Self::Quiet,
            (_, _, true, _) => Self::ProgressLines,
            (_, _, _, true) => Self::Bar,
            _ => Self::Plain,
        }
    }

    /// The default interval of progress.
    pub fn progress_every(self) -> Duration {
        match self {
            Self::Json => JSON_PROGRESS_EVERY,
            _ => ReportOptions::default().progress_every,
        }
    }
}

impl Display {
    /// Whether it names changed entries (`-v`).
    pub fn names_entries(&self) -> bool {
        let is_for_people = !matches!(self.mode, Mode::BbcpLines | Mode::Json | Mode::Quiet);
        is_for_people && self.verbosity > 0
    }

    /// Whether the engine reports each complete file.
    pub fn reports_files(&self) -> bool {
        match self.mode {
            Mode::Json => true,
            Mode::BbcpLines => self.verbosity > 0,
            _ => self.verbosity > 2,
        }
    }
}

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
    let target = display.target.as_deref();
    let mut human = human::Human::new(output(display)?.about(target), level);
    if display.log.is_some() {
        human = human.with_all_failures();
    } else if terminal::stderr_is_terminal() {
        human = human.on_terminal();
    }
    let human = human.with_list_form(display.list).with_traffic(display.has_statistics);
    let human = match display.mode {
        // Refuses other output to the terminal of a dashboard.
        Mode::Tui => human,
        // Names are messages, which a log gets.
        _ if display.list == ListForm::Names && display.log.is_some() => human,
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
            Box::new(lines::ProgressLines::new(human, output(display)?, target.unwrap_or(title), columns))
        }
        Mode::Json => Box::new(json::Json::new(Box::new(WholeLines::default()), human).about(target)),
    })
}

/// The output: standard error, or a log.
pub fn output(display: &Display) -> anyhow::Result<TextOutput> {
    let text = match &display.log {
        #[cfg(feature = "tui")]
        None if display.mode == Mode::Tui => {
            TextOutput::new(Box::new(dashboard::Words), terminal::stderr_takes_colour())
        }
        None => text::stderr(),
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
    if out.is_terminal() { Box::new(out) } else { Box::new(WholeLines::default()) }
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
