//! Data for the demo: one big file that cannot be compressed, and some hundred small ones beside it.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

/// Small files.
const SMALL_FILES: u64 = 300;
/// Their directories.
const DIRECTORIES: u64 = 12;
/// The largest share of small files in the bytes, as a divisor.
const SMALL_SHARE: u64 = 8;
/// The most bytes of all small files.
const SMALL_BYTES: u64 = 16 << 20;
/// Bytes made at a time.
const BLOCK: usize = 1 << 20;

/// Makes `bytes` of data in the new directory `root`. Returns `false` if `stop` ended it early.
pub fn make(root: &Path, bytes: u64, stop: &dyn Fn() -> bool) -> io::Result<bool> {
    let mut noise = Noise::new();
    let budget = (bytes / SMALL_SHARE).min(SMALL_BYTES);
    let mut left = bytes;
    fs::create_dir(root)?;
    for directory in 0..DIRECTORIES {
        fs::create_dir(root.join(format!("small-{directory:02}")))?;
    }
    for number in 0..SMALL_FILES {
        let size = small_size(number, budget);
        let path = root.join(format!("small-{:02}/{number:03}", number % DIRECTORIES));
        if !noise.fill(&path, size, stop)? {
            return Ok(false);
        }
        left -= size;
    }
    noise.fill(&root.join("big"), left, stop)
}

/// Sizes from 0 to twice the mean. Their sum is at most `budget`.
fn small_size(number: u64, budget: u64) -> u64 {
    2 * budget / SMALL_FILES * number / SMALL_FILES
}

/// Bytes without a pattern: the extendable output of BLAKE3.
struct Noise {
    reader: blake3::OutputReader,
    block: Vec<u8>,
}

impl Noise {
    fn new() -> Self {
        Self { reader: blake3::Hasher::new().update(b"haul demo").finalize_xof(), block: vec![0; BLOCK] }
    }

    fn fill(&mut self, path: &Path, bytes: u64, stop: &dyn Fn() -> bool) -> io::Result<bool> {
        let mut file = File::create_new(path)?;
        let mut left = bytes;
        while left > 0 {
            if stop() {
                return Ok(false);
            }
            let step = usize::try_from(left).unwrap_or(BLOCK).min(BLOCK);
            let block = &mut self.block[..step];
            self.reader.fill(block);
            file.write_all(block)?;
            left -= step as u64;
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes_in(dir: &Path) -> u64 {
        let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap());
        entries
            .map(|entry| if entry.path().is_dir() { bytes_in(&entry.path()) } else { entry.metadata().unwrap().len() })
            .sum()
    }

    #[test]
    fn the_data_has_the_requested_size() {
        for bytes in [1, 1000, 3_000_001] {
            let dir = tempfile::tempdir().unwrap();
            let root = dir.path().join("source");
            assert!(make(&root, bytes, &|| false).unwrap());
            assert_eq!(bytes_in(&root), bytes);
        }
    }

    #[test]
    fn creation_stops_on_request() {
        let dir = tempfile::tempdir().unwrap();
        assert!(!make(&dir.path().join("source"), 1 << 30, &|| true).unwrap());
        assert!(bytes_in(dir.path()) < 1 << 20);
    }

    #[test]
    fn small_files_stay_within_their_share() {
        for budget in [0, 1, 299, 16 << 20] {
            assert!((0..SMALL_FILES).map(|number| small_size(number, budget)).sum::<u64>() <= budget);
        }
    }
}
