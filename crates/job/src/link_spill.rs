//! Files with several names, set aside until the walk is over: all names of one inode then share a shard.
//!
//! A table of inodes would grow with their number. So each name goes to one of a fixed number of files by a hash of its
//! inode. Afterwards each of these files is a part of a shard, or is divided further by other bits of the hash.

use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::error::JobError;
use crate::packer::ShardLimits;

/// Files that names are spread over.
const BUCKETS: u64 = 64;
/// Most parts that a bucket is divided into at a time.
const PARTS_MAX: u64 = 256;
/// Divisions after which a bucket is one inode, for all that is known.
const DEPTH_MAX: u32 = 3;

/// One name of a file with several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkedName {
    /// A hash of device and inode.
    pub inode_hash: u64,
    /// The file's bytes, divided by the number of its names.
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

/// A file of names. All names of an inode are in one.
struct LinkBucket {
    path: PathBuf,
    out: BufWriter<File>,
    bytes: u64,
    names: u64,
}

impl LinkBucket {
    fn create(path: PathBuf) -> io::Result<Self> {
        Ok(Self { out: BufWriter::new(File::create(&path)?), path, bytes: 0, names: 0 })
    }

    fn add(&mut self, name: &LinkedName) -> io::Result<()> {
        self.bytes = self.bytes.saturating_add(name.bytes);
        self.names += 1;
        name.write(&mut self.out)
    }

    fn read(&mut self) -> io::Result<impl Iterator<Item = io::Result<LinkedName>> + use<>> {
        self.out.flush()?;
        let mut file = BufReader::new(File::open(&self.path)?);
        Ok(std::iter::from_fn(move || LinkedName::read(&mut file).transpose()))
    }

    /// Spreads the names over `parts` further buckets by bits of the hash above `shift`.
    fn divide(&mut self, parts: u64, depth: u32) -> io::Result<Vec<Self>> {
        let name = self.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let part = |number| Self::create(self.path.with_file_name(format!("{name}-{number}")));
        let mut divided = (0..parts).map(part).collect::<io::Result<Vec<_>>>()?;
        let stride = BUCKETS.saturating_mul(PARTS_MAX.saturating_pow(depth));
        for found in self.read()? {
            let found = found?;
            let part = usize::try_from(found.inode_hash / stride % parts).unwrap_or_default();
            divided[part].add(&found)?;
        }
        fs::remove_file(&self.path)?;
        Ok(divided)
    }
}

/// All names that were set aside.
pub struct LinkSpill {
    directory: PathBuf,
    buckets: Vec<Option<LinkBucket>>,
}

impl LinkSpill {
    /// Nothing set aside yet; files are made in `directory`.
    pub fn new(directory: &Path) -> Self {
        Self { directory: directory.to_owned(), buckets: (0..BUCKETS).map(|_| None).collect() }
    }

    /// Sets a name aside.
    pub fn add(&mut self, name: &LinkedName) -> Result<(), JobError> {
        let number = name.inode_hash % BUCKETS;
        let slot = &mut self.buckets[usize::try_from(number).unwrap_or_default()];
        let bucket = match slot {
            Some(bucket) => Ok(bucket),
            None => LinkBucket::create(self.directory.join(format!("links-{number}"))).map(|bucket| slot.insert(bucket)),
        };
        bucket.and_then(|bucket| bucket.add(name)).map_err(|error| JobError::io(&self.directory, &error))
    }

    /// Hands out all names in groups, none of which fills much more than a shard. All names of an inode are in one
    /// group. `take` gets a group's bytes and names before its names.
    pub fn drain(
        self,
        limits: ShardLimits,
        take: &mut dyn FnMut(LinkGroup<'_>) -> Result<(), JobError>,
    ) -> Result<(), JobError> {
        let mut waiting: Vec<_> = self.buckets.into_iter().flatten().map(|bucket| (bucket, 0)).collect();
        waiting.reverse();
        while let Some((mut bucket, depth)) = waiting.pop() {
            let wrong = |error: io::Error| JobError::io(&self.directory, &error);
            let parts = limits.shards_for(bucket.bytes, bucket.names).min(PARTS_MAX);
            if parts > 1 && depth < DEPTH_MAX {
                let divided = bucket.divide(parts, depth).map_err(wrong)?;
                waiting.extend(divided.into_iter().rev().filter(|part| part.names > 0).map(|part| (part, depth + 1)));
                continue;
            }
            take(LinkGroup::Begin { bytes: bucket.bytes, names: bucket.names })?;
            for found in bucket.read().map_err(wrong)? {
                take(LinkGroup::Name(&found.map_err(wrong)?))?;
            }
            fs::remove_file(&bucket.path).map_err(wrong)?;
        }
        Ok(())
    }
}

/// What [`LinkSpill::drain`] hands out.
#[derive(Debug)]
pub enum LinkGroup<'a> {
    /// A group begins.
    Begin {
        /// Bytes of its files.
        bytes: u64,
        /// Names in it.
        names: u64,
    },
    /// A name of the present group.
    Name(&'a LinkedName),
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{HashMap, HashSet};

    /// Groups of the names of `inodes` files with three names each.
    fn groups(inodes: u64, limits: ShardLimits) -> Vec<Vec<LinkedName>> {
        let temp = tempfile::tempdir().unwrap();
        let mut spill = LinkSpill::new(temp.path());
        for name in 0..3 {
            for inode in 0..inodes {
                let path = format!("{name}/{inode}\n").into_bytes();
                spill.add(&LinkedName { inode_hash: LinkedName::hash(7, inode), bytes: 10, path }).unwrap();
            }
        }
        let mut groups: Vec<Vec<LinkedName>> = Vec::new();
        let mut take = |group: LinkGroup<'_>| {
            match group {
                LinkGroup::Begin { .. } => groups.push(Vec::new()),
                LinkGroup::Name(name) => groups.last_mut().unwrap().push(name.clone()),
            }
            Ok(())
        };
        spill.drain(limits, &mut take).unwrap();
        assert_eq!(fs::read_dir(temp.path()).unwrap().count(), 0, "nothing is left");
        groups
    }

    #[test]
    fn all_names_of_an_inode_are_in_one_group_and_each_once() {
        for limits in [ShardLimits::default(), ShardLimits { bytes: 10_000, files: 40 }] {
            let groups = groups(2000, limits);
            let mut group_of = HashMap::new();
            let mut paths = HashSet::new();
            for (number, group) in groups.iter().enumerate() {
                for name in group {
                    assert_eq!(*group_of.entry(name.inode_hash).or_insert(number), number);
                    assert!(paths.insert(name.path.clone()));
                }
            }
            assert_eq!((group_of.len(), paths.len()), (2000, 6000));
        }
    }

    #[test]
    fn a_group_is_not_much_larger_than_a_shard() {
        let groups = groups(20_000, ShardLimits { bytes: 1 << 40, files: 200 });
        let largest = groups.iter().map(Vec::len).max().unwrap();
        assert!(largest <= 300 && groups.len() >= 300, "{largest} names, {} groups", groups.len());
    }

    #[test]
    fn one_inode_of_many_names_ends() {
        let temp = tempfile::tempdir().unwrap();
        let mut spill = LinkSpill::new(temp.path());
        for number in 0..1000 {
            let path = format!("{number}").into_bytes();
            spill.add(&LinkedName { inode_hash: 5, bytes: 1, path }).unwrap();
        }
        let mut begun = 0;
        spill
            .drain(ShardLimits { bytes: 10, files: 10 }, &mut |group| {
                begun += u32::from(matches!(group, LinkGroup::Begin { .. }));
                Ok(())
            })
            .unwrap();
        assert_eq!(begun, 1);
    }
}
