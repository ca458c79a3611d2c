//! Choice among several network paths of a copy. At first all are used, each with the same number of streams. Their
//! rates during busy time are compared, and the best path is kept. There is no clock here: the engine supplies the
//! samples.

use std::collections::BTreeMap;

use crate::ids::PathId;

/// Warm-up time without comparison, while congestion windows still grow.
const WARM_UP_US: u64 = 500_000;
/// Time of the comparison.
const COMPARED_US: u64 = 1_000_000;
/// Rate that another path needs to replace the main one, in percent of the main one's.
const WORTH_PERCENT: u64 = 125;

/// Counters of a path since the start of the copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PathSample {
    /// The path.
    pub path: PathId,
    /// Number of its streams.
    pub streams: u16,
    /// Bytes acknowledged on all of them.
    pub acknowledged_bytes: u64,
    /// Time with data to send, summed over its streams.
    pub busy_us: u64,
}

/// The chosen path and its reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathChoice {
    /// The chosen path.
    pub path: PathId,
    /// Rate of each compared path, in bytes per second.
    pub bytes_per_s: BTreeMap<PathId, u64>,
}

/// Compares paths.
#[derive(Debug, Default)]
pub struct PathSelector {
    for_us: u64,
    /// Counters at the start of the comparison.
    since: BTreeMap<PathId, PathSample>,
}

impl PathSelector {
    /// Takes samples of all paths and returns the choice. The path `main` must be among them; it is kept unless another
    /// one is clearly better. `None` while there is no alternative or no result.
    pub fn select(&mut self, elapsed_us: u64, main: PathId, paths: &[PathSample]) -> Option<PathChoice> {
        let main_streams = paths.iter().find(|seen| seen.path == main)?.streams;
        // A path with fewer streams shows less than its capacity.
        let compared: Vec<_> = paths.iter().filter(|seen| seen.streams >= main_streams.max(1)).collect();
        if paths.len() < 2 {
            return None;
        }
        self.for_us = self.for_us.saturating_add(elapsed_us);
        if self.for_us < WARM_UP_US {
            return None;
        }
        if self.since.is_empty() {
            self.since = compared.iter().map(|seen| (seen.path, **seen)).collect();
            return None;
        }
        if self.for_us < WARM_UP_US + COMPARED_US {
            return None;
        }
        let bytes_per_s: BTreeMap<_, _> =
            compared.iter().filter_map(|seen| Some((seen.path, self.rate(seen)?))).collect();
        let best = bytes_per_s.iter().max_by_key(|(_, rate)| **rate);
        let of_main = bytes_per_s.get(&main).copied().unwrap_or(0);
        let path = match best {
            Some((path, rate)) if *rate > of_main.saturating_mul(WORTH_PERCENT) / 100 => *path,
            _ => main,
        };
        Some(PathChoice { path, bytes_per_s })
    }

    /// Returns a path's rate during its busy time; `None` without busy time.
    fn rate(&self, now: &PathSample) -> Option<u64> {
        let since = self.since.get(&now.path)?;
        let bytes = now.acknowledged_bytes.saturating_sub(since.acknowledged_bytes);
        let busy_us = now.busy_us.saturating_sub(since.busy_us) / u64::from(now.streams.max(1));
        let rate = u128::from(bytes) * 1_000_000 / u128::from(busy_us.max(1));
        (busy_us > 0).then(|| u64::try_from(rate).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE_US: u64 = 250_000;

    /// Returns the choice among a main path and others. Each has a rate in MB/s with two streams and a busy time in
    /// percent.
    fn judged(paths: &[(u64, u64)]) -> PathChoice {
        let mut judge = PathSelector::default();
        for look in 1..100 {
            let at = |(path, (mb_per_s, percent)): (u16, &(u64, u64))| {
                let busy_us = look * SAMPLE_US * percent / 100;
                PathSample {
                    path: PathId(path),
                    streams: 2,
                    acknowledged_bytes: mb_per_s * busy_us,
                    busy_us: 2 * busy_us,
                }
            };
            let seen: Vec<_> = (0..).zip(paths).map(at).collect();
            if let Some(choice) = judge.select(SAMPLE_US, PathId(0), &seen) {
                assert!((4..8).contains(&look), "after {look} looks");
                return choice;
            }
        }
        panic!("nothing was chosen");
    }

    #[test]
    fn a_clearly_faster_path_is_chosen() {
        assert_eq!(judged(&[(12, 100), (118, 100)]).path, PathId(1));
        assert_eq!(judged(&[(100, 100), (120, 100)]).path, PathId(0), "not for a fifth");
        assert_eq!(judged(&[(118, 100), (12, 100)]).path, PathId(0));
        assert_eq!(judged(&[(12, 100), (50, 100), (118, 100), (0, 100)]).path, PathId(2));
    }

    #[test]
    fn an_idle_path_is_not_blamed() {
        let choice = judged(&[(12, 100), (118, 10)]);
        assert_eq!((choice.path, choice.bytes_per_s[&PathId(1)] / 1_000_000), (PathId(1), 118));
        assert_eq!(judged(&[(118, 100), (0, 0)]).path, PathId(0), "nothing is known of the other one");
    }

    #[test]
    fn a_single_path_is_never_compared_and_one_with_fewer_streams_does_not_count() {
        let mut judge = PathSelector::default();
        let seen = |path, streams, acknowledged_bytes, busy_us| PathSample {
            path: PathId(path),
            streams,
            acknowledged_bytes,
            busy_us,
        };
        for look in 0..100 {
            assert_eq!(judge.select(SAMPLE_US, PathId(0), &[seen(0, 2, look * 9, look * 9)]), None);
            assert_eq!(judge.select(SAMPLE_US, PathId(0), &[]), None);
        }
        let few = |look: u64| [seen(0, 4, look * 1000, look * SAMPLE_US), seen(1, 1, look * 900_000, look * SAMPLE_US)];
        let choice = (1..100).find_map(|look| judge.select(SAMPLE_US, PathId(0), &few(look))).unwrap();
        assert_eq!((choice.path, choice.bytes_per_s.len()), (PathId(0), 1));
    }
}
