//! The thread between two TUN devices: reads sent packets, and writes them at their time of arrival.
//!
//! It polls the devices at most every [`ROUND`]. That moves many packets at a time, and leaves a core to the measured
//! programs. The additional delay is far below a millisecond.

use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::{Errno, read, write};
use rustix::process::setpriority_process;
use rustix::thread::gettid;

use super::line::{LineCounters, Properties, WanDirection};

/// Longest interval between reads of the devices.
const ROUND: Duration = Duration::from_micros(250);

/// Most packets to read from one device in one round, for fairness to the others.
const READS_MAX: u32 = 256;

/// The largest packet is 64 KiB, with its header a little more.
const BUFFER_BYTES: usize = 128 << 10;

/// The highest fair-share priority, if a real-time one is not allowed.
const PRIORITY: i32 = -20;

/// A round that found packets at once, this soon after its pause: they may have been sent during the pause.
const AT_ONCE: Duration = Duration::from_micros(20);

/// Both directions' counters, and the writes that the kernel refused.
#[derive(Debug, Default)]
pub struct Traffic {
    /// From the first device to the second.
    pub forth: LineCounters,
    /// The other way.
    pub back: LineCounters,
    /// Packets that arrived too late, or at an interface that was down.
    pub refused: AtomicU64,
}

/// The running thread. Ended in `Drop`, and the devices with it.
#[derive(Debug)]
pub struct Relay {
    traffic: Arc<Traffic>,
    stop: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl Relay {
    /// Starts to carry packets between the devices.
    pub fn start(devices: [OwnedFd; 2], forth: Properties, back: Properties) -> Result<Self> {
        let traffic = Arc::new(Traffic::default());
        let stop = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).context("eventfd")?);
        let (its_traffic, its_stop) = (Arc::clone(&traffic), Arc::clone(&stop));
        let carry = move || {
            be_urgent();
            let lines = [WanDirection::new(forth, &its_traffic.forth), WanDirection::new(back, &its_traffic.back)];
            Carrier { devices: &devices, lines, refused: &its_traffic.refused, epoch: Instant::now() }.run(&its_stop);
        };
        let thread = std::thread::Builder::new().name("haul-wan".to_owned()).spawn(carry).context("a thread")?;
        Ok(Self { traffic, stop, thread: Some(thread) })
    }

    /// Traffic so far.
    pub fn traffic(&self) -> &Traffic {
        &self.traffic
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        let _ = write(&*self.stop, &1_u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Puts this thread before all that share the CPU fairly: a link that waits for its turn would be no link. It works little at a time.
/// Where that is not permitted, the link is less precise on a busy machine.
fn be_urgent() {
    let _ = setpriority_process(Some(gettid()), PRIORITY);
    let id = gettid().as_raw_nonzero().to_string();
    let _ = Command::new("chrt").args(["--fifo", "--pid", "1", &id]).stderr(Stdio::null()).status();
}

struct Carrier<'a> {
    devices: &'a [OwnedFd; 2],
    /// Each takes from the device of its number and gives to the other.
    lines: [WanDirection<'a>; 2],
    refused: &'a AtomicU64,
    epoch: Instant,
}

impl Carrier<'_> {
    fn run(&mut self, stop: &OwnedFd) {
        let mut buffer = vec![0; BUFFER_BYTES];
        let mut sent_ns = self.now_ns();
        loop {
            self.take(sent_ns, &mut buffer);
            self.give();
            let paused_ns = self.now_ns();
            let mut only_stop = [PollFd::new(stop, PollFlags::IN)];
            if poll(&mut only_stop, Some(&timespec(ROUND))).is_ok_and(|ready| ready > 0) {
                return;
            }
            let looked_ns = self.now_ns();
            let [first, second] = self.devices;
            let mut all = [stop, first, second].map(|fd| PollFd::new(fd, PollFlags::IN));
            let _ = poll(&mut all, self.pause().as_ref());
            // However long the pause became on a busy machine: the cable was there meanwhile, and its time is not lost.
            let found_ns = self.now_ns();
            let at_once = Duration::from_nanos(found_ns - looked_ns) < AT_ONCE;
            sent_ns = if at_once { paused_ns } else { found_ns };
        }
    }

    /// The longest pause without new traffic; unlimited if no packet is under way.
    fn pause(&self) -> Option<Timespec> {
        let next_ns = self.lines.iter().filter_map(WanDirection::next_arrival_ns).min()?;
        Some(timespec(Duration::from_nanos(next_ns.saturating_sub(self.now_ns()))))
    }

    /// Reads sent packets. `sent_ns` is their time, as far as it is known.
    fn take(&mut self, sent_ns: u64, buffer: &mut [u8]) {
        for (device, line) in self.devices.iter().zip(&mut self.lines) {
            for _ in 0..READS_MAX {
                match read(device, &mut *buffer) {
                    Ok(length) => line.send(sent_ns, &buffer[..length]),
                    Err(Errno::INTR) => {}
                    Err(_) => break,
                }
            }
        }
    }

    fn give(&mut self) {
        let now_ns = self.now_ns();
        for (device, line) in self.devices.iter().rev().zip(&mut self.lines) {
            while let Some(frame) = line.arrived(now_ns) {
                if write(device, &frame).is_err() {
                    self.refused.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    }

    fn now_ns(&self) -> u64 {
        u64::try_from(self.epoch.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

fn timespec(duration: Duration) -> Timespec {
    Timespec { tv_sec: duration.as_secs().cast_signed(), tv_nsec: duration.subsec_nanos().into() }
}
