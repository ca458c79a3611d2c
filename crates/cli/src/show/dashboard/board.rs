//! What the dashboard knows of a job: it is fed with events, words and keys, and says what the user wants. There is no
//! terminal here, and no clock.

use std::collections::VecDeque;
use std::time::Duration;

use haul_base::job::event::{Event, Progress, TransportPath};

use super::keys::Key;
use super::lanes::Lanes;
use super::steps;
use crate::show::meter::Meter;

/// Time between two points of the graph.
pub const POINT: Duration = Duration::from_millis(500);
/// Most points that are kept: wider terminals show no more.
const POINTS_MAX: usize = 512;
/// Most message lines kept.
const SAID_MAX: usize = 500;
/// Lines that a screenful back is.
const PAGE: usize = 5;

/// A job as it is shown.
pub struct Board {
    /// Sources and target.
    pub title: String,
    /// How far it is.
    pub phase: Phase,
    /// The latest figures.
    pub progress: Progress,
    /// Bytes a second at present.
    pub rate: f64,
    /// Start of the connection.
    pub elapsed: Duration,
    /// How the data travels.
    pub transport: TransportPath,
    /// The streams.
    pub lanes: Lanes,
    /// Messages, the latest last.
    pub said: VecDeque<BoardLine>,
    /// Number of lines below the visible ones.
    pub scrolled: usize,
    /// The rate limit, in force or requested.
    pub limit: Option<u64>,
    /// The number of streams that the user wants.
    pub streams: Option<u16>,
    /// Whether the job is paused, or about to be.
    pub is_paused: bool,
    /// Whether the keys are explained.
    pub helps: bool,
    /// Whether the slowest files replace messages if there is no room for both.
    pub wants_slowest: bool,
    /// Bytes a second, over time.
    points: VecDeque<u64>,
    /// When the last point was made, and what had been moved by then.
    last_point: (Duration, u64),
    connected_at: Duration,
    meter: Meter,
    knows_limit: bool,
}

/// How far a job is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Workers are started. Next: Running, Stopping.
    Connecting,
    /// Data moves. Next: Connecting (once more), Stopping.
    Running,
    /// The user wants it to end.
    Stopping,
}

/// A line that was said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BoardLine {
    /// Without a line's end.
    pub text: String,
    /// Whether it is about something that failed.
    pub is_error: bool,
}

/// What the user wants of the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wish {
    /// This limit on the rate, in bytes a second, or none.
    Rate(Option<u64>),
    /// So many streams.
    Streams(u16),
    /// Pause or resume.
    Pause(bool),
    /// To end now.
    End,
}

impl Board {
    /// For a job that begins.
    pub fn new(title: &str) -> Self {
        Self {
            title: title.to_owned(),
            phase: Phase::Connecting,
            progress: Progress::default(),
            rate: 0.0,
            elapsed: Duration::ZERO,
            transport: TransportPath::None,
            lanes: Lanes::default(),
            said: VecDeque::new(),
            scrolled: 0,
            limit: None,
            streams: None,
            is_paused: false,
            helps: false,
            wants_slowest: false,
            points: VecDeque::new(),
            last_point: (Duration::ZERO, 0),
            connected_at: Duration::ZERO,
            meter: Meter::default(),
            knows_limit: false,
        }
    }

    /// Takes what happens at this time.
    pub fn event(&mut self, now: Duration, event: &Event) {
        match event {
            Event::Connected { transport, .. } => {
                self.begin(now);
                self.transport = transport.clone();
            }
            Event::PathChanged { transport, .. } => self.transport = transport.clone(),
            Event::Restarted { .. } => {
                self.begin(now);
                if self.phase == Phase::Running {
                    self.phase = Phase::Connecting;
                }
            }
            Event::Progress(progress) => self.sample(now, progress),
            Event::RateLimit { bytes_per_s } => (self.limit, self.knows_limit) = (*bytes_per_s, true),
            Event::Pause { is_paused } => {
                self.is_paused = *is_paused;
                self.meter.forget();
            }
            Event::Streams { wanted } => self.streams = Some(*wanted),
            _ => {}
        }
    }

    fn begin(&mut self, now: Duration) {
        if self.phase == Phase::Connecting {
            self.phase = Phase::Running;
        }
        (self.connected_at, self.last_point) = (now, (now, 0));
        self.meter = Meter::default();
        self.rate = 0.0;
        self.lanes.begin_again();
    }

    fn sample(&mut self, now: Duration, progress: &Progress) {
        if self.phase == Phase::Connecting {
            self.begin(now);
            self.last_point = (now, progress.moved());
        }
        if !self.knows_limit {
            self.limit = progress.rate_limit_bytes_per_s;
        }
        let moved = progress.moved();
        self.elapsed = now.saturating_sub(self.connected_at);
        let rate = self.meter.update(self.elapsed, moved).bytes_per_s.unwrap_or_default();
        self.rate = if progress.is_paused { 0.0 } else { rate };
        self.lanes.sample(now, progress);
        self.progress = progress.clone();
        let (at, before) = self.last_point;
        let time = now.saturating_sub(at);
        if time >= POINT {
            let bytes = u128::from(moved.saturating_sub(before)) * 1000 / time.as_millis().max(1);
            self.points.push_back(u64::try_from(bytes).unwrap_or(u64::MAX));
            self.points.drain(..self.points.len().saturating_sub(POINTS_MAX));
            self.last_point = (now, moved);
        }
    }

    /// Takes words that a person should see.
    pub fn say(&mut self, words: &str, is_error: bool) {
        let lines = words.lines().map(|line| BoardLine { text: line.to_owned(), is_error });
        let before = self.said.len();
        self.said.extend(lines);
        // A view of earlier lines stays where it is.
        if self.scrolled > 0 {
            self.scrolled += self.said.len() - before;
        }
        self.said.drain(..self.said.len().saturating_sub(SAID_MAX));
        self.scrolled = self.scrolled.min(self.said.len().saturating_sub(1));
    }

    /// The last points of the graph, at most this number, oldest first.
    pub fn points(&self, most: usize) -> Vec<u64> {
        self.points.iter().skip(self.points.len().saturating_sub(most)).copied().collect()
    }

    /// Handles a key; returns the user's request, if it concerns the job and not the display.
    pub fn key(&mut self, key: Key) -> Option<Wish> {
        match key {
            Key::Char('?' | 'h') => self.helps = !self.helps,
            Key::Escape => self.helps = false,
            Key::Char('\t') => self.wants_slowest = !self.wants_slowest,
            Key::Up => self.scroll(1),
            Key::PageUp => self.scroll(PAGE),
            Key::Down => self.scrolled = self.scrolled.saturating_sub(1),
            Key::PageDown => self.scrolled = self.scrolled.saturating_sub(PAGE),
            Key::Char('q') if self.phase != Phase::Stopping => {
                self.phase = Phase::Stopping;
                return Some(Wish::End);
            }
            Key::Char(' ' | 'p') if self.phase == Phase::Running => {
                self.is_paused = !self.is_paused;
                return Some(Wish::Pause(self.is_paused));
            }
            Key::Char('+' | '=') => return self.limit.map(steps::above).and_then(|limit| self.wish_rate(Some(limit))),
            Key::Char('-' | '_') => {
                let from = self.limit.unwrap_or(whole(self.rate));
                return self.wish_rate(Some(steps::below(from)));
            }
            Key::Char('0') => return self.wish_rate(None),
            Key::Char('<' | ',' | '[') => return self.wish_streams(|streams| streams.saturating_sub(1)),
            Key::Char('>' | '.' | ']') => return self.wish_streams(|streams| streams.saturating_add(1)),
            Key::Char(_) => {}
        }
        None
    }

    fn scroll(&mut self, lines: usize) {
        self.scrolled = (self.scrolled + lines).min(self.said.len().saturating_sub(1));
    }

    fn wish_rate(&mut self, limit: Option<u64>) -> Option<Wish> {
        (self.limit, self.knows_limit) = (limit, true);
        Some(Wish::Rate(limit))
    }

    /// Before it is known how many there are and may be, there is nothing to be wished for.
    fn wish_streams(&mut self, change: impl Fn(u16) -> u16) -> Option<Wish> {
        let Progress { streams, streams_max, .. } = self.progress;
        if streams == 0 {
            return None;
        }
        let wanted = change(self.streams.unwrap_or(streams)).clamp(1, streams_max.max(1));
        self.streams = Some(wanted);
        Some(Wish::Streams(wanted))
    }
}

/// Without its fraction.
fn whole(rate: f64) -> u64 {
    Duration::try_from_secs_f64(rate.max(0.0)).map_or(u64::MAX, |rounded| rounded.as_secs())
}

#[cfg(test)]
#[path = "board_tests.rs"]
pub mod tests;
