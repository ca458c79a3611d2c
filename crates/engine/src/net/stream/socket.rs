//! Transfers whole buffers through a socket, and detects a lost peer.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::time::Duration;

use haul_proto::wire::request::SocketOptions;
use haul_proto::wire::resource_metrics::Stage;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown, getpeername, getsockname, recv, send, shutdown, sockopt};

use crate::metrics::stage_timer::during;
use crate::net::stream::window::{fresh, grants};
use crate::sys::tcp_info::tcp_info;

/// Idle time before a keepalive probe.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(15);
/// Time between two keepalive probes.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);
/// Most unanswered keepalive probes.
const KEEPALIVE_COUNT: u32 = 4;
/// Round-trip times of short paths are below this.
const SHORT_PATH: Duration = Duration::from_millis(2);
/// Congestion control for short paths, where BBR's pacing costs more than it gains (measured over loopback: a fifth of
/// a copy's time).
const FOR_SHORT_PATHS: &str = "cubic";
/// Congestion control for other paths, if available and permitted: it does not treat every loss as congestion (measured
/// at 50 ms and 0.1 % loss: ten times the rate of cubic).
const FOR_LONG_PATHS: &str = "bbr";

/// Most unsent bytes in a socket on other paths. Bytes in flight are limited by the window only.
const UNSENT_MAX: u32 = 128 << 10;

/// Largest packet on a path that loses larger ones: every IPv6 link carries it (RFC 8200, section 5).
const SMALL_MTU: u32 = 1280;
/// Bytes of the headers of IPv4 and TCP, without options.
const HEADERS_V4: u32 = 40;
/// Bytes of the headers of IPv6 and TCP, without options.
const HEADERS_V6: u32 = 60;

/// Socket buffers in bytes, if both ends have one address. Measured against 256 KiB to 4 MiB, and the kernel's own
/// tuning.
const WINDOW_WITHIN_A_HOST: usize = 512 << 10;

/// Prepares a socket before it connects or listens, so that the window scale fits the buffers.
pub fn prepare_socket(socket: &socket2::Socket, options: &SocketOptions) -> io::Result<()> {
    if let Some(bytes) = options.window_bytes.filter(|bytes| options.window_fixed || grants(*bytes)) {
        socket.set_send_buffer_size(bytes as usize)?;
        socket.set_recv_buffer_size(bytes as usize)?;
    }
    expect_short_path(socket, options.congestion.as_deref());
    mark(socket, options.traffic_class)
}

/// Configures the socket of a new connection.
pub fn configure_connection(socket: impl AsFd, options: &SocketOptions) -> io::Result<()> {
    sockopt::set_tcp_nodelay(&socket, true)?;
    notice_loss(&socket)?;
    mark(&socket2::SockRef::from(&socket), options.traffic_class)?;
    if options.window_bytes.is_none() {
        suit_host(&socket);
    }
    Ok(())
}

/// Called once the round-trip time is known. On a path that is not short, selects the congestion control for long
/// paths, or the system's default, unless one was requested. Limits unsent data in the socket, so that a stream that
/// becomes slow holds back little.
pub fn adapt_to_path(socket: impl AsFd, options: &SocketOptions) {
    if round_trip_time(&socket).is_none_or(|time| time < SHORT_PATH) {
        return;
    }
    let _ = socket2::SockRef::from(&socket).set_tcp_notsent_lowat(UNSENT_MAX);
    if options.congestion.is_none()
        && sockopt::set_tcp_congestion(&socket, FOR_LONG_PATHS).is_err()
        && let Ok(fresh) = fresh()
        && let Ok(usual) = sockopt::tcp_congestion(&fresh)
    {
        let _ = sockopt::set_tcp_congestion(&socket, &usual);
    }
}

/// Before connect(2): limits the segments of both directions to packets of [`SMALL_MTU`]. The other end learns the
/// limit from the SYN.
pub fn limit_segments(socket: &socket2::Socket, is_v6: bool) -> io::Result<()> {
    socket.set_tcp_mss(SMALL_MTU - if is_v6 { HEADERS_V6 } else { HEADERS_V4 })
}

/// Sets the traffic class of packets, for IPv4 and IPv6.
fn mark(socket: &socket2::Socket, traffic_class: u8) -> io::Result<()> {
    if traffic_class == 0 {
        return Ok(());
    }
    let is_v4 = socket.domain().is_ok_and(|domain| domain == socket2::Domain::IPV4);
    if !is_v4 {
        socket.set_tclass_v6(traffic_class.into())?;
    }
    // An IPv6 socket may carry IPv4.
    match socket.set_tos_v4(traffic_class.into()) {
        Err(error) if is_v4 => Err(error),
        _ => Ok(()),
    }
}

/// The kernel tunes windows best, except between two sockets of one address: there, a small window keeps data in the
/// CPU's cache. Two namespaces of one machine may have a delay between them, so the address decides. This affects speed
/// only.
fn suit_host(socket: impl AsFd) {
    if is_within_host(&socket) {
        let _ = sockopt::set_socket_send_buffer_size(&socket, WINDOW_WITHIN_A_HOST);
        let _ = sockopt::set_socket_recv_buffer_size(&socket, WINDOW_WITHIN_A_HOST);
    }
}

/// Whether both ends of a TCP connection have one address.
pub fn is_within_host(socket: impl AsFd) -> bool {
    let [own, peer] = addresses(socket);
    own.is_some() && own.map(|own| own.ip()) == peer.map(|peer| peer.ip())
}

/// Address and port of both ends of a connection, as text; empty if unknown.
pub fn names(socket: impl AsFd) -> (String, String) {
    let [own, peer] = addresses(socket).map(|address| address.map_or_else(String::new, |address| address.to_string()));
    (own, peer)
}

/// This end's address; `None` for other sockets than TCP.
pub fn own_address(socket: impl AsFd) -> Option<IpAddr> {
    addresses(socket)[0].map(|own| own.ip())
}

/// Size of a socket's send buffer, with unacknowledged bytes.
pub fn send_buffer_bytes(socket: impl AsFd) -> u64 {
    sockopt::socket_send_buffer_size(socket).map_or(0, |bytes| bytes as u64)
}

/// The addresses of both ends. IPv4-mapped addresses are IPv4.
fn addresses(socket: impl AsFd) -> [Option<SocketAddr>; 2] {
    let own = getsockname(&socket).ok().and_then(|name| SocketAddr::try_from(name).ok());
    let peer = getpeername(&socket).ok().flatten().and_then(|name| SocketAddr::try_from(name).ok());
    [own, peer].map(|address| address.map(|address| SocketAddr::new(address.ip().to_canonical(), address.port())))
}

/// Enables keepalive, so that a TCP connection fails if the other host vanishes. `TCP_USER_TIMEOUT` is not set, since a
/// live receiver may read nothing for hours.
fn notice_loss(socket: impl AsFd) -> io::Result<()> {
    sockopt::set_tcp_keepidle(&socket, KEEPALIVE_IDLE)?;
    sockopt::set_tcp_keepintvl(&socket, KEEPALIVE_INTERVAL)?;
    sockopt::set_tcp_keepcnt(&socket, KEEPALIVE_COUNT)?;
    Ok(sockopt::set_socket_keepalive(&socket, true)?)
}

/// Shuts a connection down: senders fail, receivers get the received data and then the end. Unsent data is discarded on
/// close. Errors are those of a closed connection.
pub fn abandon(socket: impl AsFd) {
    let _ = sockopt::set_socket_linger(&socket, Some(Duration::ZERO));
    let _ = shutdown(&socket, Shutdown::Both);
}

/// Before connect(2) or listen(2): selects the requested congestion control; without a request, that for a short path.
/// Later would be too late, since BBR's pacing stays on. If the kernel refuses, its default stays: this affects speed
/// only.
fn expect_short_path(socket: impl AsFd, congestion: Option<&str>) {
    let _ = sockopt::set_tcp_congestion(&socket, congestion.unwrap_or(FOR_SHORT_PATHS));
}

/// Whether a connection's congestion control tolerates loss: then one stream fills the path, and many displace each
/// other in its queue (measured at 1 Gbit/s and 50 ms: 64 carry 0.85 of the rate of 8).
pub fn bears_loss(socket: impl AsFd) -> bool {
    sockopt::tcp_congestion(&socket).is_ok_and(|name| name == FOR_LONG_PATHS)
}

/// Whether this congestion control is available and permitted.
pub fn permits_congestion(name: &str) -> bool {
    fresh().is_ok_and(|socket| sockopt::set_tcp_congestion(&socket, name).is_ok())
}

/// The round-trip time of a connection; `None` without TCP.
pub fn round_trip_time(socket: impl AsFd) -> Option<Duration> {
    tcp_info(socket).ok().map(|info| info.round_trip)
}

/// Sends all of `bytes`. A lost peer is an error, never a signal.
pub fn send_all(socket: impl AsFd, bytes: &[u8]) -> io::Result<()> {
    send_flagged(socket, bytes, SendFlags::NOSIGNAL)
}

/// Sends all of `bytes`, with more to follow: a partial packet waits for it, or for [`push`].
pub fn send_with_more(socket: impl AsFd, bytes: &[u8]) -> io::Result<()> {
    send_flagged(socket, bytes, SendFlags::NOSIGNAL | SendFlags::MORE)
}

/// Sends a partial packet that waits in the socket. Otherwise, the system waits up to 200 ms (tcp(7)).
pub fn push(socket: impl AsFd) {
    // Setting it again also sends. Other sockets than TCP do not wait.
    let _ = sockopt::set_tcp_nodelay(&socket, true);
}

fn send_flagged(socket: impl AsFd, mut bytes: &[u8], flags: SendFlags) -> io::Result<()> {
    during(Stage::Send, || {
        while !bytes.is_empty() {
            match send(&socket, bytes, flags) {
                Ok(sent) => bytes = &bytes[sent..],
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    })
}

/// Fills `buffer`; `UnexpectedEof` if the peer closes before.
pub fn receive_exact(socket: impl AsFd, mut buffer: &mut [u8]) -> io::Result<()> {
    during(Stage::Receive, || {
        while !buffer.is_empty() {
            match recv(&socket, &mut *buffer, RecvFlags::WAITALL) {
                Ok((0, _)) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok((got, _)) => buffer = &mut std::mem::take(&mut buffer)[got..],
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(bytes: u32, is_fixed: bool) -> SocketOptions {
        SocketOptions { window_bytes: Some(bytes), window_fixed: is_fixed, ..SocketOptions::default() }
    }

    #[test]
    fn corked_data_is_sent_on_a_push() {
        use std::io::Read;
        use std::net::{TcpListener, TcpStream};
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut far, _) = listener.accept().unwrap();
        sockopt::set_tcp_nodelay(&near, true).unwrap();
        far.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let mut bytes = [0; 5];
        // The system waits for so long only, and this thread may wait for longer.
        let waited = (0..20).any(|_| {
            far.set_nonblocking(true).unwrap();
            send_with_more(&near, b"short").unwrap();
            let early = far.read(&mut bytes);
            far.set_nonblocking(false).unwrap();
            let waits = early.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock);
            if waits {
                let since = std::time::Instant::now();
                push(&near);
                far.read_exact(&mut bytes).unwrap();
                return since.elapsed() < Duration::from_millis(100);
            }
            false
        });
        assert!(waited, "it was sent at once, or not when it was pushed");
    }

    #[test]
    fn a_window_is_left_to_the_kernel_if_that_can_do_better() {
        let has = |options: SocketOptions| {
            let socket = fresh().unwrap();
            prepare_socket(&socket, &options).unwrap();
            (socket.recv_buffer_size().unwrap(), socket.send_buffer_size().unwrap())
        };
        let untouched = has(SocketOptions::default());
        for fixed in [false, true] {
            assert_eq!(has(window(65_536, fixed)), (131_072, 131_072), "the kernel grants it");
        }
        // What no kernel grants that was left as it comes.
        if !grants(1 << 30) {
            assert_eq!(has(window(1 << 30, false)), untouched);
            assert_ne!(has(window(1 << 30, true)), untouched);
        }
    }

    #[test]
    fn packets_of_both_kinds_carry_the_traffic_class_at_both_ends() {
        let marked = SocketOptions { traffic_class: 0xb8, ..SocketOptions::default() };
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let listener = std::net::TcpListener::bind(address).unwrap();
            let connected = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (accepted, _) = listener.accept().unwrap();
            for socket in [connected, accepted] {
                configure_connection(&socket, &marked).unwrap();
                let socket = socket2::SockRef::from(&socket);
                assert_eq!(socket.tos_v4().unwrap(), 0xb8, "{address}");
                if address.starts_with('[') {
                    assert_eq!(socket.tclass_v6().unwrap(), 0xb8);
                }
            }
        }
    }

    #[test]
    fn both_ends_notice_the_others_end() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let connected = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (accepted, _) = listener.accept().unwrap();
        for socket in [connected, accepted] {
            assert!(!sockopt::socket_keepalive(&socket).unwrap());
            notice_loss(&socket).unwrap();
            assert!(sockopt::socket_keepalive(&socket).unwrap());
            assert_eq!(sockopt::tcp_keepidle(&socket).unwrap(), Duration::from_secs(15));
            assert_eq!(sockopt::tcp_keepintvl(&socket).unwrap(), Duration::from_secs(5));
            assert_eq!(sockopt::tcp_keepcnt(&socket).unwrap(), 4);
        }
    }
}
