//! Measures a running job: its rate, its loss, and round trips when idle and under load.

use std::time::{Duration, Instant};

use haul_base::job::event::{Event, Observer, Progress, Sockets, TransportPath};
use haul_base::job::summary::Summary;

use super::figures::{IntervalFigures, NetFigures};
use super::{json, shown};
use crate::commands::output::{print, say};
use crate::echoes::{Echoes, other_end};
use crate::show::display::Mode;
use crate::text::TextOutput;

/// Measures a job from `null:` to `null:`, and prints a line per interval.
pub struct NetMeter {
    text: TextOutput,
    mode: Mode,
    every: Duration,
    begun: Option<Instant>,
    last: (Duration, u64, Sockets),
    intervals: Vec<f64>,
    /// The target's bytes at the end of the job.
    bytes: u64,
    elapsed: Duration,
    echoes: Option<Echoes>,
}

impl NetMeter {
    /// A meter with a line per `every`.
    pub fn new(text: TextOutput, mode: Mode, every: Duration) -> Self {
        Self {
            text,
            mode,
            every,
            begun: None,
            last: (Duration::ZERO, 0, Sockets::default()),
            intervals: Vec::new(),
            bytes: 0,
            elapsed: Duration::ZERO,
            echoes: None,
        }
    }

    /// Prints the figures of the whole time.
    pub fn finish(mut self, summary: &Summary, status: u8) {
        let round_trips = self.echoes.take().map(Echoes::finish_idle).unwrap_or_default();
        let figures = NetFigures::new(self.bytes, self.elapsed, &self.intervals, summary, round_trips);
        match self.mode {
            Mode::Json => print(&json::total(&figures, status)),
            Mode::Quiet => print(&format!("{}\n", shown::rate(figures.bytes_per_s))),
            _ => print(&format!("{}\n", shown::total(&figures).join("\n"))),
        }
    }

    fn connected(&mut self, transport: &TransportPath) {
        self.begun = Some(Instant::now());
        self.echoes = other_end(transport).and_then(Echoes::start);
        say(self.mode, || shown::transport(transport), || json::connected(transport));
    }

    fn progress(&mut self, progress: &Progress) {
        let Some(elapsed) = self.begun.map(|begun| begun.elapsed()) else { return };
        (self.bytes, self.elapsed) = (progress.bytes_written, elapsed);
        let (then, before, sockets) = &self.last;
        let step = elapsed.saturating_sub(*then);
        // The last interval of a job may be too short for a rate.
        if step < self.every.mul_f64(0.5) {
            return;
        }
        let bytes = progress.bytes_written.saturating_sub(*before);
        let interval = IntervalFigures::new(elapsed, step, bytes, &progress.sockets.since(sockets), progress.streams);
        self.intervals.push(interval.bytes_per_s);
        self.last = (elapsed, progress.bytes_written, progress.sockets);
        say(self.mode, || shown::interval(&interval), || json::interval(&interval));
    }
}

impl Observer for NetMeter {
    fn event(&mut self, event: &Event) {
        match event {
            Event::Connected { transport, .. } => self.connected(transport),
            Event::Progress(progress) => self.progress(progress),
            Event::Warning(text) => match self.mode {
                Mode::Json => print(&json::notice(text)),
                _ => self.text.notice(text),
            },
            Event::FileFailed { host, message, .. } => self.text.error(&format!("{host}: {message}")),
            _ => {}
        }
    }
}
