//! What the kernel knows about a TCP connection (tcp(7), `TCP_INFO`).

use std::io;
use std::mem::{MaybeUninit, offset_of, size_of};
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

/// The smoothed round-trip time of a connection. An error where the socket is not TCP's, or the kernel does not say.
pub fn round_trip_time(socket: impl AsFd) -> io::Result<Duration> {
    let mut info = MaybeUninit::<libc::tcp_info>::zeroed();
    let mut length = libc::socklen_t::try_from(size_of::<libc::tcp_info>()).unwrap_or(0);
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
    if (length as usize) < offset_of!(libc::tcp_info, tcpi_rtt) + size_of::<u32>() {
        return Err(io::ErrorKind::Unsupported.into());
    }
    // SAFETY: all of it was zeroed, and zero is a value of each of its fields, which are integers.
    #[allow(unsafe_code)]
    let info = unsafe { info.assume_init() };
    Ok(Duration::from_micros(info.tcpi_rtt.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn loopback_is_near_and_other_sockets_are_errors() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut far, _) = listener.accept().unwrap();
        near.write_all(b"x").unwrap();
        far.read_exact(&mut [0]).unwrap();
        assert!(round_trip_time(&near).unwrap() < Duration::from_secs(1));
        let (unix, _) = std::os::unix::net::UnixStream::pair().unwrap();
        assert!(round_trip_time(&unix).is_err());
    }
}
