//! Signals and the loss of the terminal, which stop a copy.
//!
//! SIGINT and SIGTERM cancel. A running copy has [`GRACE`] to end by itself; after [`SAME_REQUEST`], a second signal
//! ends the process at once. SIGHUP is ignored, also by all children, which inherit that. If its terminal closes, a
//! foreground copy is cancelled, and a background copy continues. SIGUSR1 doubles the rate limit, SIGUSR2 halves it.
//! The time limit (`--timelimit`) also cancels.

use std::io::{self, IsTerminal, Read};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use haul_base::copy::error::{GO_ON, START_OVER};
use haul_base::copy::rate::RateHandle;
use haul_base::sys::cancel::Cancel;
use haul_base::sys::describe::describe_start;
use haul_engine::sys::signals::ignore_hangup;
use haul_show::exit::Exit;
use haul_show::output_place;
use haul_show::terminal::Controlling;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::SigId;
use signal_hook::consts::{SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGXFSZ};
use signal_hook::low_level::unregister;

/// Time for a cancelled copy to end, so that everything has ended a second after Ctrl-C.
const GRACE: Duration = Duration::from_millis(900);
/// Time in which a second signal is the same request: timeout(1) signals its child, then its process group.
const SAME_REQUEST: Duration = Duration::from_millis(200);
/// The grace period after a time limit: no user waits, and the final report is wanted.
const TIME_GRACE: Duration = Duration::from_secs(5);
/// Interval between checks of the terminal.
const TERMINAL_EVERY: Duration = Duration::from_millis(200);

/// The error where signals cannot be caught.
pub fn not_caught(error: io::Error) -> anyhow::Error {
    anyhow::anyhow!("signals cannot be caught: {}", describe_start(&error))
}

/// Handles signals until dropped: cancels the copy, or changes its rate.
pub struct Watch {
    registered: Vec<SigId>,
    ended: Arc<AtomicBool>,
    copies_running: Arc<AtomicUsize>,
    limit: Option<Duration>,
    time_is_up: Arc<AtomicBool>,
    wake: UnixStream,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    /// Starts to handle signals for `cancel` and `rate`, with the time `limit`.
    pub fn start(cancel: Cancel, rate: RateHandle, limit: Option<Duration>) -> anyhow::Result<Self> {
        Self::start_for_several(cancel, vec![rate], limit)
    }

    /// Starts to handle signals for copies with these rates.
    pub fn start_for_several(cancel: Cancel, rates: Vec<RateHandle>, limit: Option<Duration>) -> anyhow::Result<Self> {
        Self::begin(cancel, rates, limit).map_err(not_caught)
    }

    fn begin(cancel: Cancel, rates: Vec<RateHandle>, limit: Option<Duration>) -> io::Result<Self> {
        let deadline = limit.map(|limit| Instant::now() + limit);
        let hangup_was_ignored = ignore_hangup()?;
        let terminal = Controlling::open().filter(|_| io::stdin().is_terminal() && !hangup_was_ignored);
        let (signalled, wake) = UnixStream::pair()?;
        let ((faster, wake_faster), (slower, wake_slower)) = (UnixStream::pair()?, UnixStream::pair()?);
        let (ended, copies_running) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
        let stopped = Arc::<AtomicBool>::default();
        let time_is_up = Arc::<AtomicBool>::default();
        let watcher = Watcher {
            cancel,
            rates,
            terminal,
            signalled,
            faster,
            slower,
            ended: Arc::clone(&ended),
            copies_running: Arc::clone(&copies_running),
            stopped: Arc::clone(&stopped),
            deadline,
            time_is_up: Arc::clone(&time_is_up),
            limit,
        };
        let mut watch = Self { registered: Vec::new(), ended, copies_running, limit, time_is_up, wake, thread: None };
        watch.register(&stopped)?;
        watch.registered.push(signal_hook::low_level::pipe::register(SIGUSR1, wake_faster)?);
        watch.registered.push(signal_hook::low_level::pipe::register(SIGUSR2, wake_slower)?);
        watch.thread = Some(std::thread::Builder::new().name("haul-signals".to_owned()).spawn(move || watcher.run())?);
        Ok(watch)
    }

    /// Runs `copy`, which must end within [`GRACE`] of a cancellation. Work before and after it, such as removal of the
    /// demo's data, has no limit.
    pub fn during<T>(&self, copy: impl FnOnce() -> T) -> T {
        self.copies_running.fetch_add(1, Ordering::AcqRel);
        let result = copy();
        self.copies_running.fetch_sub(1, Ordering::AcqRel);
        result
    }

    /// The message about the time limit, if it cancelled the copy.
    pub fn time_is_up(&self) -> Option<String> {
        self.time_is_up.load(Ordering::Acquire).then(|| time_was_up(self.limit))
    }

    /// Registers the handlers. Once `stopped`, another signal ends the process.
    fn register(&mut self, stopped: &Arc<AtomicBool>) -> io::Result<()> {
        let ignored = ignored_signals();
        // A shell without job control starts background jobs with SIGINT ignored, which stays so.
        for signal in [SIGINT, SIGTERM].into_iter().filter(|signal| *signal == SIGTERM || !ignored.contains(signal)) {
            let status = Exit::Interrupted.number().into();
            let conditional = signal_hook::flag::register_conditional_shutdown(signal, status, Arc::clone(stopped))?;
            self.registered.push(conditional);
            self.registered.push(signal_hook::low_level::pipe::register(signal, self.wake.try_clone()?)?);
        }
        Ok(())
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Release);
        self.registered.drain(..).for_each(|id| {
            unregister(id);
        });
        let _ = self.wake.shutdown(std::net::Shutdown::Both);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// State of the watching thread.
struct Watcher {
    cancel: Cancel,
    rates: Vec<RateHandle>,
    terminal: Option<Controlling>,
    signalled: UnixStream,
    /// A byte for each SIGUSR1.
    faster: UnixStream,
    /// A byte for each SIGUSR2.
    slower: UnixStream,
    ended: Arc<AtomicBool>,
    copies_running: Arc<AtomicUsize>,
    stopped: Arc<AtomicBool>,
    /// The end of the time limit.
    deadline: Option<Instant>,
    time_is_up: Arc<AtomicBool>,
    limit: Option<Duration>,
}

impl Watcher {
    fn run(mut self) {
        let mut was_in_foreground = false;
        while !self.ended.load(Ordering::Acquire) {
            if self.await_signal() {
                return self.stop();
            }
            if self.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                self.time_is_up.store(true, Ordering::Release);
                return self.stop();
            }
            match self.terminal.as_ref().map(Controlling::in_foreground) {
                Some(Some(now)) => was_in_foreground = now,
                Some(None) if was_in_foreground => return self.stop(),
                Some(None) => self.terminal = None,
                None => {}
            }
        }
    }

    /// Waits for a signal, or the time to check terminal and clock. Returns whether the signal ends the copy; others
    /// are handled here.
    fn await_signal(&mut self) -> bool {
        let until = self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let wait = self.terminal.as_ref().map(|_| TERMINAL_EVERY).into_iter().chain(until).min();
        let wait = wait.and_then(|wait| Timespec::try_from(wait).ok());
        let sockets = [&self.signalled, &self.faster, &self.slower];
        let mut polled = sockets.map(|socket| PollFd::new(socket, PollFlags::IN));
        if poll(&mut polled, wait.as_ref()).is_err() {
            return false;
        }
        let [ends, faster, slower] = polled.map(|socket| !socket.revents().is_empty());
        let count =
            |mut socket: &UnixStream, ready: bool| if ready { socket.read(&mut [0; 64]).unwrap_or(0) } else { 0 };
        (0..count(&self.faster, faster)).for_each(|_| self.rates.iter().for_each(RateHandle::double));
        (0..count(&self.slower, slower)).for_each(|_| self.rates.iter().for_each(RateHandle::halve));
        count(&self.signalled, ends) > 0 && !self.ended.load(Ordering::Acquire)
    }

    /// Cancels the copy; ends the process if the copy does not.
    fn stop(&self) {
        // First, restore the terminal: the process may end at any time.
        #[cfg(feature = "tui")]
        haul_show::dashboard::screen::give_back_for_good();
        output_place::stop_waiting();
        self.cancel.cancel();
        let time_is_up = self.time_is_up.load(Ordering::Acquire);
        let begun = Instant::now();
        let deadline = begun + if time_is_up { TIME_GRACE } else { GRACE };
        while !self.ended.load(Ordering::Acquire) {
            self.stopped.store(begun.elapsed() >= SAME_REQUEST, Ordering::Release);
            if self.copies_running.load(Ordering::Acquire) > 0 && Instant::now() >= deadline {
                haul_show::pending::remove_unfinished();
                let text = match time_is_up {
                    true => time_was_up(self.limit),
                    false => format!("interrupted; {START_OVER}"),
                };
                haul_show::stderr().error(&text);
                std::process::exit(Exit::Interrupted.number().into());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

fn time_was_up(limit: Option<Duration>) -> String {
    let seconds = limit.unwrap_or_default().as_secs_f64();
    format!("the time limit of {seconds} s (--timelimit) is over\n{GO_ON}")
}

/// A worker's termination request.
pub struct Termination {
    /// Readable after SIGTERM.
    pub stop: OwnedFd,
    /// Whether SIGTERM was received.
    pub came: Arc<AtomicBool>,
}

/// Lets writes beyond the limit of a file's size (`ulimit -f`) fail instead of ending the process.
pub fn outlive_file_size_limit() -> io::Result<()> {
    signal_hook::flag::register(SIGXFSZ, Arc::default()).map(drop)
}

/// Leaves Ctrl-C to the controller, with which a worker ends. SIGTERM makes the worker remove partial files and end; a
/// second one ends the process at once.
pub fn leave_to_controller() -> io::Result<Termination> {
    leave_all_but_termination()?;
    let (stop, wake) = UnixStream::pair()?;
    let came = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register_conditional_shutdown(SIGTERM, Exit::Failed.number().into(), Arc::clone(&came))?;
    signal_hook::flag::register(SIGTERM, Arc::clone(&came))?;
    signal_hook::low_level::pipe::register(SIGTERM, wake)?;
    Ok(Termination { stop: stop.into(), came })
}

/// Leaves signals of the terminal, or to all processes named haul, to the controller.
pub fn leave_all_but_termination() -> io::Result<()> {
    ignore_hangup()?;
    for signal in [SIGINT, SIGUSR1, SIGUSR2] {
        signal_hook::flag::register(signal, Arc::default())?;
    }
    Ok(())
}

/// Signals ignored since the start of this process: the kernel's mask, bit 0 for signal 1 (proc(5), SigIgn).
fn ignored_signals() -> Vec<i32> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default();
    (1..=64).filter(|signal| mask >> (signal - 1) & 1 == 1).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One test, because a signal reaches every watch of the process.
    #[test]
    fn a_watch_ends_at_once_and_a_signal_cancels() {
        let before = Instant::now();
        let cancel = Cancel::new();
        drop(Watch::start(cancel.clone(), RateHandle::new(), None).unwrap());
        assert!(before.elapsed() < Duration::from_millis(700), "{:?}", before.elapsed());
        assert!(!cancel.is_cancelled());

        let watch = Watch::start(cancel.clone(), RateHandle::new(), None).unwrap();
        assert_eq!(watch.time_is_up(), None);
        let worker = leave_to_controller().unwrap();
        assert!(ignored_signals().contains(&1), "children must inherit an ignored SIGHUP");
        rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::TERM).unwrap();
        let deadline = Instant::now() + Duration::from_millis(800);
        while !cancel.is_cancelled() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
        drop(watch);
        assert!(cancel.is_cancelled());
        assert!(worker.came.load(Ordering::Acquire));
        assert!(rustix::io::read(&worker.stop, &mut [0; 1]).is_ok_and(|bytes| bytes == 1));

        let cancel = Cancel::new();
        let watch = Watch::start(cancel.clone(), RateHandle::new(), Some(Duration::from_millis(1))).unwrap();
        while !cancel.is_cancelled() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(watch.time_is_up().is_some_and(|text| text.contains("--timelimit")));
    }
}
