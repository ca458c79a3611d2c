//! A control group (version 2) of one's own: an account of processes that they cannot leave.
//!
//! Used to count CPU time exactly, including that of processes that were
//! orphaned, and to end them all. Needs root and a mounted cgroup2 file system;
//! where there is none, callers fall back on `/proc` (see the `process` module).

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::process::Signal;

use crate::process::{memory, signal};
use crate::run::rebuild;

const PREFIX: &str = "haul-lab-";

/// Longest time that the kernel takes to reap killed processes.
const END_TIMEOUT: Duration = Duration::from_secs(5);

/// A control group that exists as long as this value; everything in it is killed in `Drop`.
#[derive(Debug)]
pub struct Cgroup {
    directory: PathBuf,
}

impl Cgroup {
    /// Makes a new, empty group. None where this user cannot or the system has no cgroup2.
    pub fn create() -> Option<Self> {
        let group = Self::at(new_directory(&cgroup2_mount()?).ok()?);
        group.works().then_some(group)
    }

    pub(crate) fn at(directory: PathBuf) -> Self {
        Self { directory }
    }

    /// Writes one of the group's settings.
    pub(crate) fn set(&self, setting: &str, value: &str) -> Result<()> {
        fs::write(self.directory.join(setting), value).with_context(|| format!("setting {setting} to {value}"))
    }

    /// The file to write process ids to, to move processes into this group.
    pub fn procs(&self) -> PathBuf {
        self.directory.join("cgroup.procs")
    }

    /// The same command, but started inside this group.
    pub fn enclose(&self, command: &Command) -> Command {
        let mut enclosed = Command::new("/bin/sh");
        enclosed.arg("-c").arg(r#"echo $$ >"$0" && exec "$@""#).arg(self.procs());
        rebuild(command, enclosed)
    }

    /// User plus system CPU seconds used in this group since it was made.
    pub fn cpu_s(&self) -> f64 {
        self.time_s("usage_usec ")
    }

    /// User CPU seconds used in this group since it was made.
    pub fn user_cpu_s(&self) -> f64 {
        self.time_s("user_usec ")
    }

    fn time_s(&self, figure: &str) -> f64 {
        let text = fs::read_to_string(self.directory.join("cpu.stat")).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix(figure));
        let usage_us: u64 = line.and_then(|number| number.trim().parse().ok()).unwrap_or(0);
        Duration::from_micros(usage_us).as_secs_f64()
    }

    /// The processes in this group now.
    pub fn pids(&self) -> Vec<u32> {
        let text = fs::read_to_string(self.procs()).unwrap_or_default();
        text.lines().filter_map(|line| line.parse().ok()).collect()
    }

    /// The resident bytes of all processes in this group now, added up.
    pub fn memory_bytes(&self) -> u64 {
        self.pids().into_iter().map(|pid| memory(pid).now_bytes).sum()
    }

    /// Kills all processes of this group and waits for their end.
    pub fn kill_all(&self) {
        let deadline = Instant::now() + END_TIMEOUT;
        loop {
            let pids = self.pids();
            if pids.is_empty() || Instant::now() >= deadline {
                return;
            }
            for pid in pids {
                signal(pid, Signal::KILL);
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Whether a process can be put here and its CPU time be read.
    fn works(&self) -> bool {
        let started = self.enclose(&Command::new("true")).output();
        started.is_ok_and(|output| output.status.success()) && self.directory.join("cpu.stat").exists()
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        self.kill_all();
        remove(&self.directory);
    }
}

/// A new directory for a group below this mount, after removing those of processes that are gone.
pub(crate) fn new_directory(mount: &Path) -> Result<PathBuf> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    remove_leftovers(mount);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let directory = mount.join(format!("{PREFIX}{}-{number}", std::process::id()));
    fs::create_dir(&directory).with_context(|| format!("making the control group {directory:?}"))?;
    Ok(directory)
}

fn cgroup2_mount() -> Option<PathBuf> {
    mounted(|kind, _| kind == "cgroup2")
}

/// Where the hierarchy of this controller is, if it is of version 1.
pub(crate) fn version_1_mount(controller: &str) -> Option<PathBuf> {
    mounted(|kind, options| kind == "cgroup" && options.split(',').any(|option| option == controller))
}

/// The first mount that has the kind and options that are looked for, as `/proc/self/mounts` lists it.
fn mounted(wanted: impl Fn(&str, &str) -> bool) -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
    mounts.lines().find_map(|line| {
        let mut fields = line.split(' ').skip(1);
        let (path, kind, options) = (fields.next()?, fields.next()?, fields.next()?);
        wanted(kind, options).then(|| PathBuf::from(path))
    })
}

/// Removes the empty groups of processes that were killed before they could.
fn remove_leftovers(mount: &Path) {
    let Ok(entries) = fs::read_dir(mount) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let owner = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.split('-').next()?.parse::<u32>().ok());
        if owner.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
            let _ = fs::remove_dir(entry.path());
        }
    }
}

/// A group can be removed a moment after its last process was reaped.
fn remove(directory: &Path) {
    let deadline = Instant::now() + END_TIMEOUT;
    while fs::remove_dir(directory).is_err() && directory.exists() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_and_ends_processes_outside_their_session() {
        let Some(group) = Cgroup::create() else {
            eprintln!("SKIPPED: no control group can be made here (needs root and cgroup2)");
            return;
        };
        let mut command = Command::new("sh");
        command.args(["-c", "setsid sleep 63 & i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done"]);
        let status = group.enclose(&command).status().expect("sh starts");
        assert!(status.success());
        assert!(group.cpu_s() > 0.01, "{} s", group.cpu_s());
        assert_eq!(group.pids().len(), 1, "the orphan is still counted");
        assert!(group.memory_bytes() > 0);
        let directory = group.directory.clone();
        drop(group);
        assert!(!directory.exists());
    }
}
