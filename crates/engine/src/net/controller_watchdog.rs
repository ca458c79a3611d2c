//! A worker's hold on its controller: reads the link, and while the worker waits for something else, notices that the
//! controller is gone or that this process is to stop. A worker that did not would outlive its job on another host.
//!
//! A controller that is gone without a word is noticed where the link is read ([`crate::net::idle_timeout`]): whatever a worker
//! waits for besides the link comes to an end by itself.

use haul_proto::limits::SILENCE_MS;
use rustix::event::{PollFd, PollFlags};
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::net::idle_timeout::{poll_all, wait_to_hear};

/// What a poll says of the other end of a pipe or a socket when it is gone.
const GONE: PollFlags = PollFlags::HUP.union(PollFlags::ERR).union(PollFlags::NVAL).union(PollFlags::RDHUP);

/// The link's descriptors, and the one that says when to stop.
#[derive(Debug)]
pub struct ControllerWatchdog {
    input: OwnedFd,
    output: OwnedFd,
    stop: OwnedFd,
    /// How long the controller may say nothing, in milliseconds.
    silence_ms: AtomicU64,
    /// It has said nothing for longer.
    unheard: AtomicBool,
}

impl ControllerWatchdog {
    /// For a link that is read from `input` and written to `output`. As soon as `stop` can be read, or its other end
    /// is closed, the link counts as ended.
    pub fn new(input: OwnedFd, output: OwnedFd, stop: OwnedFd) -> Self {
        Self { input, output, stop, silence_ms: AtomicU64::new(SILENCE_MS), unheard: AtomicBool::new(false) }
    }

    /// How long the controller may say nothing, from now on.
    pub fn set_silence_ms(&self, silence_ms: u32) {
        self.silence_ms.store(silence_ms.into(), Ordering::Relaxed);
    }

    /// Whether the link ended because nothing was heard from the controller any more.
    pub fn is_unheard(&self) -> bool {
        self.unheard.load(Ordering::Relaxed)
    }

    /// Whether this process was told to stop.
    pub fn is_stopped(&self) -> bool {
        let mut fds = [PollFd::new(&self.stop, PollFlags::IN)];
        matches!(poll_all(&mut fds, Some(Duration::ZERO)), Ok(ready) if ready > 0)
    }

    /// Waits until `socket` takes bytes. `false` when the job is over: the controller is gone, or this process is to stop.
    pub fn wait_writable(&self, socket: impl AsFd) -> bool {
        self.wait(Some(socket.as_fd()), None)
    }

    /// Waits for `pause`. `false`, at once, when the job is over.
    pub fn pause(&self, pause: Duration) -> bool {
        self.wait(None, Some(pause))
    }

    fn wait(&self, socket: Option<BorrowedFd<'_>>, timeout: Option<Duration>) -> bool {
        let mut fds = vec![
            PollFd::new(&self.stop, PollFlags::IN),
            PollFd::new(&self.input, PollFlags::RDHUP),
            PollFd::new(&self.output, PollFlags::empty()),
        ];
        fds.extend(socket.map(|socket| PollFd::from_borrowed_fd(socket, PollFlags::OUT)));
        // Whoever waits tries again then, and an error of the socket shows there.
        let _ = poll_all(&mut fds, timeout);
        let gone = |fd: &PollFd<'_>| fd.revents().intersects(GONE);
        fds[0].revents().is_empty() && !gone(&fds[1]) && !gone(&fds[2])
    }
}

/// Reads the link; to its end, or until this process is to stop, or until nothing is heard any more.
pub struct WatchedInput(pub Arc<ControllerWatchdog>);

impl Read for WatchedInput {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let ControllerWatchdog { input, stop, silence_ms, unheard, .. } = &*self.0;
        let mut fds = [PollFd::new(stop, PollFlags::IN), PollFd::new(input, PollFlags::IN)];
        match wait_to_hear(&mut fds, Duration::from_millis(silence_ms.load(Ordering::Relaxed))) {
            Ok(()) if fds[0].revents().is_empty() => Ok(rustix::io::read(input, buffer)?),
            Ok(()) => Ok(0),
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                unheard.store(true, Ordering::Relaxed);
                Ok(0)
            }
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::net::UnixStream;
    use std::time::Instant;

    /// A lifeline over a socket, as sshd gives one to what it starts, with the controller's end and the one that stops.
    pub fn lifeline() -> (Arc<ControllerWatchdog>, UnixStream, UnixStream) {
        let (controller, link) = UnixStream::pair().unwrap();
        let (stopper, stop) = UnixStream::pair().unwrap();
        let output = link.try_clone().unwrap();
        (Arc::new(ControllerWatchdog::new(link.into(), output.into(), stop.into())), controller, stopper)
    }

    /// Waits at most this long for what is to happen at once.
    const SOON: Duration = Duration::from_secs(5);

    #[test]
    fn it_waits_while_the_controller_is_there() {
        let (lifeline, mut controller, _stopper) = lifeline();
        controller.write_all(b"unread").unwrap();
        assert!(lifeline.pause(Duration::from_millis(20)) && !lifeline.is_stopped());
        let (socket, _other) = UnixStream::pair().unwrap();
        assert!(lifeline.wait_writable(&socket));
    }

    #[test]
    fn a_controller_that_is_gone_or_says_no_more_ends_the_wait() {
        for half in [true, false] {
            let (lifeline, mut controller, _stopper) = lifeline();
            controller.write_all(b"unread").unwrap();
            if half {
                controller.shutdown(std::net::Shutdown::Write).unwrap();
            } else {
                drop(controller);
            }
            let began = Instant::now();
            assert!(!lifeline.pause(SOON) && began.elapsed() < SOON, "half: {half}");
        }
    }

    #[test]
    fn pipes_say_so_as_well() {
        for end in [0, 1] {
            let (input, to_input) = rustix::pipe::pipe().unwrap();
            let (from_output, output) = rustix::pipe::pipe().unwrap();
            let (_stopper, stop) = UnixStream::pair().unwrap();
            let lifeline = ControllerWatchdog::new(input, output, stop.into());
            assert!(lifeline.pause(Duration::from_millis(1)));
            let mut ends = vec![to_input, from_output];
            drop(ends.remove(end));
            let began = Instant::now();
            assert!(!lifeline.pause(SOON) && began.elapsed() < SOON, "end {end}");
        }
    }

    #[test]
    fn a_controller_that_says_nothing_ends_the_input() {
        let (lifeline, mut controller, _stopper) = lifeline();
        controller.write_all(b"read").unwrap();
        lifeline.set_silence_ms(500);
        let mut input = WatchedInput(Arc::clone(&lifeline));
        assert_eq!(input.read(&mut [0; 8]).unwrap(), 4);
        assert!(!lifeline.is_unheard());
        let began = Instant::now();
        assert_eq!(input.read(&mut [0; 8]).unwrap(), 0);
        assert!(lifeline.is_unheard() && began.elapsed() < SOON);
    }

    #[test]
    fn being_told_to_stop_ends_waits_and_the_input() {
        let (lifeline, mut controller, mut stopper) = lifeline();
        controller.write_all(b"read").unwrap();
        let mut input = WatchedInput(Arc::clone(&lifeline));
        assert_eq!(input.read(&mut [0; 8]).unwrap(), 4);
        let reading = std::thread::spawn(move || input.read(&mut [0; 8]).unwrap());
        stopper.write_all(b"!").unwrap();
        assert_eq!(reading.join().unwrap(), 0);
        assert!(lifeline.is_stopped() && !lifeline.pause(SOON));
    }
}
