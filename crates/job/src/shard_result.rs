//! The result of a shard: `JOB/results/N.json`, replaced by each run.

use std::io::Write;

use serde_json::{Value, json};

use crate::directory::JobDirectory;
use crate::error::JobError;
use crate::shard_lock::{LockedWork, holder};
use crate::shard_progress::ShardProgress;
use crate::this_host::{host_name, unix_seconds};

/// Largest result, in bytes.
const FILE_MAX: u64 = 1 << 20;

/// The end of a shard's run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShardEnd {
    /// Everything that has not vanished is at the target and verified; or everything was compared, and `failed` counts differences.
    Done,
    /// Each file was tried, and some failed.
    Incomplete,
    /// The whole copy failed.
    Failed,
    /// Stopped, or lost its connection: another run resumes it.
    Interrupted,
}

impl ShardEnd {
    const WORDS: [(Self, &'static str); 4] = [
        (Self::Done, "done"),
        (Self::Incomplete, "incomplete"),
        (Self::Failed, "failed"),
        (Self::Interrupted, "interrupted"),
    ];

    /// Whether each file was tried, so that the job can be finished.
    pub fn has_tried_all(self) -> bool {
        matches!(self, Self::Done | Self::Incomplete)
    }

    /// Its word in results and tables.
    pub fn word(self) -> &'static str {
        Self::WORDS.into_iter().find(|(end, _)| *end == self).map_or("", |(_, word)| word)
    }

    fn of_word(word: &str) -> Option<Self> {
        Self::WORDS.into_iter().find(|(_, known)| *known == word).map(|(end, _)| end)
    }
}

/// The counts of files of a shard's run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ShardCounts {
    /// Files copied, or compared.
    pub files_copied: u64,
    /// Files present before.
    pub files_skipped: u64,
    /// Files that failed, or that differ.
    pub failed: u64,
    /// Files that vanished after the plan.
    pub vanished: u64,
    /// Bytes written, or compared.
    pub bytes: u64,
    /// Bytes of files present before.
    pub bytes_skipped: u64,
}

/// The result of a shard's last run.
#[derive(Debug, Clone, PartialEq)]
pub struct ShardResult {
    /// The shard.
    pub shard: u32,
    /// Its end.
    pub end: ShardEnd,
    /// Its host.
    pub host: String,
    /// The target that it wrote to.
    pub target: String,
    /// Its start, in seconds since 1970.
    pub began: f64,
    /// Its duration.
    pub seconds: f64,
    /// Runs of this shard, including this one.
    pub attempts: u32,
    /// Counts of its files.
    pub counts: ShardCounts,
    /// Progress at the target.
    pub progress: ShardProgress,
    /// The error of the whole run; empty without one.
    pub message: String,
    /// The summary of the copy, as in `--json`.
    pub summary: Value,
}

impl ShardResult {
    /// Replaces the shard's result. An interrupted further run leaves the result of a complete one.
    pub fn write(&self, job: &JobDirectory) -> Result<(), JobError> {
        let earlier = Self::read(job, self.shard)?;
        let had_tried_all = earlier.is_some_and(|earlier| earlier.end.has_tried_all());
        if had_tried_all && self.end == ShardEnd::Interrupted {
            return Ok(());
        }
        let value = json!({
            "shard": self.shard,
            "state": self.end.word(),
            "host": self.host,
            "target": self.target,
            "began": self.began,
            "seconds": self.seconds,
            "attempts": self.attempts,
            "files_copied": self.counts.files_copied,
            "files_skipped": self.counts.files_skipped,
            "failed": self.counts.failed,
            "vanished": self.counts.vanished,
            "bytes": self.counts.bytes,
            "bytes_skipped": self.counts.bytes_skipped,
            "progress": self.progress.json(),
            "message": self.message,
            "summary": self.summary,
        });
        job.result(self.shard).replace(format!("{value}\n").as_bytes())
    }

    /// The result of a shard; `None` before its first run has ended.
    pub fn read(job: &JobDirectory, shard: u32) -> Result<Option<Self>, JobError> {
        let file = job.result(shard);
        let Some(text) = file.read_text_of(FILE_MAX)? else { return Ok(None) };
        let value: Value = serde_json::from_str(&text).unwrap_or_default();
        let damaged = || JobError::damaged(file.path(), "this is no result of a shard");
        Self::parse(shard, value).map(Some).ok_or_else(damaged)
    }

    fn parse(shard: u32, mut value: Value) -> Option<Self> {
        let text = |name: &str| value[name].as_str().map(str::to_owned);
        let number = |name: &str| value[name].as_u64();
        Some(Self {
            shard: number("shard").filter(|number| *number == u64::from(shard)).map(|_| shard)?,
            end: ShardEnd::of_word(&text("state")?)?,
            host: text("host")?,
            target: text("target")?,
            began: value["began"].as_f64()?,
            seconds: value["seconds"].as_f64()?,
            attempts: number("attempts").and_then(|attempts| u32::try_from(attempts).ok())?,
            counts: ShardCounts {
                files_copied: number("files_copied")?,
                files_skipped: number("files_skipped")?,
                failed: number("failed")?,
                vanished: number("vanished")?,
                bytes: number("bytes")?,
                bytes_skipped: number("bytes_skipped")?,
            },
            progress: ShardProgress::parse(&value["progress"]),
            message: text("message")?,
            summary: value["summary"].take(),
        })
    }
}

/// The end of a shard's last run, and the most progress of any run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RecordedShard {
    /// The end; `None` before the first run has ended.
    pub end: Option<ShardEnd>,
    /// The progress by the last result or heartbeat.
    pub progress: ShardProgress,
}

impl RecordedShard {
    /// Reads it.
    pub fn read(job: &JobDirectory, shard: u32) -> Result<Self, JobError> {
        let result = ShardResult::read(job, shard)?;
        let (end, progress) = result.map_or_else(Default::default, |result| (Some(result.end), result.progress));
        let running = holder(job, LockedWork::Shard(shard)).map(|holder| holder.progress).unwrap_or_default();
        Ok(Self { end, progress: progress.max(running) })
    }
}

/// Records the start of a run. Returns the number of runs, including this one.
pub fn count_attempt(job: &JobDirectory, shard: u32) -> Result<u32, JobError> {
    let attempts = job.attempts(shard);
    let line = format!("{:.0} {} {}\n", unix_seconds(), host_name(), std::process::id());
    let wrong = |error: std::io::Error| JobError::io(attempts.path(), &error);
    attempts.append().and_then(|mut file| file.write_all(line.as_bytes())).map_err(wrong)?;
    let counted = attempts.read_text()?.unwrap_or_default().lines().count();
    Ok(u32::try_from(counted).unwrap_or(u32::MAX))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A result of a shard on `host`.
    pub fn result(shard: u32, end: ShardEnd, host: &str, seconds: f64) -> ShardResult {
        ShardResult {
            shard,
            end,
            host: host.to_owned(),
            target: "dtn1:/a".to_owned(),
            began: 1000.0,
            seconds,
            attempts: 1,
            counts: ShardCounts {
                files_copied: 10,
                files_skipped: 2,
                failed: u64::from(matches!(end, ShardEnd::Failed | ShardEnd::Incomplete)),
                vanished: 1,
                bytes: 1000,
                bytes_skipped: 5,
            },
            progress: ShardProgress { files: 12, bytes: 1005, moved: 0 },
            message: String::new(),
            summary: json!({ "restarts": 1 }),
        }
    }

    #[test]
    fn results_replace_each_other_and_done_outlasts_an_interruption() {
        let temp = tempfile::tempdir().unwrap();
        let job = JobDirectory::create(&temp.path().join("job")).unwrap();
        assert_eq!(ShardResult::read(&job, 1), Ok(None));
        for (end, expected) in [
            (ShardEnd::Interrupted, ShardEnd::Interrupted),
            (ShardEnd::Failed, ShardEnd::Failed),
            (ShardEnd::Done, ShardEnd::Done),
            (ShardEnd::Interrupted, ShardEnd::Done),
            (ShardEnd::Incomplete, ShardEnd::Incomplete),
            (ShardEnd::Interrupted, ShardEnd::Incomplete),
            (ShardEnd::Failed, ShardEnd::Failed),
        ] {
            result(1, end, "n1", 1.5).write(&job).unwrap();
            assert_eq!(ShardResult::read(&job, 1), Ok(Some(result(1, expected, "n1", 1.5))));
        }
        job.running().join("000001.3").replace(br#"{"progress":{"files":2,"bytes":2000}}"#).unwrap();
        let progress = ShardProgress { files: 12, bytes: 2000, moved: 0 };
        assert_eq!(RecordedShard::read(&job, 1), Ok(RecordedShard { end: Some(ShardEnd::Failed), progress }));
        std::fs::rename(job.result(1).path(), job.result(2).path()).unwrap();
        assert!(ShardResult::read(&job, 2).is_err(), "that of another shard");
        assert_eq!([count_attempt(&job, 1), count_attempt(&job, 1)], [Ok(1), Ok(2)]);
    }
}
