//! What the caller wants of a running job, over all its attempts, and what the present source was told of it.

use haul_proto::wire::request::ControllerMessage;
use std::time::{Duration, Instant};

use crate::controller::rate_limit::RateLimit;
use crate::job::runtime_control::RuntimeControl;

/// A job's wishes.
pub struct ControlRequests {
    /// On the rate.
    pub limit: RateLimit,
    steering: RuntimeControl,
    /// What the source of this attempt knows.
    told: SentControls,
    /// All pauses that are over.
    paused_for: Duration,
    /// When the present one began.
    paused_at: Option<Instant>,
}

#[derive(Debug, Default)]
struct SentControls {
    streams: Option<u16>,
    is_paused: bool,
}

/// What is new.
#[derive(Debug, PartialEq, Eq)]
pub enum ControlRequest {
    /// So many streams are to be in use.
    Streams(u16),
    /// It is to be paused, or to go on.
    Pause(bool),
}

impl ControlRequest {
    /// What the source is told.
    pub fn message(&self) -> ControllerMessage {
        match self {
            ControlRequest::Streams(count) => ControllerMessage::Streams(*count),
            ControlRequest::Pause(is_paused) => ControllerMessage::Pause(*is_paused),
        }
    }
}

impl ControlRequests {
    /// As the job begins.
    pub fn new(rate_bytes_per_s: Option<u64>, steering: &RuntimeControl) -> Self {
        Self {
            limit: RateLimit::new(rate_bytes_per_s, steering.rate()),
            steering: steering.clone(),
            told: SentControls::default(),
            paused_for: Duration::ZERO,
            paused_at: None,
        }
    }

    /// Another attempt begins: its source knows nothing.
    pub fn begin_again(&mut self) {
        self.limit.begin_again();
        self.told = SentControls::default();
    }

    /// What the source is to be told now.
    pub fn look(&mut self) -> Vec<ControlRequest> {
        let mut news = Vec::new();
        if let Some(streams) = self.steering.streams().filter(|streams| self.told.streams != Some(*streams)) {
            self.told.streams = Some(streams);
            news.push(ControlRequest::Streams(streams));
        }
        let is_paused = self.steering.is_paused();
        if std::mem::replace(&mut self.told.is_paused, is_paused) != is_paused {
            news.push(ControlRequest::Pause(is_paused));
        }
        match (is_paused, self.paused_at) {
            (true, None) => self.paused_at = Some(Instant::now()),
            (false, Some(since)) => {
                self.paused_for += since.elapsed();
                self.paused_at = None;
            }
            _ => {}
        }
        news
    }

    /// Whether the source was told to pause.
    pub fn is_paused(&self) -> bool {
        self.told.is_paused
    }

    /// For how long the job was paused so far.
    pub fn paused_for(&self) -> Duration {
        self.paused_for + self.paused_at.map(|since| since.elapsed()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_wish_is_told_once_and_to_each_source() {
        let steering = RuntimeControl::new();
        let mut wishes = ControlRequests::new(None, &steering);
        assert_eq!((wishes.look(), wishes.paused_for()), (vec![], Duration::ZERO));
        steering.fix_streams(4);
        steering.pause(true);
        assert_eq!(wishes.look(), [ControlRequest::Streams(4), ControlRequest::Pause(true)]);
        assert_eq!((wishes.look(), wishes.is_paused()), (vec![], true));
        wishes.begin_again();
        assert!(!wishes.is_paused());
        assert_eq!(wishes.look(), [ControlRequest::Streams(4), ControlRequest::Pause(true)]);
        steering.pause(false);
        steering.fix_streams(0);
        assert_eq!(wishes.look(), [ControlRequest::Streams(1), ControlRequest::Pause(false)]);
        let paused_for = wishes.paused_for();
        assert!(paused_for > Duration::ZERO && wishes.paused_for() == paused_for, "it is over");
    }
}
