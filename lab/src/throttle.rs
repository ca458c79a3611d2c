//! Control groups with limits: a share of a processor, or a disk's rate.
//!
//! Version 1: each of its controllers has its own hierarchy, so a process can be in one of these groups and in a
//! [`Cgroup`] of version 2 as well. A disk's rate limits direct I/O; of buffered I/O, only writes to the disk by the
//! process itself.

use std::path::Path;

use anyhow::{Context, Result};

use crate::Cgroup;
use crate::cgroup::{new_directory, version_1_mount};

/// The period of the kernel's CPU quota: the kernel's and container runtimes' default.
const PERIOD_US: u64 = 100_000;

/// A resource and its limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Throttle<'a> {
    /// Processor time, in hundredths of one processor.
    Cpu {
        /// At most this much of one processor: 150 is one and a half.
        percent: u64,
    },
    /// Reading from the path's disk, bytes a second.
    Reads(&'a Path, u64),
    /// Writing to the path's disk, bytes a second.
    Writes(&'a Path, u64),
}

impl Cgroup {
    /// A group that is held back like this. Needs root, and control groups of version 1.
    pub fn throttled(throttle: Throttle<'_>) -> Result<Self> {
        let (controller, setting, value) = match throttle {
            Throttle::Cpu { percent } => ("cpu", "cpu.cfs_quota_us", (PERIOD_US * percent / 100).to_string()),
            Throttle::Reads(place, rate) => ("blkio", "blkio.throttle.read_bps_device", limit_of(place, rate)?),
            Throttle::Writes(place, rate) => ("blkio", "blkio.throttle.write_bps_device", limit_of(place, rate)?),
        };
        let mount = version_1_mount(controller)
            .with_context(|| format!("no control groups of version 1 for {controller} are mounted here"))?;
        let group = Self::at(new_directory(&mount)?);
        group.set(setting, &value)?;
        Ok(group)
    }

    /// Whether this machine has control groups of this kind: `cpu`, `blkio`.
    pub fn can_throttle(controller: &str) -> bool {
        rustix::process::geteuid().is_root() && version_1_mount(controller).is_some()
    }
}

/// A line for `blkio`: a device and its rate.
fn limit_of(place: &Path, bytes_per_s: u64) -> Result<String> {
    let device = rustix::fs::stat(place).with_context(|| format!("looking at {place:?}"))?.st_dev;
    Ok(format!("{}:{} {bytes_per_s}", rustix::fs::major(device), rustix::fs::minor(device)))
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::time::{Duration, Instant};

    use super::*;

    fn run(group: &Cgroup, script: &str) {
        let mut shell = Command::new("sh");
        shell.args(["-c", script]);
        assert!(group.enclose(&shell).status().expect("sh starts").success());
    }

    #[test]
    fn the_processor_share_is_a_hard_limit() {
        if !Cgroup::can_throttle("cpu") {
            println!("SKIPPED: control groups of version 1 with cpu need root and a kernel that has them");
            return;
        }
        let group = Cgroup::throttled(Throttle::Cpu { percent: 20 }).expect("a group");
        let had_to_wait = || {
            run(&group, "i=0; while [ $i -lt 400000 ]; do i=$((i+1)); done");
            let account = std::fs::read_to_string(group.procs().with_file_name("cpu.stat")).expect("an account");
            account.lines().find_map(|line| line.strip_prefix("nr_throttled ")).expect("a figure") != "0"
        };
        // On a busy machine it gets less than its share for a while.
        let deadline = Instant::now() + Duration::from_secs(60);
        while !had_to_wait() {
            assert!(Instant::now() < deadline, "it never had to wait");
        }
    }

    #[test]
    fn a_disk_writes_no_faster_than_it_may() {
        if !Cgroup::can_throttle("blkio") {
            println!("SKIPPED: control groups of version 1 with blkio need root and a kernel that has them");
            return;
        }
        let directory = tempfile::tempdir().expect("a temporary directory");
        let disk = crate::Disk::new("ext4", directory.path(), 64 << 20).expect("a disk");
        let group = Cgroup::throttled(Throttle::Writes(disk.path(), 8 << 20)).expect("a group");
        let file = disk.path().join("file");
        let begun = Instant::now();
        run(&group, &format!("dd if=/dev/zero of={} bs=1M count=8 oflag=direct 2>&1", file.display()));
        let took = begun.elapsed();
        assert!(took > Duration::from_millis(700), "8 MiB at 8 MiB/s took {took:?}");
    }
}
