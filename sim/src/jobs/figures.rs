//! Results of a simulated job.

use std::fmt;
use std::time::Duration;

use super::cluster::Cluster;
use super::workload::SimulatedPlan;

const MINUTE: Duration = Duration::from_secs(60);

/// When Slurm was called, in ascending order.
#[derive(Debug, Default)]
pub struct CallTimes {
    /// Arrays, with sbatch.
    pub submissions: Vec<Duration>,
    /// The queue, with squeue.
    pub queries: Vec<Duration>,
    /// Throttles, with scontrol.
    pub changes: Vec<Duration>,
}

/// Most of these times within a minute.
pub fn most_per_minute(times: &[Duration]) -> usize {
    let within = |(at, time): (usize, &Duration)| at + 1 - times.partition_point(|early| *early + MINUTE <= *time);
    times.iter().enumerate().map(within).max().unwrap_or_default()
}

/// Times of the nodes.
#[derive(Debug)]
pub struct NodeFigures {
    /// From the first start to the end of the last task.
    pub span: Duration,
    /// Time of all nodes in that, without tasks, of all time when they were not down; from 0 to 1.
    pub idle: f64,
    /// The end of the last task: of the median node.
    pub median_end: Duration,
    /// Of the last but one: a slow node may be the last.
    pub second_end: Duration,
    /// Of the last node.
    pub last_end: Duration,
    /// When the last task started.
    pub last_start: Duration,
}

impl NodeFigures {
    /// Sums up a cluster that is done.
    pub fn new(cluster: &Cluster) -> Self {
        let (first, last_start) = cluster.starts.unwrap_or_default();
        let mut ends: Vec<_> = cluster.node_times(first).iter().map(|times| times.last_end).collect();
        ends.sort();
        let end_of = |from_last: usize| ends.iter().rev().nth(from_last).copied().unwrap_or_default();
        let last_end = end_of(0);
        let times = cluster.node_times(last_end);
        let (busy, down) = times
            .iter()
            .fold((0.0, 0.0), |(busy, down), times| (busy + times.busy.as_secs_f64(), down + times.down.as_secs_f64()));
        let span = last_end.saturating_sub(first);
        let up = (span.as_secs_f64() * times.len() as f64 - down).max(f64::MIN_POSITIVE);
        let (median_end, second_end) = (end_of(ends.len() / 2), end_of(1));
        Self { span, idle: 1.0 - busy / up, median_end, second_end, last_end, last_start }
    }
}

/// A job's results, shown as a table.
#[derive(Debug)]
pub struct JobFigures {
    /// Its shards.
    pub plan: SimulatedPlan,
    /// When its end was noticed.
    pub ended: Duration,
    /// Of all shards, on nodes of full speed.
    pub work: Duration,
    /// Times of the nodes.
    pub nodes: NodeFigures,
    /// Calls of Slurm.
    pub calls: CallTimes,
    /// Tasks that failed nodes had.
    pub interrupted: u64,
    /// Shards whose tasks were lost too often.
    pub given_up: usize,
}

impl fmt::Display for JobFigures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { plan, nodes, .. } = self;
        let seconds = |time: Duration| format!("{:.0} s", time.as_secs_f64());
        let calls = |times: &[Duration]| {
            let minutes = (self.ended.as_secs_f64() / MINUTE.as_secs_f64()).max(1.0);
            let mean = times.len() as f64 / minutes;
            format!("{} ({mean:.1} a minute, at most {})", times.len(), most_per_minute(times))
        };
        let rows = [
            ("files or ranges", plan.files.to_string()),
            ("bytes", format!("{:.1} TB, the largest {:.3} TB", plan.bytes as f64 / 1e12, plan.largest as f64 / 1e12)),
            ("shards", plan.shards.len().to_string()),
            ("sizes and packing", format!("{:.1} s of real time", plan.packing_time.as_secs_f64())),
            ("walk", seconds(plan.walk_time)),
            ("work of all nodes", seconds(self.work)),
            ("first to last byte", seconds(nodes.span)),
            ("idle share of nodes", format!("{:.1} %", 100.0 * nodes.idle)),
            ("last start", seconds(nodes.last_start)),
            ("end, median node", seconds(nodes.median_end)),
            ("end, last node but one", seconds(nodes.second_end)),
            ("end, last node", seconds(nodes.last_end)),
            ("end of the job", seconds(self.ended)),
            ("arrays (sbatch)", calls(&self.calls.submissions)),
            ("queries (squeue)", calls(&self.calls.queries)),
            ("throttles (scontrol)", calls(&self.calls.changes)),
            ("tasks of failed nodes", self.interrupted.to_string()),
            ("shards given up", self.given_up.to_string()),
        ];
        rows.iter().try_for_each(|(name, figure)| writeln!(f, "{name:<24}{figure}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_minute_begins_at_any_call() {
        let times = |seconds: &[u64]| seconds.iter().copied().map(Duration::from_secs).collect::<Vec<_>>();
        assert_eq!(most_per_minute(&times(&[])), 0);
        assert_eq!(most_per_minute(&times(&[0, 50, 59, 60, 100, 200])), 4);
    }
}
