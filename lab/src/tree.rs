//! Makes test data: files and trees of given shapes, the same for the same seed.
//!
//! The bytes come from a counter-based generator ([`Rng`]), so they cannot be
//! compressed, and they are made faster than most file systems take them.

use std::fs::{self, File};
use std::io::Write;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::rng::Rng;

const BLOCK_BYTES: usize = 1 << 20;
const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;

/// Writes test data below a directory. Paths are relative to it; directories
/// that are missing are made. Each call gives the number of bytes it wrote.
#[derive(Debug)]
pub struct TestTree {
    root: PathBuf,
    random: Rng,
    block: Vec<u8>,
}

impl TestTree {
    /// Data below `root`, all of it decided by `seed` and the order of the calls.
    pub fn new(root: impl Into<PathBuf>, seed: u64) -> Self {
        Self { root: root.into(), random: Rng::new(seed), block: vec![0; BLOCK_BYTES] }
    }

    /// The directory that everything is put below.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// One file of random bytes.
    pub fn incompressible_file(&mut self, path: impl AsRef<Path>, bytes: u64) -> Result<u64> {
        let path = self.root.join(path);
        make_parent(&path)?;
        self.write_file(&path, bytes)
    }

    /// One file with this content.
    pub fn file(&mut self, path: impl AsRef<Path>, content: &[u8]) -> Result<u64> {
        let path = self.root.join(path);
        make_parent(&path)?;
        fs::write(&path, content).with_context(|| format!("writing {path:?}"))?;
        Ok(content.len() as u64)
    }

    /// `count` files of random bytes, of sizes uniform in `bytes`, spread evenly over `dirs` directories.
    pub fn small_files(
        &mut self,
        dir: impl AsRef<Path>,
        count: u32,
        dirs: u32,
        bytes: RangeInclusive<u64>,
    ) -> Result<u64> {
        self.many(dir.as_ref(), count, dirs, |random| random.between(*bytes.start(), *bytes.end()))
    }

    /// `count` files in one directory, of sizes log-uniform in 10 KiB to 64 MiB:
    /// as many between 10 and 20 KiB as between 32 and 64 MiB.
    pub fn mixed_files(&mut self, dir: impl AsRef<Path>, count: u32) -> Result<u64> {
        self.log_uniform_files(dir, count, 10 * KIB..=64 * MIB)
    }

    /// `count` files in one directory, of sizes log-uniform in `bytes`.
    pub fn log_uniform_files(&mut self, dir: impl AsRef<Path>, count: u32, bytes: RangeInclusive<u64>) -> Result<u64> {
        self.many(dir.as_ref(), count, 1, |random| random.log_between(*bytes.start(), *bytes.end()))
    }

    /// `count` empty files, a thousand to a directory.
    pub fn empty_files(&mut self, dir: impl AsRef<Path>, count: u32) -> Result<u64> {
        self.many(dir.as_ref(), count, count.div_ceil(1000), |_| 0)
    }

    fn many(&mut self, dir: &Path, count: u32, dirs: u32, size: impl Fn(&mut Rng) -> u64) -> Result<u64> {
        ensure!(dirs > 0 || count == 0, "{count} files cannot be spread over no directory");
        let base = self.root.join(dir);
        fs::create_dir_all(&base).with_context(|| format!("making {base:?}"))?;
        let mut written = 0;
        for group in 0..dirs {
            let directory = if dirs == 1 { base.clone() } else { base.join(format!("d{group:04}")) };
            fs::create_dir_all(&directory).with_context(|| format!("making {directory:?}"))?;
            for number in (group..count).step_by(dirs as usize) {
                let bytes = size(&mut self.random);
                written += self.write_file(&directory.join(format!("f{number:06}")), bytes)?;
            }
        }
        Ok(written)
    }

    fn write_file(&mut self, path: &Path, bytes: u64) -> Result<u64> {
        let mut file = File::create(path).with_context(|| format!("making {path:?}"))?;
        let mut left = bytes;
        while left > 0 {
            let length = usize::try_from(left).unwrap_or(BLOCK_BYTES).min(BLOCK_BYTES);
            self.random.fill(&mut self.block[..length]);
            file.write_all(&self.block[..length]).with_context(|| format!("writing {path:?}"))?;
            left -= length as u64;
        }
        Ok(bytes)
    }
}

fn make_parent(path: &Path) -> Result<()> {
    let parent = path.parent().with_context(|| format!("{path:?} has no parent directory"))?;
    fs::create_dir_all(parent).with_context(|| format!("making {parent:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare;

    fn make(seed: u64) -> (tempfile::TempDir, u64) {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let mut tree = TestTree::new(directory.path(), seed);
        let mut bytes = tree.incompressible_file("deep/er/big", 3 * MIB + 5).expect("big");
        bytes += tree.small_files("small", 25, 4, 1..=4000).expect("small");
        bytes += tree.log_uniform_files("mixed", 20, 1..=100_000).expect("mixed");
        bytes += tree.empty_files("empty", 2500).expect("empty");
        (directory, bytes)
    }

    #[test]
    fn a_seed_decides_everything() {
        let (a, bytes) = make(7);
        let (b, same_bytes) = make(7);
        let (c, _) = make(8);
        assert_eq!(bytes, same_bytes);
        assert_eq!(compare(a.path(), b.path()), Ok(()));
        assert!(compare(a.path(), c.path()).is_err());
    }

    #[test]
    fn trees_have_the_requested_shape() {
        let (a, bytes) = make(9);
        let files_in = |dir: &str| fs::read_dir(a.path().join(dir)).expect("was made").count();
        assert_eq!(fs::metadata(a.path().join("deep/er/big")).expect("was made").len(), 3 * MIB + 5);
        assert_eq!((files_in("small"), files_in("small/d0000"), files_in("mixed")), (4, 7, 20));
        assert_eq!((files_in("empty"), files_in("empty/d0002")), (3, 833));
        assert!(bytes > 3 * MIB + 5);
    }

    #[test]
    fn log_uniform_sizes_cover_every_octave() {
        let mut random = Rng::new(1);
        let sizes: Vec<u64> = (0..2000).map(|_| random.log_between(10 * KIB, 64 * MIB)).collect();
        assert!(sizes.iter().all(|size| (10 * KIB..=64 * MIB).contains(size)));
        for octave in 0..12 {
            let range = (10 * KIB) << octave..(20 * KIB) << octave;
            let count = sizes.iter().filter(|size| range.contains(size)).count();
            assert!((80..300).contains(&count), "{count} sizes in {range:?}");
        }
    }
}
