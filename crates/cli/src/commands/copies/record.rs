//! The record of a detached copy: `STATE/copies/NAME`, with the command line, the log, and the state of the last run.
//!
//! The running process holds the lock of its record, so a recycled process id never passes for a copy. A host that
//! shares the state directory with others shows their copies by the age of their last report.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context;
use haul_base::held_directory::HeldDirectory;
use haul_base::shell_word::quote;
use haul_base::sys::describe::describe;
use haul_job::byte_words::{from_json, to_json};
use haul_job::this_host::{boot_label, host_name, unix_seconds};
use haul_proto::path::escape;
use haul_show as show;
use haul_show::exit::Exit;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use serde_json::{Value, json};

use super::figures::CopyFigures;
use crate::args::UsageError;
use crate::args::nearest::nearest;
use crate::user_dirs::state_dir;

/// Time after which the record of an ended copy is removed.
const KEPT_FOR: Duration = Duration::from_secs(30 * 24 * 3600);
/// Largest record, in bytes.
const RECORD_MAX: u64 = 4 << 20;
/// Longest name, in bytes.
const NAME_MAX: usize = 64;
/// Age of the last report after which a copy on another host counts as lost, in seconds.
const LOST_AFTER_S: f64 = 60.0;
/// Longest wait for another process that looks at the lock.
const LOCK_WAIT: Duration = Duration::from_millis(500);

/// All records of this user.
pub struct Copies {
    held: Arc<HeldDirectory>,
    path: PathBuf,
}

/// A command line, as it was typed.
#[derive(Debug, Clone, PartialEq)]
pub struct CopyRequest {
    /// The words after the program's name.
    pub words: Vec<OsString>,
    /// The directory where they were typed.
    pub directory: PathBuf,
    /// Seconds since 1970.
    pub created: f64,
}

/// A detached copy.
pub struct CopyRecord {
    /// Its name.
    pub name: String,
    /// Its command line.
    pub request: CopyRequest,
    held: Arc<HeldDirectory>,
    path: PathBuf,
}

/// A run of a copy, as its process last reported it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RunReport {
    /// The process.
    pub pid: i32,
    /// Its host.
    pub host: String,
    /// The boot of that host.
    pub boot: String,
    /// The start, in seconds since 1970.
    pub started: f64,
    /// The last report.
    pub reported: f64,
    /// Progress so far.
    pub figures: CopyFigures,
    /// The exit status, once it has ended.
    pub status: Option<u8>,
}

/// The state of a copy.
#[derive(Debug, Clone, PartialEq)]
pub enum RunState {
    /// No run has begun yet.
    New,
    /// A process is at work.
    Running(RunReport),
    /// It ended by itself.
    Ended(RunReport),
    /// Its process is gone without a result.
    Lost(RunReport),
}

impl RunState {
    /// Whether a process is at work.
    pub fn is_active(&self) -> bool {
        matches!(self, Self::Running(_))
    }
}

impl Copies {
    /// Opens the records.
    pub fn open() -> anyhow::Result<Self> {
        let path = state_dir().context("no state directory: neither XDG_STATE_HOME nor HOME is set")?.join("copies");
        Ok(Self { held: Arc::new(HeldDirectory::looked_up(&path)?), path })
    }

    /// All copies with their states, the oldest first. Removes the records of those that ended long ago, and skips
    /// other entries.
    pub fn all(&self) -> anyhow::Result<Vec<(CopyRecord, RunState)>> {
        let names = self.held.names(&self.path).map_err(|error| io_error(&self.path, error))?;
        let records = names.iter().filter_map(|name| self.read(name.to_str()?).ok().flatten());
        let (now, mut kept) = (unix_seconds(), Vec::new());
        for record in records {
            let state = record.state();
            let last = match &state {
                RunState::Running(_) => now,
                RunState::New => record.request.created,
                RunState::Ended(report) | RunState::Lost(report) => report.reported,
            };
            match now - last > KEPT_FOR.as_secs_f64() {
                true => drop(self.held.remove_tree(&record.path)),
                false => kept.push((record, state)),
            }
        }
        kept.sort_by(|(a, _), (b, _)| a.request.created.total_cmp(&b.request.created));
        Ok(kept)
    }

    fn read(&self, name: &str) -> anyhow::Result<Option<CopyRecord>> {
        let path = self.path.join(name);
        let file = path.join("copy.json");
        let text = match self.held.read(&file, RECORD_MAX) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            read => read.map_err(|error| io_error(&file, error))?,
        };
        let damaged = || io_error(&file, io::Error::new(io::ErrorKind::InvalidData, "the record is damaged"));
        let value: Value = serde_json::from_slice(&text).map_err(|_| damaged())?;
        let request = CopyRequest::parse(&value).ok_or_else(damaged)?;
        Ok(Some(CopyRecord { name: name.to_owned(), request, held: Arc::clone(&self.held), path }))
    }

    /// The copy of this name.
    pub fn named(&self, name: &OsStr) -> anyhow::Result<CopyRecord> {
        let found = name.to_str().filter(|name| is_name(name)).map(|name| self.read(name)).transpose()?.flatten();
        let unknown = || {
            let records = self.all().unwrap_or_default();
            let names: Vec<_> = records.iter().map(|(record, _)| record.name.as_str()).collect();
            let error = UsageError::new(format!("no copy is called {}", escape(name.as_bytes())));
            match nearest(&name.to_string_lossy(), &names) {
                Some(near) => error.remedy(format!("did you mean {near}")),
                None => error.remedy("haul copies lists them"),
            }
        };
        Ok(found.ok_or_else(unknown)?)
    }

    /// Creates a record: of the name that was asked for, or of a free one that begins with `stem`. Removes old ones.
    pub fn create(&self, asked: Option<&str>, stem: &str, request: CopyRequest) -> anyhow::Result<CopyRecord> {
        self.all()?;
        let name = match asked {
            Some(name) if !is_name(name) => {
                return Err(UsageError::new(format!("--detach={}: not a name", escape(name.as_bytes())))
                    .remedy(format!("up to {NAME_MAX} letters, digits, dots, dashes and underscores"))
                    .into());
            }
            Some(name) => self.make(name)?.then(|| name.to_owned()).ok_or_else(|| {
                UsageError::new(format!("--detach={name}: there is a copy of this name"))
                    .remedy(format!("haul copies rerun {name}"))
                    .remedy("or choose another name")
            })?,
            None => self.make_numbered(stem)?,
        };
        let path = self.path.join(&name);
        let record = CopyRecord { name, request, held: Arc::clone(&self.held), path };
        let written = record.held.replace(&record.path.join("copy.json"), record.request.json().to_string().as_bytes());
        if let Err(error) = written {
            let _ = self.held.remove_tree(&record.path);
            return Err(io_error(&record.path, error));
        }
        Ok(record)
    }

    fn make_numbered(&self, stem: &str) -> anyhow::Result<String> {
        let mut number = 1_u64;
        loop {
            let name = format!("{stem}-{number}");
            if self.make(&name)? {
                return Ok(name);
            }
            number += 1;
        }
    }

    /// Creates the directory of a record, unless the name is taken.
    fn make(&self, name: &str) -> anyhow::Result<bool> {
        let path = self.path.join(name);
        if self.held.has(&path) {
            return Ok(false);
        }
        match self.held.make_directory(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            made => made.map(|()| true).map_err(|error| io_error(&path, error)),
        }
    }
}

/// The first letters of a name that nobody chose: of the target's last component.
pub fn stem(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let plain: String = name.chars().filter(|c| is_of_a_name(*c)).take(NAME_MAX / 2).collect();
    let plain = plain.trim_start_matches(['.', '-', '_']);
    if plain.is_empty() { "copy".to_owned() } else { plain.to_owned() }
}

fn is_of_a_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || "._-".contains(c)
}

fn is_name(name: &str) -> bool {
    name.len() <= NAME_MAX && name.starts_with(|c: char| c.is_ascii_alphanumeric()) && name.chars().all(is_of_a_name)
}

fn io_error(path: &Path, error: io::Error) -> anyhow::Error {
    anyhow::anyhow!("{}: {}", escape(path.as_os_str().as_bytes()), describe(&error))
}

impl CopyRequest {
    fn json(&self) -> Value {
        let words: Vec<_> = self.words.iter().map(|word| to_json(word)).collect();
        json!({ "words": words, "directory": to_json(self.directory.as_os_str()), "created": self.created })
    }

    fn parse(value: &Value) -> Option<Self> {
        let words = value["words"].as_array()?.iter().map(from_json).collect::<Option<_>>()?;
        let directory = from_json(&value["directory"])?.into();
        Some(Self { words, directory, created: value["created"].as_f64()? })
    }

    /// The command line, quoted for a shell.
    pub fn shown(&self) -> String {
        let words = self.words.iter().map(|word| quote(&escape(word.as_bytes())));
        std::iter::once("haul".to_owned()).chain(words).collect::<Vec<_>>().join(" ")
    }
}

impl CopyRecord {
    /// The file with all that the copy has printed.
    pub fn log_path(&self) -> PathBuf {
        self.path.join("log")
    }

    /// Opens the log to append to it, writes the command line, and returns where that begins.
    pub fn begin_log(&self) -> anyhow::Result<(File, u64)> {
        let begin = || {
            let mut log = self.held.append(&self.log_path())?;
            let from = log.seek(SeekFrom::End(0))?;
            writeln!(log, "$ {}", self.request.shown())?;
            Ok((log, from))
        };
        begin().map_err(|error| io_error(&self.log_path(), error))
    }

    /// Opens the log to read it; `None` before the first run.
    pub fn log(&self) -> anyhow::Result<Option<File>> {
        match self.held.open(&self.log_path()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            opened => opened.map(Some).map_err(|error| io_error(&self.log_path(), error)),
        }
    }

    /// The state of the last run.
    pub fn state(&self) -> RunState {
        let Some(report) = self.report() else {
            return if self.is_locked() { RunState::Running(RunReport::default()) } else { RunState::New };
        };
        let is_here = report.host == host_name();
        let is_alive = match is_here {
            true => report.boot == boot_label() && self.is_locked(),
            false => report.status.is_none() && unix_seconds() - report.reported < LOST_AFTER_S,
        };
        match (is_alive, report.status) {
            (true, _) => RunState::Running(report),
            (false, Some(_)) => RunState::Ended(report),
            (false, None) => RunState::Lost(report),
        }
    }

    fn report(&self) -> Option<RunReport> {
        let text = self.held.read(&self.path.join("run.json"), RECORD_MAX).ok()?;
        RunReport::parse(&serde_json::from_slice(&text).ok()?)
    }

    fn lock_file(&self) -> io::Result<File> {
        self.held.append(&self.path.join("lock"))
    }

    fn is_locked(&self) -> bool {
        let shared = self.lock_file().map(|file| flock(file, FlockOperation::NonBlockingLockShared));
        matches!(shared, Ok(Err(Errno::WOULDBLOCK)))
    }

    /// Begins a run of this process; `None` while another one is at work.
    pub fn run(&self) -> anyhow::Result<Option<RecordedRun>> {
        let lock = self.lock_file().map_err(|error| io_error(&self.path, error))?;
        let since = Instant::now();
        loop {
            match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => break,
                Err(Errno::WOULDBLOCK) if since.elapsed() >= LOCK_WAIT => return Ok(None),
                // Somebody may be looking, for a moment.
                Err(Errno::WOULDBLOCK) => std::thread::sleep(Duration::from_millis(10)),
                Err(error) => return Err(io_error(&self.path.join("lock"), error.into())),
            }
        }
        let now = unix_seconds();
        let report = RunReport {
            pid: rustix::process::getpid().as_raw_nonzero().get(),
            host: host_name(),
            boot: boot_label(),
            started: now,
            reported: now,
            ..RunReport::default()
        };
        let (file, copies) = (self.path.join("run.json"), Arc::default());
        let state = LiveRun { held: Arc::clone(&self.held), file, report: Arc::default(), copies };
        state.write(|kept| *kept = report)?;
        Ok(Some(RecordedRun { _lock: lock, state }))
    }

    /// The error for a second run.
    pub fn is_running_error(&self) -> UsageError {
        UsageError::new(format!("{} is running", self.name)).remedy(format!("haul copies attach {}", self.name))
    }
}

/// The run of this process, until it is dropped.
pub struct RecordedRun {
    _lock: File,
    state: LiveRun,
}

/// The state of the run of this process, as it is reported.
#[derive(Clone)]
pub struct LiveRun {
    held: Arc<HeldDirectory>,
    file: PathBuf,
    report: Arc<Mutex<RunReport>>,
    /// The figures of each copy: one for each target.
    copies: Arc<Mutex<Vec<CopyFigures>>>,
}

impl RecordedRun {
    /// The state, for the display.
    pub fn state(&self) -> LiveRun {
        self.state.clone()
    }

    /// Records the exit status.
    pub fn end(self, exit: Exit) {
        if let Err(error) = self.state.write(|report| report.status = Some(exit.number())) {
            show::stderr().notice(&error.to_string());
        }
    }
}

impl LiveRun {
    /// Adds a copy. Returns its index.
    pub fn add_copy(&self) -> usize {
        let mut copies = self.copies.lock().unwrap_or_else(PoisonError::into_inner);
        copies.push(CopyFigures::default());
        copies.len() - 1
    }

    /// Reports the figures of a copy, as part of the sum.
    pub fn write_figures(&self, index: usize, figures: CopyFigures) -> anyhow::Result<()> {
        let mut copies = self.copies.lock().unwrap_or_else(PoisonError::into_inner);
        copies.iter_mut().skip(index).take(1).for_each(|copy| *copy = figures);
        let sum = CopyFigures::sum(&copies);
        drop(copies);
        self.write(|report| report.figures = sum)
    }

    /// Changes the report, and writes it. A copy continues without its record.
    pub fn write(&self, change: impl FnOnce(&mut RunReport)) -> anyhow::Result<()> {
        let mut report = self.report.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut report);
        report.reported = unix_seconds();
        let text = report.json().to_string();
        self.held.replace(&self.file, text.as_bytes()).map_err(|error| io_error(&self.file, error))
    }
}

impl RunReport {
    /// How it ended.
    pub fn exit(&self) -> Exit {
        self.status.and_then(Exit::of_number).unwrap_or(Exit::Failed)
    }

    fn json(&self) -> Value {
        json!({
            "pid": self.pid,
            "host": self.host,
            "boot": self.boot,
            "started": self.started,
            "reported": self.reported,
            "figures": self.figures.json(),
            "status": self.status,
        })
    }

    fn parse(value: &Value) -> Option<Self> {
        Some(Self {
            pid: value["pid"].as_i64()?.try_into().ok()?,
            host: value["host"].as_str()?.to_owned(),
            boot: value["boot"].as_str()?.to_owned(),
            started: value["started"].as_f64()?,
            reported: value["reported"].as_f64()?,
            figures: CopyFigures::parse(&value["figures"]),
            status: value["status"].as_u64().and_then(|status| status.try_into().ok()),
        })
    }
}
