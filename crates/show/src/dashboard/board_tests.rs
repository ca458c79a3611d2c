use haul_base::copy::event::{NetworkPath, SlowFile, SourceActivity, StreamFigures, StreamPath};
use haul_base::copy::spec::Cipher;

use super::super::message_log::LINES_MAX;
use super::super::rate_history::POINT;
use super::*;
use crate::verdict::tests::example;

/// So many half seconds into a copy with two streams at 40 MB/s.
fn progress(halves: u64) -> Progress {
    let of = |stream: u64| StreamFigures {
        stream,
        acknowledged_bytes: halves * 10_000_000,
        rtt_us: 50_400,
        segments: 123_456 * halves,
        retransmitted: 12 * stream,
        ..StreamFigures::default()
    };
    let transport = |stream| StreamPath { stream, path: 0, in_use: stream == 0 };
    let slow = |path: &str, took_us| SlowFile { path: path.into(), size: 4_290_000_000, took_us };
    Progress {
        files_found: 12_408,
        bytes_found: 2_000_000_000,
        walk_complete: true,
        files_settled: 7_001,
        bytes_written: halves * 20_000_000,
        streams: 2,
        streams_max: 128,
        verdict: Some(example()),
        per_stream: vec![of(0), of(1)],
        work: SourceActivity {
            files_in_progress: 300,
            paths: vec![("10.10.1.155:40312".into(), "10.10.1.202:35011".into())],
            streams: vec![transport(0), transport(1)],
        },
        slowest: vec![slow("run7/big", 12_345_678), slow("run7/\x1b[2J", 1_000_000)],
        ..Progress::default()
    }
}

/// A copy that has been under way for 20 seconds.
pub fn busy() -> Board {
    let mut board = Board::new("run7");
    let path =
        NetworkPath { from: "10.10.1.155:40312".into(), to: "10.10.1.202:35011".into(), ..NetworkPath::default() };
    let transport = TransportPath::Tcp { path, others: Vec::new(), instead_of: None };
    board.event(Duration::from_secs(3), &Event::Connected { transport, streams: 2, cipher: Cipher::Aes256Gcm });
    for halves in 1..=40 {
        let at = Duration::from_secs(3) + POINT * u32::try_from(halves).unwrap();
        board.event(at, &Event::Progress(Box::new(progress(halves))));
    }
    board.messages.add("db1: run7/b: no space left\n      free some", true);
    board.messages.add("run7/pipe: left out: is a FIFO", false);
    board
}

/// The rest of a key's way.
fn typed(board: &mut Board, keys: &str) -> Vec<Wish> {
    keys.chars().filter_map(|key| board.key(Key::Char(key))).collect()
}

#[test]
fn rates_and_points_are_of_the_present() {
    let board = busy();
    assert!((39e6..41e6).contains(&board.rate.bytes_per_s), "{}", board.rate.bytes_per_s);
    assert_eq!(board.rate.points(3), [40_000_000; 3]);
    assert_eq!((board.rate.points(1000).len(), board.rate.elapsed), (40, Duration::from_secs(20)));
    assert_eq!(board.lanes.rows().len(), 2);
}

#[test]
fn the_current_rate_can_be_limited_and_released() {
    let mut board = busy();
    assert_eq!(typed(&mut board, "+"), [], "there is no limit to be raised");
    let down = typed(&mut board, "---");
    assert_eq!(down, [30_000_000, 20_000_000, 15_000_000].map(|rate| Wish::Rate(Some(rate))));
    // What the copy says goes before what was wanted.
    board.event(Duration::from_secs(24), &Event::RateLimit { bytes_per_s: Some(10_000_000) });
    assert_eq!(typed(&mut board, "+0"), [Wish::Rate(Some(15_000_000)), Wish::Rate(None)]);
    board.event(
        Duration::from_secs(24),
        &Event::Progress(Box::new(Progress { rate_limit_bytes_per_s: Some(15_000_000), ..progress(41) })),
    );
    assert_eq!(board.limit, None, "figures may be older than the wish");
}

#[test]
fn the_arrow_keys_change_the_number_of_existing_streams() {
    let mut board = busy();
    assert_eq!(typed(&mut board, "<<>>>"), [1, 1, 2, 3, 4].map(Wish::Streams));
    board.event(Duration::from_secs(24), &Event::Streams { wanted: 128 });
    assert_eq!(typed(&mut board, ">[]"), [128, 127, 128].map(Wish::Streams));
    assert_eq!(typed(&mut Board::new("x"), "<>"), [], "nobody knows how many there are");
}

#[test]
fn space_pauses_and_resumes() {
    let mut board = busy();
    assert_eq!(typed(&mut board, "  p"), [Wish::Pause(true), Wish::Pause(false), Wish::Pause(true)]);
    assert_eq!(typed(&mut Board::new("x"), " "), [], "nothing is under way");
}

#[test]
fn it_is_ended_once() {
    let mut board = busy();
    assert_eq!(typed(&mut board, "qq"), [Wish::End]);
    assert_eq!(board.phase, Phase::Stopping);
}

#[test]
fn a_scrolled_back_view_stays_in_place() {
    let mut board = busy();
    let lines = board.messages.len();
    board.key(Key::Up);
    board.messages.add("one\ntwo", false);
    assert_eq!(board.messages.below(), 3);
    board.key(Key::PageUp);
    assert_eq!(board.messages.below(), lines + 1, "not beyond the first");
    board.key(Key::PageDown);
    board.key(Key::Down);
    assert_eq!(board.messages.below(), 0);
    (0..2 * LINES_MAX).for_each(|_| board.messages.add("line", false));
    assert_eq!(board.messages.len(), LINES_MAX);
}

#[test]
fn an_attempt_counts_from_its_own_begin() {
    let mut board = busy();
    let again = Event::Restarted {
        reason: "lost".into(),
        pause: Duration::from_secs(1),
        attempt: 1,
        attempts: None,
        left: None,
    };
    board.event(Duration::from_secs(30), &again);
    assert_eq!((board.phase, board.rate.bytes_per_s), (Phase::Connecting, 0.0));
    board.event(Duration::from_secs(40), &Event::Progress(Box::new(progress(1))));
    board.event(Duration::from_secs(41), &Event::Progress(Box::new(progress(3))));
    assert_eq!((board.phase, board.rate.points(1)), (Phase::Running, vec![40_000_000]));
}
