//! The rate of a copy over time, for the dashboard's graph.

use std::collections::VecDeque;
use std::time::Duration;

use haul_base::copy::event::Progress;

use crate::meter::{Meter, StallWatch};

/// Time between two points of the graph.
pub const POINT: Duration = Duration::from_millis(500);
/// Most points: wider terminals show no more.
const POINTS_MAX: usize = 512;

/// Rates of this attempt and earlier ones.
#[derive(Default)]
pub struct RateHistory {
    /// The present rate, in bytes per second.
    pub bytes_per_s: f64,
    /// Time since the connection.
    pub elapsed: Duration,
    /// For how long nothing has moved, if that is long.
    pub stalled: Option<Duration>,
    connected_at: Duration,
    meter: Meter,
    stall: StallWatch,
    /// Bytes per second over time.
    points: VecDeque<u64>,
    /// The time of the last point, and the bytes at that time.
    last_point: (Duration, u64),
}

impl RateHistory {
    /// Starts an attempt at this number of bytes.
    pub fn begin(&mut self, now: Duration, moved: u64) {
        (self.connected_at, self.last_point) = (now, (now, moved));
        (self.meter, self.stall) = Default::default();
        self.bytes_per_s = 0.0;
    }

    /// Clears the present rate, at the start or end of a pause.
    pub fn interrupt(&mut self) {
        self.meter.forget();
    }

    /// Adds figures.
    pub fn sample(&mut self, now: Duration, progress: &Progress) {
        let moved = progress.moved();
        self.elapsed = now.saturating_sub(self.connected_at);
        let rate = self.meter.update(self.elapsed, moved).bytes_per_s.unwrap_or_default();
        self.stalled = self.stall.update(self.elapsed, progress);
        self.bytes_per_s = if progress.is_paused { 0.0 } else { rate };
        let (at, before) = self.last_point;
        let time = now.saturating_sub(at);
        if time >= POINT {
            let bytes = u128::from(moved.saturating_sub(before)) * 1000 / time.as_millis().max(1);
            self.points.push_back(u64::try_from(bytes).unwrap_or(u64::MAX));
            self.points.drain(..self.points.len().saturating_sub(POINTS_MAX));
            self.last_point = (now, moved);
        }
    }

    /// The last points, at most this number, oldest first.
    pub fn points(&self, most: usize) -> Vec<u64> {
        self.points.iter().skip(self.points.len().saturating_sub(most)).copied().collect()
    }
}
