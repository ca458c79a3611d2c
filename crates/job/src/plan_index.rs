//! The index of shards, `JOB/plan`: a line for each shard with a complete list, and a last line after the walk.
//!
//! ```text
//! 17 4211 214748364800 planned
//! 18 1 68719476736 planned range=1/2 length=68719476736 size=90000000000 inode=12 modified=1700000000.5 changed=1700000000.5
//! complete shards=18 files=70211 bytes=3000000000 holes=0 directories=812 linked=0 others=0 failed=0 lengthened=0
//! ```
//!
//! A range is a part of one version of a file. All ranges of a file but the last have this length. Times are seconds
//! and nanoseconds since 1970.
//!
//! Lines are only appended. Readers ignore a line without a line feed.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use haul_base::copy::spec::PlannedVersion;
use haul_proto::entry::Timestamp;
use haul_proto::file_range::RangeLen;

use crate::directory::JobDirectory;
use crate::error::JobError;
use crate::job_file::JobFile;

/// Largest index, in bytes: some millions of ranges.
const FILE_MAX: u64 = 1 << 30;

/// A shard with a complete list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlannedShard {
    /// Its number, from 0 on.
    pub number: u32,
    /// Paths in its list.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The range of its only file, if divided.
    pub range: Option<PlannedRange>,
}

impl PlannedShard {
    /// The number of the shard with the first range of its file. Ranges of a file have consecutive numbers.
    pub fn first_of_file(&self) -> u64 {
        u64::from(self.number).saturating_sub(self.range.map_or(0, |range| range.number))
    }
}

/// A range of a large file. The file counts in the shard of its first range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlannedRange {
    /// Its number, from 0 on.
    pub number: u64,
    /// The number of the file's ranges.
    pub ranges: u64,
    /// Their length.
    pub len: RangeLen,
    /// The version of the file.
    pub version: PlannedVersion,
}

impl PlannedRange {
    fn words(&self) -> String {
        let PlannedRange { number, ranges, len, version } = self;
        let PlannedVersion { size, inode, modified, changed } = version;
        let time = |time: &Timestamp| format!("{}.{}", time.seconds, time.nanoseconds);
        let (modified, changed) = (time(modified), time(changed));
        let (number, len) = (number + 1, len.get());
        format!(" range={number}/{ranges} length={len} size={size} inode={inode} modified={modified} changed={changed}")
    }

    fn parse(words: &[&str]) -> Option<Self> {
        let [range, len, size, inode, modified, changed] = words[..] else { return None };
        let (number, ranges) = range.strip_prefix("range=")?.split_once('/')?;
        let time = |word: &str| {
            let (seconds, nanoseconds) = word.split_once('.')?;
            Some(Timestamp { seconds: seconds.parse().ok()?, nanoseconds: nanoseconds.parse().ok()? })
        };
        Some(Self {
            number: number.parse::<u64>().ok()?.checked_sub(1)?,
            ranges: ranges.parse().ok()?,
            len: RangeLen::new(len.strip_prefix("length=")?.parse().ok()?).ok()?,
            version: PlannedVersion {
                size: size.strip_prefix("size=")?.parse().ok()?,
                inode: inode.strip_prefix("inode=")?.parse().ok()?,
                modified: time(modified.strip_prefix("modified=")?)?,
                changed: time(changed.strip_prefix("changed=")?)?,
            },
        })
    }
}

/// The totals of the walk.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PlanTotals {
    /// Shards.
    pub shards: u32,
    /// Files and links.
    pub files: u64,
    /// Bytes of files.
    pub bytes: u64,
    /// Of these, bytes in holes.
    pub holes: u64,
    /// Directories.
    pub directories: u64,
    /// Further names of files, if hard links are preserved: they are in no shard.
    pub linked: u64,
    /// Devices, FIFOs and sockets to copy.
    pub others: u64,
    /// Entries and directories that could not be read.
    pub failed: u64,
    /// Files with longer ranges than the job's, to limit their number.
    pub lengthened: u64,
}

/// The index so far.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PlanIndex {
    /// In the order of their numbers.
    pub shards: Vec<PlannedShard>,
    /// The totals; `None` if the walk is running or was killed.
    pub complete: Option<PlanTotals>,
}

impl PlanIndex {
    /// Reads the index; empty before the first shard.
    pub fn read(job: &JobDirectory) -> Result<Self, JobError> {
        let file = job.plan();
        file.read_text_of(FILE_MAX)?.map_or_else(|| Ok(Self::default()), |text| Self::parse(&text, file.path()))
    }

    fn parse(text: &str, path: &Path) -> Result<Self, JobError> {
        let mut index = Self::default();
        for line in text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n')) {
            let known = match line.strip_prefix("complete ") {
                Some(totals) => parse_totals(totals).map(|totals| index.complete = Some(totals)),
                None => parse_shard(line).map(|shard| index.shards.push(shard)),
            };
            known.ok_or_else(|| JobError::damaged(path, &format!("this line is no shard: {line:?}")))?;
        }
        Ok(index)
    }

    /// The shard of this number, or an error.
    pub fn shard(&self, number: u32, job: &JobDirectory) -> Result<PlannedShard, JobError> {
        if let Some(shard) = self.shards.iter().find(|shard| shard.number == number) {
            return Ok(*shard);
        }
        let shown = crate::error::shown(job.path());
        Err(match (self.complete, self.shards.len()) {
            (None, _) => JobError::usage(
                format!("{shown}: shard {number} is not planned yet"),
                "wait for haul job plan, or look at haul job status",
            ),
            (Some(_), 0) => JobError::usage(
                format!("{shown}: there is no shard {number}: the job has no files"),
                format!("haul job finish {shown} copies its directories"),
            ),
            (Some(_), count) => JobError::usage(
                format!("{shown}: there is no shard {number}"),
                format!("this job has the shards 0 to {}", count - 1),
            ),
        })
    }
}

fn parse_shard(line: &str) -> Option<PlannedShard> {
    let words: Vec<_> = line.split(' ').collect();
    let (shard, range) = words.split_at_checked(4)?;
    let [number, files, bytes, "planned"] = shard[..] else { return None };
    let range = if range.is_empty() { None } else { Some(PlannedRange::parse(range)?) };
    Some(PlannedShard { number: number.parse().ok()?, files: files.parse().ok()?, bytes: bytes.parse().ok()?, range })
}

fn parse_totals(words: &str) -> Option<PlanTotals> {
    let mut totals = PlanTotals::default();
    for word in words.split(' ') {
        let (name, number) = word.split_once('=')?;
        let number: u64 = number.parse().ok()?;
        match name {
            "shards" => totals.shards = u32::try_from(number).ok()?,
            "files" => totals.files = number,
            "bytes" => totals.bytes = number,
            "holes" => totals.holes = number,
            "directories" => totals.directories = number,
            "linked" => totals.linked = number,
            "others" => totals.others = number,
            "failed" => totals.failed = number,
            "lengthened" => totals.lengthened = number,
            _ => return None,
        }
    }
    Some(totals)
}

/// Appends to the index.
#[derive(Debug)]
pub struct PlanIndexWriter {
    file: File,
    path: JobFile,
}

impl PlanIndexWriter {
    /// Creates an index, in place of an interrupted one.
    pub fn create(job: &JobDirectory) -> Result<Self, JobError> {
        let path = job.plan();
        path.remove()?;
        Ok(Self { file: path.create_new().map_err(|error| JobError::io(path.path(), &error))?, path })
    }

    /// Adds a shard with a published list.
    pub fn add(&mut self, shard: PlannedShard) -> Result<(), JobError> {
        let PlannedShard { number, files, bytes, range } = shard;
        let range = range.map_or_else(String::new, |range| range.words());
        self.append(&format!("{number} {files} {bytes} planned{range}\n"))
    }

    /// Adds the last line.
    pub fn complete(mut self, totals: PlanTotals) -> Result<(), JobError> {
        let PlanTotals { shards, files, bytes, holes, directories, linked, others, failed, lengthened } = totals;
        self.append(&format!(
            "complete shards={shards} files={files} bytes={bytes} holes={holes} directories={directories} \
             linked={linked} others={others} failed={failed} lengthened={lengthened}\n"
        ))
    }

    fn append(&mut self, line: &str) -> Result<(), JobError> {
        let written = self.file.write_all(line.as_bytes()).and_then(|()| self.file.sync_data());
        written.map_err(|error| JobError::io(self.path.path(), &error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_can_be_read_while_it_is_written() {
        let temp = tempfile::tempdir().unwrap();
        let job = JobDirectory::create(&temp.path().join("job")).unwrap();
        assert_eq!(PlanIndex::read(&job), Ok(PlanIndex::default()));
        let mut writer = PlanIndexWriter::create(&job).unwrap();
        let shards = [(0, 3, 0), (1, u64::MAX, u64::MAX)];
        let time = Timestamp { seconds: -5, nanoseconds: 60 };
        let version = PlannedVersion { size: u64::MAX, inode: 1, modified: time, changed: time };
        let range = Some(PlannedRange { number: 2, ranges: 9, len: RangeLen::MIN, version });
        let shards = shards.map(|(number, files, bytes)| PlannedShard { number, files, bytes, range });
        let shards = [PlannedShard { range: None, ..shards[0] }, shards[1]];
        shards.into_iter().for_each(|shard| writer.add(shard).unwrap());
        writer.append("2 77 1").unwrap();
        assert_eq!(PlanIndex::read(&job), Ok(PlanIndex { shards: shards.to_vec(), complete: None }));
        writer.append("0 planned\n").unwrap();
        let totals = PlanTotals {
            shards: 3,
            files: 80,
            bytes: 9,
            holes: 3,
            directories: 4,
            linked: 5,
            others: 1,
            failed: 2,
            lengthened: 7,
        };
        writer.complete(totals).unwrap();
        let read = PlanIndex::read(&job).unwrap();
        assert_eq!((read.shards.len(), read.complete, read.shards[2].bytes), (3, Some(totals), 10));
        let beyond = read.shard(3, &job).unwrap_err().to_string();
        assert!(beyond.contains("there is no shard 3") && beyond.contains("0 to 2"), "{beyond}");
    }

    #[test]
    fn a_foreign_line_is_an_error() {
        for line in [
            "",
            "1 2 3",
            "1 2 x planned",
            "1 2 3 done",
            "complete shards=x",
            "complete more=1",
            "1 2 3 planned more",
            "1 2 3 planned range=0/2 length=1048576 size=1 inode=1 modified=1.1 changed=1.1",
            "1 2 3 planned range=1/2 length=1048577 size=1 inode=1 modified=1.1 changed=1.1",
        ] {
            assert!(PlanIndex::parse(&format!("{line}\n"), Path::new("plan")).is_err(), "{line}");
        }
    }
}
