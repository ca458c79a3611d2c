//! Speed of one core for the operations on a frame between disk and network.

use std::time::{Duration, Instant};

use haul_base::sys::random::random;
use haul_proto::integrity::{FrameLen, frame_check};
use haul_proto::limits::REKEY_BYTES;
use haul_proto::wire::handshake::{CipherSuite, KeyDirection};

use crate::io::frame_buffer::FrameBuffer;
use crate::net::stream::aead::CipherLibrary;
use crate::net::stream::seal::KeySchedule;
use crate::worker::measure::MeasureError;

/// Speeds in bytes per second.
pub struct ComputeSpeed {
    pub hash: u64,
    pub check: u64,
    pub seal: u64,
}

/// Measures each operation for `time`. The data is in the processor's cache, as in a copy, where a frame stays with its
/// thread.
pub fn speed(suite: CipherSuite, time: Duration) -> Result<ComputeSpeed, MeasureError> {
    let frame = FrameLen::DEFAULT;
    let mut record = FrameBuffer::new(frame);
    record.set_payload_len(frame.bytes());
    let secret = random().map_err(MeasureError::RandomBytes)?;
    let keys = KeySchedule::new(&secret, b"measure", suite, REKEY_BYTES);
    let mut sealer = keys.sealer(KeyDirection::FromConnector)?;
    let hash = rate(time, frame, || _ = std::hint::black_box(blake3::hash(record.payload())));
    let check = rate(time, frame, || _ = std::hint::black_box(frame_check(record.payload())));
    let mut sealed = Ok(());
    let seal = rate(time, frame, || sealed = sealer.seal(&mut record));
    sealed?;
    Ok(ComputeSpeed { hash, check, seal })
}

/// An operation on every byte of a copy, and the library for it on this CPU.
pub struct Primitive {
    /// Name of a cipher suite or digest.
    pub name: &'static str,
    /// The library.
    pub library: String,
    /// Speed of one core.
    pub bytes_per_s: u64,
}

/// Returns the primitives of a copy, each measured for `time`.
pub fn primitives(time: Duration) -> Result<Vec<Primitive>, MeasureError> {
    let sealing = [
        (CipherSuite::Aes128Gcm, "aes-128-gcm"),
        (CipherSuite::Aes256Gcm, "aes-256-gcm"),
        (CipherSuite::ChaCha20Poly1305, "chacha20-poly1305"),
    ];
    let mut primitives = Vec::new();
    for (suite, name) in sealing {
        let bytes_per_s = speed(suite, time)?.seal;
        primitives.push(Primitive { name, library: CipherLibrary::of_this_cpu(suite).to_string(), bytes_per_s });
    }
    let ComputeSpeed { hash, check, .. } = speed(CipherSuite::Aes128Gcm, time)?;
    primitives.push(Primitive { name: "blake3", library: "blake3".into(), bytes_per_s: hash });
    primitives.push(Primitive { name: "xxh3", library: "twox-hash".into(), bytes_per_s: check });
    Ok(primitives)
}

/// Returns the rate of `work`, which runs at least once, however short `time` is.
fn rate(time: Duration, frame: FrameLen, mut work: impl FnMut()) -> u64 {
    let begun = Instant::now();
    let mut bytes = 0.0;
    loop {
        work();
        bytes += frame.bytes() as f64;
        let elapsed = begun.elapsed();
        if elapsed >= time {
            return per_s(bytes, elapsed);
        }
    }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a conversion of floats saturates")]
fn per_s(bytes: f64, elapsed: Duration) -> u64 {
    (bytes / elapsed.as_secs_f64().max(1e-9)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_is_measured_however_short_the_time() {
        for (suite, _) in CipherSuite::ALL {
            let ComputeSpeed { hash, check, seal } = speed(suite, Duration::ZERO).unwrap();
            assert!(hash > 0 && check > 0 && seal > 0, "{hash} {check} {seal}");
        }
        let primitives = primitives(Duration::ZERO).unwrap();
        assert!(primitives.len() == 5 && primitives.iter().all(|each| each.bytes_per_s > 0));
    }
}
