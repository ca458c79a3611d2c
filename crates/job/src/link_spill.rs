//! Files with several names, stored until the end of the walk: then one name of each inode goes to a shard.
//!
//! A table of inodes would grow with their number. So each name goes to one of a fixed number of bucket files by a hash
//! of its inode. Then the first name of each inode is taken from one bucket after the other. A large bucket is divided
//! first, by other bits of the hash.

use std::collections::HashSet;
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, BufRead, BufReader, BufWriter, Write};

use crate::error::JobError;
use crate::job_file::JobFile;
use crate::packer::ShardLimits;

/// Number of buckets.
const BUCKETS: u64 = 64;
/// Most parts of a bucket in one division.
const PARTS_MAX: u64 = 256;
/// Divisions after which a bucket counts as one inode.
const DEPTH_MAX: u32 = 3;

/// One name of a file with several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkedName {
    /// A hash of device and inode.
    pub inode_hash: u64,
    /// The file's bytes.
    pub bytes: u64,
    /// The path below the base.
    pub path: Vec<u8>,
}

impl LinkedName {
    /// The hash of an inode.
    pub fn hash(device: u64, inode: u64) -> u64 {
        let mut hasher = DefaultHasher::new();
        (device, inode).hash(&mut hasher);
        hasher.finish()
    }

    fn write(&self, out: &mut impl Write) -> io::Result<()> {
        out.write_all(&self.inode_hash.to_le_bytes())?;
        out.write_all(&self.bytes.to_le_bytes())?;
        out.write_all(&self.path)?;
        out.write_all(&[0])
    }

    fn read(from: &mut impl BufRead) -> io::Result<Option<Self>> {
        if from.fill_buf()?.is_empty() {
            return Ok(None);
        }
        let mut numbers = [[0; 8]; 2];
        from.read_exact(&mut numbers[0])?;
        from.read_exact(&mut numbers[1])?;
        let mut path = Vec::new();
        from.read_until(0, &mut path)?;
        path.pop();
        let [inode_hash, bytes] = numbers.map(u64::from_le_bytes);
        Ok(Some(Self { inode_hash, bytes, path }))
    }
}

/// A bucket. It has all names of an inode.
struct LinkBucket {
    file: JobFile,
    out: BufWriter<File>,
    names: u64,
}

impl LinkBucket {
    fn create(file: JobFile) -> io::Result<Self> {
        Ok(Self { out: BufWriter::new(file.create_new()?), file, names: 0 })
    }

    fn add(&mut self, name: &LinkedName) -> io::Result<()> {
        self.names += 1;
        name.write(&mut self.out)
    }

    fn read(&mut self) -> io::Result<impl Iterator<Item = io::Result<LinkedName>> + use<>> {
        self.out.flush()?;
        let mut file = BufReader::new(self.file.open()?);
        Ok(std::iter::from_fn(move || LinkedName::read(&mut file).transpose()))
    }

    /// Spreads the names over `parts` further buckets by bits of the hash above `shift`.
    fn divide(&mut self, parts: u64, depth: u32) -> io::Result<Vec<Self>> {
        let part = |number| Self::create(self.file.with_ending(&format!("-{number}")));
        let mut divided = (0..parts).map(part).collect::<io::Result<Vec<_>>>()?;
        let stride = BUCKETS.saturating_mul(PARTS_MAX.saturating_pow(depth));
        for found in self.read()? {
            let found = found?;
            let part = usize::try_from(found.inode_hash / stride % parts).unwrap_or_default();
            divided[part].add(&found)?;
        }
        Ok(divided)
    }
}

/// All stored names.
pub struct LinkSpill {
    directory: JobFile,
    buckets: Vec<Option<LinkBucket>>,
}

impl LinkSpill {
    /// Without names. Buckets are in `directory`.
    pub fn new(directory: JobFile) -> Self {
        Self { directory, buckets: (0..BUCKETS).map(|_| None).collect() }
    }

    /// Stores a name.
    pub fn add(&mut self, name: &LinkedName) -> Result<(), JobError> {
        let number = name.inode_hash % BUCKETS;
        let slot = &mut self.buckets[usize::try_from(number).unwrap_or_default()];
        let bucket = match slot {
            Some(bucket) => Ok(bucket),
            None => {
                LinkBucket::create(self.directory.join(format!("links-{number}"))).map(|bucket| slot.insert(bucket))
            }
        };
        bucket.and_then(|bucket| bucket.add(name)).map_err(|error| JobError::io(self.directory.path(), &error))
    }

    /// Passes on the first name of each inode, and returns the number of further names. Two inodes with one hash count
    /// as one.
    pub fn drain(
        self,
        limits: ShardLimits,
        take: &mut dyn FnMut(&LinkedName) -> Result<(), JobError>,
    ) -> Result<u64, JobError> {
        let mut further = 0;
        let mut waiting: Vec<_> = self.buckets.into_iter().flatten().map(|bucket| (bucket, 0)).collect();
        waiting.reverse();
        while let Some((mut bucket, depth)) = waiting.pop() {
            let wrong = |error: io::Error| JobError::io(self.directory.path(), &error);
            let parts = limits.shards_for(0, bucket.names).min(PARTS_MAX);
            if parts > 1 && depth < DEPTH_MAX {
                let divided = bucket.divide(parts, depth).map_err(wrong)?;
                bucket.file.remove()?;
                waiting.extend(divided.into_iter().rev().map(|part| (part, depth + 1)));
                continue;
            }
            let mut seen = HashSet::new();
            for found in bucket.read().map_err(wrong)? {
                let name = found.map_err(wrong)?;
                match seen.insert(name.inode_hash) {
                    true => take(&name)?,
                    false => further += 1,
                }
            }
            bucket.file.remove()?;
        }
        Ok(further)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::directory::JobDirectory;

    fn folder() -> (tempfile::TempDir, JobFile) {
        let temp = tempfile::tempdir().unwrap();
        let job = JobDirectory::create(&temp.path().join("job")).unwrap();
        (temp, job.spill())
    }

    /// The names that are handed out of `inodes` files with three names each, and the number of the others.
    fn drained(inodes: u64, limits: ShardLimits) -> (Vec<LinkedName>, u64) {
        let (_temp, folder) = folder();
        let mut spill = LinkSpill::new(folder.clone());
        for name in 0..3 {
            for inode in 0..inodes {
                let path = format!("{name}/{inode}\n").into_bytes();
                spill.add(&LinkedName { inode_hash: LinkedName::hash(7, inode), bytes: 10, path }).unwrap();
            }
        }
        let mut names = Vec::new();
        let further = spill.drain(limits, &mut |name| {
            names.push(name.clone());
            Ok(())
        });
        assert_eq!(folder.names().unwrap().len(), 0, "nothing is left");
        (names, further.unwrap())
    }

    #[test]
    fn the_first_name_of_each_inode_is_handed_out() {
        for files in [500_000, 40, 1] {
            let (names, further) = drained(2000, ShardLimits { files, ..ShardLimits::default() });
            let hashes: HashSet<_> = names.iter().map(|name| name.inode_hash).collect();
            assert_eq!((names.len(), hashes.len(), further), (2000, 2000, 4000), "{files}");
            assert!(names.iter().all(|name| name.path.starts_with(b"0/") && name.bytes == 10));
        }
    }

    #[test]
    fn one_inode_of_many_names_ends() {
        let (_temp, folder) = folder();
        let mut spill = LinkSpill::new(folder.clone());
        for number in 0..1000 {
            let path = format!("{number}").into_bytes();
            spill.add(&LinkedName { inode_hash: 5, bytes: 1, path }).unwrap();
        }
        let further = spill.drain(ShardLimits { bytes: 10, files: 10 }, &mut |_| Ok(()));
        assert_eq!(further, Ok(999));
    }
}
