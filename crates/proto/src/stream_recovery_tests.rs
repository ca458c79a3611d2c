//! A path that is cut and heals, streams that stall and break, and ends that are merely slow.

use super::*;

const SAMPLE_US: u64 = 250_000;

/// A path with streams on it, and the time.
struct Path {
    recovery: StreamRecovery,
    streams: BTreeMap<StreamId, StreamSample>,
    next: u16,
    now_us: u64,
    /// Connections being opened.
    made: u16,
}

impl Path {
    fn with(streams: u16) -> Self {
        let mut path =
            Self { recovery: StreamRecovery::default(), streams: BTreeMap::new(), next: 0, now_us: 0, made: 0 };
        (0..streams).for_each(|_| path.comes());
        assert_eq!(path.look(), RecoveryAction::default());
        path
    }

    fn comes(&mut self) {
        let stream = StreamId(self.next);
        self.next += 1;
        self.streams.insert(stream, StreamSample { stream, ..StreamSample::default() });
        self.recovery.stream_added(u16::try_from(self.streams.len()).unwrap());
    }

    /// Opens all requested streams at once, unless the path is cut.
    fn come(&mut self) {
        (0..std::mem::take(&mut self.made)).for_each(|_| self.comes());
    }

    fn breaks(&mut self, stream: u16) {
        self.streams.remove(&StreamId(stream)).unwrap();
        self.recovery.stream_lost();
    }

    fn look(&mut self) -> RecoveryAction {
        self.now_us += SAMPLE_US;
        let seen: Vec<_> = self.streams.values().copied().collect();
        let action = self.recovery.sample(SAMPLE_US, &seen);
        self.streams.retain(|stream, _| !action.give_up.contains(stream));
        self.made += action.make;
        action
    }

    /// Lets these streams progress; all others get no acknowledgement.
    fn only(&mut self, alive: &[u16]) {
        for seen in self.streams.values_mut() {
            seen.unanswered = !alive.contains(&seen.stream.0);
            seen.acknowledged_bytes += u64::from(!seen.unanswered);
        }
    }

    /// Samples until an action is returned, for at most `seconds`.
    fn until_something(&mut self, seconds: u64, alive: &[u16]) -> Option<(RecoveryAction, u64)> {
        let began_us = self.now_us;
        while self.now_us < began_us + seconds * 1_000_000 {
            self.only(alive);
            let action = self.look();
            if action != RecoveryAction::default() {
                return Some((action, (self.now_us - began_us) / 1000));
            }
        }
        None
    }
}

#[test]
fn a_single_stalled_stream_is_replaced_after_five_seconds() {
    let mut path = Path::with(8);
    let (action, after_ms) = path.until_something(20, &[0, 1, 2, 3, 4, 5, 7]).unwrap();
    assert_eq!(action, RecoveryAction { give_up: vec![StreamId(6)], make: 1, hopeless: false });
    assert!((5000..5500).contains(&after_ms), "{after_ms} ms");
    assert!(path.recovery.is_recovering());
    path.come();
    assert!(!path.recovery.is_recovering());
    assert_eq!(path.until_something(60, &[0, 1, 2, 3, 4, 5, 7, 8]), None);
}

#[test]
fn streams_waiting_for_a_disk_or_for_work_are_left_alone() {
    let mut path = Path::with(4);
    // Responses without room: nothing is acknowledged, and nothing is unanswered.
    for _ in 0..400 {
        assert_eq!(path.look(), RecoveryAction::default());
    }
}

#[test]
fn a_cut_link_costs_no_stream_until_it_is_back() {
    let mut path = Path::with(3);
    let mut tries = 0;
    for _ in 0..(20_000_000 / SAMPLE_US) {
        path.only(&[]);
        let action = path.look();
        assert!(action.give_up.is_empty() && action.make <= 1 && !action.hopeless, "{action:?}");
        tries += action.make;
    }
    assert!((8..=12).contains(&tries), "{tries} in 20 s");
    path.made = 1;
    path.come();
    path.only(&[3]);
    let action = path.look();
    assert_eq!(
        action.give_up,
        [StreamId(0), StreamId(1), StreamId(2)],
        "the link is back, and they may not know for long"
    );
    assert_eq!(action.make, 2);
    path.come();
    assert_eq!(path.streams.len(), 3);
    assert_eq!(path.until_something(60, &[3, 4, 5]), None);
}

/// Streams open, and what is sent over them is lost, unless their segments are small.
#[test]
fn streams_open_again_once_with_small_segments_if_none_is_acknowledged() {
    for small_ones_arrive in [true, false] {
        let mut path = Path::with(2);
        let mut small: Option<(u16, u64)> = None;
        while path.now_us < 20_000_000 {
            let of_small: Vec<_> = small.into_iter().flat_map(|(first, _)| first..path.next).collect();
            path.only(if small_ones_arrive { &of_small } else { &[] });
            let before = path.streams.len();
            let action = path.look();
            if path.recovery.has_small_segments() && small.is_none() {
                assert_eq!((action.give_up.len(), action.make), (before, 1), "all are replaced");
                small = Some((path.next, path.now_us));
            }
            path.come();
        }
        let (_, after_us) = small.unwrap();
        assert!((4_000_000..6_000_000).contains(&after_us), "{after_us}");
        assert_eq!(path.recovery.silent_us() < 10_000_000, small_ones_arrive);
    }
}

#[test]
fn a_link_that_comes_back_keeps_its_segments() {
    let mut path = Path::with(2);
    for _ in 0..(20_000_000 / SAMPLE_US) {
        path.only(&[]);
        path.look();
    }
    path.come();
    assert!(path.until_something(1, &(2..path.next).collect::<Vec<_>>()).is_some());
    path.come();
    let alive: Vec<_> = (2..path.next).collect();
    path.until_something(20, &alive);
    assert!(!path.recovery.has_small_segments());
}

#[test]
fn a_short_glitch_changes_nothing_at_all() {
    let mut path = Path::with(8);
    for _ in 0..25 {
        for _ in 0..4 {
            path.only(&[]);
            assert_eq!(path.look(), RecoveryAction::default());
        }
        path.only(&[0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(path.look(), RecoveryAction::default());
    }
}

#[test]
fn broken_streams_are_replaced_at_once_then_one_by_one() {
    let mut path = Path::with(8);
    (0..8).for_each(|stream| path.breaks(stream));
    assert_eq!(path.look().make, 8);
    let mut times = Vec::new();
    let began_us = path.now_us;
    let hopeless_ms = loop {
        let action = path.look();
        assert!(action.make <= 1);
        let after_ms = (path.now_us - began_us) / 1000;
        times.extend((action.make > 0).then_some(after_ms));
        if action.hopeless {
            break after_ms;
        }
    };
    assert_eq!(times[..4], [1000, 3000, 5000, 7000]);
    assert!((29_000..=30_000).contains(&hopeless_ms), "{hopeless_ms} ms");
    path.made = 1;
    path.come();
    assert_eq!(path.look(), RecoveryAction { give_up: vec![], make: 7, hopeless: false });
}

#[test]
fn a_dead_path_ends_the_copy() {
    let mut path = Path::with(2);
    let mut looks = 0;
    while !{
        path.only(&[]);
        path.look().hopeless
    } {
        looks += 1;
    }
    assert_eq!(looks * SAMPLE_US / 1_000_000, 59);
}

#[test]
fn a_suspended_host_has_not_waited() {
    let mut path = Path::with(2);
    path.only(&[0]);
    path.look();
    path.only(&[0]);
    let seen: Vec<_> = path.streams.values().copied().collect();
    assert_eq!(path.recovery.sample(3_600_000_000, &seen), RecoveryAction::default());
}

#[test]
fn the_wanted_number_of_streams_is_opened_only_once() {
    let mut path = Path::with(8);
    assert_eq!(path.recovery.want(16, 8), 8);
    assert_eq!(path.recovery.want(20, 8), 4);
    path.made = 12;
    path.come();
    assert_eq!(path.look(), RecoveryAction::default());
    assert_eq!(path.recovery.want(4, 20), 0);
    path.breaks(0);
    assert_eq!(path.look(), RecoveryAction::default(), "there are more than enough");
    (1..18).for_each(|stream| path.breaks(stream));
    assert_eq!(path.look().make, 2);
}

#[test]
fn recovery_starts_with_the_first_stream() {
    let mut recovery = StreamRecovery::default();
    assert!((0..1000).all(|_| recovery.sample(SAMPLE_US, &[]) == RecoveryAction::default()));
}
