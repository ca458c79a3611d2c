//! Totals of a copy, from the counters of its attempts.
//!
//! A file copied by one attempt exists for the next, and the last work of a broken attempt is never reported. So
//! existing files of an attempt count as copied by this copy, up to the number of files that earlier attempts found
//! missing. Only the excess counts as present before the copy.

use haul_base::copy::summary::{CopyTimes, Summary, TransferTotals};
use haul_proto::sync::SyncCounters;
use haul_proto::wire::counters::Counters;

/// Accumulates attempts.
#[derive(Debug, Default, Clone)]
pub struct CopyTotals {
    files: TargetBefore,
    bytes: TargetBefore,
    frames_resent: u64,
    bytes_on_wire: u64,
    sync: SyncCounters,
}

/// Known state of the target before the copy.
#[derive(Debug, Default, Clone, Copy)]
struct TargetBefore {
    there: u64,
    /// The largest amount found, which bounds the amount present now.
    found: u64,
}

impl TargetBefore {
    /// Records an attempt that found `found`; `there` of them existed already.
    fn record_attempt(&mut self, found: u64, there: u64) {
        let from_this_copy = self.found.saturating_sub(self.there);
        self.there = self.there.max(there.saturating_sub(from_this_copy));
        self.found = self.found.max(found);
    }
}

impl CopyTotals {
    /// Adds a broken attempt's counters of source and target, and of the sync options. Files left at the source are
    /// found again.
    pub fn add(&mut self, [source, target]: &[Counters; 2], sync: SyncCounters) {
        self.sync = self.sync.plus(SyncCounters { left_at_source: 0, ..sync });
        let failed = source.failed.saturating_add(target.failed);
        self.files.record_attempt(source.files_found.saturating_sub(failed), target.files_skipped);
        self.bytes.record_attempt(source.bytes_found, target.bytes_skipped);
        self.frames_resent = self.frames_resent.saturating_add(target.frames_resent);
        self.bytes_on_wire = self.bytes_on_wire.saturating_add(source.bytes_on_wire);
    }

    /// Turns the last attempt's summary into that of the copy, with its number of `restarts`. The time is still that of
    /// the attempt.
    pub fn complete(mut self, last: Summary, restarts: u32) -> Summary {
        self.files.record_attempt(0, last.files.skipped);
        self.bytes.record_attempt(0, last.files.bytes_skipped);
        let all = |copied: u64, skipped: u64| copied.saturating_add(skipped);
        Summary {
            files: TransferTotals {
                copied: all(last.files.copied, last.files.skipped).saturating_sub(self.files.there),
                skipped: self.files.there,
                bytes: all(last.files.bytes, last.files.bytes_skipped).saturating_sub(self.bytes.there),
                bytes_skipped: self.bytes.there,
                ..last.files
            },
            counters: Counters {
                frames_resent: self.frames_resent.saturating_add(last.counters.frames_resent),
                bytes_on_wire: self.bytes_on_wire.saturating_add(last.counters.bytes_on_wire),
                ..last.counters
            },
            sync: last.sync.plus(self.sync),
            times: CopyTimes { restarts, ..last.times },
            ..last
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns counters of an attempt with files of ten bytes.
    fn ends(found: u64, copied: u64, there: u64) -> [Counters; 2] {
        let source =
            Counters { files_found: found, bytes_found: 10 * found, bytes_on_wire: 11 * copied, ..Counters::default() };
        let target = Counters {
            files_copied: copied,
            bytes_written: 10 * copied,
            files_skipped: there,
            bytes_skipped: 10 * there,
            frames_resent: 1,
            ..Counters::default()
        };
        [source, target]
    }

    /// Returns files copied and skipped, after broken attempts and a complete last one.
    fn totals(broken: &[(u64, u64, u64)], copied: u64, there: u64) -> (u64, u64) {
        let mut totals = CopyTotals::default();
        broken
            .iter()
            .for_each(|&(found, copied, there)| totals.add(&ends(found, copied, there), SyncCounters::default()));
        let files = TransferTotals {
            copied,
            skipped: there,
            bytes: 10 * copied,
            bytes_skipped: 10 * there,
            ..TransferTotals::default()
        };
        let last = Summary { files, ..Summary::default() };
        let all = totals.complete(last, 1);
        assert_eq!((all.files.bytes, all.files.bytes_skipped), (10 * all.files.copied, 10 * all.files.skipped));
        assert_eq!(all.times.restarts, 1);
        (all.files.copied, all.files.skipped)
    }

    #[test]
    fn an_earlier_attempts_copies_do_not_count_as_existing() {
        assert_eq!(totals(&[(100, 40, 0)], 160, 40), (200, 0));
        assert_eq!(totals(&[(100, 40, 0), (150, 30, 40)], 130, 70), (200, 0));
        assert_eq!(totals(&[(0, 0, 0)], 200, 0), (200, 0), "it broke before anything was counted");
    }

    #[test]
    fn nor_do_copies_after_its_last_report() {
        assert_eq!(totals(&[(100, 40, 0)], 105, 95), (200, 0));
    }

    #[test]
    fn existing_files_are_reported_whenever_they_are_found() {
        assert_eq!(totals(&[(100, 50, 50)], 100, 100), (150, 50), "in the first attempt");
        assert_eq!(totals(&[(100, 50, 50)], 50, 150), (100, 100), "also in the second");
        assert_eq!(totals(&[(0, 0, 0)], 50, 150), (50, 150), "only in the second");
        assert_eq!(totals(&[], 50, 150), (50, 150), "without any break");
    }

    #[test]
    fn repeated_work_counts_again() {
        let mut totals = CopyTotals::default();
        let figures = |removed, left_at_source| SyncCounters { removed, left_at_source, ..SyncCounters::default() };
        totals.add(&ends(10, 5, 0), figures(7, 3));
        let counters = Counters { frames_resent: 2, bytes_on_wire: 100, ..Counters::default() };
        let last = Summary { counters, sync: figures(2, 4), ..Summary::default() };
        let all = totals.complete(last, 1);
        assert_eq!((all.counters.frames_resent, all.counters.bytes_on_wire), (3, 155));
        assert_eq!(all.sync, figures(9, 4), "what was removed is gone, and what was left is found again");
    }
}
