//! Measures a running copy: its rate, its loss, and round trips when idle and under load.

use std::time::{Duration, Instant};

use haul_base::copy::event::{Event, Observer, Progress, Sockets, TransportPath};
use haul_base::copy::summary::Summary;
use haul_show::display::Mode;
use haul_show::json::{NoticeLine, encode};
use haul_show::output::{print, say};
use haul_show::text::TextOutput;
use haul_show::verdict;

use super::figures::{Growth, IntervalFigures, NetFigures};
use super::json::NetLine;
use super::shown;
use crate::echoes::{Echoes, other_end};

/// Measures a copy from `null:` to `null:`, and prints a line per interval.
pub struct NetMeter {
    text: TextOutput,
    mode: Mode,
    every: Duration,
    begun: Option<Instant>,
    /// The end of the last interval.
    last: (Duration, u64, Sockets),
    /// The time of the next line.
    due: Duration,
    intervals: Vec<f64>,
    growth: Growth,
    echoes: Option<Echoes>,
    /// What was measured before an error.
    pub stopped: Option<Box<Summary>>,
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
            due: every,
            intervals: Vec::new(),
            growth: Growth::default(),
            echoes: None,
            stopped: None,
        }
    }

    /// Prints the figures of the whole time.
    pub fn finish(mut self, summary: &Summary, status: u8) {
        let round_trips = self.echoes.take().map(Echoes::finish_idle).unwrap_or_default();
        let figures = NetFigures::new(&self.growth, &self.intervals, summary, round_trips);
        match self.mode {
            Mode::Json => {
                let limited_by = verdict::words(figures.limit);
                print(&encode(&NetLine::Net { figures: &figures, limited_by, status }));
            }
            Mode::Quiet => print(&format!("{}\n", shown::rate(figures.bytes_per_s))),
            _ => print(&format!("{}\n", shown::total(&figures).join("\n"))),
        }
    }

    fn connected(&mut self, transport: &TransportPath) {
        self.begun = Some(Instant::now());
        self.echoes = other_end(transport).and_then(Echoes::start);
        say(self.mode, || shown::transport(transport), || encode(&NetLine::Connected { transport: transport.into() }));
    }

    fn progress(&mut self, progress: &Progress) {
        let Some(elapsed) = self.begun.map(|begun| begun.elapsed()) else { return };
        self.growth.add(elapsed, progress.bytes_written);
        if elapsed < self.due {
            return;
        }
        let (then, before, sockets) = &self.last;
        let (at, written) = self.growth.end();
        let step = at.saturating_sub(*then);
        self.due += self.every;
        let bytes = written.saturating_sub(*before);
        let interval = IntervalFigures::new(at, step, bytes, &progress.sockets.since(sockets), progress.streams);
        self.intervals.push(interval.bytes_per_s);
        self.last = (at, written, progress.sockets);
        say(self.mode, || shown::interval(&interval), || encode(&NetLine::NetInterval(interval)));
    }
}

impl Observer for NetMeter {
    fn event(&mut self, event: &Event) {
        match event {
            Event::Connected { transport, .. } => self.connected(transport),
            Event::Progress(progress) => self.progress(progress),
            Event::Stopped(summary) => self.stopped = Some(summary.clone()),
            Event::Warning(text) => match self.mode {
                Mode::Json => print(&encode(&NoticeLine::new(text))),
                _ => self.text.warning(text),
            },
            Event::FileFailed { host, message, .. } => self.text.error(&format!("{host}: {message}")),
            _ => {}
        }
    }
}
