//! Idle timeout of a control channel: detects a silent other end although the pipe is still open. Its host or the
//! network may be down, or its process stopped. A live end sends heartbeats
//! ([`crate::control_channel::ControlWriter`]).
//!
//! Silence is measured in short intervals, and only while the reader polls. A stopped process or a suspended host
//! therefore does not attribute its own absence to the other end: however long it was, it counts as one interval.

use std::io::{self, Read};
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// Duration of one poll.
const TICK: Duration = Duration::from_millis(250);

/// Waits until one of `fds` is ready.
///
/// # Errors
///
/// `TimedOut` if none is ready within `limit`.
pub fn wait_to_hear(fds: &mut [PollFd<'_>], limit: Duration) -> io::Result<()> {
    let mut silent = Duration::ZERO;
    while silent < limit {
        if poll_all(fds, Some(TICK))? > 0 {
            return Ok(());
        }
        silent += TICK;
    }
    let text = format!("no message for {} s", limit.as_secs_f64().round());
    Err(io::Error::new(io::ErrorKind::TimedOut, text))
}

/// Polls until a descriptor is ready or `timeout` has passed. A signal may restart the timeout.
pub fn poll_all(fds: &mut [PollFd<'_>], timeout: Option<Duration>) -> io::Result<usize> {
    let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
    loop {
        match poll(fds, timeout.as_ref()) {
            Err(Errno::INTR) => {}
            polled => return Ok(polled?),
        }
    }
}

/// A pipe that fails after an idle timeout.
pub struct IdleTimeout<R> {
    pipe: R,
    limit: Duration,
}

impl<R: Read + AsFd> IdleTimeout<R> {
    /// Reads from `pipe`; silence of `limit` is an error.
    pub fn new(pipe: R, limit: Duration) -> Self {
        Self { pipe, limit }
    }
}

impl<R: Read + AsFd> Read for IdleTimeout<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        wait_to_hear(&mut [PollFd::new(&self.pipe, PollFlags::IN)], self.limit)?;
        self.pipe.read(buffer)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixStream;
    use std::time::Instant;

    use haul_proto::wire::control_channel::ControlChannel;

    use super::*;
    use crate::control_channel::{ControlReader, ControlWriter};

    const LIMIT: Duration = Duration::from_millis(1500);

    #[test]
    fn silence_is_an_error_and_the_end_is_none() {
        let (mut here, there) = UnixStream::pair().unwrap();
        let mut heard = IdleTimeout::new(there, LIMIT);
        here.write_all(b"word").unwrap();
        let mut buffer = [0; 8];
        assert_eq!(heard.read(&mut buffer).unwrap(), 4);
        let began = Instant::now();
        let error = heard.read(&mut buffer).unwrap_err();
        assert_eq!((error.kind(), error.to_string().as_str()), (io::ErrorKind::TimedOut, "no message for 2 s"));
        assert!(began.elapsed() >= LIMIT);
        drop(here);
        assert_eq!(heard.read(&mut buffer).unwrap(), 0);
    }

    #[test]
    fn a_heartbeat_keeps_a_peer_alive_and_is_not_data() {
        let (here, there) = UnixStream::pair().unwrap();
        let writer = ControlWriter::new(here);
        writer.keep_alive().unwrap();
        let mut reader = ControlReader::new(IdleTimeout::new(there, LIMIT));
        let listening = std::thread::spawn(move || {
            let word = reader.next_frame().unwrap().map(|(channel, content)| (channel, content.to_vec()));
            (word, reader.next_frame().unwrap().map(|(channel, _)| channel))
        });
        // Twice the idle timeout.
        std::thread::sleep(2 * LIMIT);
        writer.send(ControlChannel::Peer, b"word").unwrap();
        drop(writer);
        assert_eq!(listening.join().unwrap(), (Some((ControlChannel::Peer, b"word".to_vec())), None));
    }
}
