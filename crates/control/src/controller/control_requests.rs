//! The caller's requests to a running copy across all attempts, and the state already sent to the current source.

use std::time::{Duration, Instant};

use haul_base::copy::runtime_control::RuntimeControl;
use haul_proto::wire::request::ControllerMessage;

use crate::controller::rate_limit::RateLimit;

/// Requests to a running copy.
pub struct ControlRequests {
    /// The rate limit.
    pub limit: RateLimit,
    steering: RuntimeControl,
    /// State already sent to this attempt's source.
    sent: SentControls,
    /// Total of all completed pauses.
    paused_for: Duration,
    /// Start of the current pause.
    paused_at: Option<Instant>,
}

#[derive(Debug, Default)]
struct SentControls {
    streams: Option<u16>,
    is_paused: bool,
}

/// A change requested by the caller.
#[derive(Debug, PartialEq, Eq)]
pub enum ControlRequest {
    /// Number of streams to use.
    Streams(u16),
    /// Whether to pause or to resume.
    Pause(bool),
}

impl ControlRequest {
    /// Returns the message for the source.
    pub fn message(&self) -> ControllerMessage {
        match self {
            ControlRequest::Streams(count) => ControllerMessage::Streams(*count),
            ControlRequest::Pause(is_paused) => ControllerMessage::Pause(*is_paused),
        }
    }
}

impl ControlRequests {
    /// Creates the requests of a new copy.
    pub fn new(rate_bytes_per_s: Option<u64>, steering: &RuntimeControl) -> Self {
        Self {
            limit: RateLimit::new(rate_bytes_per_s, steering.rate()),
            steering: steering.clone(),
            sent: SentControls::default(),
            paused_for: Duration::ZERO,
            paused_at: None,
        }
    }

    /// Resets the sent state for the source of another attempt.
    pub fn begin_again(&mut self) {
        self.limit.begin_again();
        self.sent = SentControls::default();
    }

    /// Returns the changes to send to the source now.
    pub fn poll(&mut self) -> Vec<ControlRequest> {
        let mut news = Vec::new();
        if let Some(streams) = self.steering.streams().filter(|streams| self.sent.streams != Some(*streams)) {
            self.sent.streams = Some(streams);
            news.push(ControlRequest::Streams(streams));
        }
        let is_paused = self.steering.is_paused();
        if std::mem::replace(&mut self.sent.is_paused, is_paused) != is_paused {
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

    /// Whether the source was asked to pause.
    pub fn is_paused(&self) -> bool {
        self.sent.is_paused
    }

    /// Returns the total pause time so far.
    pub fn paused_for(&self) -> Duration {
        self.paused_for + self.paused_at.map(|since| since.elapsed()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_request_is_sent_once_to_each_source() {
        let steering = RuntimeControl::new();
        let mut control_requests = ControlRequests::new(None, &steering);
        assert_eq!((control_requests.poll(), control_requests.paused_for()), (vec![], Duration::ZERO));
        steering.fix_streams(4);
        steering.pause(true);
        assert_eq!(control_requests.poll(), [ControlRequest::Streams(4), ControlRequest::Pause(true)]);
        assert_eq!((control_requests.poll(), control_requests.is_paused()), (vec![], true));
        control_requests.begin_again();
        assert!(!control_requests.is_paused());
        assert_eq!(control_requests.poll(), [ControlRequest::Streams(4), ControlRequest::Pause(true)]);
        steering.pause(false);
        steering.fix_streams(0);
        assert_eq!(control_requests.poll(), [ControlRequest::Streams(1), ControlRequest::Pause(false)]);
        let paused_for = control_requests.paused_for();
        assert!(paused_for > Duration::ZERO && control_requests.paused_for() == paused_for, "it is over");
    }
}
