//! Totals, size classes and unreadable entries.

use std::collections::{BTreeMap, HashMap};

use haul_engine::fs::{FileIdentity, FileStat};
use serde::{Serialize, Serializer};

/// Most listed unreadable entries.
const UNREADABLE_MAX: usize = 20;
/// Most recognised files with several hard links. Hard links of further ones count as separate files.
const LINKED_MAX: usize = 1 << 20;

/// Files, and their bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
pub struct FileTotals {
    /// Their number.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl FileTotals {
    /// Adds a file.
    pub fn add(&mut self, bytes: u64) {
        self.add_all(&Self { files: 1, bytes });
    }

    /// Adds other totals.
    pub fn add_all(&mut self, more: &Self) {
        self.files += more.files;
        // File systems can claim sizes with a sum that overflows.
        self.bytes = self.bytes.saturating_add(more.bytes);
    }
}

/// Totals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
pub struct SurveyTotals {
    /// Names of files, and their bytes: data of a copy without `--hard-links`.
    #[serde(flatten)]
    pub files: FileTotals,
    /// Bytes of files without their holes.
    pub data_bytes: u64,
    /// Directories, the named ones included.
    pub directories: u64,
    /// Symbolic links.
    pub links: u64,
    /// Devices, FIFOs and sockets: a copy skips them by default.
    pub others: u64,
    /// Further names of files, and their bytes: savings by `--hard-links`.
    #[serde(serialize_with = "sorted")]
    pub linked: FileTotals,
    /// Entries excluded by filters.
    pub filtered: u64,
    /// Entries that a copy always excludes: partial files, and links with `--symlinks ignore`.
    pub left_out: u64,
}

/// Serialises totals with sorted keys.
fn sorted<S: Serializer>(FileTotals { files, bytes }: &FileTotals, serializer: S) -> Result<S::Ok, S::Error> {
    BTreeMap::from([("files", files), ("bytes", bytes)]).serialize(serializer)
}

/// A size class of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema), schemars(inline))]
pub struct SizeClass {
    /// Smallest size.
    pub from: u64,
    /// Upper bound of the size, exclusive.
    pub below: u64,
    /// Number and bytes of the files.
    #[serde(flatten)]
    pub sum: FileTotals,
}

/// One of the biggest files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BigFile {
    /// Its path, in the user's terms.
    pub path: Vec<u8>,
    /// Its bytes.
    pub bytes: u64,
}

/// One of the biggest directories.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BigDirectory {
    /// Its path, in the user's terms.
    pub path: Vec<u8>,
    /// Files in it.
    pub own: FileTotals,
    /// Files in and below it.
    pub all: FileTotals,
}

/// Unreadable entries.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UnreadableEntry {
    /// Number of files, directories and named paths.
    pub count: u64,
    /// The first few paths, each with its reason.
    pub first: Vec<(Vec<u8>, String)>,
}

impl UnreadableEntry {
    /// Adds a file.
    pub fn add(&mut self, path: impl FnOnce() -> Vec<u8>, why: impl FnOnce() -> String) {
        self.count += 1;
        if self.first.len() < UNREADABLE_MAX {
            self.first.push((path(), why()));
        }
    }
}

/// Files by powers of four: no bytes, 1 to 3, 4 to 15, and so on.
#[derive(Debug)]
pub struct SizeClasses([FileTotals; CLASSES]);

/// One for empty files, and one for each power of four in 64 bits.
const CLASSES: usize = 33;

impl Default for SizeClasses {
    fn default() -> Self {
        Self([FileTotals::default(); CLASSES])
    }
}

impl SizeClasses {
    /// Counts a file.
    pub fn add(&mut self, bytes: u64) {
        self.0[class(bytes)].add(bytes);
    }

    /// The classes from the first to the last with files.
    pub fn finish(&self) -> Vec<SizeClass> {
        let used = |sum: &FileTotals| sum.files > 0;
        let (Some(first), Some(last)) = (self.0.iter().position(used), self.0.iter().rposition(used)) else {
            return Vec::new();
        };
        let of = |(at, sum): (usize, &FileTotals)| SizeClass {
            from: at.checked_sub(1).map_or(0, begin),
            below: begin(at),
            sum: *sum,
        };
        self.0.iter().enumerate().skip(first).take(last + 1 - first).map(of).collect()
    }
}

fn class(bytes: u64) -> usize {
    bytes.checked_ilog2().map_or(0, |log| log as usize / 2 + 1)
}

/// The upper bound of a class.
fn begin(class: usize) -> u64 {
    u32::try_from(2 * class).ok().and_then(|bits| 1_u64.checked_shl(bits)).unwrap_or(u64::MAX)
}

/// Found files with several names.
#[derive(Default)]
pub struct LinkedTally {
    /// Number of missing names of each file.
    waiting: HashMap<FileIdentity, u64>,
}

impl LinkedTally {
    /// Counts a name; returns whether another name of this file was found before.
    pub fn count_name(&mut self, stat: &FileStat) -> bool {
        if stat.names < 2 {
            return false;
        }
        if let Some(left) = self.waiting.get_mut(&stat.identity) {
            *left = left.saturating_sub(1);
            if *left == 0 {
                self.waiting.remove(&stat.identity);
            }
            return true;
        }
        if self.waiting.len() < LINKED_MAX {
            self.waiting.insert(stat.identity, stat.names - 1);
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use haul_proto::entry::{EntryMetadata, Timestamp};
    use rustix::fs::FileType;

    use super::*;

    #[test]
    fn classes_are_powers_of_four_and_hold_every_size() {
        for (bytes, class_of) in [(0, 0), (1, 1), (3, 1), (4, 2), (15, 2), (16, 3), (1 << 20, 11), (u64::MAX, 32)] {
            assert_eq!(class(bytes), class_of, "{bytes}");
        }
        let mut sizes = SizeClasses::default();
        [0, 5, 7, 70].iter().for_each(|bytes| sizes.add(*bytes));
        let shown: Vec<_> = sizes.finish().iter().map(|class| (class.from, class.below, class.sum.files)).collect();
        assert_eq!(shown, [(0, 1, 1), (1, 4, 0), (4, 16, 2), (16, 64, 0), (64, 256, 1)]);
        assert!(SizeClasses::default().finish().is_empty());
        let mut greatest = SizeClasses::default();
        greatest.add(u64::MAX);
        assert_eq!(greatest.finish()[0].from, 1 << 62);
    }

    #[test]
    fn impossible_sums_do_not_overflow() {
        let mut sum = FileTotals { files: 1, bytes: u64::MAX };
        sum.add(7);
        assert_eq!(sum, FileTotals { files: 2, bytes: u64::MAX });
    }

    fn stat(inode: u64, names: u64) -> FileStat {
        let stamp = Timestamp { seconds: 0, nanoseconds: 0 };
        FileStat {
            kind: FileType::RegularFile,
            size: 1,
            meta: EntryMetadata { mode: 0o600, uid: 0, gid: 0, modified: stamp },
            identity: FileIdentity { device: 1, inode },
            changed: stamp,
            room: 512,
            names,
            device: 0,
        }
    }

    #[test]
    fn other_names_of_a_file_are_known_and_forgotten_after_the_last() {
        let mut linked = LinkedTally::default();
        let found: Vec<_> = [1, 2, 1, 1, 2].iter().map(|inode| linked.count_name(&stat(*inode, 3))).collect();
        assert_eq!(found, [false, false, true, true, true]);
        assert_eq!(linked.waiting.len(), 1, "all names of the first were found");
        assert!(!linked.count_name(&stat(3, 1)) && !linked.count_name(&stat(3, 1)));
    }

    #[test]
    fn the_first_few_are_named_and_all_are_counted() {
        let mut unreadable = UnreadableEntry::default();
        (0..50).for_each(|i| unreadable.add(|| vec![i], || "no".into()));
        assert_eq!((unreadable.count, unreadable.first.len()), (50, UNREADABLE_MAX));
    }
}
