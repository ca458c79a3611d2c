//! Diagnosis of a running copy over the last seconds. The displayed bottleneck changes only when the new one has lasted
//! for a moment.

use std::collections::VecDeque;

use super::{Bottleneck, BottleneckDetail, CopyMeasurements, Verdict, diagnose};
use crate::wire::resource_metrics::ResourceMetrics;

/// Length of the displayed time window, in microseconds.
const WINDOW_US: u64 = 5_000_000;
/// Shortest copy that names a policer. For some seconds, random losses may look like one; over the whole copy they do not.
const POLICER_MIN_US: u64 = 2 * WINDOW_US;
/// Most reports kept for it.
const REPORTS_MAX: usize = 32;
/// Consecutive results needed to display a new bottleneck.
const HOLDS: u32 = 3;

/// The present bottleneck.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CurrentBottleneck {
    /// The bottleneck.
    pub limit: Bottleneck,
    /// Its share, 0 to 1.
    pub share: f64,
}

/// Both ends' reports of the last seconds.
#[derive(Debug, Default)]
pub struct BottleneckWatch {
    past: VecDeque<LoadReport>,
    shown: Option<CurrentBottleneck>,
    /// The displayed diagnosis with its evidence.
    verdict: Option<Verdict>,
    /// A new bottleneck, and its number of consecutive results.
    other: Option<(Bottleneck, u32)>,
}

#[derive(Debug, Clone, Copy)]
struct LoadReport {
    loads: [ResourceMetrics; 2],
    bytes: u64,
    files: u64,
}

impl BottleneckWatch {
    /// Records a report of an end: `case` covers the time since the copy's start.
    pub fn sample(&mut self, case: &CopyMeasurements) {
        let now = LoadReport { loads: [case.source, case.target], bytes: case.bytes, files: case.files };
        let elapsed = |report: &LoadReport| report.loads[0].elapsed_us.max(report.loads[1].elapsed_us);
        while self.past.len() >= REPORTS_MAX
            || self.past.get(1).is_some_and(|next| elapsed(&now).saturating_sub(elapsed(next)) >= WINDOW_US)
        {
            self.past.pop_front();
        }
        let nothing = LoadReport { loads: [ResourceMetrics::default(); 2], bytes: 0, files: 0 };
        let first = self.past.front().copied().unwrap_or(nothing);
        self.past.push_back(now);
        let between = CopyMeasurements {
            source: case.source.since(&first.loads[0]),
            target: case.target.since(&first.loads[1]),
            bytes: case.bytes.saturating_sub(first.bytes),
            files: case.files.saturating_sub(first.files),
            ..*case
        };
        let mut verdict = diagnose(&between);
        let is_sure = elapsed(&now) >= POLICER_MIN_US && diagnose(case).detail == verdict.detail;
        if verdict.detail == Some(BottleneckDetail::Policer) && !is_sure {
            verdict = Verdict { limit: Bottleneck::Congestion, detail: Some(BottleneckDetail::Loss), ..verdict };
        }
        self.show(CurrentBottleneck { limit: verdict.limit, share: verdict.share });
        if self.shown.is_some_and(|shown| shown.limit == verdict.limit) {
            self.verdict = Some(verdict);
        }
    }

    /// Returns the diagnosis of the last seconds; `None` before the first one.
    pub fn verdict(&self) -> Option<&Verdict> {
        self.verdict.as_ref()
    }

    /// Returns the present bottleneck; `None` where it is unknown or unclear.
    pub fn now(&self) -> Option<CurrentBottleneck> {
        self.shown.filter(|shown| shown.limit != Bottleneck::None)
    }

    fn show(&mut self, now: CurrentBottleneck) {
        match self.shown {
            Some(shown) if shown.limit != now.limit => {
                let times = self.other.filter(|(limit, _)| *limit == now.limit).map_or(1, |(_, times)| times + 1);
                self.other = Some((now.limit, times));
                if times < HOLDS {
                    return;
                }
            }
            _ => {}
        }
        (self.shown, self.other) = (Some(now), None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::resource_metrics::Stage;

    /// Returns a copy with one stream after these seconds, with its waits in these stages.
    fn case(seconds: u64, source: &[(Stage, u64)]) -> CopyMeasurements {
        let mut load = ResourceMetrics { elapsed_us: seconds * 1_000_000, ..ResourceMetrics::default() };
        for (stage, seconds) in source {
            load.stages[*stage as usize].wall_us = seconds * 1_000_000;
        }
        CopyMeasurements {
            source: load,
            target: load,
            is_one_worker: true,
            bytes: seconds << 20,
            ..CopyMeasurements::default()
        }
    }

    #[test]
    fn the_display_covers_the_last_seconds_and_changes_after_a_while() {
        let mut watch = BottleneckWatch::default();
        watch.sample(&case(0, &[]));
        assert_eq!(watch.now(), None);
        let limit = |watch: &BottleneckWatch| watch.now().map(|now| now.limit);
        for second in 1..=10 {
            watch.sample(&case(second, &[(Stage::Read, second)]));
        }
        assert_eq!(limit(&watch), Some(Bottleneck::SourceDisk));
        let shown: Vec<_> = (1..=8)
            .map(|second| {
                watch.sample(&case(10 + second, &[(Stage::Read, 10), (Stage::Write, second)]));
                limit(&watch)
            })
            .collect();
        assert_eq!(shown.first(), Some(&Some(Bottleneck::SourceDisk)));
        assert_eq!(shown.last(), Some(&Some(Bottleneck::TargetDisk)));
        assert_eq!(shown.windows(2).filter(|pair| pair[0] != pair[1]).count(), 1, "it does not flicker: {shown:?}");
        assert_eq!(watch.verdict().map(|verdict| verdict.limit), Some(Bottleneck::TargetDisk));
        assert!(watch.past.len() <= 7);
    }

    /// Returns a copy on a path with losses after these seconds. Its rate varies, except in the last `steady` of them.
    fn lossy(seconds: u64, steady: u64) -> CopyMeasurements {
        let mut case = case(seconds, &[(Stage::Send, seconds)]);
        case.is_one_worker = false;
        case.target.stages = Default::default();
        case.target.stages[Stage::Receive as usize].wall_us = seconds * 1_000_000;
        let sockets = &mut case.source.sockets;
        (sockets.busy_us, sockets.looks, sockets.spans) = (seconds * 1_000_000, 10 * seconds, 4 * seconds);
        (sockets.rtt_us, sockets.rtt_min_us) = (sockets.looks * 20_000, sockets.looks * 19_000);
        (sockets.segments, sockets.retransmitted) = (3000 * seconds, 30 * seconds);
        sockets.rate_kib = sockets.spans * 1000;
        sockets.rate_kib_squared = sockets.spans * 1000 * 1000 + 4 * (seconds - steady) * 400 * 400;
        case.source.present.bears_loss = true;
        case.source.present.streams = 1;
        case
    }

    #[test]
    fn losses_that_look_like_a_policer_for_a_moment_are_losses() {
        let shown = |steady_from: u64| {
            let mut watch = BottleneckWatch::default();
            (1..=30).for_each(|second: u64| watch.sample(&lossy(second, second.saturating_sub(steady_from))));
            watch.verdict().and_then(|verdict| verdict.detail)
        };
        let whole = |steady: u64| diagnose(&lossy(30, steady)).detail;
        assert_eq!((whole(8), whole(30)), (Some(BottleneckDetail::Loss), Some(BottleneckDetail::Policer)));
        assert_eq!(shown(22), Some(BottleneckDetail::Loss), "for eight seconds");
        assert_eq!(shown(0), Some(BottleneckDetail::Policer), "all the time");
        let mut watch = BottleneckWatch::default();
        (1..=8).for_each(|second| watch.sample(&lossy(second, second)));
        assert_eq!(watch.verdict().and_then(|verdict| verdict.detail), Some(BottleneckDetail::Loss), "too early");
    }
}
