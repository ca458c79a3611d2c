//! The dashboard's model of a copy, updated by events, messages and keys. It has no terminal and no clock.

use std::time::Duration;

use haul_base::copy::event::{Event, Progress, TransportPath};

use super::keys::Key;
use super::lanes::Lanes;
use super::message_log::{MessageLog, PAGE};
use super::rate_history::RateHistory;
use super::steps;

/// The displayed state of a copy.
pub struct Board {
    /// Sources and target.
    pub title: String,
    /// Its phase.
    pub phase: Phase,
    /// The latest figures.
    pub progress: Progress,
    /// Its rate over time.
    pub rate: RateHistory,
    /// How the data travels.
    pub transport: TransportPath,
    /// The streams.
    pub lanes: Lanes,
    /// Messages for the user.
    pub messages: MessageLog,
    /// The rate limit, in force or requested.
    pub limit: Option<u64>,
    /// The requested number of streams.
    pub streams: Option<u16>,
    /// Whether the copy is paused, or about to be.
    pub is_paused: bool,
    /// Whether the help is visible.
    pub helps: bool,
    /// Whether the slowest files replace messages if there is no room for both.
    pub wants_slowest: bool,
    knows_limit: bool,
}

/// The phase of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Workers are started. Next: Running, Stopping.
    Connecting,
    /// Data moves. Next: Connecting (once more), Stopping.
    Running,
    /// The user has ended it.
    Stopping,
}

/// A user's request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wish {
    /// This rate limit in bytes per second, or none.
    Rate(Option<u64>),
    /// This number of streams.
    Streams(u16),
    /// Pause or resume.
    Pause(bool),
    /// End the copy.
    End,
}

impl Board {
    /// The board of a new copy.
    pub fn new(title: &str) -> Self {
        Self {
            title: title.to_owned(),
            phase: Phase::Connecting,
            progress: Progress::default(),
            rate: RateHistory::default(),
            transport: TransportPath::None,
            lanes: Lanes::default(),
            messages: MessageLog::default(),
            limit: None,
            streams: None,
            is_paused: false,
            helps: false,
            wants_slowest: false,
            knows_limit: false,
        }
    }

    /// Handles an event at this time.
    pub fn event(&mut self, now: Duration, event: &Event) {
        match event {
            Event::Connected { transport, .. } => {
                self.begin(now, 0);
                self.transport = transport.clone();
            }
            Event::PathChanged { transport, .. } => self.transport = transport.clone(),
            Event::Restarted { .. } => {
                self.begin(now, 0);
                if self.phase == Phase::Running {
                    self.phase = Phase::Connecting;
                }
            }
            Event::Progress(progress) => self.sample(now, progress),
            Event::RateLimit { bytes_per_s } => (self.limit, self.knows_limit) = (*bytes_per_s, true),
            Event::Pause { is_paused } => {
                self.is_paused = *is_paused;
                self.rate.interrupt();
            }
            Event::Streams { wanted } => self.streams = Some(*wanted),
            _ => {}
        }
    }

    fn begin(&mut self, now: Duration, moved: u64) {
        if self.phase == Phase::Connecting {
            self.phase = Phase::Running;
        }
        self.rate.begin(now, moved);
        self.lanes.begin_again();
    }

    fn sample(&mut self, now: Duration, progress: &Progress) {
        if self.phase == Phase::Connecting {
            self.begin(now, progress.moved());
        }
        if !self.knows_limit {
            self.limit = progress.rate_limit_bytes_per_s;
        }
        self.rate.sample(now, progress);
        self.lanes.sample(now, progress);
        self.progress = progress.clone();
    }

    /// Handles a key; returns the user's request, if it concerns the copy and not the display.
    pub fn key(&mut self, key: Key) -> Option<Wish> {
        match key {
            Key::Char('?' | 'h') => self.helps = !self.helps,
            Key::Escape => self.helps = false,
            Key::Char('\t') => self.wants_slowest = !self.wants_slowest,
            Key::Up => self.messages.up(1),
            Key::PageUp => self.messages.up(PAGE),
            Key::Down => self.messages.down(1),
            Key::PageDown => self.messages.down(PAGE),
            Key::Char('q') if self.phase != Phase::Stopping => {
                self.phase = Phase::Stopping;
                return Some(Wish::End);
            }
            Key::Char(' ' | 'p') if self.phase == Phase::Running => {
                self.is_paused = !self.is_paused;
                return Some(Wish::Pause(self.is_paused));
            }
            Key::Char('+' | '=') => {
                return self.limit.map(steps::above).and_then(|limit| self.change_rate(Some(limit)));
            }
            Key::Char('-' | '_') => {
                let from = self.limit.unwrap_or(whole(self.rate.bytes_per_s));
                return self.change_rate(Some(steps::below(from)));
            }
            Key::Char('0') => return self.change_rate(None),
            Key::Char('<' | ',' | '[') => return self.change_streams(|streams| streams.saturating_sub(1)),
            Key::Char('>' | '.' | ']') => return self.change_streams(|streams| streams.saturating_add(1)),
            Key::Char(_) => {}
        }
        None
    }

    fn change_rate(&mut self, limit: Option<u64>) -> Option<Wish> {
        (self.limit, self.knows_limit) = (limit, true);
        Some(Wish::Rate(limit))
    }

    /// Changes the number of streams, once it and its limit are known.
    fn change_streams(&mut self, change: impl Fn(u16) -> u16) -> Option<Wish> {
        let Progress { streams, streams_max, .. } = self.progress;
        if streams == 0 {
            return None;
        }
        let wanted = change(self.streams.unwrap_or(streams)).clamp(1, streams_max.max(1));
        self.streams = Some(wanted);
        Some(Wish::Streams(wanted))
    }
}

/// Truncates a rate.
fn whole(rate: f64) -> u64 {
    Duration::try_from_secs_f64(rate.max(0.0)).map_or(u64::MAX, |rounded| rounded.as_secs())
}

#[cfg(test)]
#[path = "board_tests.rs"]
pub(crate) mod tests;
