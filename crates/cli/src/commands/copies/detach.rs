//! Starts detached copies.

use std::ffi::{OsStr, OsString};
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::process::{Child, Command as Process, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use haul_base::sys::describe::{describe, describe_start};
use haul_base::sys::inherited_fds::keep_from_children;
use haul_job::this_host::unix_seconds;
use haul_show as show;
use haul_show::exit::Exit;
use haul_show::output::print;

use super::logout::{Logout, logout};
use super::planned::{planned, refuse_attached};
use super::record::{Copies, CopyRecord, CopyRequest, RunState, stem};
use crate::args::local_files::LocalDisk;
use crate::args::parse::{Command, parse};
use crate::args::values::Values;
use crate::args::{Dialect, UsageError, flags};
use crate::commands::own_program::own_program;
use crate::resolve::Plan;

/// Longest wait for the streams of a new copy.
const START: Duration = Duration::from_secs(10);
/// Interval of looks at a new copy.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Whether a command line asks for a detached copy.
pub fn is_asked(command: &Command) -> bool {
    matches!(command, Command::Copy(values, _) | Command::Sync(values, _) if values.is_set(&flags::DETACH))
}

/// Starts the copy of `words`, which `command` was parsed from, and prints its name.
pub fn start(command: Command, words: Vec<OsString>) -> anyhow::Result<Exit> {
    if matches!(&command, Command::Copy(values, _) if values.is_set(&flags::PAIRS)) {
        return Err(UsageError::new("--detach and --pairs contradict each other: --pairs is many copies").into());
    }
    let Some((values, plans)) = planned(command)? else { return Ok(Exit::Usage) };
    plans.iter().try_for_each(|plan| refuse_attached(&values, plan))?;
    let directory = std::env::current_dir().context("the working directory")?;
    let request = CopyRequest { words, directory, created: unix_seconds() };
    let name = values.last(&flags::DETACH).filter(|name| !name.is_empty()).map(OsStr::to_string_lossy);
    let record = Copies::open()?.create(name.as_deref(), &stem(named_place(&plans)), request)?;
    begin(&record, &logout_of(&plans), is_quiet(&values))
}

/// The place that names a copy: its target, or its source if there are several targets.
fn named_place(plans: &[Plan]) -> &Path {
    let Some(Plan { copy, .. }) = plans.first() else { return Path::new("") };
    match copy.sources.first() {
        Some(source) if plans.len() > 1 || copy.target.path.file_name().is_none() => &source.path,
        _ => &copy.target.path,
    }
}

/// What logging out means for all of them.
fn logout_of(plans: &[Plan]) -> Logout {
    plans.iter().map(|plan| logout(&plan.copy)).fold(Logout::default(), |mut all, one| {
        all.needs_scope |= one.needs_scope;
        all.warnings.extend(one.warnings);
        all.warnings.dedup();
        all
    })
}

fn is_quiet(values: &Values) -> bool {
    values.is_set(&flags::QUIET)
}

/// Starts a recorded copy again.
pub fn rerun(record: &CopyRecord) -> anyhow::Result<Exit> {
    if record.state().is_active() {
        return Err(record.is_running_error().into());
    }
    std::env::set_current_dir(&record.request.directory)
        .map_err(|error| anyhow::anyhow!("{}: {}", record.request.directory.display(), describe(&error)))?;
    let Some((values, plans)) = planned(parse(Dialect::Haul, record.request.words.clone(), &LocalDisk)?)? else {
        return Ok(Exit::Usage);
    };
    begin(record, &logout_of(&plans), is_quiet(&values))
}

fn begin(record: &CopyRecord, logout: &Logout, is_quiet: bool) -> anyhow::Result<Exit> {
    if !is_quiet {
        logout.warnings.iter().for_each(|warning| show::stderr().warning(warning));
    }
    let (log, from) = record.begin_log()?;
    let begun = unix_seconds();
    let mut child = spawn(record, logout.needs_scope, log)?;
    let ended = wait_for_streams(record, begun, &mut child)?;
    if let Some(exit) = ended.filter(|exit| !exit.is_complete()) {
        let mut text = String::new();
        if let Some(mut log) = record.log()? {
            log.seek(SeekFrom::Start(from))?;
            log.read_to_string(&mut text)?;
        }
        text.lines().skip(1).for_each(|line| show::stderr().plain(line));
        return Ok(exit);
    }
    print(&format!("{}\n", record.name));
    if !is_quiet {
        show::stderr()
            .notice(&format!("{} continues after logout\nhint: haul copies attach {}", record.name, record.name));
    }
    Ok(Exit::Done)
}

/// Starts the process of a copy, without descriptors of this process.
fn spawn(record: &CopyRecord, needs_scope: bool, log: std::fs::File) -> anyhow::Result<Child> {
    keep_from_children()?;
    let program = own_program().executable;
    let mut command = match needs_scope {
        true => {
            let mut scope = Process::new("systemd-run");
            scope.args(["--user", "--scope", "--quiet", "--collect", "--"]).arg(&program);
            scope
        }
        false => Process::new(&program),
    };
    command.args(["copies", "run", &record.name]).current_dir(&record.request.directory);
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    command.spawn().map_err(|error| anyhow::anyhow!("{}: {}", record.name, describe_start(&error)))
}

/// Waits until the streams are up. Returns how the copy has ended, if it has.
fn wait_for_streams(record: &CopyRecord, begun: f64, child: &mut Child) -> anyhow::Result<Option<Exit>> {
    let since = Instant::now();
    while since.elapsed() < START {
        let is_gone = child.try_wait()?.is_some();
        match record.state() {
            RunState::Running(report) if report.started >= begun && report.figures.is_connected => return Ok(None),
            RunState::Ended(report) if report.started >= begun => {
                return Ok(Some(report.exit()));
            }
            _ if is_gone => return Ok(Some(Exit::Failed)),
            _ => thread::sleep(LOOK_EVERY),
        }
    }
    show::stderr().notice(&format!("{}: still connecting", record.name));
    Ok(None)
}
