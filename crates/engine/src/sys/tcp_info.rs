//! The kernel's data about a TCP connection (tcp(7), `TCP_INFO`), and about TCP as a whole.
//!
//! The kernel's structure is longer than libc's. It is read as bytes at the offsets of `linux/tcp.h`, which never
//! change; fields unknown to an older kernel are zero.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use haul_proto::wire::report::WindowLimits;

/// Room for the structure of Linux 6.18 (248 bytes).
const LEN: usize = 256;

/// Offsets of fields in `struct tcp_info`.
mod place {
    pub const STATE: usize = 0;
    pub const PROBES: usize = 3;
    pub const SND_MSS: usize = 16;
    pub const UNACKED: usize = 24;
    pub const LAST_DATA_SENT_MS: usize = 44;
    pub const LAST_ACK_RECV_MS: usize = 56;
    pub const RTT_US: usize = 68;
    pub const SND_CWND: usize = 80;
    pub const TOTAL_RETRANS: usize = 100;
    pub const BYTES_ACKED: usize = 120;
    pub const NOTSENT_BYTES: usize = 144;
    pub const MIN_RTT_US: usize = 148;
    pub const DATA_SEGS_OUT: usize = 156;
    pub const DELIVERY_RATE: usize = 160;
    pub const BUSY_TIME_US: usize = 168;
    pub const RWND_LIMITED_US: usize = 176;
    pub const SNDBUF_LIMITED_US: usize = 184;
    pub const REORD_SEEN: usize = 220;
    pub const SND_WND: usize = 228;
}

/// `TCP_ESTABLISHED` of `linux/tcp_states.h`.
const ESTABLISHED: u8 = 1;
/// A receiver with a closed window that misses this many probes in a row is unresponsive.
const PROBES_UNANSWERED: u8 = 2;

/// Figures of one connection since its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TcpInfo {
    /// Neither end has closed it, and it has not failed.
    pub is_established: bool,
    /// Whether sent data has no answer. A closed window is an answer.
    pub is_unanswered: bool,
    /// Whether data waits to be sent or acknowledged.
    pub has_data: bool,
    /// Smoothed round-trip time.
    pub round_trip: Duration,
    /// The shortest round-trip time.
    pub round_trip_min: Duration,
    /// Bytes that the other end has acknowledged.
    pub acknowledged_bytes: u64,
    /// Segments with data.
    pub segments: SegmentCounts,
    /// Congestion window in bytes.
    pub window_bytes: u64,
    /// Bytes in flight.
    pub under_way_bytes: u64,
    /// The receive window in bytes.
    pub receiver_bytes: u64,
    /// The latest delivery rate, in bytes per second.
    pub delivery_bytes_per_s: u64,
    /// Time with data to send.
    pub busy: BusyTime,
}

/// Segments with data of one connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SegmentCounts {
    /// Sent, retransmits included.
    pub sent: u64,
    /// Retransmitted.
    pub retransmitted: u64,
    /// Out of order.
    pub reordered: u64,
}

/// Time with data to send, and its limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BusyTime {
    /// Total.
    pub all: Duration,
    /// Part of it with a full receive window.
    pub receiver_limited: Duration,
    /// Part of it limited by the send buffer.
    pub buffer_limited: Duration,
}

impl BusyTime {
    /// Time limited by the network alone.
    pub fn network_limited(&self) -> Duration {
        self.all.saturating_sub(self.receiver_limited + self.buffer_limited)
    }
}

impl TcpInfo {
    /// Bytes that may be in flight: the smaller of congestion window and receive window. Before Linux 5.4, the receive
    /// window is unknown.
    pub fn effective_window_bytes(&self) -> u64 {
        match self.receiver_bytes {
            0 => self.window_bytes,
            receiver_bytes => receiver_bytes.min(self.window_bytes),
        }
    }
}

/// The kernel's data of a connection. Fails for other sockets than TCP.
pub fn tcp_info(socket: impl AsFd) -> io::Result<TcpInfo> {
    let mut info = [0u8; LEN];
    let mut length = libc::socklen_t::try_from(LEN).unwrap_or(0);
    // SAFETY: `info` is writable for `length` bytes, the kernel writes at most that many and says how many in `length`;
    // both live until the call returns. The descriptor is borrowed, so it is open.
    #[allow(unsafe_code)]
    let status = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    if status != 0 {
        return Err(io::Error::last_os_error());
    }
    if (length as usize) < place::RTT_US + size_of::<u32>() {
        return Err(io::ErrorKind::Unsupported.into());
    }
    let short = |at: usize| info[at..].first_chunk().map_or(0, |bytes| u64::from(u32::from_ne_bytes(*bytes)));
    let long = |at: usize| info[at..].first_chunk().map_or(0, |bytes| u64::from_ne_bytes(*bytes));
    let is_behind = short(place::LAST_ACK_RECV_MS) > short(place::LAST_DATA_SENT_MS);
    let segment_bytes = short(place::SND_MSS);
    Ok(TcpInfo {
        is_established: info[place::STATE] == ESTABLISHED,
        is_unanswered: short(place::UNACKED) > 0 && is_behind || info[place::PROBES] >= PROBES_UNANSWERED,
        has_data: short(place::UNACKED) > 0 || short(place::NOTSENT_BYTES) > 0,
        round_trip: Duration::from_micros(short(place::RTT_US)),
        round_trip_min: Duration::from_micros(short(place::MIN_RTT_US)),
        acknowledged_bytes: long(place::BYTES_ACKED),
        segments: SegmentCounts {
            sent: short(place::DATA_SEGS_OUT),
            retransmitted: short(place::TOTAL_RETRANS),
            reordered: short(place::REORD_SEEN),
        },
        window_bytes: short(place::SND_CWND) * segment_bytes,
        under_way_bytes: short(place::UNACKED) * segment_bytes,
        receiver_bytes: short(place::SND_WND),
        delivery_bytes_per_s: long(place::DELIVERY_RATE),
        busy: BusyTime {
            all: Duration::from_micros(long(place::BUSY_TIME_US)),
            receiver_limited: Duration::from_micros(long(place::RWND_LIMITED_US)),
            buffer_limited: Duration::from_micros(long(place::SNDBUF_LIMITED_US)),
        },
    })
}

/// Limits of the kernel's own tuning of TCP buffers.
pub fn windows() -> WindowLimits {
    let last = |name: &str| {
        let text = std::fs::read_to_string(format!("/proc/sys/net/ipv4/{name}")).unwrap_or_default();
        text.split_ascii_whitespace().last().and_then(|word| word.parse().ok()).unwrap_or(0)
    };
    WindowLimits { receive_max_bytes: last("tcp_rmem"), send_max_bytes: last("tcp_wmem") }
}

/// The loaded congestion controls of this kernel, by its names.
pub fn congestion_controls() -> String {
    let text = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control");
    text.unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn figures_of_a_connection_are_its_own_and_other_sockets_are_errors() {
        if haul_lab::is_emulated_without("TCP_INFO") {
            return;
        }
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut far, _) = listener.accept().unwrap();
        near.write_all(&[7; 100_000]).unwrap();
        far.read_exact(&mut [0; 100_000]).unwrap();
        let deadline = std::time::Instant::now() + Duration::from_secs(10);
        let info = loop {
            let info = tcp_info(&near).unwrap();
            if info.acknowledged_bytes >= 100_000 || std::time::Instant::now() > deadline {
                break info;
            }
        };
        // The SYN counts as one.
        assert!((100_000..=100_001).contains(&info.acknowledged_bytes), "{info:?}");
        let SegmentCounts { sent, retransmitted, .. } = info.segments;
        assert!((1..100_000).contains(&sent) && retransmitted < sent, "{info:?}");
        assert!(info.round_trip < Duration::from_secs(1) && info.round_trip_min <= 2 * info.round_trip, "{info:?}");
        assert!(info.busy.all >= info.busy.receiver_limited, "{info:?}");
        assert!(info.is_established && !info.is_unanswered, "{info:?}");
        drop(far);
        while tcp_info(&near).unwrap().is_established {
            assert!(std::time::Instant::now() < deadline, "the other end has closed it");
        }
        let (unix, _) = std::os::unix::net::UnixStream::pair().unwrap();
        assert!(tcp_info(&unix).is_err());
    }

    #[test]
    fn the_smaller_window_is_the_effective_one() {
        let of = |window_bytes, receiver_bytes| {
            TcpInfo { window_bytes, receiver_bytes, ..TcpInfo::default() }.effective_window_bytes()
        };
        assert_eq!([of(5, 3), of(3, 5), of(5, 0)], [3, 3, 5], "an old kernel names no receive window");
    }

    #[test]
    fn the_kernel_reports_its_limits() {
        let windows = windows();
        assert!(windows.receive_max_bytes >= 4096 && windows.send_max_bytes >= 4096, "{windows:?}");
        assert!(congestion_controls().split(' ').any(|name| name == "reno"), "every Linux has it");
    }
}
