//! Holes made by haul: blocks of zeros that are not sent, and unallocated bytes of a file. [`super::extents`] has a
//! file's existing holes.

use std::io;
use std::os::fd::AsFd;

use haul_proto::wire::sparse::{BLOCK, DataMap};
use rustix::io::Errno;

/// Returns the blocks of a frame that are not all zeros; `None`: all blocks.
pub fn map_of_zeros(frame: &[u8]) -> Option<DataMap> {
    const ZEROS: [u8; BLOCK] = [0; BLOCK];
    let mut map = DataMap::HOLE;
    let data = frame.chunks(BLOCK).zip(0..).filter(|(block, _)| **block != ZEROS[..block.len()]);
    data.for_each(|(block, at)| map.add(at * BLOCK..at * BLOCK + block.len()));
    (!map.is_full(frame.len())).then_some(map)
}

/// Makes these bytes of a file a hole if possible, or else zeros.
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
    use std::os::unix::fs::MetadataExt;

    use super::*;
    use crate::io::storage::calls::write_at;

    const FRAME: usize = 64 * BLOCK;

    fn sparse(len: u64, data: &[(u64, usize)]) -> std::fs::File {
        let file = tempfile::tempfile().unwrap();
        file.set_len(len).unwrap();
        data.iter().for_each(|(at, len)| write_at(&file, &vec![7; *len], *at).unwrap());
        file
    }

    #[test]
    fn zeros_become_holes_on_request() {
        assert_eq!(map_of_zeros(&[0; FRAME]), Some(DataMap::HOLE));
        let mut bytes = vec![0; 3 * BLOCK + 1];
        bytes[BLOCK] = 1;
        let mut map = DataMap::HOLE;
        map.add(BLOCK..2 * BLOCK);
        assert_eq!(map_of_zeros(&bytes), Some(map));
        assert_eq!(map_of_zeros(&[1; 5]), None);
    }

    #[test]
    fn punched_ranges_are_zeros_and_take_no_space() {
        let file = sparse(FRAME as u64, &[(0, FRAME)]);
        let before = file.metadata().unwrap().blocks();
        punch(&file, BLOCK as u64, (FRAME - 2 * BLOCK) as u64).unwrap();
        assert!(file.metadata().unwrap().blocks() < before / 4);
        write_zeros(&file, 0, 5).unwrap();
        write_zeros(&file, (FRAME - BLOCK) as u64, 4091).unwrap();
        let mut bytes = vec![1; FRAME];
        assert_eq!(crate::io::storage::calls::read_at(&file, &mut bytes, 0).unwrap(), FRAME);
        let mut expected = vec![0; FRAME];
        expected[5..BLOCK].fill(7);
        expected[FRAME - 5..].fill(7);
        assert!(bytes == expected);
    }
}
