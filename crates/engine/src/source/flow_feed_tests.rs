//! Frames of a pipe, for any sizes of the writes to it.

use std::io::{Seek, SeekFrom, Write};
use std::thread;

use super::*;
use crate::io::storage::calls::write_on;

const F: usize = 256 << 10;

fn no_file(_: &mut [u8]) -> Result<FlowRead, SourceFileError> {
    unreachable!("a pipe is not read as a file")
}

fn no_bytes(_: &mut [u8], _: u64) -> Result<usize, SourceFileError> {
    unreachable!("a pipe is not read as a file")
}

/// Reads a pipe, to which `bytes` are written in pieces, to its end. Returns the frames and the total size.
fn frames_of(bytes: &[u8], chunk: usize) -> (Vec<Vec<u8>>, u64) {
    let (reading, writing) = rustix::pipe::pipe().unwrap();
    let spring = Arc::new(FlowPipe::new(reading, None));
    let feed = FlowFeed::of_pipe(spring);
    let frame = FrameLen::new(256 << 10).unwrap();
    let (mut frames, mut room) = (Vec::new(), vec![0; F]);
    thread::scope(|scope| {
        scope.spawn(move || bytes.chunks(chunk).for_each(|chunk| write_on(&writing, chunk).unwrap()));
        loop {
            let FlowRead { len, end } = feed.read(frame, frames.len() as u64, &mut room, || true, no_file).unwrap();
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
fn every_frame_except_the_last_is_full_and_a_short_one_marks_the_end() {
    for len in [0, 1, F - 1, F, F + 1, 2 * F, 3 * F + 7] {
        let bytes: Vec<u8> = (0..len).map(|at| u8::try_from(at * 7 % 251).unwrap_or_default()).collect();
        for chunk in [1 << 20, 40_000, 4096] {
            let (frames, size) = frames_of(&bytes, chunk);
            assert_eq!((frames.concat() == bytes, size), (true, len as u64), "{len} in {chunk}");
            assert!(frames.iter().rev().skip(1).all(|frame| frame.len() == F), "{len} in {chunk}");
        }
    }
}

#[test]
fn retained_data_can_be_resent_until_it_is_written() {
    let (reading, _writing) = rustix::pipe::pipe().unwrap();
    let spring = Arc::new(FlowPipe::new(reading, None));
    let feed = FlowFeed::of_pipe(spring);
    let frame = FrameLen::new(256 << 10).unwrap();
    let kept = |index, room: &mut [u8]| feed.kept(frame, index, room, no_bytes).ok();
    for index in 0..5 {
        feed.keep(index, &[u8::try_from(index).unwrap(); 9], false, index.saturating_sub(2));
    }
    let mut room = [0; 9];
    assert_eq!((kept(1, &mut room), kept(4, &mut room)), (Some(None), Some(Some((9, false)))));
    assert_eq!(room, [4; 9]);
    assert_eq!(kept(4, &mut [0; 3]), None, "no room");
}

#[test]
fn a_files_data_is_reread_instead_of_retained() {
    let bytes: Vec<u8> = (0..F + 7).map(|at| u8::try_from(at % 251).unwrap_or_default()).collect();
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&[&b"before"[..], &bytes].concat()).unwrap();
    file.seek(SeekFrom::Start(6)).unwrap();
    let (kept_bytes, handle) = (file.try_clone().unwrap(), OwnedFd::from(file));
    let spring = Arc::new(FlowPipe::new(handle, None));
    let feed = FlowFeed::of_pipe(spring);
    let frame = FrameLen::new(256 << 10).unwrap();
    let mut room = vec![0; F];
    for index in 0..2 {
        let FlowRead { len, .. } = feed.read(frame, index, &mut room, || true, no_file).unwrap();
        feed.keep(index, &room[..len], false, 0);
    }
    assert!(lock(&feed.kept).frames.values().all(|frame| frame.bytes.is_empty()));
    room.fill(0);
    assert_eq!(feed.kept(frame, 1, &mut room, no_bytes).ok(), Some(Some((7, false))));
    assert_eq!(room[..7], bytes[F..]);
    assert_eq!(feed.kept(frame, 0, &mut room, no_bytes).ok(), Some(Some((F, false))));
    assert!(room == bytes[..F], "from where it was begun, and where it stood is no matter");
    kept_bytes.set_len(9).unwrap();
    assert!(matches!(feed.kept(frame, 1, &mut room, no_bytes), Err(SourceFileError::Changed)));
}

#[test]
fn an_unneeded_silent_pipe_is_not_waited_for() {
    let (reading, _writing) = rustix::pipe::pipe().unwrap();
    let spring = Arc::new(FlowPipe::new(reading, None));
    let feed = FlowFeed::of_pipe(spring);
    let frame = FrameLen::new(256 << 10).unwrap();
    assert!(feed.read(frame, 0, &mut vec![0; F], || false, no_file).is_err());
}
