//! The progress of a detached copy, reported once a second.

use std::io;
use std::time::{Duration, Instant};

use haul_base::copy::error::Outcome;
use haul_base::copy::event::{Event, Observer, Progress};
use haul_show::meter::Meter;
use haul_show::{Half, Show};

use super::figures::CopyFigures;
use super::record::LiveRun;

/// Interval of reports.
const EVERY: Duration = Duration::from_secs(1);

/// A display that also reports progress.
pub struct RecordedShow {
    shown: Box<dyn Show>,
    state: LiveRun,
    /// Which of the run's copies it is.
    index: usize,
    figures: CopyFigures,
    meter: Meter,
    begun: Instant,
    reported: Option<Instant>,
}

impl RecordedShow {
    /// Shows by `shown`, and reports to `state`.
    pub fn new(shown: Box<dyn Show>, state: LiveRun) -> Self {
        let (meter, figures) = (Meter::default(), CopyFigures::default());
        let index = state.add_copy();
        Self { shown, state, index, figures, meter, begun: Instant::now(), reported: None }
    }

    fn add(&mut self, progress: &Progress) {
        let pace = self.meter.update(self.begun.elapsed(), progress.moved());
        self.figures = CopyFigures {
            is_connected: true,
            files: progress.files_settled,
            files_found: progress.files_found,
            bytes: progress.done(),
            bytes_found: progress.bytes_found,
            walk_complete: progress.walk_complete,
            bytes_per_s: pace.bytes_per_s.unwrap_or_default(),
        };
    }

    /// A record that cannot be written is no failure of the copy.
    fn report(&mut self) {
        self.reported = Some(Instant::now());
        let _ = self.state.write_figures(self.index, self.figures);
    }
}

impl Observer for RecordedShow {
    fn event(&mut self, event: &Event) {
        match event {
            Event::Connected { .. } => {
                self.figures.is_connected = true;
                self.report();
            }
            Event::Progress(progress) => {
                self.add(progress);
                if self.reported.is_none_or(|reported| reported.elapsed() >= EVERY) {
                    self.report();
                }
            }
            _ => {}
        }
        self.shown.event(event);
    }
}

impl Show for RecordedShow {
    fn complain(&mut self, message: &str) {
        self.shown.complain(message);
    }

    fn without_other_half(&mut self, half: Half, path: &[u8]) {
        self.shown.without_other_half(half, path);
    }

    fn finish(&mut self, outcome: &Outcome) -> io::Result<()> {
        if let Ok(summary) = outcome {
            self.figures.bytes = self.figures.bytes.max(summary.files.bytes);
        }
        self.report();
        self.shown.finish(outcome)
    }
}
