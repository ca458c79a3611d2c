//! Exclusion of a copy's pauses from the diagnosis, since waits in a pause are meaningless.
//!
//! Both ends report their metrics a few times a second. A pause counts from the last report before it to the first one
//! of each end after it, so that the rest contains no pause.

use super::CopyMeasurements;
use crate::wire::resource_metrics::ResourceMetrics;

/// The pauses of a copy.
#[derive(Debug, Default)]
pub struct Pauses {
    /// Metrics of all finished pauses.
    over: PauseSpan,
    /// State at the start of the present pause, until both ends have reported after it.
    open: Option<PauseSpan>,
    /// Whether the copy is paused now.
    is_paused: bool,
    /// Ends that have reported since the copy resumed.
    reported: [bool; 2],
}

#[derive(Debug, Clone, Copy, Default)]
struct PauseSpan {
    loads: [ResourceMetrics; 2],
    bytes: u64,
    files: u64,
}

impl PauseSpan {
    /// Returns the totals since the start of the copy.
    fn of(case: &CopyMeasurements) -> Self {
        Self { loads: [case.source, case.target], bytes: case.bytes, files: case.files }
    }

    fn since(&self, earlier: &Self) -> Self {
        let [source, target] = &self.loads;
        Self {
            loads: [source.since(&earlier.loads[0]), target.since(&earlier.loads[1])],
            bytes: self.bytes.saturating_sub(earlier.bytes),
            files: self.files.saturating_sub(earlier.files),
        }
    }

    fn add(&mut self, other: &Self) {
        self.loads.iter_mut().zip(&other.loads).for_each(|(load, other)| load.add(other));
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.files = self.files.saturating_add(other.files);
    }
}

impl Pauses {
    /// Records a pause or its end. `case` covers the time since the copy's start.
    pub fn set(&mut self, is_paused: bool, case: &CopyMeasurements) {
        if is_paused {
            self.open.get_or_insert_with(|| PauseSpan::of(case));
        }
        (self.is_paused, self.reported) = (is_paused, [false; 2]);
    }

    /// Records reports of these ends; `case` covers the time since the copy's start.
    pub fn record_reports(&mut self, ends: impl IntoIterator<Item = usize>, case: &CopyMeasurements) {
        ends.into_iter().filter_map(|end| self.reported.get_mut(end).map(|reported| *reported = true)).for_each(drop);
        if !self.is_paused
            && self.reported == [true; 2]
            && let Some(open) = self.open.take()
        {
            self.over.add(&PauseSpan::of(case).since(&open));
        }
    }

    /// Whether the present time is, at least in part, a pause.
    pub fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Returns the measurements since the copy's start without its pauses.
    pub fn without(&self, case: &CopyMeasurements) -> CopyMeasurements {
        let mut out = self.over;
        if let Some(open) = &self.open {
            out.add(&PauseSpan::of(case).since(open));
        }
        let PauseSpan { loads: [source, target], bytes, files } = PauseSpan::of(case).since(&out);
        CopyMeasurements { source, target, bytes, files, ..*case }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnose::{Bottleneck, diagnose};
    use crate::wire::resource_metrics::Stage;

    /// Returns a copy with one stream, after these seconds of reads and pauses.
    fn case(read: u64, paused: u64) -> CopyMeasurements {
        let mut load = ResourceMetrics { elapsed_us: (read + paused) * 1_000_000, ..ResourceMetrics::default() };
        load.stages[Stage::Read as usize].wall_us = read * 1_000_000;
        load.stages[Stage::Pace as usize].wall_us = paused * 1_000_000;
        CopyMeasurements {
            source: load,
            target: load,
            is_one_worker: true,
            bytes: read << 20,
            files: read,
            ..CopyMeasurements::default()
        }
    }

    #[test]
    fn a_pause_however_long_does_not_change_the_verdict() {
        let mut pauses = Pauses::default();
        assert_eq!(diagnose(&case(4, 60)).limit, Bottleneck::RateLimit, "a verdict on the pause");
        pauses.set(true, &case(4, 0));
        pauses.record_reports([0, 1], &case(4, 30));
        assert!(pauses.is_open());
        assert_eq!(diagnose(&pauses.without(&case(4, 30))).limit, Bottleneck::SourceDisk);
        pauses.set(false, &case(4, 60));
        pauses.record_reports([0], &case(5, 60));
        assert!(pauses.is_open(), "the target may not have told of a time after it");
        pauses.record_reports([1], &case(5, 60));
        assert!(!pauses.is_open());
        let judged = pauses.without(&case(9, 60));
        assert_eq!((judged.source.elapsed_us, judged.bytes, judged.files), (8_000_000, 8 << 20, 8));
        assert_eq!(diagnose(&judged).limit, Bottleneck::SourceDisk);
    }

    #[test]
    fn pauses_add_up() {
        let mut pauses = Pauses::default();
        for at in 1..=3 {
            pauses.set(true, &case(at, 10 * (at - 1)));
            // Twice: it is one pause.
            pauses.set(true, &case(at, 10 * at - 5));
            pauses.set(false, &case(at, 10 * at));
            pauses.record_reports([0, 1], &case(at, 10 * at));
        }
        assert_eq!(pauses.without(&case(5, 30)).source, case(5, 0).source);
    }

    #[test]
    fn a_peers_invented_figures_do_not_overflow() {
        let mut pauses = Pauses::default();
        let huge = case(u64::MAX / 2_000_000, u64::MAX / 2_000_000);
        pauses.set(true, &huge);
        pauses.record_reports([0, 1, 7], &case(0, 0));
        pauses.set(false, &case(0, 0));
        pauses.record_reports([0, 1], &huge);
        assert_eq!(pauses.without(&case(1, 1)).bytes, 1 << 20);
    }
}
