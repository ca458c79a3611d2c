//! Moving whole buffers through a socket, and noticing when there is nobody at its other end any more.

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, getpeername, getsockname, recv, send, sockopt};
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::time::Duration;

use crate::os::tcp_info::round_trip_time;

/// A connection that is silent for this long is asked whether its other end is still there.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(15);
/// Time between two such questions.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);
/// Questions that may stay without an answer.
const KEEPALIVE_COUNT: u32 = 4;
/// Below this round-trip time a path counts as short.
const SHORT_PATH: Duration = Duration::from_millis(2);
/// Congestion control for short paths: there, BBR's pacing costs more than it brings (measured over loopback: a fifth
/// of the time of a copy).
const FOR_SHORT_PATHS: &str = "cubic";

/// Socket buffers in bytes, where both ends have one address. Measured: 256 KiB to 4 MiB, and the kernel's own tuning.
const WINDOW_WITHIN_A_HOST: usize = 512 << 10;

/// The kernel tunes windows best, except between two sockets of one address: there a window covers no distance, and
/// what is in a small one is still in the processor's cache when it is received. Two namespaces of one machine may
/// well have a distance between them, so that it is the address that counts. This is about speed only.
pub fn suit_host(socket: impl AsFd) {
    let own = getsockname(&socket).ok().and_then(|name| SocketAddr::try_from(name).ok());
    let peer = getpeername(&socket).ok().flatten().and_then(|name| SocketAddr::try_from(name).ok());
    if own.is_some() && own.map(|own| own.ip()) == peer.map(|peer| peer.ip()) {
        let _ = sockopt::set_socket_send_buffer_size(&socket, WINDOW_WITHIN_A_HOST);
        let _ = sockopt::set_socket_recv_buffer_size(&socket, WINDOW_WITHIN_A_HOST);
    }
}

/// Makes a silent TCP connection fail when the other host is gone without a word; by itself the system never notices.
/// A receiver that is alive and takes nothing for hours is waited for: so `TCP_USER_TIMEOUT` is not set.
pub fn notice_loss(socket: impl AsFd) -> io::Result<()> {
    sockopt::set_tcp_keepidle(&socket, KEEPALIVE_IDLE)?;
    sockopt::set_tcp_keepintvl(&socket, KEEPALIVE_INTERVAL)?;
    sockopt::set_tcp_keepcnt(&socket, KEEPALIVE_COUNT)?;
    Ok(sockopt::set_socket_keepalive(&socket, true)?)
}

/// Before a connection is made or accepted: begins as if the path were short. Later would be too late, since pacing
/// that BBR has begun goes on after it. What the kernel does not permit stays as it was: this is about speed only.
pub fn expect_short_path(socket: impl AsFd) {
    let _ = sockopt::set_tcp_congestion(&socket, FOR_SHORT_PATHS);
}

/// Once the round-trip time is known: on a path that is not short, back to what the system has chosen.
pub fn suit_path(socket: impl AsFd) {
    if round_trip_time(&socket).is_ok_and(|time| time >= SHORT_PATH)
        && let Ok(fresh) = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None)
        && let Ok(usual) = sockopt::tcp_congestion(&fresh)
    {
        let _ = sockopt::set_tcp_congestion(&socket, &usual);
    }
}

/// Sends all of `bytes`. A peer that is gone is an error, never a signal.
pub fn send_all(socket: impl AsFd, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match send(&socket, bytes, SendFlags::NOSIGNAL) {
            Ok(sent) => bytes = &bytes[sent..],
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Fills `buffer`; `UnexpectedEof` when the peer closes before.
pub fn receive_exact(socket: impl AsFd, mut buffer: &mut [u8]) -> io::Result<()> {
    while !buffer.is_empty() {
        match recv(&socket, &mut *buffer, RecvFlags::WAITALL) {
            Ok((0, _)) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok((got, _)) => buffer = &mut buffer[got..],
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_notice_when_the_other_is_gone() {
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
