//! Holes: where nothing was ever written to a file, as its file system tells (lseek(2), SEEK_DATA and SEEK_HOLE). What
//! is only zeros is data.

use haul_proto::wire::sparse::{BLOCK, Map};
use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;
use std::io;
use std::ops::Range;
use std::os::fd::AsFd;

/// Which blocks of these bytes of a file are data; `None`: all of them, or the file system does not tell.
///
/// The descriptor's own offset moves, which nothing that has blocks is read by.
pub fn map_of(file: impl AsFd, offset: u64, len: usize) -> Option<Map> {
    let end = offset.saturating_add(len as u64);
    let mut map = Map::HOLE;
    let mut at = offset;
    while let Some(data) = next_data(&file, at, end)? {
        let within = |place: u64| usize::try_from(place.saturating_sub(offset)).unwrap_or(len);
        map.add(within(data.start)..within(data.end));
        at = data.end;
    }
    (!map.is_full(len)).then_some(map)
}

/// Whether all of these bytes are a hole.
pub fn is_hole(file: impl AsFd, offset: u64, len: u64) -> bool {
    matches!(next_data(file, offset, offset.saturating_add(len)), Some(None))
}

/// Where the next data begins, from `at` on; `None` where there is none up to `end`, or the file system does not tell.
pub fn data_from(file: impl AsFd, at: u64, end: u64) -> Option<u64> {
    next_data(file, at, end).flatten().map(|data| data.start)
}

/// The next hole from `at` on, up to `end`; `None` where there is none, or the file system does not tell.
pub fn next_hole(file: impl AsFd, at: u64, end: u64) -> Option<Range<u64>> {
    let start = if at < end { seek(&file, SeekFrom::Hole(at)).ok()? } else { end };
    let stop = match seek(&file, SeekFrom::Data(start)) {
        _ if start >= end => return None,
        Err(Errno::NXIO) => end,
        stop => stop.ok()?.min(end),
    };
    (stop > start).then_some(start..stop)
}

/// Pieces of data that are counted one by one; what lies behind them counts as data.
const PIECES_MAX: u32 = 100_000;

/// How many of a file's bytes are not in holes: all of them, where the file system does not tell.
pub fn data_bytes(file: impl AsFd, size: u64) -> u64 {
    let (mut at, mut bytes) = (0, 0);
    for _ in 0..PIECES_MAX {
        match next_data(&file, at, size) {
            Some(Some(data)) => {
                bytes += data.end - data.start;
                at = data.end;
            }
            Some(None) => return bytes,
            None => break,
        }
    }
    bytes + size.saturating_sub(at)
}

/// The next bytes from `at` on, up to `end`, that are data. The outer `None` where the file system does not tell.
fn next_data(file: impl AsFd, at: u64, end: u64) -> Option<Option<Range<u64>>> {
    if at >= end {
        return Some(None);
    }
    let start = match seek(&file, SeekFrom::Data(at)) {
        Ok(start) => start,
        // Nothing but a hole up to the file's end.
        Err(Errno::NXIO) => return Some(None),
        Err(_) => return None,
    };
    if start >= end {
        return Some(None);
    }
    let stop = seek(&file, SeekFrom::Hole(start)).ok()?;
    // Somebody may have cut the file off in between: then reading tells.
    (stop > start).then_some(Some(start.max(at)..stop.min(end)))
}

/// The blocks of a frame that are not all zeros; `None`: all of them.
pub fn map_of_zeros(frame: &[u8]) -> Option<Map> {
    let mut map = Map::HOLE;
    let data = frame.chunks(BLOCK).zip(0..).filter(|(block, _)| block.iter().any(|byte| *byte != 0));
    data.for_each(|(block, at)| map.add(at * BLOCK..at * BLOCK + block.len()));
    (!map.is_full(frame.len())).then_some(map)
}

/// Makes sure that zeros are read in these bytes of a file, and that they take no room where that can be.
pub fn punch(file: impl AsFd, offset: u64, len: u64) -> io::Result<()> {
    use rustix::fs::{FallocateFlags, fallocate};
    match fallocate(&file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, offset, len) {
        Ok(()) => Ok(()),
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => write_zeros(file, offset, len),
        Err(error) => Err(error.into()),
    }
}

fn write_zeros(file: impl AsFd, offset: u64, len: u64) -> io::Result<()> {
    let zeros = [0; BLOCK];
    let end = offset + len;
    (offset..end).step_by(BLOCK).try_for_each(|at| {
        let len = usize::try_from(end - at).unwrap_or(BLOCK).min(BLOCK);
        super::calls::write_at(&file, &zeros[..len], at)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::calls::write_at;
    use std::os::unix::fs::MetadataExt;

    const FRAME: usize = 64 * BLOCK;

    fn sparse(len: u64, data: &[(u64, usize)]) -> std::fs::File {
        let file = tempfile::tempfile().unwrap();
        file.set_len(len).unwrap();
        data.iter().for_each(|(at, len)| write_at(&file, &vec![7; *len], *at).unwrap());
        file
    }

    fn map(data: &[Range<usize>]) -> Option<Map> {
        let mut map = Map::HOLE;
        data.iter().for_each(|bytes| map.add(bytes.clone()));
        Some(map)
    }

    #[test]
    fn holes_are_found_and_data_is_not_taken_for_one() {
        let frame = FRAME as u64;
        let file = sparse(4 * frame + 100, &[(frame + 10, 1), (frame + 20 * 4096, 8192), (2 * frame, FRAME)]);
        assert_eq!(map_of(&file, 0, FRAME), Some(Map::HOLE));
        assert_eq!(map_of(&file, frame, FRAME), map(&[0..BLOCK, 20 * BLOCK..22 * BLOCK]));
        assert_eq!(map_of(&file, 2 * frame, FRAME), None);
        assert_eq!(map_of(&file, 4 * frame, 100), Some(Map::HOLE));
        assert!(is_hole(&file, 0, frame) && is_hole(&file, 3 * frame, frame + 100) && !is_hole(&file, 0, frame + 1));
    }

    #[test]
    fn what_is_not_in_holes_is_counted() {
        let frame = FRAME as u64;
        let file = sparse(40 * frame + 100, &[(frame, FRAME), (30 * frame, 1)]);
        assert_eq!(data_bytes(&file, 40 * frame + 100), frame + 4096);
        assert_eq!(data_from(&file, 2 * frame, 40 * frame), Some(30 * frame));
        assert_eq!(data_from(&file, 31 * frame, 40 * frame), None);
        assert_eq!(data_bytes(sparse(9, &[(0, 9)]), 9), 9);
        assert_eq!(data_bytes(sparse(9 * frame, &[]), 9 * frame), 0);
    }

    #[test]
    fn zeros_that_were_written_are_data_unless_they_are_asked_for() {
        let file = sparse(FRAME as u64, &[]);
        write_at(&file, &[0; FRAME], 0).unwrap();
        assert_eq!(map_of(&file, 0, FRAME), None);
        assert_eq!(map_of_zeros(&[0; FRAME]), Some(Map::HOLE));
        let mut bytes = vec![0; 3 * BLOCK + 1];
        bytes[BLOCK] = 1;
        assert_eq!(map_of_zeros(&bytes), map(&[BLOCK..2 * BLOCK]));
        assert_eq!(map_of_zeros(&[1; 5]), None);
    }

    #[test]
    fn what_is_punched_is_zeros_and_takes_no_room() {
        let file = sparse(FRAME as u64, &[(0, FRAME)]);
        let before = file.metadata().unwrap().blocks();
        punch(&file, BLOCK as u64, (FRAME - 2 * BLOCK) as u64).unwrap();
        assert!(file.metadata().unwrap().blocks() < before / 4);
        write_zeros(&file, 0, 5).unwrap();
        write_zeros(&file, (FRAME - BLOCK) as u64, 4091).unwrap();
        let mut bytes = vec![1; FRAME];
        assert_eq!(crate::storage::calls::read_at(&file, &mut bytes, 0).unwrap(), FRAME);
        let mut expected = vec![0; FRAME];
        expected[5..BLOCK].fill(7);
        expected[FRAME - 5..].fill(7);
        assert!(bytes == expected);
    }
}
