//! Submissions: `JOB/slurm/submissions`, a line for each job of Slurm, only appended.
//!
//! ```text
//! array 4711 0 0-5,9
//! finish 4712
//! ```
//!
//! The third word of an array is the shard of its task 0.

use std::fs::{self, OpenOptions};
use std::io::Write;

use crate::directory::JobDirectory;
use crate::error::JobError;

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

    /// Records it.
    pub fn append(&self, job: &JobDirectory) -> Result<(), JobError> {
        let line = match self {
            Self::Array { id, offset, shards } => format!("array {id} {offset} {}\n", ranges(shards)),
            Self::Finish { id } => format!("finish {id}\n"),
        };
        let path = job.slurm().join("submissions");
        let opened = OpenOptions::new().create(true).append(true).open(&path);
        let written = opened.and_then(|mut file| file.write_all(line.as_bytes()).and_then(|()| file.sync_data()));
        written.map_err(|error| JobError::io(&path, &error))
    }

    /// Reads all records. Skips an incomplete line.
    pub fn read_all(job: &JobDirectory) -> Result<Vec<Self>, JobError> {
        let path = job.slurm().join("submissions");
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(JobError::io(&path, &error)),
        };
        let whole = text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n'));
        Ok(whole.filter_map(Self::parse).collect())
    }

    fn parse(line: &str) -> Option<Self> {
        let words: Vec<_> = line.split(' ').collect();
        match words[..] {
            ["array", id, offset, list] => {
                let offset = offset.parse().ok()?;
                Some(Self::Array { id: id.parse().ok()?, offset, shards: parse_ranges(list)? })
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

fn parse_ranges(text: &str) -> Option<Vec<u32>> {
    let run = |text: &str| {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        Some(first.parse::<u32>().ok()?..=last.parse().ok()?)
    };
    let runs = text.split(',').map(run).collect::<Option<Vec<_>>>()?;
    Some(runs.into_iter().flatten().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn submissions_round_trip_except_half_a_line() {
        let temp = tempfile::tempdir().unwrap();
        let job = JobDirectory::create(&temp.path().join("job")).unwrap();
        fs::create_dir(job.slurm()).unwrap();
        assert_eq!(SlurmSubmission::read_all(&job), Ok(Vec::new()));
        let array = SlurmSubmission::Array { id: 4711, offset: 1000, shards: vec![1000, 1001, 1002, 1009] };
        let finish = SlurmSubmission::Finish { id: 4712 };
        [&array, &finish].into_iter().for_each(|submission| submission.append(&job).unwrap());
        let path = job.slurm().join("submissions");
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(text, "array 4711 1000 1000-1002,1009\nfinish 4712\n");
        fs::write(&path, format!("{text}array 47")).unwrap();
        assert_eq!(SlurmSubmission::read_all(&job), Ok(vec![array, finish]));
    }

    #[test]
    fn numbers_round_trip_as_ranges() {
        for numbers in [vec![3], vec![0, 1, 2], vec![0, 2, 3, 7, 8, 9, 11]] {
            assert_eq!(parse_ranges(&ranges(&numbers)), Some(numbers));
        }
        assert_eq!(parse_ranges(""), None);
    }
}
