//! The quota of CPU time that this process's control group has, or one above it (cgroups(7), version 1 and 2): in how
//! many of its periods it was used up.

use std::fs;
use std::path::{Path, PathBuf};

use super::{KernelFile, value_of};

/// Number of control groups above the process's own to check.
const LEVELS_MAX: usize = 16;
/// More than such a file is long.
const STAT_MAX: usize = 4096;

/// All quotas that hold for this process.
pub struct QuotaGauge(Vec<QuotaLevel>);

struct QuotaLevel {
    stat: KernelFile,
    permille: u32,
}

impl QuotaGauge {
    /// Looks where there are any.
    pub fn open() -> Self {
        let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let own = directories(&groups, &mounts);
        let all = own.iter().flat_map(|(mount, group)| group.ancestors().map(|level| mount.join(level)));
        let levels = all.take(LEVELS_MAX).filter_map(|directory| {
            let permille = permille(&directory)?;
            Some(QuotaLevel { stat: KernelFile::open(directory.join("cpu.stat")), permille })
        });
        Self(levels.filter(|level| level.stat.is_there()).collect())
    }

    /// The tightest one, in thousandths of a processor; 0 where there is none.
    pub fn permille(&self) -> u32 {
        self.0.iter().map(|level| level.permille).min().unwrap_or(0)
    }

    /// Returns the number of periods, and of those with an exhausted quota, for the quota exhausted most often.
    pub fn sample(&self) -> (u64, u64) {
        let usages = self.0.iter().map(|level| {
            let text = level.stat.read(STAT_MAX);
            let value = |word| value_of(&text, word).unwrap_or(0);
            (value("nr_periods "), value("nr_throttled "))
        });
        usages.max_by_key(|(_, spent)| *spent).unwrap_or_default()
    }
}

/// Where hierarchies with a CPU controller are mounted, and the process's group in each, relative to that.
fn directories(groups: &str, mounts: &str) -> Vec<(PathBuf, PathBuf)> {
    let group = |line: &str| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        let is_second = controllers.is_empty();
        (is_second || controllers.split(',').any(|name| name == "cpu")).then(|| (is_second, path.to_owned()))
    };
    let mounted = |is_second: bool| {
        mounts.lines().find_map(|line| {
            let (place, kind) = line.split_once(" - ")?;
            let mut kind = kind.split(' ');
            let is_it = match (kind.next()?, is_second) {
                ("cgroup2", true) => true,
                ("cgroup", false) => kind.nth(1)?.split(',').any(|option| option == "cpu"),
                _ => false,
            };
            let mut place = place.split(' ').skip(3);
            let (root, at) = (place.next()?, place.next()?);
            is_it.then(|| (root.to_owned(), PathBuf::from(at)))
        })
    };
    let both = groups.lines().filter_map(group).filter_map(|(is_second, path)| {
        let (root, mount) = mounted(is_second)?;
        let below = Path::new(&path).strip_prefix(&root).ok()?;
        Some((mount, below.to_owned()))
    });
    both.collect()
}

/// `cpu.max` has the quota and the period, or `max`; version 1 has a file for each, and -1 for none.
fn permille(directory: &Path) -> Option<u32> {
    let read = |name: &str| fs::read_to_string(directory.join(name)).ok();
    let (quota, period) = match read("cpu.max") {
        Some(both) => {
            let (quota, period) = both.trim().split_once(' ')?;
            (quota.parse::<u64>().ok()?, period.parse().ok()?)
        }
        None => (
            read("cpu.cfs_quota_us")?.trim().parse::<u64>().ok()?,
            read("cpu.cfs_period_us")?.trim().parse::<u64>().ok()?,
        ),
    };
    u32::try_from(quota.saturating_mul(1000) / period.max(1)).ok().filter(|permille| *permille > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "30 29 0:26 / /sys/fs/cgroup ro shared:9 - tmpfs tmpfs ro,mode=755\n\
        31 30 0:27 / /sys/fs/cgroup/unified rw shared:10 - cgroup2 cgroup2 rw\n\
        33 30 0:29 /here /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n";

    #[test]
    fn the_groups_of_both_versions_are_found() {
        let found = directories("4:memory:/m\n3:cpu,cpuacct:/here/a/b\n0::/c\n", MOUNTS);
        let path = |mount: &str, group: &str| (PathBuf::from(mount), PathBuf::from(group));
        assert_eq!(found, [path("/sys/fs/cgroup/cpu,cpuacct", "a/b"), path("/sys/fs/cgroup/unified", "c")]);
        assert_eq!(directories("3:cpu:/elsewhere\n", MOUNTS), [], "it is not to be seen from here");
    }

    #[test]
    fn a_quota_is_part_of_a_processor_or_several_or_none() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        assert_eq!(permille(path), None);
        fs::write(path.join("cpu.cfs_quota_us"), "-1\n").unwrap();
        fs::write(path.join("cpu.cfs_period_us"), "100000\n").unwrap();
        assert_eq!(permille(path), None);
        fs::write(path.join("cpu.cfs_quota_us"), "25000\n").unwrap();
        assert_eq!(permille(path), Some(250));
        fs::write(path.join("cpu.max"), "max 100000\n").unwrap();
        assert_eq!(permille(path), None);
        fs::write(path.join("cpu.max"), "150000 100000\n").unwrap();
        assert_eq!(permille(path), Some(1500));
        let stat = path.join("cpu.stat");
        fs::write(&stat, "usage_usec 9\nnr_periods 40\nnr_throttled 31\n").unwrap();
        let gauge = QuotaGauge(vec![QuotaLevel { stat: KernelFile::open(&stat), permille: 1500 }]);
        assert_eq!((gauge.sample(), gauge.permille()), ((40, 31), 1500));
        assert_eq!((QuotaGauge(Vec::new()).sample(), QuotaGauge(Vec::new()).permille()), ((0, 0), 0));
    }
}
