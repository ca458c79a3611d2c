//! Resource use of this process and of its threads.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// User and system time of this process, in microseconds.
pub fn cpu_us() -> u64 {
    micros(clock(ClockId::ProcessCPUTime))
}

/// User and system time of the calling thread.
pub fn thread_cpu() -> Duration {
    clock(ClockId::ThreadCPUTime)
}

fn clock(id: ClockId) -> Duration {
    let used = clock_gettime(id);
    duration(used.tv_sec, used.tv_nsec)
}

fn duration(seconds: i64, nanoseconds: i64) -> Duration {
    Duration::new(u64::try_from(seconds).unwrap_or(0), u32::try_from(nanoseconds).unwrap_or(0))
}

/// A thread of this process, for queries of its CPU time.
#[derive(Debug, Clone, Copy)]
pub struct ThreadId(libc::pid_t);

/// The calling thread.
pub fn thread_id() -> ThreadId {
    ThreadId(rustix::thread::gettid().as_raw_pid())
}

/// Returns user and system time of a thread of this process in microseconds; 0 if it has ended. Its number may be
/// reused: callers keep the thread alive, or accept that.
#[allow(unsafe_code)]
pub fn cpu_us_of(ThreadId(id): ThreadId) -> u64 {
    // How the kernel numbers the clocks of threads (`CPUCLOCK_PERTHREAD_MASK` and `CPUCLOCK_SCHED` of posix-timers.h).
    let clock = (!id << 3) | 0b110;
    let mut used = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes one `timespec` to the place that it is given, which has room for one, or fails.
    let result = unsafe { libc::clock_gettime(clock, &raw mut used) };
    if result == 0 { micros(duration(used.tv_sec, used.tv_nsec)) } else { 0 }
}

/// A time in microseconds, as it travels.
pub fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// The system's account of this process (proc(5), `status`), open: a process that has confined itself cannot open it.
pub struct ProcessStatus(Option<File>);

/// More than it has ever been long.
const ACCOUNT_MAX: usize = 16 << 10;

impl ProcessStatus {
    /// Opens it.
    pub fn open() -> Self {
        Self(File::open("/proc/self/status").ok())
    }

    /// Peak resident memory of this process in bytes; 0 if unknown (`VmHWM`).
    pub fn peak_bytes(&self) -> u64 {
        let mut text = vec![0; ACCOUNT_MAX];
        let read = self.0.as_ref().and_then(|file| file.read_at(&mut text, 0).ok()).unwrap_or(0);
        peak_bytes(&String::from_utf8_lossy(&text[..read]))
    }
}

fn peak_bytes(status: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

/// The part of [`cpu_us`] in which the system worked for this process (getrusage(2), `ru_stime`).
pub fn system_us() -> u64 {
    let system = used(libc::RUSAGE_SELF).map(|used| used.ru_stime);
    system.map_or(0, |time| micros(duration(time.tv_sec, time.tv_usec.saturating_mul(1000))))
}

/// What the calling thread has used (getrusage(2)).
#[derive(Debug, Clone, Copy, Default)]
pub struct ThreadUsage {
    /// User and system time.
    pub cpu: Duration,
    /// How often it waited for something.
    pub waits: u64,
}

/// What the calling thread has used so far.
pub fn thread_use() -> ThreadUsage {
    let Some(used) = used(libc::RUSAGE_THREAD) else { return ThreadUsage::default() };
    let time = |time: libc::timeval| duration(time.tv_sec, time.tv_usec.saturating_mul(1000));
    let count = |count: libc::c_long| u64::try_from(count).unwrap_or(0);
    ThreadUsage { cpu: time(used.ru_utime) + time(used.ru_stime), waits: count(used.ru_nvcsw) }
}

#[allow(unsafe_code)]
fn used(whose: libc::c_int) -> Option<libc::rusage> {
    // SAFETY: it consists of integers, for which zero is a valid value.
    let mut used: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes one `rusage` at most, to the place that it is given, which has room for one.
    let result = unsafe { libc::getrusage(whose, &raw mut used) };
    (result == 0).then_some(used)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_nonzero_usage() {
        let before = cpu_us();
        let mut sum = 0u64;
        while cpu_us() < before + 1000 {
            sum = std::hint::black_box(sum.wrapping_mul(31).wrapping_add(1));
        }
        while system_us() == 0 {
            std::hint::black_box(std::fs::read("/proc/self/status").map_or(0, |text| text.len()));
        }
        assert!(system_us() <= cpu_us() + 20_000, "it is counted in ticks");
        let account = ProcessStatus::open();
        let before = account.peak_bytes();
        // More than other tests of this process have ever had at a time.
        let more = usize::try_from(before).unwrap() + (32 << 20);
        std::hint::black_box(vec![1u8; more]);
        assert!(before > 100_000 && account.peak_bytes() >= before + (32 << 20), "it is read anew");
    }
}
