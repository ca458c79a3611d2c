//! Files with sizes from a seed, and the shards that the packer makes of them.

use std::time::{Duration, Instant};

use haul_job::packer::{PlacedFile, ShardLimits, ShardPacker, ShardPlacement, ShardSizes};
use haul_lab::Rng;

/// A file in the first octave is smaller.
const OCTAVE_BYTES: u64 = 4 << 10;
/// So many of a thousand files of an octave or above are above it, and twice as large on average. Most bytes are in
/// few files.
const ABOVE_PER_MILLE: u64 = 600;
/// The last octave ends at 16 TiB.
const OCTAVES: u32 = 32;

/// The data to plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobWorkload {
    /// Sizes come from it.
    pub seed: u64,
    /// Files.
    pub files: u64,
    /// A larger file counts as several of this size, as with shards of ranges. Not 0.
    pub range_bytes: u64,
    /// How large shards are.
    pub sizes: ShardSizes,
    /// Files that the walk finds in a second. Not 0.
    pub walked_per_s: u64,
}

/// A shard, and when its list is whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SimulatedShard {
    /// Files or ranges.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Its time in the walk.
    pub published: Duration,
}

/// All shards of a workload.
#[derive(Debug)]
pub struct SimulatedPlan {
    /// By number.
    pub shards: Vec<SimulatedShard>,
    /// Numbers of shards in the order that completes their lists.
    pub order: Vec<u32>,
    /// When the walk ends.
    pub walk_time: Duration,
    /// Files of the workload, with ranges for large ones.
    pub files: u64,
    /// Bytes of the workload.
    pub bytes: u64,
    /// The largest file or range.
    pub largest: u64,
    /// Real time that sizes and packing took.
    pub packing_time: Duration,
}

impl JobWorkload {
    /// Packs all of it, and checks every placement.
    pub fn pack(&self) -> Result<SimulatedPlan, String> {
        let clock = Instant::now();
        let (mut rng, mut packer) = (Rng::new(self.seed), ShardPacker::new(self.sizes));
        let mut checker = PackingChecker::new(self.sizes.full);
        let (mut files, mut bytes, mut largest) = (0, 0, 0);
        for number in 0..self.files {
            let mut left = file_bytes(&mut rng);
            bytes += left;
            loop {
                let part = left.min(self.range_bytes);
                let placed = packer.place(part).ok_or("numbers of shards ran out")?;
                checker.place(placed, part, self.walk_time(number + 1))?;
                (files, largest, left) = (files + 1, part.max(largest), left - part);
                if left == 0 {
                    break;
                }
            }
        }
        let walk_time = self.walk_time(self.files);
        let (shards, order) = checker.finish(files, bytes, walk_time)?;
        Ok(SimulatedPlan { shards, order, walk_time, files, bytes, largest, packing_time: clock.elapsed() })
    }

    fn walk_time(&self, files: u64) -> Duration {
        Duration::from_millis(files.saturating_mul(1000) / self.walked_per_s)
    }
}

fn file_bytes(rng: &mut Rng) -> u64 {
    let octave = (0..OCTAVES).find(|_| !rng.chance(ABOVE_PER_MILLE)).unwrap_or(OCTAVES);
    let end = OCTAVE_BYTES << octave;
    if octave == 0 { rng.below(end) } else { rng.between(end / 2, end - 1) }
}

struct CheckedShard {
    shard: SimulatedShard,
    last_bytes: u64,
    is_whole: bool,
}

/// Records each shard's contents.
struct PackingChecker {
    limits: ShardLimits,
    shards: Vec<CheckedShard>,
    order: Vec<u32>,
}

impl PackingChecker {
    fn new(limits: ShardLimits) -> Self {
        Self { limits, shards: Vec::new(), order: Vec::new() }
    }

    fn place(&mut self, placed: PlacedFile, bytes: u64, now: Duration) -> Result<(), String> {
        let number = placed.shard as usize;
        let begins = number == self.shards.len();
        if begins {
            let shard = SimulatedShard { files: 0, bytes: 0, published: Duration::MAX };
            self.shards.push(CheckedShard { shard, last_bytes: 0, is_whole: false });
        }
        let found = self.shards.get_mut(number).ok_or(format!("shard {number} leaves numbers out"))?;
        if found.is_whole || placed.placement == ShardPlacement::Alone && !begins {
            return Err(format!("shard {number} gets a file too much"));
        }
        found.shard.files += 1;
        found.shard.bytes += bytes;
        found.last_bytes = bytes;
        match placed.placement {
            ShardPlacement::Open => Ok(()),
            ShardPlacement::Last | ShardPlacement::Alone => self.publish(number, now),
        }
    }

    fn publish(&mut self, number: usize, now: Duration) -> Result<(), String> {
        let CheckedShard { shard, last_bytes, is_whole } = &mut self.shards[number];
        // The last file may exceed the limits, and is less than half of a shard.
        let is_over = shard.files > 1
            && (self.limits.is_full(shard.bytes - *last_bytes, shard.files - 1)
                || *last_bytes >= self.limits.bytes.div_ceil(2));
        if is_over {
            return Err(format!("shard {number} is over its limits: {shard:?}"));
        }
        (shard.published, *is_whole) = (now, true);
        self.order.push(u32::try_from(number).map_err(|error| error.to_string())?);
        Ok(())
    }

    fn finish(mut self, files: u64, bytes: u64, now: Duration) -> Result<(Vec<SimulatedShard>, Vec<u32>), String> {
        let open: Vec<_> = (0..self.shards.len()).filter(|number| !self.shards[*number].is_whole).collect();
        if open.len() > 1 {
            return Err(format!("{} shards are open at once", open.len()));
        }
        open.into_iter().try_for_each(|number| self.publish(number, now))?;
        let shards: Vec<_> = self.shards.into_iter().map(|checked| checked.shard).collect();
        let sums = shards.iter().fold((0, 0), |sum, shard| (sum.0 + shard.files, sum.1 + shard.bytes));
        match sums == (files, bytes) {
            true => Ok((shards, self.order)),
            false => Err(format!("shards have {sums:?} files and bytes of {:?}", (files, bytes))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(placements: &[(u32, ShardPlacement, u64)]) -> Result<(), String> {
        let mut checker = PackingChecker::new(ShardLimits { bytes: 100, files: 10 });
        let mut sums = (0, 0);
        for (shard, placement, bytes) in placements {
            checker.place(PlacedFile { shard: *shard, placement: *placement }, *bytes, Duration::ZERO)?;
            sums = (sums.0 + 1, sums.1 + bytes);
        }
        checker.finish(sums.0, sums.1, Duration::ZERO).map(drop)
    }

    #[test]
    fn a_wrong_placement_is_noticed() {
        use ShardPlacement::{Alone, Last, Open};
        assert_eq!(checked(&[(0, Open, 40), (1, Alone, 900), (0, Last, 40), (2, Open, 1)]), Ok(()));
        for wrong in [
            &[(0, Last, 1), (0, Open, 1)][..],
            &[(0, Open, 1), (0, Alone, 60)],
            &[(1, Open, 1)],
            &[(0, Open, 1), (1, Open, 1)],
            &[(0, Open, 40), (0, Open, 45), (0, Last, 40)],
            &[(0, Open, 1), (0, Last, 50)],
        ] {
            assert!(checked(wrong).is_err(), "{wrong:?}");
        }
        let mut checker = PackingChecker::new(ShardLimits::default());
        checker.place(PlacedFile { shard: 0, placement: Last }, 5, Duration::ZERO).unwrap();
        assert!(checker.finish(2, 5, Duration::ZERO).is_err(), "a file is in no shard");
    }
}
