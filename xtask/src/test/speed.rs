//! How slow this machine is beside the one that the time limits of the steps were set for.

use std::fs::File;
use std::io::{self, Write};
use std::time::{Duration, Instant};

use crate::workspace::root;

/// The reference machine: a virtual machine with two cores and a local SSD.
const HASH_TIME: Duration = Duration::from_millis(50);
const SYNC_TIME: Duration = Duration::from_millis(25);
/// Threads that hash, and bytes that each hashes.
const THREADS: usize = 2;
const HASH_BYTES: usize = 256 << 20;
/// Small files that are written and synced.
const SYNCS: usize = 50;
/// Beyond this, a machine is not slow but stuck.
const SLOWNESS_MAX: f64 = 8.0;
/// Below this, a machine is as fast as the reference: neighbours and caches differ as much.
const NOTICEABLE: f64 = 1.5;

/// The factor for time limits: 1 on machines as fast as the reference, at most [`SLOWNESS_MAX`].
pub fn slowness() -> f64 {
    let syncs = time_syncs().unwrap_or(SYNC_TIME);
    factor(time_hashes(), syncs)
}

fn factor(hashes: Duration, syncs: Duration) -> f64 {
    let slower = |time: Duration, reference: Duration| time.as_secs_f64() / reference.as_secs_f64();
    let factor = slower(hashes, HASH_TIME).max(slower(syncs, SYNC_TIME));
    if factor < NOTICEABLE { 1.0 } else { factor.min(SLOWNESS_MAX) }
}

fn time_hashes() -> Duration {
    let began = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let block = vec![7; 1 << 20];
                let mut hasher = blake3::Hasher::new();
                for _ in 0..HASH_BYTES / block.len() {
                    hasher.update(&block);
                }
                std::hint::black_box(hasher.finalize());
            });
        }
    });
    began.elapsed()
}

fn time_syncs() -> io::Result<Duration> {
    let place = tempfile::tempdir_in(root().join("target"))?;
    let began = Instant::now();
    for number in 0..SYNCS {
        let mut file = File::create(place.path().join(number.to_string()))?;
        file.write_all(&[7; 4096])?;
        file.sync_all()?;
    }
    Ok(began.elapsed())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slower_of_processor_and_disk_decides_within_bounds() {
        let tenths = |hashes: Duration, syncs: Duration| (10.0 * factor(hashes, syncs)).round();
        assert_eq!(tenths(HASH_TIME, SYNC_TIME), 10.0);
        assert_eq!(tenths(HASH_TIME / 4, SYNC_TIME / 4), 10.0);
        assert_eq!(tenths(2 * HASH_TIME, SYNC_TIME), 20.0);
        assert_eq!(tenths(HASH_TIME, 3 * SYNC_TIME), 30.0);
        assert_eq!(tenths(HASH_TIME, 100 * SYNC_TIME), 10.0 * SLOWNESS_MAX);
    }
}
