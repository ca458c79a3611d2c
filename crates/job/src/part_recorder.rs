//! Observes a copy of a part: displays it, and records progress and failed files.

use std::collections::BTreeSet;
use std::io::Write;

use haul_base::copy::error::Outcome;
use haul_base::copy::event::{Event, Observer, Progress};
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
    /// Host and error of a target without space.
    full: Option<String>,
    cancel: Cancel,
    /// Data moved by earlier runs and attempts, and by this attempt.
    moved: [u64; 2],
    /// Lines of failures that were displayed before.
    known: BTreeSet<String>,
}

/// Errors of a full file system or quota (`ENOSPC`, `EDQUOT`).
const FULL: [&str; 2] = ["No space left on device", "Disk quota exceeded"];

impl PartRecorder {
    /// Displays by `show`, and writes to `failures`. A full target sets `cancel`.
    pub fn new(show: Box<dyn Show>, failures: JobFile, progress: LiveProgress, cancel: &Cancel) -> Self {
        let moved = [progress.get().moved, 0];
        Self {
            show,
            failures,
            progress,
            file: None,
            trouble: None,
            full: None,
            cancel: cancel.clone(),
            moved,
            known: BTreeSet::new(),
        }
    }

    /// Displays none of these failures, lines of an earlier list, again.
    pub fn knowing(self, known: BTreeSet<String>) -> Self {
        Self { known, ..self }
    }

    /// Host and error of the full target that stopped the copy, if any.
    pub fn full(&self) -> Option<&str> {
        self.full.as_deref()
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

impl PartRecorder {
    /// Raises the recorded progress.
    fn note_progress(&mut self, seen: &Progress) {
        let [earlier, now] = &mut self.moved;
        let moved = seen.bytes_stored.saturating_add(seen.bytes_compared);
        if moved < *now {
            // A restarted connection counts from 0.
            *earlier = earlier.saturating_add(*now);
        }
        *now = moved;
        let moved = earlier.saturating_add(moved);
        self.progress.raise(ShardProgress { files: seen.files_settled, bytes: seen.done(), moved });
    }

    /// Stops the copy to a full target.
    fn stop_if_full(&mut self, host: &str, message: &str) {
        if self.full.is_none() && FULL.iter().any(|full| message.contains(full)) {
            let why = message.lines().next().unwrap_or_default();
            self.full = Some(harmless(&format!("{host}: {why}")));
            self.cancel.cancel();
        }
    }
}

impl Observer for PartRecorder {
    fn event(&mut self, event: &Event) {
        let line = match event {
            Event::FileFailed { path, host, message } => {
                self.stop_if_full(host, message);
                FailureLine::Failed { name: path.as_slice().into(), host, message: message.as_str().into() }
            }
            Event::Differs { path, host, .. } => FailureLine::Differs { name: path.as_slice().into(), host },
            event => {
                if let Event::Progress(seen) = event {
                    self.note_progress(seen);
                }
                return self.show.event(event);
            }
        };
        let line = encode(&line);
        if !self.known.contains(line.trim_end()) {
            self.show.event(event);
        }
        if let Err(trouble) = self.record(&line) {
            self.trouble.get_or_insert(trouble);
        }
    }
}
