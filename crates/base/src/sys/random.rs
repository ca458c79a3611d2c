//! Random numbers from the kernel.

use std::io;

use super::os;

/// Random bytes from the kernel.
pub fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    os::fill_random(&mut bytes)?;
    Ok(bytes)
}

/// A random number between 0 and 1, for pauses.
pub fn jitter() -> f64 {
    random::<1>().map_or(0.5, |[byte]| f64::from(byte) / 255.0)
}
