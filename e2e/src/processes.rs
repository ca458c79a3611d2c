//! Ids, command lines and executables of processes.

use rustix::process::Pid;

/// An id as the system calls take it.
pub fn pid(number: u32) -> Pid {
    i32::try_from(number).ok().and_then(Pid::from_raw).expect("a process id")
}

/// The command lines of processes, for a failed test's message.
pub fn commands(pids: &[u32]) -> Vec<String> {
    let read = |pid: &u32| std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    pids.iter().map(|pid| String::from_utf8_lossy(&read(pid)).replace('\0', " ")).collect()
}

/// Whether it has this executable and is a worker, or is none: an ssh's command may mention one.
pub fn is_process(pid: u32, executable: &str, is_worker: bool) -> bool {
    let program = std::fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
    let names_worker = commands(&[pid])[0].split(' ').any(|word| word == "worker");
    program.file_name() == Some(executable.as_ref()) && (names_worker || !is_worker)
}
