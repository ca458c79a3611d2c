//! Observes a copy of a part: displays it, and records progress and failed files.

use std::io::Write;

use haul_base::copy::error::Outcome;
use haul_base::copy::event::{Event, Observer};
use haul_base::held_directory::UnnamedFile;
use haul_base::sys::cancel::Cancel;
use haul_show::Show;
use haul_show::json::{FailureLine, encode};
use haul_show::text::harmless;

use crate::error::JobError;
use crate::job_file::JobFile;
use crate::shard_progress::{LiveProgress, ShardProgress};

/// Displays a copy, records its progress, and writes a line for each failed file.
pub struct PartRecorder {
    show: Box<dyn Show>,
    failures: JobFile,
    progress: LiveProgress,
    file: Option<UnnamedFile>,
    trouble: Option<JobError>,
    full: Option<FullTarget>,
    cancel: Cancel,
    /// Data moved by earlier runs and attempts, and by this attempt.
    moved: [u64; 2],
}

/// A target without space: no further file can be written.
pub struct FullTarget {
    /// Its host, and what it said.
    pub why: String,
}

/// Errors of a full file system or quota (`ENOSPC`, `EDQUOT`).
const FULL: [&str; 2] = ["No space left on device", "Disk quota exceeded"];

impl PartRecorder {
    /// Displays by `show`, and writes to `failures`. A full target sets `cancel`.
    pub fn new(show: Box<dyn Show>, failures: JobFile, progress: LiveProgress, cancel: &Cancel) -> Self {
        let moved = [progress.get().moved, 0];
        Self { show, failures, progress, file: None, trouble: None, full: None, cancel: cancel.clone(), moved }
    }

    /// The full target that stopped the copy, if any.
    pub fn full(&self) -> Option<&FullTarget> {
        self.full.as_ref()
    }

    fn record(&mut self, line: &str) -> Result<(), JobError> {
        let file = match self.file.take() {
            Some(file) => file,
            None => self.failures.create_unnamed()?,
        };
        let file = self.file.insert(file);
        file.write_all(line.as_bytes()).map_err(|error| JobError::io(self.failures.path(), &error))
    }

    /// Ends the display, and replaces an earlier run's failures.
    pub fn finish(mut self, outcome: &Outcome) -> Result<(), JobError> {
        // If standard output is closed, the result is in the job's directory.
        let _ = self.show.finish(outcome);
        if let Some(trouble) = self.trouble {
            return Err(trouble);
        }
        match self.file {
            Some(file) => self.failures.publish(file),
            None if outcome.is_ok() => {
                let _ = self.failures.remove();
                Ok(())
            }
            None => Ok(()),
        }
    }
}

impl Observer for PartRecorder {
    fn event(&mut self, event: &Event) {
        self.show.event(event);
        let line = match event {
            Event::FileFailed { path, host, message } => {
                if self.full.is_none() && FULL.iter().any(|full| message.contains(full)) {
                    let why = message.lines().next().unwrap_or_default();
                    self.full = Some(FullTarget { why: harmless(&format!("{host}: {why}")) });
                    self.cancel.cancel();
                }
                FailureLine::Failed { name: path.as_slice().into(), host, message: message.as_str().into() }
            }
            Event::Differs { path, host, .. } => FailureLine::Differs { name: path.as_slice().into(), host },
            Event::Progress(seen) => {
                let [earlier, now] = &mut self.moved;
                let moved = seen.bytes_stored.saturating_add(seen.bytes_compared);
                if moved < *now {
                    // A restarted connection counts from 0.
                    *earlier = earlier.saturating_add(*now);
                }
                *now = moved;
                let moved = earlier.saturating_add(moved);
                return self.progress.raise(ShardProgress { files: seen.files_settled, bytes: seen.done(), moved });
            }
            _ => return,
        };
        if let Err(trouble) = self.record(&encode(&line)) {
            self.trouble.get_or_insert(trouble);
        }
    }
}
