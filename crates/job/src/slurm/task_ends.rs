//! How tasks ended, by their scripts: `JOB/slurm/N.end` has a line for each unsuccessful run of shard N.
//!
//! ```text
//! n4 127 array.sh: 15: haul: not found
//! ```

use std::collections::BTreeSet;

use haul_show::text::harmless;

use crate::directory::JobDirectory;

/// Largest file read, in bytes.
const FILE_MAX: u64 = 64 << 10;

/// The end of an unsuccessful run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedTask {
    /// Slurm's name of its node; empty if unknown.
    pub node: String,
    /// Why, for people: the first line of its error, or its status.
    pub why: String,
}

impl FailedTask {
    /// The last unsuccessful run of a shard that a script recorded.
    pub fn last(job: &JobDirectory, shard: u32) -> Option<Self> {
        let text = job.slurm().join(format!("{shard}.end")).read_text_of(FILE_MAX).ok()??;
        Self::parse(text.lines().last()?)
    }

    /// Shards with a recorded unsuccessful run.
    pub fn shards(job: &JobDirectory) -> BTreeSet<u32> {
        let names = job.slurm().names().unwrap_or_default();
        names.iter().filter_map(|name| name.to_str()?.strip_suffix(".end")?.parse().ok()).collect()
    }

    fn parse(line: &str) -> Option<Self> {
        let mut words = line.splitn(3, ' ');
        let (node, status) = (words.next()?, words.next()?);
        let message = words.next().unwrap_or_default().trim();
        let message = message.strip_prefix("haul: ").unwrap_or(message);
        let why = if message.is_empty() { format!("status {status}") } else { format!("{message} (status {status})") };
        Some(Self { node: node.to_owned(), why: harmless(&why) })
    }

    /// `on n4: haul: not found (status 127)`
    pub fn shown(&self) -> String {
        match self.node.as_str() {
            "" => self.why.clone(),
            node => format!("on {}: {}", harmless(node), self.why),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_says_why() {
        let temp = tempfile::tempdir().unwrap();
        let job = JobDirectory::create(&temp.path().join("job")).unwrap();
        job.slurm().make_directory().unwrap();
        assert_eq!((FailedTask::last(&job, 7), FailedTask::shards(&job)), (None, BTreeSet::new()));
        job.slurm().join("7.end").replace(b"n1 4 \nn4 127 a.sh: 15: haul: not \x1bfound\n").unwrap();
        assert_eq!(FailedTask::last(&job, 7).unwrap().shown(), r"on n4: a.sh: 15: haul: not \u{1b}found (status 127)");
        assert_eq!(FailedTask::shards(&job), BTreeSet::from([7]));
        assert_eq!(FailedTask::parse("n1 4 ").unwrap().shown(), "on n1: status 4");
        assert_eq!(FailedTask::parse("n1 2 haul: no such cipher").unwrap().why, "no such cipher (status 2)");
    }
}
