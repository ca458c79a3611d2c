//! A cheap test of whether a payload is compressible.
//!
//! Encrypted and compressed data have nearly eight bits of entropy per byte, and no codec makes them shorter. Nearly
//! all other data has less. The test misses random data that repeats as a whole.

/// Number of samples, evenly spread over a payload.
const PIECES: usize = 8;
/// Bytes of each sample.
const PIECE_LEN: usize = 2 << 10;
/// Entropy in bits per byte above which compression gains nothing.
const BITS_MAX: f64 = 7.9;
/// Length of the shortest payload worth compressing.
const LEN_MIN: usize = 512;

/// Whether compression of `payload` is worth a try.
pub fn is_promising(payload: &[u8]) -> bool {
    payload.len() >= LEN_MIN && bits_per_byte(payload) < BITS_MAX
}

/// Returns the entropy of single bytes in samples of `payload`, with the correction of Miller and Madow for small
/// samples.
fn bits_per_byte(payload: &[u8]) -> f64 {
    let mut counts = [0u32; 256];
    let stride = (payload.len() / PIECES).max(PIECE_LEN);
    for piece in payload.chunks(stride).take(PIECES) {
        for byte in piece.iter().take(PIECE_LEN) {
            counts[usize::from(*byte)] += 1;
        }
    }
    let total: u32 = counts.iter().sum();
    let total = f64::from(total.max(1));
    let seen = counts.iter().filter(|count| **count > 0).map(|count| f64::from(*count));
    let (entropy, kinds) =
        seen.fold((0.0, 0.0), |(bits, kinds), count| (bits - count / total * (count / total).log2(), kinds + 1.0));
    entropy + (kinds - 1.0) / (2.0 * total * std::f64::consts::LN_2)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns bytes without a pattern (xorshift64*).
    fn noise(len: usize) -> Vec<u8> {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut next = || {
            state ^= state >> 12;
            state ^= state << 25;
            state ^= state >> 27;
            state.wrapping_mul(0x2545_f491_4f6c_dd1d).to_be_bytes()[0]
        };
        (0..len).map(|_| next()).collect()
    }

    #[test]
    fn noise_differs_from_patterns() {
        for len in [4096, 100_000, 512 << 10, 1 << 20] {
            assert!(!is_promising(&noise(len)), "{len}");
            let digits: Vec<u8> = noise(len).iter().map(|byte| b'0' + byte % 10).collect();
            assert!(is_promising(&digits), "{len} digits");
            assert!(is_promising(&vec![0; len]), "{len} zeros");
        }
    }

    #[test]
    fn a_pattern_in_part_of_a_payload_is_noticed() {
        let mut payload = noise(512 << 10);
        payload[100_000..300_000].fill(b'x');
        assert!(is_promising(&payload));
    }

    #[test]
    fn short_payloads_are_left_alone() {
        assert!(!is_promising(&[]));
        assert!(!is_promising(&[0; LEN_MIN - 1]));
        assert!(is_promising(&[0; LEN_MIN]));
    }

    #[test]
    fn entropy_is_right() {
        let all: Vec<u8> = (0..=255).cycle().take(16 << 10).collect();
        assert!((bits_per_byte(&all) - 8.0).abs() < 0.02);
        let two: Vec<u8> = [0, 1].into_iter().cycle().take(16 << 10).collect();
        assert!((bits_per_byte(&two) - 1.0).abs() < 0.02);
    }
}
