//! Kernel settings for an administrator to change, derived from the measurements of one transfer.

use crate::wire::counters::PathFigures;
use crate::wire::report::WindowLimits;

/// Smallest share of busy time at a limit that is worth a report, in percent.
const SHARE_MIN_PERCENT: u64 = 20;
/// Smallest round-trip time at which kernel windows can be the limit, in microseconds.
const ROUND_TRIP_MIN_US: u64 = 1000;
/// Buffer bytes per data byte: the kernel charges its bookkeeping to the buffer, and about half holds data.
const BUFFER_PER_DATA: u64 = 2;
/// Largest buffer to recommend, in bytes.
const BUFFER_MAX: u64 = 1 << 30;

/// A kernel setting that held the streams back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WindowAdvice {
    /// The end with the setting.
    pub end: WindowEnd,
    /// Share of busy time at this limit, in percent.
    pub percent: u64,
    /// Present value, in bytes.
    pub now_bytes: u64,
    /// Recommended value, in bytes.
    pub wanted_bytes: u64,
}

/// The two windows of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WindowEnd {
    /// The target's receive buffer: the last value of `net.ipv4.tcp_rmem`.
    TargetReceives,
    /// The source's send buffer: the last value of `net.ipv4.tcp_wmem`.
    SourceSends,
}

/// Returns the window that held the streams back and the buffer size to lift it.
///
/// The size is enough for twice the bandwidth-delay product at the achieved rate, and at least twice the present one.
/// `rate_bytes_per_s` is the rate of all streams together, since one stream may have to carry it alone. `None` where
/// the kernel's limit is unknown.
pub fn windows(
    path: &PathFigures,
    rate_bytes_per_s: u64,
    source: WindowLimits,
    target: WindowLimits,
) -> Option<WindowAdvice> {
    let percent = |part: u64| part.saturating_mul(100) / path.busy_us.max(1);
    let (receiver, buffer) = (percent(path.receiver_limited_us), percent(path.buffer_limited_us));
    let (end, percent, now_bytes) = match receiver >= buffer {
        true => (WindowEnd::TargetReceives, receiver, target.receive_max_bytes),
        false => (WindowEnd::SourceSends, buffer, source.send_max_bytes),
    };
    if percent < SHARE_MIN_PERCENT || path.round_trip_us < ROUND_TRIP_MIN_US || now_bytes == 0 {
        return None;
    }
    let under_way = rate_bytes_per_s.saturating_mul(path.round_trip_us) / 1_000_000;
    let wanted_bytes = rounded(under_way.saturating_mul(2 * BUFFER_PER_DATA).max(now_bytes.saturating_mul(2)));
    (wanted_bytes > now_bytes).then_some(WindowAdvice { end, percent: percent.min(100), now_bytes, wanted_bytes })
}

fn rounded(bytes: u64) -> u64 {
    bytes.checked_next_power_of_two().unwrap_or(BUFFER_MAX).min(BUFFER_MAX)
}

/// What a measured path asks of the buffers of one stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BufferNeeds {
    /// The bandwidth-delay product: bytes in flight.
    pub in_flight_bytes: u64,
}

impl BufferNeeds {
    /// Of a path with this rate and round-trip time.
    pub fn of_path(rate_bytes_per_s: u64, round_trip_us: u64) -> Self {
        let product = u128::from(rate_bytes_per_s) * u128::from(round_trip_us) / 1_000_000;
        Self { in_flight_bytes: u64::try_from(product).unwrap_or(u64::MAX) }
    }

    /// Smallest maximum of `tcp_rmem` and `tcp_wmem` with which one stream carries the rate, in bytes.
    pub fn tcp_min_bytes(self) -> u64 {
        self.in_flight_bytes.saturating_mul(BUFFER_PER_DATA)
    }

    /// A maximum with as much again to spare, in bytes.
    pub fn tcp_recommended_bytes(self) -> u64 {
        rounded(self.tcp_min_bytes().saturating_mul(2))
    }

    /// Smallest `rmem_max` and `wmem_max` with which a program can ask for that. The kernel doubles such requests itself
    /// (socket(7)).
    pub fn requested_min_bytes(self) -> u64 {
        self.tcp_min_bytes() / BUFFER_PER_DATA
    }

    /// The same for [`Self::tcp_recommended_bytes`].
    pub fn requested_recommended_bytes(self) -> u64 {
        self.tcp_recommended_bytes() / BUFFER_PER_DATA
    }
}

/// Whether the buffers of `streams` streams, each with `window_bytes`, take more than a quarter of the free memory.
/// `false` where that is unknown.
pub fn buffers_crowd_memory(streams: u16, window_bytes: u64, free_memory_bytes: u64) -> bool {
    free_memory_bytes > 0 && window_bytes.saturating_mul(streams.into()) > free_memory_bytes / 4
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOST: WindowLimits = WindowLimits { receive_max_bytes: 6 << 20, send_max_bytes: 4 << 20 };

    fn path(receiver_limited_us: u64, buffer_limited_us: u64) -> PathFigures {
        PathFigures {
            round_trip_us: 100_000,
            busy_us: 10_000_000,
            receiver_limited_us,
            buffer_limited_us,
            ..PathFigures::default()
        }
    }

    #[test]
    fn names_the_limiting_window_and_its_remedy() {
        let advice = windows(&path(9_000_000, 100), 100_000_000, HOST, HOST).unwrap();
        assert_eq!((advice.end, advice.percent), (WindowEnd::TargetReceives, 90));
        assert_eq!((advice.now_bytes, advice.wanted_bytes), (6 << 20, 64 << 20), "10 MB under way, four times");
        let advice = windows(&path(0, 2_000_000), 1000, HOST, HOST).unwrap();
        assert_eq!((advice.end, advice.now_bytes, advice.wanted_bytes), (WindowEnd::SourceSends, 4 << 20, 8 << 20));
    }

    #[test]
    fn a_path_requests_twice_its_bdp() {
        let needs = BufferNeeds::of_path(125_000_000, 50_000);
        assert_eq!((needs.in_flight_bytes, needs.tcp_min_bytes()), (6_250_000, 12_500_000));
        assert_eq!((needs.tcp_recommended_bytes(), needs.requested_recommended_bytes()), (32 << 20, 16 << 20));
        assert_eq!(needs.requested_min_bytes(), 6_250_000);
        let vast = BufferNeeds::of_path(u64::MAX, u64::MAX);
        assert_eq!((vast.in_flight_bytes, vast.tcp_recommended_bytes()), (u64::MAX, 1 << 30));
    }

    #[test]
    fn buffers_may_take_a_quarter_of_the_free_memory() {
        assert!(!buffers_crowd_memory(8, 32 << 20, 1 << 30));
        assert!(buffers_crowd_memory(9, 32 << 20, 1 << 30) && buffers_crowd_memory(u16::MAX, u64::MAX, 1 << 30));
        assert!(!buffers_crowd_memory(9, 1 << 30, 0), "nothing is known of it");
    }

    #[test]
    fn ignores_settings_without_effect() {
        assert_eq!(windows(&path(1_900_000, 0), 100_000_000, HOST, HOST), None, "a fifth is the least");
        assert_eq!(windows(&PathFigures::default(), 1 << 40, HOST, HOST), None);
        let near = PathFigures { round_trip_us: 50, ..path(9_000_000, 0) };
        assert_eq!(windows(&near, 1 << 40, HOST, HOST), None);
        assert_eq!(
            windows(&path(9_000_000, 0), 1 << 40, HOST, WindowLimits::default()),
            None,
            "nothing is known of it"
        );
        let vast = WindowLimits { receive_max_bytes: 1 << 31, send_max_bytes: 0 };
        assert_eq!(windows(&path(9_000_000, 0), u64::MAX, HOST, vast), None, "there is nothing larger to recommend");
    }
}
