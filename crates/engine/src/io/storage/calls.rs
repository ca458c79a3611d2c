//! The engine of plain system calls: pread(2) and pwrite(2), one at a time, complete on return. Also functions that
//! read and write whole ranges for other modules.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, pread, pwrite, read, write};

use super::{FileAccess, FinishedIo, IoRequest, Storage};

/// Makes each call when it is submitted.
pub struct BlockingIo<T> {
    finished: VecDeque<FinishedIo<T>>,
}

impl<T> BlockingIo<T> {
    /// Creates it without requests in flight.
    pub fn new() -> Self {
        Self { finished: VecDeque::new() }
    }
}

impl<T> Storage<T> for BlockingIo<T> {
    fn submit(&mut self, mut request: IoRequest<T>) {
        let len = request.len;
        let room = &mut request.buffer.room_mut()[..len];
        let result = match request.access {
            FileAccess::Read => read_at(&*request.file, room, request.offset),
            FileAccess::Write => write_at(&*request.file, room, request.offset).map(|()| len),
        };
        self.finished.push_back(FinishedIo { request, result });
    }

    fn finished(&mut self, _: bool) -> Option<FinishedIo<T>> {
        self.finished.pop_front()
    }

    fn under_way(&self) -> usize {
        self.finished.len()
    }

    fn readiness(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

/// Reads until `buffer` is full or the file ends. With direct I/O, an unaligned count is the end of the file.
pub fn read_at(file: impl AsFd, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match pread(&file, &mut buffer[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(Errno::INTR) => {}
            // With direct I/O, no read can start at an unaligned end: it is the end.
            Err(Errno::INVAL) if filled > 0 => break,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(filled)
}

/// Writes all of `bytes` at `offset`.
pub fn write_at(file: impl AsFd, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        match pwrite(&file, bytes, offset) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => {
                bytes = &bytes[written..];
                offset += written as u64;
            }
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Interval at which a wait for a pipe checks the copy.
const CHECK_EVERY: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };

/// Reads at the file's position, from a file without offsets, until `buffer` is full or the data ends. An error if no
/// data comes and `goes_on` returns false.
pub fn read_on(file: impl AsFd, buffer: &mut [u8], goes_on: &impl Fn() -> bool) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        // A read of a FIFO without a writer would report an end.
        match poll(&mut [PollFd::new(&file, PollFlags::IN)], Some(&CHECK_EVERY)) {
            Ok(0) if goes_on() => continue,
            Ok(0) => return Err(io::Error::other("the copy was stopped")),
            Ok(_) | Err(_) => {}
        }
        match read(&file, &mut buffer[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(filled)
}

/// Another process may have set O_NONBLOCK, which applies to all users of a pipe.
fn wait_until_writable(file: impl AsFd) {
    // Errors appear at its use.
    let _ = poll(&mut [PollFd::new(&file, PollFlags::OUT)], None);
}

/// Writes all of `bytes` at the file's position, to a file without offsets.
pub fn write_on(file: impl AsFd, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match write(&file, bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => bytes = &bytes[written..],
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => wait_until_writable(&file),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
