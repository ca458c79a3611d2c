//! A pipe's frames, whatever the lengths of the pieces in which it gives them.

use super::*;
use crate::storage::calls::write_on;
use std::thread;

const F: usize = 256 << 10;

/// Reads a pipe to which `bytes` are written in pieces, to its end: what came, frame by frame, and its size.
fn frames_of(bytes: &[u8], piece: usize) -> (Vec<Vec<u8>>, u64) {
    let (reading, writing) = rustix::pipe::pipe().unwrap();
    let spring = Arc::new(Spring::new(reading, None));
    let (feed, item) = (Feed::of_pipe(Arc::clone(&spring)), Item::pipe(Arc::default(), spring));
    let frame = FrameLen::new(256 << 10).unwrap();
    let (mut frames, mut room) = (Vec::new(), vec![0; F]);
    thread::scope(|scope| {
        scope.spawn(move || bytes.chunks(piece).for_each(|piece| write_on(&writing, piece).unwrap()));
        loop {
            let Portion { len, end } = feed.read(&item, frame, frames.len() as u64, &mut room, || true).unwrap();
            if len > 0 {
                frames.push(room[..len].to_vec());
            }
            if let Some((size, _)) = end {
                return (frames, size);
            }
        }
    })
}

#[test]
fn every_frame_but_the_last_is_full_and_the_end_is_seen_with_it_where_it_is_short() {
    for len in [0, 1, F - 1, F, F + 1, 2 * F, 3 * F + 7] {
        let bytes: Vec<u8> = (0..len).map(|at| u8::try_from(at * 7 % 251).unwrap_or_default()).collect();
        for piece in [1 << 20, 40_000, 4096] {
            let (frames, size) = frames_of(&bytes, piece);
            assert_eq!((frames.concat() == bytes, size), (true, len as u64), "{len} in {piece}");
            assert!(frames.iter().rev().skip(1).all(|frame| frame.len() == F), "{len} in {piece}");
        }
    }
}

#[test]
fn what_is_kept_comes_back_until_it_is_written() {
    let feed = Feed::of_file();
    for index in 0..5 {
        feed.keep(index, &[u8::try_from(index).unwrap(); 9], false, index.saturating_sub(2));
    }
    let mut room = [0; 9];
    assert_eq!((feed.kept(1, &mut room), feed.kept(4, &mut room)), (None, Some((9, false))));
    assert_eq!(room, [4; 9]);
    assert_eq!(feed.kept(4, &mut [0; 3]), None, "no room");
}

#[test]
fn a_pipe_that_says_nothing_is_not_waited_for_when_nobody_wants_it() {
    let (reading, _writing) = rustix::pipe::pipe().unwrap();
    let spring = Arc::new(Spring::new(reading, None));
    let (feed, item) = (Feed::of_pipe(Arc::clone(&spring)), Item::pipe(Arc::default(), spring));
    let frame = FrameLen::new(256 << 10).unwrap();
    assert!(feed.read(&item, frame, 0, &mut vec![0; F], || false).is_err());
}
