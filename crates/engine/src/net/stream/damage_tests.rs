//! Bits that flip on the way: each is noticed, whatever it is a bit of, with encryption and without.

use haul_lab::{Rng, cases, count};
use haul_proto::wire::handshake::{CipherSuite, KeyDirection};

use super::testing::{conversation, flip, heard, is_noticed, keys, sealed};

/// Frames and packs of one stream.
const FRAMES_MAX: u64 = 3;
/// Keys change now and then.
const REKEY_BYTES: u64 = 5000;

#[test]
fn every_flipped_bit_is_noticed() {
    let flips = cases("HAUL_FLIPS", 20_000);
    for seed in 0..flips {
        let mut rng = Rng::new(seed);
        let keys = keys(seed, rng.pick(&CipherSuite::ALL).0, REKEY_BYTES);
        let said = conversation(&mut rng, FRAMES_MAX);
        let mut records = sealed(&keys, KeyDirection::FromConnector, &said);
        let at = rng.index(records.len());
        flip(&mut rng, &mut records[at]);
        assert!(is_noticed(&said, at, &heard(&keys, records.concat())), "seed {seed}: record {at}");
    }
    count("bits-flipped-on-a-stream", flips);
}

#[test]
fn the_test_detects_unnoticed_damage() {
    let mut rng = Rng::new(1);
    for (suite, _) in CipherSuite::ALL {
        let keys = keys(1, suite, REKEY_BYTES);
        let said = conversation(&mut rng, FRAMES_MAX);
        let wire = sealed(&keys, KeyDirection::FromConnector, &said).concat();
        let mut heard = heard(&keys, wire);
        assert!(heard.whole && heard.said == said, "{suite:?}: what nobody touched does not arrive");
        assert!((0..=said.len()).all(|at| !is_noticed(&said, at, &heard)), "{suite:?}");
        heard.whole = false;
        heard.said[1].payload[0] ^= 1;
        assert!((0..=said.len()).all(|at| !is_noticed(&said, at, &heard)), "{suite:?}: a wrong payload goes unseen");
    }
}
