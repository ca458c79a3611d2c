//! Modification times on file systems with coarser time stamps: without nanoseconds, with even seconds only, or of a
//! limited range.
//!
//! A time that is set and read back shows the granularity. Two times are equal where the second is the stored form of
//! the first.

use crate::entry::Timestamp;

/// A time that shows every granularity of `GRANULARITIES` when it is set and read back: an odd second, and no trailing
/// zeros.
pub const PROBE: Timestamp = Timestamp { seconds: 1_234_567_891, nanoseconds: 987_654_321 };

/// Granularities in nanoseconds: NTFS and SMB, microseconds, milliseconds, exFAT, ext3, FAT.
const GRANULARITIES: [u64; 6] = [100, 1_000, 1_000_000, 10_000_000, NANOSECONDS, 2 * NANOSECONDS];
const NANOSECONDS: u64 = 1_000_000_000;
/// Range of times that every file system in use keeps: FAT begins in 1980, ext3 ends in 2038.
const EVERYWHERE: std::ops::Range<i64> = 315_705_600..2_147_300_000;
/// First seconds of file systems with a limited range: ext3's, FAT's.
const FIRST_SECONDS: [i64; 2] = [-0x8000_0000, 315_532_800];
/// Last seconds: ext3's and XFS's, that of unsigned seconds, FAT's.
const LAST_SECONDS: [i64; 3] = [0x7fff_ffff, 0xffff_ffff, 4_354_819_198];
/// Largest change of a stored time on any file system in use.
const MOVED_MAX: u64 = 2 * NANOSECONDS;

/// Granularity of a file system's times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeGranularity {
    /// Nanoseconds.
    Exact,
    /// Multiples of this number of nanoseconds.
    Multiple(u64),
    /// Other: each time has to be tried.
    Other,
}

impl TimeGranularity {
    /// Derives the granularity from `found`, read back after [`PROBE`] was set.
    pub fn of(found: Timestamp) -> Self {
        if found == PROBE {
            return Self::Exact;
        }
        let fits = |unit: &&u64| floor(PROBE, **unit) == found;
        GRANULARITIES.iter().find(fits).map_or(Self::Other, |unit| Self::Multiple(*unit))
    }

    /// Returns the stored form of a time; `None` where only a trial shows it.
    pub fn stored(self, time: Timestamp) -> Option<Timestamp> {
        match self {
            _ if !EVERYWHERE.contains(&time.seconds) => None,
            Self::Exact => Some(time),
            Self::Multiple(unit) => Some(floor(time, unit)),
            Self::Other => None,
        }
    }
}

/// Whether `found` can be the stored form of `time`. For most differing times, this test is enough.
pub fn may_be_stored(time: Timestamp, found: Timestamp) -> bool {
    if !found.nanoseconds.is_multiple_of(100) {
        return false;
    }
    !EVERYWHERE.contains(&time.seconds) || nanoseconds(time).abs_diff(nanoseconds(found)) <= MOVED_MAX.into()
}

/// Whether `found` looks like the stored form of `time`, without setting a time. The file's time of `change` must be as
/// coarse, since no program sets it.
pub fn looks_stored(time: Timestamp, found: Timestamp, change: Timestamp) -> bool {
    let is_first = time < found && FIRST_SECONDS.contains(&found.seconds);
    let is_last = time > found && LAST_SECONDS.contains(&found.seconds);
    if found.nanoseconds == 0 && (is_first || is_last) {
        return true;
    }
    let mut fitting = GRANULARITIES.iter().filter(|unit| floor(time, **unit) == found);
    // A time of change may be kept to one second where the modification time is kept to two.
    fitting.any(|unit| floor(change, (*unit).min(NANOSECONDS)) == change)
}

/// Whether two times differ by at most `window_s` seconds; fractions do not count (rsync's `--modify-window`).
pub fn is_within(window_s: u32, one: Timestamp, other: Timestamp) -> bool {
    one.seconds.abs_diff(other.seconds) <= window_s.into()
}

/// Returns the last multiple of `unit` nanoseconds.
fn floor(time: Timestamp, unit: u64) -> Timestamp {
    let whole = nanoseconds(time).div_euclid(unit.into()) * i128::from(unit);
    let second = i128::from(NANOSECONDS);
    Timestamp {
        seconds: i64::try_from(whole.div_euclid(second)).unwrap_or(i64::MIN),
        nanoseconds: u32::try_from(whole.rem_euclid(second)).unwrap_or(0),
    }
}

fn nanoseconds(time: Timestamp) -> i128 {
    i128::from(time.seconds) * i128::from(NANOSECONDS) + i128::from(time.nanoseconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64, nanoseconds: u32) -> Timestamp {
        Timestamp { seconds, nanoseconds }
    }

    #[test]
    fn a_probe_shows_the_granularity() {
        assert_eq!(TimeGranularity::of(PROBE), TimeGranularity::Exact);
        for unit in GRANULARITIES {
            assert_eq!(TimeGranularity::of(floor(PROBE, unit)), TimeGranularity::Multiple(unit));
        }
        assert_eq!(TimeGranularity::of(at(1, 0)), TimeGranularity::Other);
        assert_eq!(TimeGranularity::of(at(PROBE.seconds + 1, 0)), TimeGranularity::Other, "rounded up");
    }

    #[test]
    fn a_stored_time_is_the_multiple_before_it() {
        let fat = TimeGranularity::Multiple(2 * NANOSECONDS);
        assert_eq!(fat.stored(at(1_000_000_001, 999)), Some(at(1_000_000_000, 0)));
        assert_eq!(TimeGranularity::Multiple(100).stored(at(1_000_000_001, 999)), Some(at(1_000_000_001, 900)));
        assert_eq!(TimeGranularity::Exact.stored(at(1_000_000_001, 999)), Some(at(1_000_000_001, 999)));
        // Out of range of some file system: only a trial shows the result.
        for seconds in [-1, 0, 300_000_000, 1 << 31, i64::MIN, i64::MAX] {
            assert_eq!(fat.stored(at(seconds, 5)), None);
            assert_eq!(TimeGranularity::Exact.stored(at(seconds, 5)), None);
        }
        assert_eq!(floor(at(-1, 5), NANOSECONDS), at(-1, 0));
        assert_eq!(floor(at(-1, 5), 2 * NANOSECONDS), at(-2, 0));
    }

    #[test]
    fn only_possibly_equal_times_are_queried() {
        let time = at(1_000_000_001, 123_456_789);
        assert!(may_be_stored(time, at(1_000_000_001, 0)) && may_be_stored(time, at(1_000_000_000, 0)));
        assert!(may_be_stored(time, at(1_000_000_001, 123_456_700)));
        assert!(!may_be_stored(time, at(1_000_000_001, 123_456_788)));
        assert!(!may_be_stored(time, at(1_000_000_005, 0)));
        assert!(may_be_stored(at(-5, 7), at(315_532_800, 0)), "FAT begins in 1980");
        assert!(may_be_stored(at(i64::MAX, 0), at(i64::MIN, 0)));
    }

    #[test]
    fn a_coarse_time_of_change_shows_a_coarse_file_system() {
        let time = at(1_000_000_001, 123_456_789);
        let (second, even) = (at(1_000_000_001, 0), at(1_000_000_000, 0));
        assert!(looks_stored(time, second, at(1_700_000_001, 0)));
        assert!(!looks_stored(time, second, at(1_700_000_001, 5)), "nanoseconds are kept here");
        assert!(looks_stored(time, even, at(1_700_000_000, 0)));
        assert!(!looks_stored(time, at(1_000_000_002, 0), at(1_700_000_000, 0)));
        assert!(looks_stored(time, at(1_000_000_001, 123_456_700), at(1_700_000_001, 1_100)));
        // Out of the file system's range.
        assert!(looks_stored(at(5_000_000_000, 5), at(0x7fff_ffff, 0), at(1_700_000_001, 0)));
        assert!(looks_stored(at(5, 5), at(315_532_800, 0), at(1_700_000_001, 0)));
        assert!(!looks_stored(at(5, 5), at(0x7fff_ffff, 0), at(1_700_000_001, 0)));
    }

    #[test]
    fn a_window_counts_full_seconds() {
        assert!(is_within(0, at(5, 1), at(5, 999)) && !is_within(0, at(5, 999_999_999), at(6, 0)));
        assert!(is_within(2, at(5, 0), at(3, 999)) && !is_within(2, at(5, 0), at(2, 999)));
        assert!(!is_within(u32::MAX, at(i64::MAX, 0), at(i64::MIN, 0)));
    }
}
