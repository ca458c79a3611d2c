//! Submissions: `JOB/slurm/submissions`, a line for each job of Slurm, only appended.
//!
//! ```text
//! array 4711 0 0-5,9
//! finish 4712
//! ```
//!
//! The third word of an array is the shard of its task 0.

use std::io::Write;

use crate::directory::JobDirectory;
use crate::error::JobError;
use crate::job_file::JobFile;
use crate::plan_index::PlanIndex;

/// A job that Slurm accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SlurmSubmission {
    /// Shards.
    Array {
        /// Slurm's id.
        id: u64,
        /// The shard of task 0.
        offset: u32,
        /// In ascending order.
        shards: Vec<u32>,
    },
    /// The last step.
    Finish {
        /// Slurm's id.
        id: u64,
    },
}

impl SlurmSubmission {
    /// Slurm's id.
    pub fn id(&self) -> u64 {
        match self {
            Self::Array { id, .. } | Self::Finish { id } => *id,
        }
    }

    /// The file of all records.
    pub fn file(job: &JobDirectory) -> JobFile {
        job.slurm().join("submissions")
    }

    /// Records it.
    pub fn append(&self, job: &JobDirectory) -> Result<(), JobError> {
        let line = match self {
            Self::Array { id, offset, shards } => format!("array {id} {offset} {}\n", ranges(shards)),
            Self::Finish { id } => format!("finish {id}\n"),
        };
        let file = Self::file(job);
        let opened = file.append();
        let written = opened.and_then(|mut file| file.write_all(line.as_bytes()).and_then(|()| file.sync_data()));
        written.map_err(|error| JobError::io(file.path(), &error))
    }

    /// Reads all records. Skips an incomplete line, and shards that are not planned.
    pub fn read_all(job: &JobDirectory) -> Result<Vec<Self>, JobError> {
        let Some(text) = Self::file(job).read_text()? else { return Ok(Vec::new()) };
        let last = PlanIndex::read(job)?.shards.iter().map(|shard| shard.number).max();
        let whole = text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n'));
        Ok(whole.filter_map(|line| Self::parse(line, last)).collect())
    }

    /// Parses a line of a plan whose `last` shard has this number.
    fn parse(line: &str, last: Option<u32>) -> Option<Self> {
        let words: Vec<_> = line.split(' ').collect();
        match words[..] {
            ["array", id, offset, list] => {
                let offset = offset.parse().ok()?;
                Some(Self::Array { id: id.parse().ok()?, offset, shards: parse_ranges(list, last?)? })
            }
            ["finish", id] => Some(Self::Finish { id: id.parse().ok()? }),
            _ => None,
        }
    }
}

/// `0-5,9` for ascending numbers.
pub fn ranges(numbers: &[u32]) -> String {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for number in numbers {
        match runs.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(*number) => *last = *number,
            _ => runs.push((*number, *number)),
        }
    }
    let run = |(first, last): &(u32, u32)| if first == last { first.to_string() } else { format!("{first}-{last}") };
    runs.iter().map(run).collect::<Vec<_>>().join(",")
}

/// Ascending numbers up to `most`, from [`ranges`].
fn parse_ranges(text: &str, most: u32) -> Option<Vec<u32>> {
    let mut numbers: Vec<u32> = Vec::new();
    for run in text.split(',') {
        let (first, last) = run.split_once('-').unwrap_or((run, run));
        let (first, last) = (first.parse().ok()?, last.parse().ok()?);
        let is_next = numbers.last().is_none_or(|previous| *previous < first);
        if !is_next || first > last || last > most {
            return None;
        }
        numbers.extend(first..=last);
    }
    Some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan_index::{PlanIndexWriter, PlannedShard};

    #[test]
    fn submissions_round_trip_except_half_a_line() {
        let temp = tempfile::tempdir().unwrap();
        let job = JobDirectory::create(&temp.path().join("job")).unwrap();
        job.slurm().make_directory().unwrap();
        let mut plan = PlanIndexWriter::create(&job).unwrap();
        plan.add(PlannedShard { number: 1009, files: 1, bytes: 1, range: None }).unwrap();
        assert_eq!(SlurmSubmission::read_all(&job), Ok(Vec::new()));
        let array = SlurmSubmission::Array { id: 4711, offset: 1000, shards: vec![1000, 1001, 1002, 1009] };
        let finish = SlurmSubmission::Finish { id: 4712 };
        [&array, &finish].into_iter().for_each(|submission| submission.append(&job).unwrap());
        let file = SlurmSubmission::file(&job);
        let text = file.read_text().unwrap().unwrap();
        assert_eq!(text, "array 4711 1000 1000-1002,1009\nfinish 4712\n");
        let planted = "array 1 0 0-4294967295\narray 1 0 1010\narray 1 0 5,4\narray 1 0 1-2,2\n";
        file.replace(format!("{planted}{text}array 47").as_bytes()).unwrap();
        assert_eq!(SlurmSubmission::read_all(&job), Ok(vec![array, finish]));
    }

    #[test]
    fn numbers_round_trip_as_ranges() {
        for numbers in [vec![3], vec![0, 1, 2], vec![0, 2, 3, 7, 8, 9, 11]] {
            assert_eq!(parse_ranges(&ranges(&numbers), 11), Some(numbers));
        }
        assert_eq!((parse_ranges("", 9), parse_ranges("3-10", 9)), (None, None));
    }
}
