//! What becomes of inputs at random: bytes changed, left out, doubled, and taken from other inputs.

use haul_lab::Rng;

/// Most changes that are made to an input.
const CHANGES_MAX: u64 = 6;
/// Most bytes that one change adds.
const ADDED_MAX: usize = 300;
/// Longer inputs are cut.
const LEN_MAX: usize = 8192;
/// Bytes at which code that reads numbers and lengths may stumble.
const EDGES: [u8; 8] = [0, 1, 0x7f, 0x80, 0xfe, 0xff, 0x10, 0x40];

/// One of these inputs (there is at least one), changed.
pub fn mutate(rng: &mut Rng, inputs: &[Vec<u8>]) -> Vec<u8> {
    let mut data = inputs[rng.index(inputs.len())].clone();
    for _ in 0..=rng.below(CHANGES_MAX) {
        change(rng, &mut data, inputs);
    }
    data.truncate(LEN_MAX);
    data
}

fn change(rng: &mut Rng, data: &mut Vec<u8>, inputs: &[Vec<u8>]) {
    let at = rng.index(data.len() + 1);
    let end = at + rng.index((data.len() - at + 1).min(ADDED_MAX));
    match rng.below(8) {
        0 => drop(data.drain(at..end)),
        1 => {
            let doubled = data[at..end].to_vec();
            data.splice(at..at, doubled);
        }
        2 => {
            let len = 1 + rng.index(16);
            data.splice(at..at, rng.bytes(len));
        }
        3 => {
            let other = &inputs[rng.index(inputs.len())];
            let from = rng.index(other.len() + 1);
            let to = from + rng.index((other.len() - from + 1).min(ADDED_MAX));
            data.splice(at..end, other[from..to].iter().copied());
        }
        4 => data[at..end].iter_mut().take(8).for_each(|byte| *byte = 0xff),
        kind => {
            let Some(byte) = data.get_mut(at) else { return };
            *byte = match kind {
                5 => *byte ^ (1 << rng.below(8)),
                6 => rng.pick(&EDGES),
                _ => byte.wrapping_add(1).wrapping_sub(2 * u8::from(rng.chance(500))),
            };
        }
    }
}
