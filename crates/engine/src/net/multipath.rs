//! The paths between two ends: selects the paths in use, the streams to close, and the streams to open.
//!
//! The main path is the path of the first stream, until another proves better. Other paths are used while they are
//! compared with it, or to the end of the copy if requested. A path without any acknowledgement is left for another.
//!
//! The path through the control channel serves until a direct one is up. It replaces them for good if nothing sent over
//! them is acknowledged while the control channels work, as their controller says.

use std::collections::BTreeMap;
use std::time::Duration;

use haul_proto::ids::{PathId, StreamId};
use haul_proto::limits::LINKS_MAX;
use haul_proto::path_selection::{PathChoice, PathSample, PathSelector};
use haul_proto::stream_recovery::StreamRecovery;
use haul_proto::stream_sample::StreamSample;

use crate::sys::tcp_info::TcpInfo;
use crate::sys::usage::micros;

/// Actions for the streams.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct PathRepair {
    /// Streams to close.
    pub give_up: Vec<StreamId>,
    /// Number of streams to open on each path.
    pub make: Vec<(PathId, u16)>,
    /// Whether the other end is unreachable for good.
    pub hopeless: bool,
    /// A path that gets small segments from now on.
    pub small_segments: Option<PathId>,
    /// A change of the main path and its reason.
    pub moved: Option<PathChange>,
}

/// Reason for a change of the main path.
#[derive(Debug, PartialEq, Eq)]
pub enum PathChange {
    /// The new path is faster: bytes per second of the new path and of the old one.
    Faster(u64, u64),
    /// Nothing was acknowledged on the old path.
    Lifeless,
    /// Nothing was acknowledged on any direct path, and the control channel works.
    Unusable,
}

/// A sample of a path's streams.
#[derive(Debug, Default)]
pub struct PathMeasurement {
    streams: Vec<StreamSample>,
    /// Streams with a lost connection.
    pub broken: Vec<StreamId>,
    acknowledged_bytes: u64,
    busy: Duration,
}

impl PathMeasurement {
    /// Adds a stream with an established connection.
    pub fn alive(&mut self, stream: StreamId, info: &TcpInfo) {
        let &TcpInfo { acknowledged_bytes, is_unanswered: unanswered, has_data, .. } = info;
        let receiver_limited_us = micros(info.busy.receiver_limited);
        self.streams.push(StreamSample { stream, acknowledged_bytes, unanswered, has_data, receiver_limited_us });
        self.acknowledged_bytes = self.acknowledged_bytes.saturating_add(acknowledged_bytes);
        self.busy += info.busy.all;
    }

    fn whole(&self, path: PathId) -> PathSample {
        PathSample {
            path,
            streams: u16::try_from(self.streams.len()).unwrap_or(u16::MAX),
            acknowledged_bytes: self.acknowledged_bytes,
            busy_us: micros(self.busy),
        }
    }
}

/// All paths of a copy.
#[derive(Debug, Default)]
pub struct Multipath {
    /// Whether all paths stay in use to the end.
    all: bool,
    recoveries: BTreeMap<PathId, StreamRecovery>,
    main: Option<PathId>,
    /// Whether only the main path is in use.
    is_settled: bool,
    judge: PathSelector,
    /// Whether the direct paths were left for good.
    is_left: bool,
    /// Whether the next sample may leave them.
    may_leave: bool,
}

/// Time without an acknowledgement after which direct paths may be left for the control channel.
const LEFT_AFTER_US: u64 = 10_000_000;

impl Multipath {
    /// Creates the state for a copy on the best path or, with `all`, on all paths.
    pub fn new(all: bool) -> Self {
        Self { all, ..Self::default() }
    }

    /// Whether a stream of this path may be admitted.
    pub fn takes(&self, path: PathId) -> bool {
        let is_known = self.recoveries.contains_key(&path);
        !path.is_direct() || !self.is_left && (is_known || self.direct().count() < LINKS_MAX)
    }

    /// Records a new stream of this path; `live` is the number of its streams now.
    pub fn stream_added(&mut self, path: PathId, live: u16) {
        match self.main {
            Some(main) if main.is_direct() || !path.is_direct() => {}
            _ => self.main = Some(path),
        }
        self.recovery(path).stream_added(live);
    }

    /// Returns the recovery state of this path.
    pub fn recovery(&mut self, path: PathId) -> &mut StreamRecovery {
        self.recoveries.entry(path).or_default()
    }

    /// Returns the main path, once there is one.
    pub fn main(&self) -> Option<PathId> {
        self.main
    }

    /// Returns the paths whose streams get work now.
    pub fn in_use(&self) -> Vec<PathId> {
        match self.main {
            Some(main) if !main.is_direct() => vec![main],
            main => self.direct().filter(|path| !self.is_settled || self.all || Some(*path) == main).collect(),
        }
    }

    /// Lets the next sample leave direct paths on which nothing is acknowledged.
    pub fn permit_detour(&mut self) {
        self.may_leave = true;
    }

    /// Whether streams through the control channel were admitted.
    pub fn has_tunnel(&self) -> bool {
        self.recoveries.contains_key(&PathId::TUNNEL)
    }

    fn direct(&self) -> impl Iterator<Item = PathId> {
        self.recoveries.keys().copied().filter(|path| path.is_direct())
    }

    /// Returns the paths in use, without those only under comparison.
    pub fn kept(&self) -> Vec<PathId> {
        if self.all { self.in_use() } else { self.main.into_iter().collect() }
    }

    /// Whether streams of more than one direct path were admitted.
    pub fn is_several(&self) -> bool {
        self.direct().count() > 1
    }

    /// Whether the main path misses a stream or is not selected yet.
    pub fn is_unsettled(&self) -> bool {
        let is_recovering =
            self.main.and_then(|main| self.recoveries.get(&main)).is_some_and(StreamRecovery::is_recovering);
        is_recovering || self.is_several() && !self.is_settled && !self.all
    }

    /// Evaluates samples of all paths and returns the actions.
    pub fn sample(&mut self, elapsed: Duration, seen: &BTreeMap<PathId, PathMeasurement>) -> PathRepair {
        let elapsed_us = micros(elapsed);
        let mut repair = PathRepair::default();
        let Some(main) = self.main else { return repair };
        let nothing = PathMeasurement::default();
        for (path, recovery) in self.recoveries.iter_mut().filter(|(path, _)| path.is_direct()) {
            let seen = seen.get(path).unwrap_or(&nothing);
            seen.broken.iter().for_each(|_| recovery.stream_lost());
            let had_small_segments = recovery.has_small_segments();
            let action = recovery.sample(elapsed_us, &seen.streams);
            if recovery.has_small_segments() && !had_small_segments {
                repair.small_segments = Some(*path);
            }
            repair.give_up.extend(seen.broken.iter().chain(&action.give_up));
            repair.hopeless |= action.hopeless && *path == main;
            if action.make > 0 {
                repair.make.push((*path, action.make));
            }
        }
        if std::mem::take(&mut self.may_leave) && self.has_tunnel() && self.is_unanswered() {
            return self.leave_direct(seen);
        }
        self.leave_lifeless(main, seen, &mut repair);
        self.choose(elapsed_us, seen, &mut repair);
        let in_use = self.in_use();
        repair.make.retain(|(path, _)| in_use.contains(path));
        repair
    }

    /// Whether data was sent on each direct path, and not acknowledged for too long.
    fn is_unanswered(&self) -> bool {
        let mut silent = self.direct().filter_map(|path| self.recoveries.get(&path)).map(StreamRecovery::silent_us);
        !self.is_left && silent.next().is_some_and(|first| silent.fold(first, u64::min) >= LEFT_AFTER_US)
    }

    /// Leaves all direct paths for the control channel.
    fn leave_direct(&mut self, seen: &BTreeMap<PathId, PathMeasurement>) -> PathRepair {
        (self.main, self.is_left, self.is_settled) = (Some(PathId::TUNNEL), true, true);
        let streams =
            seen.values().flat_map(|seen| seen.broken.iter().chain(seen.streams.iter().map(|one| &one.stream)));
        PathRepair { give_up: streams.copied().collect(), moved: Some(PathChange::Unusable), ..PathRepair::default() }
    }

    /// Leaves paths without any acknowledgement if another one is alive.
    fn leave_lifeless(&mut self, main: PathId, seen: &BTreeMap<PathId, PathMeasurement>, repair: &mut PathRepair) {
        let (lifeless, alive): (Vec<PathId>, Vec<PathId>) =
            self.direct().partition(|path| self.recoveries.get(path).is_some_and(StreamRecovery::is_lifeless));
        let has_streams = |path: &&PathId| seen.get(path).is_some_and(|seen| !seen.streams.is_empty());
        let Some(alive) = alive.iter().find(has_streams).copied() else { return };
        if lifeless.contains(&main) {
            (self.main, self.is_settled) = (Some(alive), true);
            (repair.moved, repair.hopeless) = (Some(PathChange::Lifeless), false);
        }
        for path in lifeless {
            let streams = seen.get(&path).into_iter().flat_map(|seen| &seen.streams).map(|seen| seen.stream);
            let streams: Vec<_> = streams.filter(|stream| !repair.give_up.contains(stream)).collect();
            streams.iter().for_each(|_| self.recovery(path).stream_lost());
            repair.give_up.extend(streams);
        }
    }

    /// Selects the fastest path once it is known.
    fn choose(&mut self, elapsed_us: u64, seen: &BTreeMap<PathId, PathMeasurement>, repair: &mut PathRepair) {
        let Some(main) = self.main.filter(|main| main.is_direct() && !self.all && !self.is_settled) else { return };
        let whole: Vec<_> = seen.iter().map(|(path, seen)| seen.whole(*path)).collect();
        let Some(PathChoice { path, bytes_per_s }) = self.judge.select(elapsed_us, main, &whole) else { return };
        self.is_settled = true;
        if path != main {
            let of = |path| bytes_per_s.get(&path).copied().unwrap_or(0);
            self.main = Some(path);
            repair.moved = Some(PathChange::Faster(of(path), of(main)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::tcp_info::BusyTime;

    const LOOK: Duration = Duration::from_millis(250);

    /// Two paths with two streams each, sampled repeatedly.
    struct Watch {
        multipath: Multipath,
        looks: u64,
    }

    impl Watch {
        fn new(all: bool) -> Self {
            let mut multipath = Multipath::new(all);
            for path in [PathId(4), PathId(2)] {
                (1..=2).for_each(|live| multipath.stream_added(path, live));
            }
            assert_eq!(multipath.main(), Some(PathId(4)), "whose stream came first");
            Self { multipath, looks: 0 }
        }

        /// Takes the next sample of paths with these constant rates in MB/s; a path with rate zero is unacknowledged.
        fn sample(&mut self, mb_per_s: &[(u16, u64)]) -> PathRepair {
            self.looks += 1;
            let seen = mb_per_s.iter().map(|(path, mb_per_s)| {
                let mut seen = PathMeasurement::default();
                for stream in [StreamId(10 * path), StreamId(10 * path + 1)] {
                    let acknowledged_bytes = mb_per_s * 125_000 * self.looks;
                    let all = LOOK * u32::try_from(self.looks).unwrap();
                    let busy = BusyTime { all, ..BusyTime::default() };
                    let is_unanswered = *mb_per_s == 0;
                    seen.alive(stream, &TcpInfo { acknowledged_bytes, busy, is_unanswered, ..TcpInfo::default() });
                }
                (PathId(*path), seen)
            });
            self.multipath.sample(LOOK, &seen.collect())
        }

        /// Takes samples until there is something to repair.
        #[track_caller]
        fn until_something(&mut self, mb_per_s: &[(u16, u64)]) -> PathRepair {
            let found = (0..100).map(|_| self.sample(mb_per_s)).find(|repair| *repair != PathRepair::default());
            found.expect("nothing happens")
        }
    }

    #[test]
    fn both_paths_are_used_until_the_faster_one_is_known() {
        let mut watch = Watch::new(false);
        assert_eq!((watch.multipath.in_use(), watch.multipath.kept()), (vec![PathId(2), PathId(4)], vec![PathId(4)]));
        assert!(watch.multipath.is_unsettled());
        let repair = watch.until_something(&[(4, 12), (2, 100)]);
        let Some(PathChange::Faster(of_new, of_old)) = repair.moved else { panic!("{repair:?}") };
        assert_eq!([of_new / 1_000_000, of_old / 1_000_000], [100, 12]);
        assert!(repair.give_up.is_empty(), "the old ones rest");
        assert_eq!((watch.multipath.in_use(), watch.multipath.is_unsettled()), (vec![PathId(2)], false));
    }

    #[test]
    fn the_first_path_stays_unless_it_is_worse() {
        let mut watch = Watch::new(false);
        assert!((0..20).all(|_| watch.sample(&[(4, 100), (2, 100)]) == PathRepair::default()));
        assert_eq!((watch.multipath.in_use(), watch.looks), (vec![PathId(4)], 20));
    }

    #[test]
    fn with_all_paths_wanted_none_is_left() {
        let mut watch = Watch::new(true);
        assert!((0..20).all(|_| watch.sample(&[(4, 12), (2, 100)]) == PathRepair::default()));
        assert_eq!(watch.multipath.kept(), [PathId(2), PathId(4)]);
        assert!(!watch.multipath.is_unsettled());
    }

    #[test]
    fn a_silent_path_is_left_for_a_working_one() {
        for all in [false, true] {
            let mut watch = Watch::new(all);
            let first = watch.until_something(&[(4, 0), (2, 100)]);
            // A comparison of paths ends sooner.
            assert_eq!(first.moved, Some(if all { PathChange::Lifeless } else { PathChange::Faster(100_000_000, 0) }));
            assert_eq!(watch.multipath.main(), Some(PathId(2)));
            let last = if all { first } else { watch.until_something(&[(4, 0), (2, 100)]) };
            assert_eq!(last.give_up, [StreamId(40), StreamId(41)]);
            assert!(!last.hopeless && watch.looks <= 9, "{}", watch.looks);
        }
    }

    #[test]
    fn with_all_paths_silent_the_first_one_is_kept() {
        let mut watch = Watch::new(false);
        let repair = watch.until_something(&[(4, 0), (2, 0)]);
        assert_eq!((repair.moved, repair.give_up, watch.multipath.main()), (None, vec![], Some(PathId(4))));
    }

    #[test]
    fn the_control_channel_serves_until_a_direct_path_is_up_and_for_good_once_that_is_silent() {
        let mut watch = Watch { multipath: Multipath::new(false), looks: 0 };
        (1..=2).for_each(|live| watch.multipath.stream_added(PathId::TUNNEL, live));
        assert_eq!(watch.multipath.in_use(), [PathId::TUNNEL]);
        (1..=2).for_each(|live| watch.multipath.stream_added(PathId(4), live));
        assert_eq!((watch.multipath.in_use(), watch.multipath.is_unsettled()), (vec![PathId(4)], false));
        assert_eq!(watch.sample(&[(4, 100)]), PathRepair::default());
        // Without leave from the controller, its own channel may be silent, too.
        let silent =
            |watch: &mut Watch, samples| (0..samples).map(|_| watch.sample(&[(4, 0)]).moved).fold(None, Option::or);
        assert_eq!(silent(&mut watch, 50), None);
        watch.multipath.permit_detour();
        assert_eq!(silent(&mut watch, 1), Some(PathChange::Unusable));
        assert_eq!(watch.multipath.in_use(), [PathId::TUNNEL]);
        assert!(!watch.multipath.takes(PathId(5)) && watch.multipath.takes(PathId::TUNNEL));
    }

    #[test]
    fn the_number_of_paths_is_bounded() {
        let mut multipath = Multipath::new(true);
        for path in 0..LINKS_MAX {
            let path = PathId(u16::try_from(path).unwrap());
            assert!(multipath.takes(path));
            multipath.stream_added(path, 1);
        }
        assert!(!multipath.takes(PathId(99)) && multipath.takes(PathId(0)));
    }
}
