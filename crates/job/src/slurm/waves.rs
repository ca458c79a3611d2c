//! The next shards to submit: array jobs within MaxArraySize, and together within the limit of concurrent shards.
//!
//! The throttle of an array (`%N`) applies to this array alone. So each new array gets the rest of the others'
//! throttles, and the last remaining array gets all.

use std::time::Duration;

/// An array with tasks in the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ActiveArray {
    /// Slurm's id.
    pub id: u64,
    /// Its concurrent tasks.
    pub throttle: u32,
    /// Its tasks in the queue, waiting and running.
    pub remaining: u32,
}

impl ActiveArray {
    fn in_use(&self) -> u32 {
        self.throttle.min(self.remaining)
    }
}

/// Bounds of all arrays together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaveLimits {
    /// MaxArraySize: an array's indexes are below it, and so is the number of all tasks in the queue.
    pub array_size: u32,
    /// Concurrent shards; `None` leaves it to Slurm.
    pub at_once: Option<u32>,
    /// Whether to submit an array without a free share, to run after the last one: nobody submits it later.
    pub is_chained: bool,
    /// Slurm's MinJobAge: how long it remembers ended tasks.
    pub remembers: Duration,
}

/// An array job to submit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlurmWave {
    /// The shard of task 0.
    pub offset: u32,
    /// In ascending order, each less than MaxArraySize above the offset.
    pub shards: Vec<u32>,
    /// Its concurrent tasks; `None` for no limit.
    pub throttle: Option<u32>,
    /// The array to end first.
    pub after: Option<u64>,
}

impl WaveLimits {
    fn free(&self, active: &[ActiveArray]) -> Option<u32> {
        let in_use = active.iter().map(ActiveArray::in_use).fold(0, u32::saturating_add);
        self.at_once.map(|at_once| at_once.saturating_sub(in_use))
    }

    /// The next array of `waiting` shards in ascending order; `None` without room.
    pub fn next_wave(&self, waiting: &[u32], active: &[ActiveArray]) -> Option<SlurmWave> {
        let queued = active.iter().map(|array| array.remaining).fold(0, u32::saturating_add);
        let room = self.array_size.saturating_sub(queued);
        let (throttle, after) = match self.free(active) {
            Some(0) if self.is_chained => (self.at_once, active.iter().map(|array| array.id).max()),
            free => (free, None),
        };
        if room == 0 || throttle == Some(0) {
            return None;
        }
        let block = |shard: u32| shard / self.array_size;
        let first = block(*waiting.first()?);
        let shards = waiting.iter().copied().take_while(|shard| block(*shard) == first);
        let shards = shards.take(usize::try_from(room).unwrap_or(usize::MAX)).collect();
        Some(SlurmWave { offset: first * self.array_size, shards, throttle, after })
    }

    /// The array with a throttle to raise, and its new value: ended arrays leave their part.
    pub fn raised(&self, active: &[ActiveArray]) -> Option<(u64, u32)> {
        let free = self.free(active).filter(|free| *free > 0)?;
        let array =
            active.iter().filter(|array| array.remaining > array.throttle).max_by_key(|array| array.remaining)?;
        Some((array.id, array.throttle.saturating_add(free).min(array.remaining)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn array(id: u64, throttle: u32, remaining: u32) -> ActiveArray {
        ActiveArray { id, throttle, remaining }
    }

    #[test]
    fn an_array_stays_within_its_size_and_starts_at_its_block() {
        let limits = WaveLimits { array_size: 10, at_once: None, is_chained: false, remembers: Duration::MAX };
        let all: Vec<u32> = (7..40).collect();
        let wave = limits.next_wave(&all, &[]).unwrap();
        assert_eq!((wave.offset, wave.shards, wave.throttle), (0, vec![7, 8, 9], None));
        let wave = limits.next_wave(&all[3..], &[array(1, u32::MAX, 3)]).unwrap();
        assert_eq!((wave.offset, wave.shards), (10, (10..17).collect()));
        assert_eq!(limits.next_wave(&all[10..], &[array(1, u32::MAX, 3), array(2, u32::MAX, 7)]), None);
        assert_eq!(limits.next_wave(&[], &[]), None);
    }

    #[test]
    fn all_arrays_together_keep_within_the_shards_at_a_time() {
        let limits = WaveLimits { array_size: 1000, at_once: Some(8), is_chained: false, remembers: Duration::MAX };
        let waiting: Vec<u32> = (10..100).collect();
        let throttle = |active: &[ActiveArray]| limits.next_wave(&waiting, active).and_then(|wave| wave.throttle);
        assert_eq!(throttle(&[]), Some(8));
        assert_eq!(throttle(&[array(1, 8, 2)]), Some(6));
        assert_eq!(throttle(&[array(1, 8, 2), array(2, 6, 50)]), None);
        assert_eq!(limits.raised(&[array(1, 8, 2), array(2, 6, 50)]), None);
        assert_eq!(limits.raised(&[array(1, 8, 1), array(2, 6, 50)]), Some((2, 7)));
        assert_eq!(limits.raised(&[array(2, 6, 7)]), Some((2, 7)));
        assert_eq!(limits.raised(&[array(2, 6, 5)]), None);
        let chained = WaveLimits { is_chained: true, ..limits };
        let wave = chained.next_wave(&waiting, &[array(1, 8, 2), array(2, 6, 50)]).unwrap();
        assert_eq!((wave.throttle, wave.after), (Some(8), Some(2)));
        assert_eq!(chained.next_wave(&waiting, &[array(1, 8, 2)]).unwrap().after, None);
        assert_eq!(WaveLimits { at_once: None, ..limits }.raised(&[array(2, u32::MAX, 5)]), None);
    }
}
