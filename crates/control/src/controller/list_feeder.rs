//! Sends the entries of a list to both ends in batches while the copy runs. The target first gets the destination of
//! each source, then the source gets its path. So only the controller chooses names at the target.
//!
//! The thread that reads the list waits for the list, for the control channels, and for the target's ListAck of earlier
//! batches. Nothing waits for this thread.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use haul_base::control_channel::ControlWriter;
use haul_base::copy::display_path::own_name;
use haul_base::copy::error::Error;
use haul_base::copy::location::Location;
use haul_base::copy::spec::{ListLine, ListReader, SourceList};
use haul_base::sys::sync::lock;
use haul_proto::limits::{LISTED_BATCH_BYTES, LISTED_BATCH_MAX, LISTED_BATCHES_AHEAD, PATH_MAX};
use haul_proto::path::{Name, NameError};
use haul_proto::wire::control_channel::ControlChannel;
use haul_proto::wire::list_batch::{DestinationBatch, OperandDestination, SourceBatch};
use haul_proto::wire::report::WorkerMessage;
use haul_proto::wire::request::ControllerMessage;

use super::base::{full_path, source_parents};
use super::worker_role::WorkerRole;
use super::worker_start::no_thread;
use super::workers::{WorkerOutput, Workers};
use crate::controller::duplicate_targets::DuplicateTargets;

/// How often a thread that waits for a list checks whether the copy is over.
const PATIENCE: Duration = Duration::from_millis(100);
/// Path bytes that make a batch full; one more path with its metadata still fits.
const FULL: usize = LISTED_BATCH_BYTES / 2;

/// A list in transfer to the ends. Dropping it stops the thread.
pub struct ListFeed(Arc<BatchWindow>);

/// Batches sent and not yet acknowledged.
#[derive(Default)]
struct BatchWindow {
    state: Mutex<FeedState>,
    changed: Condvar,
}

#[derive(Default)]
struct FeedState {
    ahead: usize,
    stopped: bool,
}

impl ListFeed {
    /// Starts a thread that sends the list from its first line.
    pub fn start(list: &SourceList, base: Option<&Path>, workers: &Workers) -> Result<Self, Error> {
        let window = Arc::new(BatchWindow::default());
        let feeder = ListFeeder {
            lines: (list.open)(),
            base: base.map(Path::to_owned),
            source: workers.writer(WorkerRole::Source),
            target: workers.writer(WorkerRole::Target),
            output: workers.output(),
            window: Arc::clone(&window),
            twins: DuplicateTargets::default(),
            latest_parent: None,
            next: 0,
        };
        let spawned = thread::Builder::new().name("haul-list".into()).spawn(move || {
            let _ = feeder.feed();
        });
        spawned.map_err(no_thread)?;
        Ok(Self(window))
    }

    /// Records a ListAck of the target; `false` if no batch is outstanding.
    pub fn acknowledge(&self) -> bool {
        let mut state = lock(&self.0.state);
        let Some(ahead) = state.ahead.checked_sub(1) else { return false };
        state.ahead = ahead;
        self.0.changed.notify_all();
        true
    }
}

impl Drop for ListFeed {
    fn drop(&mut self) {
        lock(&self.0.state).stopped = true;
        self.0.changed.notify_all();
    }
}

impl BatchWindow {
    /// Waits for room for one more batch; `None` when the copy is over.
    fn enter(&self) -> Option<()> {
        let mut state = lock(&self.state);
        while state.ahead >= LISTED_BATCHES_AHEAD && !state.stopped {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.ahead += 1;
        (!state.stopped).then_some(())
    }

    fn is_stopped(&self) -> bool {
        lock(&self.state).stopped
    }
}

/// Why a line of a list names no source of this copy.
#[derive(Debug, thiserror::Error)]
enum ListedSourceError {
    /// An absolute path has no place below the base.
    #[error("absolute path in a list with a base (--dirbase)\nwrite the path relative to the base")]
    AbsolutePath,
    /// The path leads out of the base.
    #[error("{0}")]
    OutsideBase(#[from] Error),
    /// Its last component is no name.
    #[error("{0}")]
    Name(#[from] NameError),
    /// It is longer than the protocol permits.
    #[error("path too long")]
    PathLength,
    /// An earlier line has the same destination.
    #[error(
        "an earlier line has the same name at the target\nuse a base (--dirbase) to recreate paths there, or copy it separately to another directory"
    )]
    DuplicateTarget,
}

struct ListFeeder {
    lines: Box<dyn ListReader>,
    base: Option<PathBuf>,
    source: ControlWriter,
    target: ControlWriter,
    output: WorkerOutput,
    window: Arc<BatchWindow>,
    twins: DuplicateTargets,
    /// The path above the latest source, and its names below the target.
    latest_parent: Option<(Vec<u8>, Vec<Name>)>,
    /// Number of the next source.
    next: u32,
}

/// Methods return `None` when the copy is over; the reader of a worker's messages reports a lost worker.
impl ListFeeder {
    fn feed(mut self) -> Option<()> {
        loop {
            let (paths, places) = self.gather()?;
            self.window.enter()?;
            let last = paths.last;
            self.next = self.next.saturating_add(u32::try_from(paths.paths.len()).unwrap_or(u32::MAX));
            send_message(&self.target, &ControllerMessage::DestinationBatch(places))?;
            send_message(&self.source, &ControllerMessage::SourceBatch(paths))?;
            if last {
                return Some(());
            }
        }
    }

    /// Collects the sources that the list has available: at least one, unless the list has ended.
    fn gather(&mut self) -> Option<(SourceBatch, DestinationBatch)> {
        let most = LISTED_BATCH_MAX.min((u32::MAX - self.next) as usize);
        let mut paths = SourceBatch { first: self.next, paths: Vec::new(), last: false };
        let mut places = DestinationBatch { first: self.next, places: Vec::new() };
        let mut bytes = 0;
        while !paths.last && bytes < FULL && paths.paths.len() < most.max(1) {
            let patience = if paths.paths.is_empty() { PATIENCE } else { Duration::ZERO };
            match self.lines.next(patience) {
                ListLine::Source(_) if most == 0 => {
                    self.complain(Vec::new(), "a list has at most 4,294,967,295 lines")?;
                    paths.last = true;
                }
                ListLine::Source(source) => match self.place(&source) {
                    Ok((path, place)) => {
                        bytes += path.len();
                        paths.paths.push(path);
                        places.places.push(place);
                    }
                    Err(error) => {
                        self.complain(source.path.as_os_str().as_bytes().to_vec(), &error.to_string())?;
                    }
                },
                ListLine::Bad(line, text) => self.complain(line, &text)?,
                ListLine::NotYet if self.window.is_stopped() => return None,
                ListLine::NotYet if paths.paths.is_empty() => {}
                ListLine::NotYet => break,
                ListLine::End(error) => {
                    paths.last = true;
                    if let Some(text) = error {
                        self.complain(Vec::new(), &text)?;
                    }
                }
            }
        }
        Some((paths, places))
    }

    /// Returns a source's path for the source, and its destination for the target.
    fn place(&mut self, source: &Location) -> Result<(Vec<u8>, OperandDestination), ListedSourceError> {
        let below = match &self.base {
            None => Vec::new(),
            Some(_) if source.path.is_absolute() => {
                return Err(ListedSourceError::AbsolutePath);
            }
            Some(_) => self.parents_below(source)?,
        };
        let name = own_name(&source.path).map(|name| Name::new(name.as_bytes())).transpose()?;
        let path = full_path(self.base.as_deref(), source);
        if path.len() > PATH_MAX {
            return Err(ListedSourceError::PathLength);
        }
        let place = OperandDestination { below, name };
        match self.twins.insert(&place) {
            true => Ok((path, place)),
            false => Err(ListedSourceError::DuplicateTarget),
        }
    }

    /// The parent directories of a source below the target. Consecutive lines often share them.
    fn parents_below(&mut self, source: &Location) -> Result<Vec<Name>, Error> {
        let path = source.path.as_os_str().as_bytes();
        let slash = path.iter().rposition(|byte| *byte == b'/').unwrap_or_default();
        let (parent, last) = path.split_at(slash);
        if parent.is_empty() || [&b"/"[..], b"/.", b"/.."].contains(&last) {
            return source_parents(source);
        }
        if let Some((_, names)) = self.latest_parent.as_ref().filter(|(latest, _)| latest == parent) {
            return Ok(names.clone());
        }
        let names = source_parents(source)?;
        self.latest_parent = Some((parent.to_vec(), names.clone()));
        Ok(names)
    }

    /// Reports a line as a requested source that cannot be copied, as the source would.
    fn complain(&self, path: Vec<u8>, text: &str) -> Option<()> {
        let text = format!("{}: {text}", self.lines.position());
        self.output.say(WorkerRole::Source, WorkerMessage::FileFailed { path, text }).then_some(())
    }
}

fn send_message(control: &ControlWriter, message: &ControllerMessage) -> Option<()> {
    control.send(ControlChannel::Controller, &message.encode()).ok()
}
