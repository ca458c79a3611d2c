//! A description of this machine, for the head of a report.

use std::fs;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::Result;
use rustix::process::{Pid, Signal, kill_process};

/// The facts that decide how far figures can be compared.
#[derive(Debug, Clone)]
pub struct Machine {
    /// As the kernel names it.
    pub cpu: String,
    /// Processors that this process may use.
    pub cores: usize,
    /// Memory, in GiB.
    pub memory_gib: u64,
    /// Kernel and its release.
    pub kernel: String,
    /// TCP's default congestion control where the tools ran.
    pub congestion: String,
}

impl Machine {
    /// This machine, with the tools' congestion control: `congestion`, or the kernel's default.
    pub fn describe(congestion: Option<&str>) -> Self {
        let uname = rustix::system::uname();
        Self {
            cpu: field("/proc/cpuinfo", "model name").unwrap_or_else(|| std::env::consts::ARCH.to_owned()),
            cores: thread::available_parallelism().map_or(1, usize::from),
            memory_gib: memory_gib(),
            kernel: format!("{} {}", uname.sysname().to_string_lossy(), uname.release().to_string_lossy()),
            congestion: congestion.map_or_else(default_congestion, str::to_owned),
        }
    }

    /// One line.
    pub fn line(&self) -> String {
        let Self { cpu, cores, memory_gib, kernel, congestion } = self;
        format!("{cpu}, {cores} cores, {memory_gib} GiB, {kernel}, TCP congestion control {congestion}")
    }
}

/// CPU seconds that all processes of this machine have used since it was started, and those
/// that its host gave to others.
pub fn busy_s() -> f64 {
    // proc(5), first line of /proc/stat: user nice system idle iowait irq softirq steal guest guest_nice;
    // guest time is contained in user time.
    let text = fs::read_to_string("/proc/stat").unwrap_or_default();
    let line = text.lines().next().unwrap_or_default();
    let ticks: Vec<u32> = line.split_whitespace().skip(1).map(|field| field.parse().unwrap_or(0)).collect();
    let busy: f64 =
        [0, 1, 2, 5, 6, 7].iter().filter_map(|&column| ticks.get(column)).map(|&ticks| f64::from(ticks)).sum();
    let ticks_per_s = u32::try_from(rustix::param::clock_ticks_per_second()).unwrap_or(100);
    busy / f64::from(ticks_per_s)
}

/// Context switches of this machine since it was started (proc(5), `ctxt`).
pub fn context_switches() -> u64 {
    let text = fs::read_to_string("/proc/stat").unwrap_or_default();
    let count = text.lines().find_map(|line| line.strip_prefix("ctxt "));
    count.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
}

fn field(path: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

/// Memory that can be had without swapping.
pub fn available_memory_bytes() -> u64 {
    memory_kib("MemAvailable") << 10
}

fn memory_gib() -> u64 {
    memory_kib("MemTotal").div_ceil(1 << 20)
}

fn memory_kib(name: &str) -> u64 {
    let text = field("/proc/meminfo", name).unwrap_or_default();
    text.split_whitespace().next().and_then(|kib| kib.parse().ok()).unwrap_or(0)
}

fn default_congestion() -> String {
    let text = fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control").unwrap_or_default();
    let name = text.trim();
    if name.is_empty() { "unknown".to_owned() } else { name.to_owned() }
}

/// System calls of the whole machine during `work`; `None` without perf(1).
pub fn counting_calls<T>(work: impl FnOnce() -> Result<T>) -> Result<(T, Option<u64>)> {
    let file = tempfile::NamedTempFile::new()?;
    let counter = Command::new("perf")
        .args(["stat", "--all-cpus", "--field-separator", ",", "--event", "raw_syscalls:sys_enter", "--output"])
        .arg(file.path())
        .stderr(Stdio::null())
        .spawn();
    // Until its counters run.
    thread::sleep(Duration::from_millis(300));
    let done = work();
    let Ok(mut counter) = counter else { return Ok((done?, None)) };
    kill_process(Pid::from_child(&counter), Signal::INT)?;
    counter.wait()?;
    let text = fs::read_to_string(file.path())?;
    let line = text.lines().find(|line| line.contains("raw_syscalls"));
    Ok((done?, line.and_then(|line| line.split(',').next()?.parse().ok())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_makes_the_machine_busy() {
        let before_s = busy_s();
        let begun = std::time::Instant::now();
        while begun.elapsed().as_millis() < 200 {
            std::hint::spin_loop();
        }
        assert!(context_switches() > 0);
        assert!(busy_s() - before_s >= 0.05, "{before_s} s");
    }

    #[test]
    fn this_machine_is_described() {
        let machine = Machine::describe(None);
        assert!(machine.cores > 0 && machine.memory_gib > 0 && !machine.cpu.is_empty(), "{machine:?}");
        assert!(machine.kernel.starts_with("Linux ") && machine.congestion != "unknown", "{machine:?}");
    }
}
