//! The results of all shards as one summary.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::directory::JobDirectory;
use crate::error::JobError;
use crate::overview::{JobOverview, LastStep, ShardState};
use crate::shard_result::{ShardCounts, ShardEnd, ShardResult};

/// Most slowest shards listed.
const SLOWEST: usize = 10;

/// The results of one host.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HostTotals {
    /// Shards with their last run on this host.
    pub shards: u64,
    /// Bytes that they wrote.
    pub bytes: u64,
    /// Total seconds of their runs.
    pub seconds: f64,
}

impl HostTotals {
    /// Bytes per second of a shard's run.
    pub fn bytes_per_s(&self) -> f64 {
        self.bytes as f64 / self.seconds.max(0.001)
    }
}

/// All results together.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MergedReport {
    /// Shards that are done.
    pub shards_done: u64,
    /// Shards with another end, by its word.
    pub other_ends: BTreeMap<&'static str, u64>,
    /// All shards.
    pub shards: u64,
    /// Files copied, or compared by a job that verifies.
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
    /// Data that all runs wrote, or compared: no holes.
    pub moved: u64,
    /// Extraneous entries deleted by the last step.
    pub deleted: u64,
    /// Entries that the last step left out, with the reason.
    pub left_out: Vec<(String, u64)>,
    /// Bytes of ranges, verified as they arrived. Files in ranges get their names without being read again.
    pub range_bytes: u64,
    /// Whether source and target are equal, once compared.
    pub is_same: Option<bool>,
    /// Runs beyond the first of each shard.
    pub reruns: u64,
    /// Time in which any shard ran, in its last run, by the hosts' clocks.
    pub seconds: f64,
    /// The slowest shards, the slowest first: number, seconds, host.
    pub slowest: Vec<(u32, f64, String)>,
    /// By host.
    pub hosts: BTreeMap<String, HostTotals>,
}

impl MergedReport {
    /// The report of all ended parts.
    pub fn of(overview: &JobOverview) -> Self {
        let mut report = Self::of_shards(overview);
        if let Some(LastStep { is_same, failed, vanished, moved, deleted, left_out }) = &overview.last_step {
            (report.is_same, report.failed, report.vanished) = (*is_same, *failed, *vanished);
            (report.moved, report.deleted, report.left_out) = (*moved, *deleted, left_out.clone());
        }
        report
    }

    /// The report of all ended shards, without the last step.
    pub fn of_shards(overview: &JobOverview) -> Self {
        let mut report = Self { shards: overview.shards.len() as u64, ..Self::default() };
        let mut runs = Vec::new();
        let (mut failed_files, mut vanished_files) = (BTreeSet::new(), BTreeSet::new());
        for (shard, state) in &overview.shards {
            let ShardState::Ended(result) = state else { continue };
            report.add(result);
            let is_range = shard.range.is_some() && result.end == ShardEnd::Done && result.counts.vanished == 0;
            report.range_bytes = report.range_bytes.saturating_add(if is_range { shard.bytes } else { 0 });
            // A file with several such ranges counts once.
            let counted = |count: u64, seen: &mut BTreeSet<u64>| match shard.range {
                Some(_) if count > 0 && !seen.insert(shard.first_of_file()) => 0,
                _ => count,
            };
            let ShardCounts { failed, vanished, .. } = result.counts;
            report.failed = report.failed.saturating_add(counted(failed, &mut failed_files));
            report.vanished = report.vanished.saturating_add(counted(vanished, &mut vanished_files));
            runs.push((result.began, result.began + result.seconds));
        }
        report.seconds = covered_s(runs);
        report.slowest.sort_by(|a, b| b.1.total_cmp(&a.1));
        report.slowest.truncate(SLOWEST);
        report
    }

    fn add(&mut self, result: &ShardResult) {
        match result.end {
            ShardEnd::Done => self.shards_done += 1,
            end => *self.other_ends.entry(end.word()).or_default() += 1,
        }
        let ShardCounts { files_copied, files_skipped, failed: _, vanished: _, bytes, bytes_skipped } = result.counts;
        let sums = [
            (&mut self.files_copied, files_copied),
            (&mut self.files_skipped, files_skipped),
            (&mut self.bytes, bytes),
            (&mut self.bytes_skipped, bytes_skipped),
        ];
        for (sum, more) in sums {
            *sum = sum.saturating_add(more);
        }
        self.moved = self.moved.saturating_add(result.progress.moved);
        self.reruns += u64::from(result.attempts.saturating_sub(1));
        self.slowest.push((result.shard, result.seconds, result.host.clone()));
        let host = self.hosts.entry(result.host.clone()).or_default();
        host.shards += 1;
        host.bytes = host.bytes.saturating_add(bytes);
        host.seconds += result.seconds;
    }

    /// Bytes that nobody has read since they were written.
    pub fn bytes_not_reread(&self) -> u64 {
        if self.is_same.is_some() { 0 } else { self.range_bytes }
    }

    /// Bytes per second of all hosts together.
    pub fn bytes_per_s(&self) -> f64 {
        if self.seconds > 0.0 { self.bytes as f64 / self.seconds } else { 0.0 }
    }

    /// The report as JSON.
    pub fn json(&self) -> Value {
        let host = |(name, totals): (&String, &HostTotals)| {
            json!({
                "host": name, "shards": totals.shards, "bytes": totals.bytes, "seconds": totals.seconds,
                "bytes_per_s": totals.bytes_per_s(),
            })
        };
        let slow =
            |(shard, seconds, host): &(u32, f64, String)| json!({ "shard": shard, "seconds": seconds, "host": host });
        json!({
            "shards": self.shards,
            "shards_done": self.shards_done,
            "files_copied": self.files_copied,
            "files_skipped": self.files_skipped,
            "failed": self.failed,
            "vanished": self.vanished,
            "bytes": self.bytes,
            "bytes_skipped": self.bytes_skipped,
            "moved": self.moved,
            "deleted": self.deleted,
            "left_out": self.left_out.iter().map(|(reason, count)| json!([reason, count])).collect::<Vec<_>>(),
            "bytes_not_reread": self.bytes_not_reread(),
            "reruns": self.reruns,
            "seconds": self.seconds,
            "bytes_per_s": self.bytes_per_s(),
            "slowest": self.slowest.iter().map(slow).collect::<Vec<_>>(),
            "hosts": self.hosts.iter().map(host).collect::<Vec<_>>(),
        })
    }
}

/// Seconds covered by runs, overlaps once.
fn covered_s(mut runs: Vec<(f64, f64)>) -> f64 {
    runs.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut until = f64::NEG_INFINITY;
    let mut sum = 0.0;
    for (begin, end) in runs {
        sum += (end - begin.max(until)).max(0.0);
        until = until.max(end);
    }
    sum
}

/// Records that the job is finished. `finish` is the summary of the last step.
pub fn write(job: &JobDirectory, report: &MergedReport, finish: &Value) -> Result<(), JobError> {
    let mut value = report.json();
    value["finish"] = finish.clone();
    value["verified"] = Value::from(report.is_same);
    job.report().replace(format!("{value:#}\n").as_bytes())
}

/// Adds the result of the comparison to the report of a finished job.
pub fn record_verified(job: &JobDirectory, is_same: bool) -> Result<(), JobError> {
    let report = job.report();
    let damaged = |why: &str| JobError::damaged(report.path(), why);
    let text = report.read_text()?.ok_or_else(|| damaged("it is gone"))?;
    let mut value: Value = serde_json::from_str(&text).map_err(|error| damaged(&error.to_string()))?;
    value["verified"] = Value::from(is_same);
    value["bytes_not_reread"] = Value::from(0);
    report.replace(format!("{value:#}\n").as_bytes())
}

#[cfg(test)]
mod tests {
    use haul_base::copy::spec::{PlannedVersion, RangeLen};
    use haul_proto::entry::Timestamp;

    use super::*;
    use crate::plan_index::{PlannedRange, PlannedShard};
    use crate::shard_result::tests::result;

    #[test]
    fn a_file_with_several_failed_ranges_counts_once() {
        let time = Timestamp::default();
        let version = PlannedVersion { size: 1 << 22, inode: 1, modified: time, changed: time };
        let of_file = |first: u32| {
            (0..4).map(move |at| {
                let range = PlannedRange { number: at, ranges: 4, len: RangeLen::MIN, version };
                let number = first + u32::try_from(at).unwrap();
                let shard = PlannedShard { number, files: u64::from(at == 0), bytes: 1 << 20, range: Some(range) };
                let end = if at == 0 { ShardEnd::Done } else { ShardEnd::Incomplete };
                let mut result = result(number, end, "n1", 1.0);
                result.counts.vanished = u64::from(at > 1);
                (shard, ShardState::Ended(Box::new(result)))
            })
        };
        let overview = JobOverview::of_shards(of_file(0).chain(of_file(4)).collect());
        let report = MergedReport::of(&overview);
        assert_eq!((report.failed, report.vanished, report.shards_done), (2, 2, 2));
        assert_eq!(report.bytes_not_reread(), 2 << 20, "of the two ranges that are done");
        let compared = MergedReport { is_same: Some(true), ..report };
        assert_eq!(compared.bytes_not_reread(), 0);
    }

    #[test]
    fn a_comparison_leaves_no_bytes_unread() {
        let temp = tempfile::tempdir().unwrap();
        let job = JobDirectory::create(&temp.path().join("job")).unwrap();
        write(&job, &MergedReport { range_bytes: 5, ..MergedReport::default() }, &Value::Null).unwrap();
        let unread = || {
            let value: Value = serde_json::from_str(&job.report().read_text().unwrap().unwrap()).unwrap();
            (value["bytes_not_reread"].clone(), value["verified"].clone())
        };
        assert_eq!(unread(), (5.into(), Value::Null));
        record_verified(&job, true).unwrap();
        assert_eq!(unread(), (0.into(), true.into()));
    }

    #[test]
    fn a_pause_between_runs_is_no_time_of_the_job() {
        assert_eq!(covered_s(vec![(10.0, 20.0), (0.0, 4.0), (3.0, 5.0), (11.0, 12.0)]), 15.0);
        assert_eq!(covered_s(Vec::new()), 0.0);
    }

    #[test]
    fn results_add_up_by_host() {
        let ends = [(ShardEnd::Done, "n1", 2.0), (ShardEnd::Failed, "n2", 8.0), (ShardEnd::Done, "n1", 4.0)];
        let mut shards: Vec<_> = (0..)
            .zip(ends)
            .map(|(number, (end, host, seconds))| {
                let shard = PlannedShard { number, files: 12, bytes: 1005, range: None };
                (shard, ShardState::Ended(Box::new(result(number, end, host, seconds))))
            })
            .collect();
        shards.push((PlannedShard { number: 3, files: 1, bytes: 1, range: None }, ShardState::Planned));
        let overview = JobOverview::of_shards(shards);
        let report = MergedReport::of(&overview);
        assert_eq!((report.shards, report.shards_done, report.failed, report.bytes), (4, 2, 1, 3000));
        assert_eq!(report.other_ends, BTreeMap::from([("failed", 1)]));
        assert_eq!((report.seconds, report.bytes_per_s()), (8.0, 375.0));
        assert_eq!(report.slowest.iter().map(|slow| slow.0).collect::<Vec<_>>(), [1, 2, 0]);
        assert_eq!(report.hosts["n1"], HostTotals { shards: 2, bytes: 2000, seconds: 6.0 });
        assert_eq!(report.json()["hosts"][1]["bytes_per_s"], 125.0);
        assert_eq!((overview.missing(), overview.ended(ShardEnd::Failed), report.vanished), (vec![1, 3], 1, 3));
    }
}
