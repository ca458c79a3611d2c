//! The commands, one per file. Each returns an exit status.

mod bbcp;
pub mod config;
mod configured;
pub mod copies;
pub mod copy;
pub mod demo;
mod dialect_words;
mod explain;
pub mod files;
pub mod job;
mod many_targets;
pub mod net;
mod next_program;
mod notices;
mod own_program;
mod pairs;
pub mod probe;
pub mod read;
pub mod report;
mod rsync;
mod scp;
pub mod serve;
mod session_place;
pub mod survey;
pub mod sweep;
pub mod sync;
pub mod twoway;
pub mod verify;
pub mod version;
mod watch;
pub mod worker;

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use haul_show as show;
use haul_show::exit::Exit;
use haul_show::lost_output::exit_status;
use haul_show::output::print;

use crate::args::flags;
use crate::args::local_files::LocalDisk;
use crate::args::parse::{Command, FileCommand, parse};
use crate::args::typed::as_typed;
use crate::args::{Dialect, UsageError};
use crate::commands::configured::{between, here};

/// Executes a command line; `program` is the program's name. Lost output makes it fail.
pub fn run(program: &OsStr, mut words: Vec<OsString>) -> u8 {
    haul_engine::sys::secrecy::forbid_tracing();
    let tongue = Tongue::of(program).or_else(|| {
        let spoken = words.first().and_then(|word| Tongue::of(word))?;
        words.remove(0);
        Some(spoken)
    });
    match tongue {
        None => exit_status(run_words(Dialect::Haul, words), || show::stderr().called("haul")),
        Some(Tongue::Bbcp) => exit_status(run_words(Dialect::Bbcp, words), || show::stderr().called("bbcp")),
        Some(Tongue::Scp) => exit_status(scp::run(words), || show::stderr().called("scp")),
        Some(Tongue::Rsync) => exit_status(rsync::run(words), || show::stderr().called("rsync")),
    }
}

/// A program whose whole command line haul takes: under its name, or as `haul NAME ...`.
enum Tongue {
    Bbcp,
    Rsync,
    Scp,
}

impl Tongue {
    /// The program of a path.
    fn of(program: &OsStr) -> Option<Self> {
        match program.as_bytes().rsplit(|byte| *byte == b'/').next()? {
            b"bbcp" => Some(Self::Bbcp),
            b"rsync" => Some(Self::Rsync),
            b"scp" => Some(Self::Scp),
            _ => None,
        }
    }
}

fn run_words(dialect: Dialect, words: Vec<OsString>) -> u8 {
    let typed = words.clone();
    let parsed = parse(dialect, words, &LocalDisk);
    if dialect == Dialect::Bbcp {
        match parsed {
            Ok(Command::Copy(values, operands)) => {
                return between(values, &operands)
                    .and_then(|values| bbcp::run(&values, &operands))
                    .unwrap_or_else(|error| bbcp::refuse(&error));
            }
            Err(error) => return bbcp::refuse(&error.into()),
            _ => {}
        }
    }
    let run = |command| match copies::detach::is_asked(&command) {
        true => copies::detach::start(command, typed.clone()).map(Exit::number),
        false => run_command(command),
    };
    parsed.map_err(anyhow::Error::from).and_then(run).unwrap_or_else(|error| {
        let (exit, message) = match error.downcast_ref::<UsageError>() {
            Some(error) => (Exit::Usage, as_typed(&error.to_string(), &typed)),
            None => (Exit::Failed, error.to_string()),
        };
        show::stderr().called(dialect.program()).error(&message);
        exit.number()
    })
}

/// Runs a command. Returns its exit status.
fn run_command(command: Command) -> anyhow::Result<u8> {
    let exit = match command {
        Command::Copy(values, sources) if values.is_set(&flags::TO) => many_targets::run(&values, &sources),
        Command::Copy(values, _) if values.is_set(&flags::PAIRS) => pairs::run(&values),
        Command::Copy(values, operands) => copy::run(&between(values, &operands)?, &operands),
        Command::Twoway(own, copy, roots) => twoway::run(&own, &copy, &roots),
        Command::Sync(values, operands) => sync::run(&between(values, &operands)?, &operands),
        Command::Verify(values, operands) => verify::run(&between(values, &operands)?, &operands),
        Command::Probe(own, copy, operands) => probe::run(&own, &between(copy, &operands)?, &operands),
        Command::Net(is_reverse, values, host) => {
            let operands = net::operands(&host, is_reverse);
            net::run(&between(values, &operands)?, &operands)
        }
        Command::Read(own, copy, place) => {
            read::run(&own, &between(copy, &session_place::operands(std::slice::from_ref(&place)))?, &place)
        }
        Command::Files(what @ (FileCommand::Status | FileCommand::Clean), own, copy, places) => {
            files::run(what, &here(own)?, &copy, &places)
        }
        // Settings of copies mean other things here: recursive, say.
        Command::Files(what, own, copy, places) => files::run(what, &own, &copy, &places),
        Command::CompletePaths(typed) => files::completion::paths(&typed),
        Command::Sweep(values, operands) => sweep::run(&between(values, &operands)?, &operands),
        Command::Job(words) => job::run(&words),
        Command::Survey(values, paths) => survey::run(&here(values)?, &paths),
        Command::Report(values, files) => report::run(&here(values)?, &files),
        Command::Demo(own, copy) => demo::run(&own, &here(copy)?),
        Command::Config(own, copy, host) => config::run(&own, &copy, host.as_ref()),
        Command::Copies(values, None) => copies::list(&values),
        Command::Copies(_, Some((action, name))) => copies::run(action, &name),
        Command::Jobs(values) => job::list(&values).and_then(|_| copies::list(&values)),
        Command::Serve(values, directory) => serve::run(&values, directory.as_deref()),
        Command::Version => version::run(),
        Command::Notices => notices::run(),
        Command::Print(text) => {
            print(&text);
            Ok(Exit::Done)
        }
        Command::Worker(what) => return Ok(worker::run(&what)),
    };
    exit.map(Exit::number)
}
