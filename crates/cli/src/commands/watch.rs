//! `--watch`: runs once for everything, and again for what has changed.
//!
//! A thread for each watched root holds a file session, which waits for changes. Where such a session was lost, or a run
//! did not reach its end, the next run looks at all that may have been missed.

use std::os::unix::ffi::OsStrExt;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use haul_base::copy::error::Error;
use haul_base::copy::location::{Host, Location};
use haul_base::copy::spec::{CopyOptions, CopySpec, FilterOptions, RemoteAccess};
use haul_base::sys::cancel::Cancel;
use haul_control::controller::file_session::{FileSession, FileSessionError};
use haul_control::operand::host_label;
use haul_proto::path::escape;
use haul_proto::watch::ChangedPart;
use haul_proto::wire::file_session::{SessionRights, WatchCoverage};
use haul_show as show;
use haul_show::exit::Exit;
use haul_show::units;

use crate::commands::own_program::own_program;
use crate::commands::session_place::Warnings;

/// How soon a cancelled watch ends.
const CANCEL_POLL: Duration = Duration::from_millis(100);
/// The pause before the first retry of a lost session or a broken run; each next one doubles it.
const RETRY_MIN: Duration = Duration::from_secs(1);
/// The longest pause.
const RETRY_MAX: Duration = Duration::from_secs(60);

/// A root to watch.
pub struct WatchedRoot {
    /// The directory.
    pub root: Location,
    /// Access to it, as to the source of a copy.
    pub access: RemoteAccess,
    /// Changes of excluded paths do not count.
    pub filters: FilterOptions,
}

/// What a watching thread reports.
enum WatchReport {
    /// The root, as it is shown, is watched.
    Ready(String, WatchCoverage),
    Changed(ChangedPart),
    /// It ends.
    Failed(Exit, String),
}

/// Runs `run` for everything, then for what changes below `roots`, until it is cancelled.
pub fn repeat(
    roots: Vec<WatchedRoot>,
    is_quiet: bool,
    cancel: &Cancel,
    mut run: impl FnMut(&ChangedPart) -> anyhow::Result<Exit>,
) -> anyhow::Result<Exit> {
    let (sender, reports) = channel();
    let count = roots.len();
    for root in roots {
        let (sender, cancel) = (sender.clone(), cancel.clone());
        thread::Builder::new().name("haul-watch".into()).spawn(move || watch(&root, &cancel, &sender))?;
    }
    let mut watch = RepeatedRun { reports, is_quiet, cancel, due: None };
    for _ in 0..count {
        if let Some(exit) = watch.receive(None)? {
            return Ok(exit);
        }
    }
    let mut pause = RETRY_MIN;
    // The watches came first, so nothing is missed.
    watch.due = Some(ChangedPart::Everything);
    loop {
        let Some(part) = watch.due.take() else {
            if let Some(exit) = watch.receive(None)? {
                return Ok(exit);
            }
            continue;
        };
        let exit = run(&part)?;
        match exit {
            _ if cancel.is_cancelled() => return Ok(Exit::Interrupted),
            Exit::Usage => return Ok(exit),
            Exit::Unreachable | Exit::Interrupted => {
                watch.add(part);
                show::stderr().notice(&format!("the next attempt follows in {} s", pause.as_secs()));
                let until = Instant::now() + pause;
                while let Some(rest) = until.checked_duration_since(Instant::now()) {
                    if let Some(exit) = watch.receive(Some(rest))? {
                        return Ok(exit);
                    }
                }
                pause = (pause * 2).min(RETRY_MAX);
            }
            _ => pause = RETRY_MIN,
        }
    }
}

struct RepeatedRun<'c> {
    reports: Receiver<WatchReport>,
    is_quiet: bool,
    cancel: &'c Cancel,
    due: Option<ChangedPart>,
}

impl RepeatedRun<'_> {
    fn add(&mut self, part: ChangedPart) {
        self.due = Some(match self.due.take() {
            Some(due) => due.and(part),
            None => part,
        });
    }

    /// Waits for a report, at most for `patience`, and takes those that follow. Returns the status if the watch is over.
    fn receive(&mut self, patience: Option<Duration>) -> anyhow::Result<Option<Exit>> {
        let until = patience.map(|patience| Instant::now() + patience);
        let mut is_first = true;
        loop {
            let rest = until.map(|until| until.saturating_duration_since(Instant::now()));
            let wait = if is_first { rest.unwrap_or(CANCEL_POLL).min(CANCEL_POLL) } else { Duration::ZERO };
            match self.reports.recv_timeout(wait) {
                Ok(WatchReport::Changed(part)) => self.add(part),
                Ok(WatchReport::Ready(root, coverage)) => {
                    self.tell(&root, coverage);
                    return Ok(None);
                }
                Ok(WatchReport::Failed(exit, text)) => {
                    if !self.cancel.is_cancelled() {
                        show::stderr().error(&text);
                    }
                    return Ok(Some(exit));
                }
                Err(RecvTimeoutError::Disconnected) => return Ok(Some(Exit::Failed)),
                Err(RecvTimeoutError::Timeout) if self.cancel.is_cancelled() => return Ok(Some(Exit::Interrupted)),
                Err(RecvTimeoutError::Timeout) if !is_first || rest.is_some_and(|rest| rest.is_zero()) => {
                    return Ok(None);
                }
                Err(RecvTimeoutError::Timeout) => continue,
            }
            is_first = false;
        }
    }

    fn tell(&self, shown: &str, coverage: WatchCoverage) {
        if !self.is_quiet {
            let directories = units::counted(coverage.directories, "directory", "directories");
            show::stderr().notice(&format!("watching {shown} ({directories}); Ctrl-C ends"));
        }
        if coverage.is_shared {
            show::stderr().warning(&format!("{shown}: changes that other hosts make there are not noticed"));
        }
    }
}

/// Watches a root until it is cancelled. Once it was watched, a lost session is opened again.
fn watch(root: &WatchedRoot, cancel: &Cancel, reports: &Sender<WatchReport>) {
    let mut pause = RETRY_MIN;
    let mut was_ready = false;
    loop {
        let lost = match watch_once(root, cancel, reports, &mut was_ready, &mut pause) {
            Ok(()) => return,
            Err(error) => error,
        };
        let is_retried = was_ready && matches!(lost, FileSessionError::Over(Error::Connect(_) | Error::Broken(_)));
        if !is_retried || cancel.is_cancelled() {
            let (exit, text) = match lost {
                FileSessionError::Operation { text, .. } => {
                    (Exit::Failed, format!("{}: cannot be watched: {text}", shown(&root.root)))
                }
                FileSessionError::Over(error) => {
                    let text = error.to_string();
                    (Exit::of(&Err(error)), text)
                }
            };
            let _ = reports.send(WatchReport::Failed(exit, text));
            return;
        }
        let until = Instant::now() + pause;
        while Instant::now() < until && !cancel.is_cancelled() {
            thread::sleep(CANCEL_POLL);
        }
        pause = (pause * 2).min(RETRY_MAX);
    }
}

fn watch_once(
    watched: &WatchedRoot,
    cancel: &Cancel,
    reports: &Sender<WatchReport>,
    was_ready: &mut bool,
    pause: &mut Duration,
) -> Result<(), FileSessionError> {
    let target = Location { host: watched.root.host.clone(), path: Default::default() };
    let (sources, access) = (vec![watched.root.clone()], watched.access.clone());
    let mut copy = CopySpec { sources, list: None, target, options: CopyOptions::default(), access };
    let mut session = FileSession::open(&mut copy, SessionRights::Read, &own_program(), cancel, &mut Warnings)?;
    let coverage = session.watch(&watched.root.path, &watched.filters)?;
    *pause = RETRY_MIN;
    let first = match std::mem::replace(was_ready, true) {
        false => WatchReport::Ready(shown(&watched.root), coverage),
        true => WatchReport::Changed(ChangedPart::Everything),
    };
    let mut report = Some(first);
    while let Some(next) = report {
        if reports.send(next).is_err() {
            return Ok(());
        }
        report = Some(WatchReport::Changed(session.next_changes()?));
    }
    Ok(())
}

fn shown(root: &Location) -> String {
    let path = root.path.as_os_str().as_bytes();
    let path = escape(path.strip_suffix(b"/.").unwrap_or(path));
    match root.host == Host::Local {
        true => path,
        false => format!("{}:{path}", host_label(&root.host)),
    }
}
