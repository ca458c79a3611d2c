//! What a disk is at: the kernel's account of a block device (Documentation/block/stat.rst).

use std::fs;

use haul_proto::wire::resource_metrics::Disk;
use rustix::fs::{major, makedev, minor, stat};

use super::KernelFile;

/// More than a device's line is long.
const LINE_MAX: usize = 512;
/// The unit of this account, whatever the device's own is.
const SECTOR_BYTES: u64 = 512;

/// A disk, sampled repeatedly.
pub struct DiskGauge {
    stat: KernelFile,
    base: Option<Disk>,
}

impl DiskGauge {
    /// The disk behind files on this device. Network file systems, memory and the like have none.
    pub fn open(device: u64) -> Self {
        let path = |device: u64| format!("/sys/dev/block/{}:{}/stat", major(device), minor(device));
        let stat = KernelFile::open(path(device));
        let stat = match stat.is_there() {
            true => stat,
            false => {
                underlying_device(device).map_or_else(KernelFile::default, |device| KernelFile::open(path(device)))
            }
        };
        Self { stat, base: None }
    }

    /// Differences since the first sample.
    pub fn sample(&mut self) -> Disk {
        let now = read(&self.stat.read(LINE_MAX)).unwrap_or_default();
        now.since(self.base.get_or_insert(now))
    }
}

/// Returns the device that a file system with device numbers of its own (such as btrfs) is mounted from.
fn underlying_device(device: u64) -> Option<u64> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let source = source_of(&mounts, &format!("{}:{}", major(device), minor(device)))?;
    Some(stat(source).ok()?.st_rdev).filter(|found| *found != makedev(0, 0))
}

fn source_of<'m>(mounts: &'m str, numbers: &str) -> Option<&'m str> {
    mounts.lines().find_map(|line| {
        let (place, kind) = line.split_once(" - ")?;
        let source = kind.split(' ').nth(1)?;
        (place.split(' ').nth(2)? == numbers && source.starts_with("/dev/")).then_some(source)
    })
}

/// Parses a line of /proc/diskstats: requests, merges, sectors and milliseconds of reads; the same of writes; requests
/// in flight; milliseconds with requests in flight; and further fields.
fn read(line: &str) -> Option<Disk> {
    let fields: Vec<u64> = line.split_ascii_whitespace().map_while(|word| word.parse().ok()).collect();
    let ms = |index: usize| fields.get(index).map(|ms| ms.saturating_mul(1000));
    let sectors = |index: usize| fields.get(index).map(|sectors| sectors.saturating_mul(SECTOR_BYTES));
    Some(Disk { busy_us: ms(9)?, queue_us: ms(10)?, read_bytes: sectors(2)?, written_bytes: sectors(6)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_gives_a_disks_activity() {
        let line = "   68  12 4096  31  917 1205 8192 5310   0 1843 5342 0 0 0 0\n";
        let disk = Disk { busy_us: 1_843_000, queue_us: 5_342_000, read_bytes: 4096 * 512, written_bytes: 8192 * 512 };
        assert_eq!((read(line), read("1 2 3"), read("")), (Some(disk), None, None));
    }

    #[test]
    fn a_file_system_resolves_to_its_device() {
        let mounts = "25 1 0:23 /sub /data rw shared:1 - btrfs /dev/vdb rw\n26 1 0:24 / /t rw - tmpfs tmpfs rw\n";
        assert_eq!((source_of(mounts, "0:23"), source_of(mounts, "0:24")), (Some("/dev/vdb"), None));
        let mut none = DiskGauge::open(makedev(0, 0));
        assert_eq!(none.sample(), Disk::default());
    }
}
