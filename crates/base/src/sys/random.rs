//! Random numbers from the kernel (getrandom(2)).

use rustix::rand::{GetRandomFlags, getrandom};
use std::io;

/// Random bytes from the kernel.
pub fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    let got = getrandom(&mut bytes[..], GetRandomFlags::empty())?;
    if got == N { Ok(bytes) } else { Err(io::Error::other("the kernel gave too few random bytes")) }
}

/// Random, between 0 and 1: for pauses.
pub fn jitter() -> f64 {
    random::<1>().map_or(0.5, |[byte]| f64::from(byte) / 255.0)
}
