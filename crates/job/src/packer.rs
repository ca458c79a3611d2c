//! Assigns files to shards, in the order of the walk. No I/O: the planner and a simulation drive it.
//!
//! A shard is full when its share of the limit on bytes and its share of the limit on files add up to one. So a shard
//! of many small files and one of few large files take about the same time.

/// The size of a full shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShardLimits {
    /// Most bytes of a shard with few files. Not 0.
    pub bytes: u64,
    /// Most files of a shard with small files. Not 0.
    pub files: u64,
}

impl Default for ShardLimits {
    fn default() -> Self {
        Self { bytes: 200 << 30, files: 500_000 }
    }
}

/// Sizes of a job's shards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShardSizes {
    /// The size of a full shard.
    pub full: ShardLimits,
    /// Concurrent shards, if shards grow with the planned part of the source; `None` for the full size of all. Not 0.
    pub grows_for: Option<u32>,
}

/// Assumed concurrent shards of a job. The number is high, since small shards cost little.
pub const SHARDS_AT_A_TIME: u32 = 1000;

impl Default for ShardSizes {
    fn default() -> Self {
        Self { full: ShardLimits::default(), grows_for: Some(SHARDS_AT_A_TIME) }
    }
}

impl ShardSizes {
    /// All shards of this size.
    pub fn exact(full: ShardLimits) -> Self {
        Self { full, grows_for: None }
    }

    /// The limits of a shard after this many bytes and files. It is a tenth of each concurrent shard's part, and
    /// between an eighth of a full shard and a full one. So shards are small while the source may be small, and the
    /// last ones of any source are small beside the work of each node.
    fn behind(self, bytes: u64, files: u64) -> ShardLimits {
        let Some(at_once) = self.grows_for else { return self.full };
        let planned_eighths = bytes / self.full.bytes.div_ceil(EIGHTHS) + files / self.full.files.div_ceil(EIGHTHS);
        let eighths = (planned_eighths / SHARDS_PER_NODE / u64::from(at_once.max(1))).clamp(1, EIGHTHS);
        let part = |limit: u64| (limit.div_ceil(EIGHTHS).saturating_mul(eighths)).min(limit);
        ShardLimits { bytes: part(self.full.bytes), files: part(self.full.files) }
    }
}

const EIGHTHS: u64 = 8;
/// Shards per node. A node that ends early takes shards from slow ones: more shards share the work more evenly.
const SHARDS_PER_NODE: u64 = 10;
/// Doublings from the first shard to a full one. So the first byte moves within seconds.
const FIRST_SHARD_PART: u32 = 6;

impl ShardLimits {
    /// The limits of the shard with this number of opening, for full shards of `full`.
    fn of_opening(self, opened: u32, full: Self) -> Self {
        let part = FIRST_SHARD_PART.saturating_sub(opened);
        let first = |limit: u64, full: u64| (full >> part).clamp(1, limit);
        Self { bytes: first(self.bytes, full.bytes), files: first(self.files, full.files) }
    }

    /// Whether these bytes and files fill a shard.
    pub fn is_full(self, bytes: u64, files: u64) -> bool {
        let [bytes, files, most_bytes, most_files] = [bytes, files, self.bytes, self.files].map(u128::from);
        (bytes * most_files).saturating_add(files * most_bytes) >= most_bytes * most_files
    }

    /// The number of shards for these bytes and files: at least one.
    pub fn shards_for(self, bytes: u64, files: u64) -> u64 {
        let [bytes, files, most_bytes, most_files] = [bytes, files, self.bytes, self.files].map(u128::from);
        let needed = (bytes * most_files).saturating_add(files * most_bytes).div_ceil(most_bytes * most_files);
        u64::try_from(needed).unwrap_or(u64::MAX).max(1)
    }
}

/// The shard of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShardPlacement {
    /// The open shard, which further files join.
    Open,
    /// The open shard, which this file fills.
    Last,
    /// A separate shard, for half of a full shard or more.
    Alone,
}

/// A file in its shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlacedFile {
    /// The shard's number.
    pub shard: u32,
    /// Its placement.
    pub placement: ShardPlacement,
}

/// Fills shards, and numbers them from 0 in the order of their first files.
#[derive(Debug, Clone)]
pub struct ShardPacker {
    sizes: ShardSizes,
    /// Placed bytes and files.
    placed: (u64, u64),
    /// The number of the next shard.
    next: u32,
    /// The number of the open shard.
    open: Option<u32>,
    /// Number of opened shards.
    filled: u32,
    bytes: u64,
    files: u64,
}

impl ShardPacker {
    /// Before the first file.
    pub fn new(sizes: ShardSizes) -> Self {
        Self { sizes, placed: (0, 0), next: 0, open: None, filled: 0, bytes: 0, files: 0 }
    }

    /// Places a file of `bytes`; `None` if shard numbers run out.
    pub fn place(&mut self, bytes: u64) -> Option<PlacedFile> {
        let limits = self.sizes.behind(self.placed.0, self.placed.1);
        self.placed = (self.placed.0.saturating_add(bytes), self.placed.1 + 1);
        if bytes >= limits.bytes.div_ceil(2) {
            return Some(PlacedFile { shard: self.number()?, placement: ShardPlacement::Alone });
        }
        let shard = match self.open {
            Some(shard) => shard,
            None => self.number()?,
        };
        self.bytes = self.bytes.saturating_add(bytes);
        self.files += 1;
        if !limits.of_opening(self.filled, self.sizes.full).is_full(self.bytes, self.files) {
            self.open = Some(shard);
            return Some(PlacedFile { shard, placement: ShardPlacement::Open });
        }
        (self.open, self.bytes, self.files) = (None, 0, 0);
        self.filled += 1;
        Some(PlacedFile { shard, placement: ShardPlacement::Last })
    }

    /// Places a range of `bytes` in a separate shard, and returns its number; `None` if numbers run out.
    pub fn place_range(&mut self, bytes: u64) -> Option<u32> {
        self.placed.0 = self.placed.0.saturating_add(bytes);
        self.number()
    }

    fn number(&mut self) -> Option<u32> {
        let number = self.next;
        self.next = number.checked_add(1)?;
        Some(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes and files of each shard that these sizes fill.
    fn packed(limits: ShardLimits, files: impl IntoIterator<Item = u64>) -> Vec<(u64, u64)> {
        packed_as(ShardSizes::exact(limits), files)
    }

    fn packed_as(sizes: ShardSizes, files: impl IntoIterator<Item = u64>) -> Vec<(u64, u64)> {
        let mut packer = ShardPacker::new(sizes);
        let (mut shards, mut open) = (Vec::new(), (0, 0));
        for size in files {
            match packer.place(size).unwrap().placement {
                ShardPlacement::Alone => shards.push((size, 1)),
                placement => {
                    open = (open.0 + size, open.1 + 1);
                    if placement == ShardPlacement::Last {
                        shards.push(std::mem::take(&mut open));
                    }
                }
            }
        }
        shards.extend((open.1 > 0).then_some(open));
        shards
    }

    #[test]
    fn the_first_shards_are_small_and_double() {
        let limits = ShardLimits { bytes: 1 << 40, files: 6400 };
        let files: Vec<_> = packed(limits, std::iter::repeat_n(1, 30_000)).into_iter().map(|shard| shard.1).collect();
        assert_eq!(files[..8], [100, 200, 400, 800, 1600, 3200, 6400, 6400]);
    }

    #[test]
    fn shards_grow_with_the_plan_up_to_full_size() {
        let sizes = ShardSizes { full: ShardLimits { bytes: 1 << 40, files: 800 }, grows_for: Some(2) };
        let shards = packed_as(sizes, std::iter::repeat_n(1, 60_000));
        let files: Vec<_> = shards.iter().map(|shard| shard.1).collect();
        assert_eq!(files[..5], [12, 25, 50, 100, 100]);
        let (last, whole) = files.split_last().unwrap();
        assert!(whole.is_sorted() && whole.last() == Some(&800) && *last <= 800, "{files:?}");
        let mut planned = 0;
        for size in whole {
            planned += size;
            assert!(*size <= 100 || 20 * size <= planned, "{size} files of {planned} are more than a node's tenth");
        }
    }

    #[test]
    fn small_limits_grow_too() {
        let sizes = ShardSizes { full: ShardLimits { bytes: 1, files: 1 }, grows_for: Some(u32::MAX) };
        assert_eq!(packed_as(sizes, [0, 0, 5]), [(0, 1), (0, 1), (5, 1)]);
        let largest = ShardSizes { full: ShardLimits { bytes: u64::MAX, files: u64::MAX }, grows_for: Some(1) };
        assert_eq!(largest.behind(u64::MAX, u64::MAX).bytes, u64::MAX / 8 + 1);
    }

    #[test]
    fn bytes_and_files_fill_a_shard_together() {
        let limits = ShardLimits { bytes: 1000, files: 100 };
        let mixed = (0..20_000).map(|number| if number % 10 == 0 { 90 } else { 1 });
        let shards = packed(limits, mixed);
        for (bytes, files) in shards.iter().skip(FIRST_SHARD_PART as usize).rev().skip(1) {
            let share = *bytes as f64 / 1000.0 + *files as f64 / 100.0;
            assert!((1.0..1.11).contains(&share), "{bytes} bytes, {files} files");
        }
    }

    #[test]
    fn a_large_file_has_a_shard_of_its_own_and_fills_no_other() {
        let limits = ShardLimits { bytes: 1000, files: 100 };
        let mut packer = ShardPacker::new(ShardSizes::exact(limits));
        let mut place = |size| packer.place(size).map(|placed| (placed.shard, placed.placement)).unwrap();
        assert_eq!(place(499), (0, ShardPlacement::Last), "the first shard is small");
        assert_eq!(place(1), (1, ShardPlacement::Open));
        assert_eq!([500, 5000].map(&mut place), [(2, ShardPlacement::Alone), (3, ShardPlacement::Alone)]);
        assert_eq!(place(499), (1, ShardPlacement::Last));
        assert_eq!(place(1), (4, ShardPlacement::Open));
        assert_eq!(packer.place_range(2), Some(5));
        assert_eq!(packer.place(1).unwrap().shard, 4, "the open shard goes on");
    }

    #[test]
    fn no_size_overflows() {
        let limits = ShardLimits { bytes: u64::MAX, files: u64::MAX };
        assert!(limits.is_full(u64::MAX, 0) && !limits.is_full(u64::MAX - 1, 0));
        assert_eq!(limits.shards_for(u64::MAX, u64::MAX), 2);
        assert_eq!(ShardLimits { bytes: 1, files: 1 }.shards_for(u64::MAX, u64::MAX), u64::MAX);
        let tiny = ShardPacker::new(ShardSizes::exact(ShardLimits { bytes: 1, files: 1 }));
        assert_eq!(tiny.clone().place(0).unwrap().placement, ShardPlacement::Last);
        assert_eq!(ShardPacker { next: u32::MAX, ..tiny }.place(0), None);
    }

    #[test]
    fn memory_does_not_grow_with_files() {
        assert!(!std::mem::needs_drop::<ShardPacker>() && size_of::<ShardPacker>() <= 80);
    }
}
