//! What this process has used.

use std::fs;
use std::time::Duration;

/// User and system time of this process, in microseconds.
pub fn cpu_us() -> u64 {
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    let seconds = u64::try_from(used.tv_sec).unwrap_or(0);
    let nanoseconds = u32::try_from(used.tv_nsec).unwrap_or(0);
    u64::try_from(Duration::new(seconds, nanoseconds).as_micros()).unwrap_or(u64::MAX)
}

/// Peak resident memory of this process in bytes; 0 where the system does not tell (proc(5), `VmHWM`).
pub fn peak_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
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
        assert!(peak_bytes() > 100_000);
    }
}
