//! The commands: one file each. Each returns an exit status.

mod bbcp;
pub mod clean;
pub mod config;
pub mod copy;
pub mod demo;
mod explain;
pub mod job;
pub mod net;
mod places;
pub mod probe;
pub mod report;
pub mod serve;
pub mod status;
pub mod survey;
pub mod sweep;
pub mod sync;
pub mod verify;
pub mod version;
pub mod worker;

use std::ffi::{OsStr, OsString};
use std::path::Path;

use haul_engine::job::own_executable::own_executable;
use haul_engine::job::spec::WorkerProgram;

use crate::args::Dialect;
use crate::args::parse::{Command, parse};
use crate::args::values::Values;
use crate::exit::Exit;
use crate::resolve::{HostNames, hosts};
use crate::show;
use crate::show::display::Mode;
use crate::user_dirs;

/// Does what the words after the program's name ask for; `program` is that name.
pub fn run(program: &OsStr, words: Vec<OsString>) -> u8 {
    haul_engine::sys::secrecy::forbid_tracing();
    let dialect = Dialect::of(program);
    let exists = |name: &OsStr| std::fs::symlink_metadata(name).is_ok();
    let with_files = |values, hosts: &HostNames| crate::config::complete(values, hosts).map_err(anyhow::Error::from);
    let between = |values: Values, operands: &[OsString]| {
        let hosts = hosts(&values, operands)?;
        with_files(values, &hosts)
    };
    let here = |values| with_files(values, &HostNames::default());
    let parsed = parse(dialect, words, &exists);
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
    let done = match parsed {
        Ok(Command::Copy(values, operands)) => {
            between(values, &operands).and_then(|values| copy::run(&values, &operands))
        }
        Ok(Command::Sync(values, operands)) => {
            between(values, &operands).and_then(|values| sync::run(&values, &operands))
        }
        Ok(Command::Verify(values, operands)) => {
            between(values, &operands).and_then(|values| verify::run(&values, &operands))
        }
        Ok(Command::Probe(own, copy, operands)) => {
            between(copy, &operands).and_then(|copy| probe::run(&own, &copy, &operands))
        }
        Ok(Command::Net(is_reverse, values, host)) => {
            let operands = net::operands(&host, is_reverse);
            between(values, &operands).and_then(|values| net::run(&values, &operands))
        }
        Ok(Command::Sweep(values, operands)) => {
            between(values, &operands).and_then(|values| sweep::run(&values, &operands))
        }
        Ok(Command::Job(words)) => job::run(&words),
        Ok(Command::Survey(values, paths)) => here(values).and_then(|values| survey::run(&values, &paths)),
        Ok(Command::Report(values, files)) => here(values).and_then(|values| report::run(&values, &files)),
        Ok(Command::Demo(own, copy)) => here(copy).and_then(|copy| demo::run(&own, &copy)),
        Ok(Command::Status(values, paths)) => here(values).and_then(|values| status::run(&values, &paths)),
        Ok(Command::Clean(values, paths)) => here(values).and_then(|values| clean::run(&values, &paths)),
        Ok(Command::Config(values, as_json, host)) => config::run(&values, as_json, host.as_ref()),
        Ok(Command::Serve(values, directory)) => serve::run(&values, directory.as_deref()),
        Ok(Command::Worker(what)) => return worker::run(&what),
        Ok(Command::Version) => version::run(),
        Ok(Command::Print(text)) => {
            print(&text);
            return Exit::Done.number();
        }
        Err(error) => Err(error.into()),
    };
    done.unwrap_or_else(|error| {
        show::stderr().called(dialect.program()).error(&error.to_string());
        match error.is::<crate::args::UsageError>() {
            true => Exit::Usage,
            false => Exit::Failed,
        }
    })
    .number()
}

/// Text that was asked for, on standard output. A reader that has seen enough is no error.
fn print(text: &str) {
    use std::io::Write;
    let mut stdout = std::io::stdout().lock();
    let _ = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
}

/// A result on standard output, for people or for programs. Results are the requested output; `--quiet` has none.
fn say(mode: Mode, line: impl FnOnce() -> String, json: impl FnOnce() -> String) {
    match mode {
        Mode::Json => print(&json()),
        Mode::Quiet => {}
        _ => print(&format!("{}\n", line())),
    }
}

/// This executable as the engine starts it. If its file was replaced, the kernel still has the one that runs.
fn program() -> WorkerProgram {
    // A missing executable is reported when a worker starts.
    let executable = own_executable().unwrap_or_else(|_| Path::new("/proc/self/exe").to_owned());
    let packaged = executable.parent().and_then(Path::parent).map(|prefix| prefix.join("lib/haul"));
    WorkerProgram {
        executables_for_others: packaged.into_iter().chain(user_dirs::cache_dir()).collect(),
        executable,
        worker_arguments: vec!["worker".into()],
    }
}
