//! A process and its descendants, from `/proc`.
//!
//! Read-only, except for ending a tree of processes by id.

use std::fs;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// Clock ticks a second in `/proc/PID/stat` (`sysconf(_SC_CLK_TCK)`).
fn ticks_per_s() -> f64 {
    let ticks = rustix::param::clock_ticks_per_second();
    f64::from(u32::try_from(ticks).unwrap_or(100))
}

/// The descendants of `pid`, without `pid` itself.
///
/// Orphans are missing, since init adopted them: see [`crate::Cgroup`] for a complete account.
pub fn descendants(pid: u32) -> Vec<u32> {
    let mut found = Vec::new();
    let mut to_visit = vec![pid];
    while let Some(parent) = to_visit.pop() {
        for child in children(parent) {
            if !found.contains(&child) {
                found.push(child);
                to_visit.push(child);
            }
        }
    }
    found
}

/// User plus system CPU seconds of `pid`, its living descendants, and all that
/// each of them has waited for. Resolution is one clock tick (10 ms), a process.
///
/// Works on a process that has ended but has not been waited for.
pub fn tree_cpu(pid: u32) -> f64 {
    let own = cpu_with_waited_children(pid).unwrap_or(0.0);
    let others: f64 = descendants(pid).into_iter().filter_map(cpu_with_waited_children).sum();
    own + others
}

/// The resident bytes of `pid` and its living descendants, added up.
///
/// Pages that they share (program text) count once for each.
pub fn tree_memory_bytes(pid: u32) -> u64 {
    let others: u64 = descendants(pid).into_iter().map(|child| memory(child).now_bytes).sum();
    memory(pid).now_bytes + others
}

/// The most resident bytes that one process has had; 0 when it has ended.
pub fn peak_memory_bytes(pid: u32) -> u64 {
    memory(pid).peak_bytes
}

/// Ends `pid` and its descendants: SIGTERM to `pid` alone for an orderly end, then SIGKILL to all that remain after
/// `grace`.
///
/// If `pid` is the caller's own child, the caller still has to wait for it.
pub fn end_tree(pid: u32, grace: Duration) {
    let mut known = descendants(pid);
    signal(pid, Signal::TERM);
    let deadline = Instant::now() + grace;
    while is_running(pid) && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(5));
    }
    known.extend(descendants(pid));
    known.push(pid);
    for each in known {
        signal(each, Signal::KILL);
    }
}

/// Sends `signal` to one process. A process that has already ended is no error.
pub(crate) fn signal(pid: u32, signal: Signal) {
    if let Some(pid) = to_pid(pid) {
        let _ = kill_process(pid, signal);
    }
}

/// The id in rustix's type; none for 0, the caller's own group.
pub(crate) fn to_pid(pid: u32) -> Option<Pid> {
    i32::try_from(pid).ok().and_then(Pid::from_raw)
}

/// Whether the process exists and has not ended (a zombie has).
pub(crate) fn is_running(pid: u32) -> bool {
    stat_fields(pid).is_some_and(|fields| fields.first().is_some_and(|state| state != "Z" && state != "X"))
}

/// Resident memory of one process.
#[derive(Clone, Copy, Default)]
pub(crate) struct ProcessMemory {
    /// Now.
    pub now_bytes: u64,
    /// The most since it was started.
    pub peak_bytes: u64,
}

/// Resident memory of one process; zeros when it has ended.
pub(crate) fn memory(pid: u32) -> ProcessMemory {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let field_bytes = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        kib.unwrap_or(0) * 1024
    };
    ProcessMemory { now_bytes: field_bytes("VmRSS:"), peak_bytes: field_bytes("VmHWM:") }
}

/// The living children of all threads of `parent`.
fn children(parent: u32) -> Vec<u32> {
    let Ok(tasks) = fs::read_dir(format!("/proc/{parent}/task")) else { return Vec::new() };
    let mut found = Vec::new();
    for task in tasks.flatten() {
        let list = fs::read_to_string(task.path().join("children")).unwrap_or_default();
        found.extend(list.split_whitespace().filter_map(|id| id.parse::<u32>().ok()));
    }
    found
}

fn cpu_with_waited_children(pid: u32) -> Option<f64> {
    // proc(5): utime, stime, cutime and cstime are fields 14 to 17; the state is field 3.
    const FIRST_TIME: usize = 14 - 3;
    let fields = stat_fields(pid)?;
    let ticks: u32 = fields.get(FIRST_TIME..FIRST_TIME + 4)?.iter().filter_map(|field| field.parse::<u32>().ok()).sum();
    Some(f64::from(ticks) / ticks_per_s())
}

/// The fields of `/proc/PID/stat` from the state on: the name before it may hold anything.
fn stat_fields(pid: u32) -> Option<Vec<String>> {
    let text = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let text = String::from_utf8_lossy(&text);
    let after_name = &text[text.rfind(')')? + 1..];
    Some(after_name.split_whitespace().map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    fn shell(script: &str) -> std::process::Child {
        Command::new("sh").arg("-c").arg(script).stdin(Stdio::null()).spawn().expect("sh starts")
    }

    #[test]
    fn a_tree_is_found_and_ended() {
        let mut child = shell("sleep 61 & sleep 62 & wait");
        let deadline = Instant::now() + Duration::from_secs(5);
        while descendants(child.id()).len() < 2 && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
        let below = descendants(child.id());
        assert_eq!(below.len(), 2);
        assert!(tree_memory_bytes(child.id()) > 0);
        end_tree(child.id(), Duration::from_millis(200));
        child.wait().expect("was started here");
        let deadline = Instant::now() + Duration::from_secs(5);
        while below.iter().any(|&pid| is_running(pid)) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(!below.iter().any(|&pid| is_running(pid)));
    }

    #[test]
    fn cpu_of_waited_children_counts() {
        let mut child = shell("(i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done); sleep 60");
        let deadline = Instant::now() + Duration::from_secs(20);
        while tree_cpu(child.id()) < 0.05 && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(10));
        }
        let used_s = tree_cpu(child.id());
        end_tree(child.id(), Duration::from_millis(200));
        child.wait().expect("was started here");
        assert!(used_s >= 0.05, "{used_s} s");
    }
}
