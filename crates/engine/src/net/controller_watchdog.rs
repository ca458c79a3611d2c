//! Supervision of the controller: reads the control channel. While the worker waits for something else, it detects a
//! lost controller or a request to stop. Without it, a worker could outlive its copy on another host.
//!
//! The reader of the control channel detects a controller that vanished silently ([`haul_base::idle_timeout`]). Every
//! other wait of a worker ends by itself.

use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use haul_base::idle_timeout::{poll_all, wait_to_hear};
use haul_proto::limits::SILENCE_MS;
use rustix::event::{PollFd, PollFlags};

/// Poll flags of a pipe or socket whose other end is gone.
const GONE: PollFlags = PollFlags::HUP.union(PollFlags::ERR).union(PollFlags::NVAL).union(PollFlags::RDHUP);

/// The descriptors of the control channel, and a descriptor that signals a stop.
#[derive(Debug)]
pub struct ControllerWatchdog {
    input: OwnedFd,
    output: OwnedFd,
    stop: OwnedFd,
    /// Idle timeout of the controller in milliseconds.
    silence_ms: AtomicU64,
    /// Whether the idle timeout expired.
    unheard: AtomicBool,
}

impl ControllerWatchdog {
    /// Creates the watchdog of a control channel with descriptors `input` and `output`. The channel counts as ended
    /// once `stop` is readable or closed at its other end.
    pub fn new(input: OwnedFd, output: OwnedFd, stop: OwnedFd) -> Self {
        Self { input, output, stop, silence_ms: AtomicU64::new(SILENCE_MS), unheard: AtomicBool::new(false) }
    }

    /// Sets the idle timeout of the controller.
    pub fn set_silence_ms(&self, silence_ms: u32) {
        self.silence_ms.store(silence_ms.into(), Ordering::Relaxed);
    }

    /// Whether the control channel ended by the idle timeout.
    pub fn is_unheard(&self) -> bool {
        self.unheard.load(Ordering::Relaxed)
    }

    /// Whether this process was asked to stop.
    pub fn is_stopped(&self) -> bool {
        let mut fds = [PollFd::new(&self.stop, PollFlags::IN)];
        matches!(poll_all(&mut fds, Some(Duration::ZERO)), Ok(ready) if ready > 0)
    }

    /// Waits until `socket` is writable. `false` if the copy is over: the controller is gone, or this process is to
    /// stop.
    pub fn wait_writable(&self, socket: impl AsFd) -> bool {
        self.wait(Some(socket.as_fd()), None)
    }

    /// Waits for `pause`. Returns `false` at once if the copy is over.
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
        // The caller retries then, and detects a socket error.
        let _ = poll_all(&mut fds, timeout);
        let gone = |fd: &PollFd<'_>| fd.revents().intersects(GONE);
        fds[0].revents().is_empty() && !gone(&fds[1]) && !gone(&fds[2])
    }
}

/// Reads the control channel to its end, a stop or the idle timeout.
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
    use std::io::Write;
    use std::os::unix::net::UnixStream;
    use std::time::Instant;

    use super::*;

    /// Returns a watchdog over a socket, as sshd provides one, with the controller's end and the stop descriptor's
    /// other end.
    pub fn watchdog() -> (Arc<ControllerWatchdog>, UnixStream, UnixStream) {
        let (controller, link) = UnixStream::pair().unwrap();
        let (stopper, stop) = UnixStream::pair().unwrap();
        let output = link.try_clone().unwrap();
        (Arc::new(ControllerWatchdog::new(link.into(), output.into(), stop.into())), controller, stopper)
    }

    /// Time limit for events expected at once.
    const SOON: Duration = Duration::from_secs(5);

    #[test]
    fn the_wait_lasts_as_long_as_the_controller() {
        let (watchdog, mut controller, _stopper) = watchdog();
        controller.write_all(b"unread").unwrap();
        assert!(watchdog.pause(Duration::from_millis(20)) && !watchdog.is_stopped());
        let (socket, _other) = UnixStream::pair().unwrap();
        assert!(watchdog.wait_writable(&socket));
    }

    #[test]
    fn an_ended_or_silent_controller_ends_the_wait() {
        for half in [true, false] {
            let (watchdog, mut controller, _stopper) = watchdog();
            controller.write_all(b"unread").unwrap();
            if half {
                controller.shutdown(std::net::Shutdown::Write).unwrap();
            } else {
                drop(controller);
            }
            let began = Instant::now();
            assert!(!watchdog.pause(SOON) && began.elapsed() < SOON, "half: {half}");
        }
    }

    #[test]
    fn pipes_are_reported_as_well() {
        for end in [0, 1] {
            let (input, to_input) = rustix::pipe::pipe().unwrap();
            let (from_output, output) = rustix::pipe::pipe().unwrap();
            let (_stopper, stop) = UnixStream::pair().unwrap();
            let watchdog = ControllerWatchdog::new(input, output, stop.into());
            assert!(watchdog.pause(Duration::from_millis(1)));
            let mut ends = vec![to_input, from_output];
            drop(ends.remove(end));
            let began = Instant::now();
            assert!(!watchdog.pause(SOON) && began.elapsed() < SOON, "end {end}");
        }
    }

    #[test]
    fn a_silent_controller_ends_the_input() {
        let (watchdog, mut controller, _stopper) = watchdog();
        controller.write_all(b"read").unwrap();
        watchdog.set_silence_ms(500);
        let mut input = WatchedInput(Arc::clone(&watchdog));
        assert_eq!(input.read(&mut [0; 8]).unwrap(), 4);
        assert!(!watchdog.is_unheard());
        let began = Instant::now();
        assert_eq!(input.read(&mut [0; 8]).unwrap(), 0);
        assert!(watchdog.is_unheard() && began.elapsed() < SOON);
    }

    #[test]
    fn a_stop_request_ends_waits_and_the_input() {
        let (watchdog, mut controller, mut stopper) = watchdog();
        controller.write_all(b"read").unwrap();
        let mut input = WatchedInput(Arc::clone(&watchdog));
        assert_eq!(input.read(&mut [0; 8]).unwrap(), 4);
        let reading = std::thread::spawn(move || input.read(&mut [0; 8]).unwrap());
        stopper.write_all(b"!").unwrap();
        assert_eq!(reading.join().unwrap(), 0);
        assert!(watchdog.is_stopped() && !watchdog.pause(SOON));
    }
}
