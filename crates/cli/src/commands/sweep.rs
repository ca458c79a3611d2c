//! `haul sweep SOURCE TARGET`: plans a sweep, runs it, and shows the results.

use std::ffi::OsString;
use std::path::PathBuf;

use haul_base::copy::runtime_control::RuntimeControl;
use haul_base::sys::cancel::Cancel;
use haul_show as show;
use haul_show::display::Mode;
use haul_show::exit::Exit;
use haul_show::json::{JsonMessage, encode, sorted};
use haul_show::output::print;
use haul_show::text::TextOutput;
use haul_show::{terminal, units};
use serde::Serialize;

use crate::args::values::Values;
use crate::commands::own_program::own_program;
use crate::resolve::sweep;
use crate::signals::Watch;
use crate::sweep::figures::{Figures, SweepRun, SweepRunFields};
use crate::sweep::{Listener, SweepBench, SweepEnd};

/// Sweeps `operands`: a source and a target.
pub fn run(values: &Values, operands: &[OsString]) -> anyhow::Result<Exit> {
    let (sweep, mode, time_limit) = sweep(values, operands, terminal::stderr_is_terminal())?;
    let cancel = Cancel::new();
    let steering = RuntimeControl::new();
    let watch = Watch::start(cancel.clone(), steering.rate().clone(), time_limit)?;
    let mut messages = SweepMessages { text: show::stderr(), mode };
    let bench = SweepBench { program: own_program(), watch: &watch, steering: &steering };
    let ended = sweep.carry_out(&cancel, bench, &mut messages)?;
    let files: Vec<_> =
        ["csv", "json"].into_iter().chain(sweep.report.then_some("html")).map(|ending| sweep.named(ending)).collect();
    Ok(messages.end(ended, &files))
}

/// A line of `haul sweep --json`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "event", rename_all = "snake_case")]
#[allow(missing_docs, reason = "docs/JSON.md describes each field")]
pub enum SweepLine<'a> {
    Run {
        number: usize,
        of: usize,
        #[serde(flatten, serialize_with = "sorted")]
        run: SweepRunFields<'a>,
    },
    Notice {
        message: JsonMessage,
    },
    Summary {
        files: Vec<String>,
        status: u8,
    },
}

/// Shows the events of a sweep.
struct SweepMessages {
    text: TextOutput,
    mode: Mode,
}

impl SweepMessages {
    fn end(&mut self, ended: SweepEnd, files: &[PathBuf]) -> Exit {
        let names: Vec<_> = files.iter().map(|file| file.display().to_string()).collect();
        let exit = match ended {
            SweepEnd::Well => Exit::Done,
            SweepEnd::WithFailures => Exit::Failed,
            SweepEnd::Stopped => Exit::Interrupted,
        };
        if self.mode == Mode::Json {
            self.send(&SweepLine::Summary { files: names, status: exit.number() });
        } else if self.mode != Mode::Quiet {
            self.text.plain(&format!("results are in {}", names.join(", ")));
        }
        if ended == SweepEnd::Stopped {
            self.text.error("interrupted\nrerun the command to resume");
        }
        exit
    }

    fn send(&mut self, line: &SweepLine<'_>) {
        // A closed pipe is no error: the files have the results.
        print(&encode(line));
    }
}

impl Listener for SweepMessages {
    fn run(&mut self, number: usize, of: usize, run: &SweepRun) {
        match (self.mode, &run.result) {
            (Mode::Json, _) => self.send(&SweepLine::Run { number, of, run: run.into() }),
            (Mode::Quiet, Ok(_)) => {}
            (_, Ok(figures)) => {
                self.text.plain(&format!("{number}/{of}  {}: {}", run.setting.label(), figures_text(figures)))
            }
            (_, Err(why)) => self.text.error(&format!("{number}/{of}  {}: {why}", run.setting.label())),
        }
    }

    fn notice(&mut self, line: &str) {
        match self.mode {
            Mode::Json => self.send(&SweepLine::Notice { message: line.into() }),
            Mode::Quiet => {}
            _ => self.text.notice(line),
        }
    }
}

/// `117 MB/s (real 9.21 s, user 1.20 s, system 2.02 s)`
fn figures_text(figures: &Figures) -> String {
    let seconds = |seconds: f64| format!("{seconds:.2} s");
    let [real, user, system] = [figures.real_s, figures.user_s, figures.system_s].map(seconds);
    format!("{} (real {real}, user {user}, system {system})", units::rate(figures.bytes_per_s))
}
