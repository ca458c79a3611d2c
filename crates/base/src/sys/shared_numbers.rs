//! Numbers that a process shares with its children, in an unnamed file.

use std::ffi::CStr;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::io::{pread, pwrite, retry_on_intr};

use super::{inherited_fds, os};

/// `N` numbers in a file.
#[derive(Debug, Clone)]
pub struct SharedNumbers<const N: usize>(Arc<OwnedFd>);

impl<const N: usize> SharedNumbers<N> {
    /// Creates the file with zeros.
    pub fn new(name: &CStr) -> io::Result<Self> {
        Ok(Self(Arc::new(os::nameless_file(name, 8 * N as u64)?)))
    }

    /// In a child: takes the inherited file with this number. To be called once.
    pub fn handed(number: i32) -> io::Result<Self> {
        Ok(Self(Arc::new(inherited_fds::adopt(number)?)))
    }

    /// The file, to be inherited by a child.
    pub fn descriptor(&self) -> &Arc<OwnedFd> {
        &self.0
    }

    /// Reads all numbers.
    pub fn read(&self) -> io::Result<[u64; N]> {
        let mut numbers = [[0; 8]; N];
        let bytes = numbers.as_flattened_mut();
        let mut read = 0;
        while read < bytes.len() {
            match retry_on_intr(|| pread(&*self.0, &mut bytes[read..], read as u64))? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                more => read += more,
            }
        }
        Ok(numbers.map(u64::from_le_bytes))
    }

    /// Replaces all numbers.
    pub fn write(&self, numbers: [u64; N]) -> io::Result<()> {
        let bytes = numbers.map(u64::to_le_bytes);
        match retry_on_intr(|| pwrite(&*self.0, bytes.as_flattened(), 0))? == 8 * N {
            true => Ok(()),
            false => Err(io::ErrorKind::WriteZero.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_round_trip_and_the_length_stays() {
        let numbers = SharedNumbers::<3>::new(c"haul-test").unwrap();
        assert_eq!(numbers.read().unwrap(), [0; 3]);
        numbers.write([1, u64::MAX, 3]).unwrap();
        assert_eq!(numbers.clone().read().unwrap(), [1, u64::MAX, 3]);
        for len in [0, 1 << 30] {
            assert!(rustix::fs::ftruncate(&**numbers.descriptor(), len).is_err(), "{len}");
        }
    }
}
