//! A socket of a peer before authentication, bounded in bytes and time.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// A socket with a deadline and a limit on the bytes read.
pub(super) struct PreauthSocket<'a> {
    socket: &'a TcpStream,
    until: Instant,
    left: usize,
}

impl<'a> PreauthSocket<'a> {
    /// Bounds `socket` to `time` and `bytes`.
    pub(super) fn new(socket: &'a TcpStream, time: Duration, bytes: usize) -> Self {
        Self { socket, until: Instant::now() + time, left: bytes }
    }

    /// Allows `bytes` more bytes to arrive.
    pub(super) fn allow(&mut self, bytes: usize) {
        self.left += bytes;
    }

    fn remaining(&self) -> io::Result<Option<Duration>> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(Some(left)) }
    }
}

impl Read for PreauthSocket<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.left == 0 {
            return Err(io::Error::other("too many bytes before authentication"));
        }
        self.socket.set_read_timeout(self.remaining()?)?;
        let room = buffer.len().min(self.left);
        let read = self.socket.read(&mut buffer[..room])?;
        self.left -= read;
        Ok(read)
    }
}

impl Write for PreauthSocket<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.socket.set_write_timeout(self.remaining()?)?;
        self.socket.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(10);

    #[test]
    fn more_than_a_greeting_is_not_read() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut stranger = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        stranger.write_all(&[b'x'; 4096]).unwrap();
        let (socket, _) = listener.accept().unwrap();
        let mut bounded = PreauthSocket::new(&socket, LIMIT, 100);
        let mut all = Vec::new();
        assert!(bounded.read_to_end(&mut all).is_err() && all.len() == 100);
    }
}
