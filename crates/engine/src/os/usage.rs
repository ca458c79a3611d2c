//! What this process has used, and how a thread of it fares.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Duration;

/// User and system time of this process, in microseconds.
pub fn cpu_us() -> u64 {
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    let seconds = u64::try_from(used.tv_sec).unwrap_or(0);
    let nanoseconds = u32::try_from(used.tv_nsec).unwrap_or(0);
    micros(Duration::new(seconds, nanoseconds))
}

/// A time in microseconds, as it travels.
pub fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// The system's account of this process (proc(5), `status`), open: a process that has confined itself cannot open it.
pub struct Account(Option<File>);

/// More than it has ever been long.
const ACCOUNT_MAX: usize = 16 << 10;

impl Account {
    /// Opens it.
    pub fn open() -> Self {
        Self(File::open("/proc/self/status").ok())
    }

    /// Peak resident memory of this process in bytes; 0 where the system does not tell (`VmHWM`).
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

/// How often the system took the processor away from the calling thread (getrusage(2), `ru_nivcsw`).
#[allow(unsafe_code)]
pub fn thread_preemptions() -> u64 {
    // SAFETY: it consists of integers, for all of which zero is a value.
    let mut used: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes one `rusage` at most, to the place that it is given, which has room for one.
    let result = unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut used) };
    if result == 0 { u64::try_from(used.ru_nivcsw).unwrap_or(0) } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_used_something() {
        let before = cpu_us();
        let mut sum = 0u64;
        while cpu_us() < before + 1000 {
            sum = std::hint::black_box(sum.wrapping_mul(31).wrapping_add(1));
        }
        let account = Account::open();
        let before = account.peak_bytes();
        // More than other tests of this process have ever had at a time.
        let more = usize::try_from(before).unwrap() + (32 << 20);
        std::hint::black_box(vec![1u8; more]);
        assert!(before > 100_000 && account.peak_bytes() >= before + (32 << 20), "it is read anew");
    }
}
