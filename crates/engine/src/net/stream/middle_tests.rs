//! Someone on the way who knows where records begin and end, and drops, doubles, swaps and moves them, within a
//! connection and between two of the same session: nothing of it is accepted.

use haul_lab::{Rng, cases, count};
use haul_proto::wire::frame::PREFIX_LEN;
use haul_proto::wire::handshake::{CipherSuite, KeyDirection};

use super::testing::{TestRecord, conversation, heard, is_noticed, keys, sealed};

/// Frames and packs of one stream.
const FRAMES_MAX: u64 = 8;

/// What is done to the records of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Attack {
    /// Nothing, to see that it would be seen if nothing were noticed.
    Nothing,
    /// One is left out.
    Drop,
    /// All from one on are.
    Cut,
    /// One comes twice.
    Double,
    /// One comes again, later.
    Replay,
    /// Two change places.
    Swap,
    /// One is that of the other connection at the same place.
    Replace,
    /// One of the other connection comes in between.
    Insert,
    /// From one on, all are those of the other connection.
    Splice,
    /// One that this end has sent itself comes back to it.
    Reflect,
    /// One loses bytes at its end.
    Shorten,
    /// One has the prefix of another.
    Behead,
}

const ATTACKS: [Attack; 11] = [
    Attack::Drop,
    Attack::Cut,
    Attack::Double,
    Attack::Replay,
    Attack::Swap,
    Attack::Replace,
    Attack::Insert,
    Attack::Splice,
    Attack::Reflect,
    Attack::Shorten,
    Attack::Behead,
];

/// Two connections of a session, and what someone on the way has seen of them.
struct Scene {
    said: Vec<TestRecord>,
    records: Vec<Vec<u8>>,
    /// Of another connection, as many.
    others: Vec<Vec<u8>>,
    /// What the receiving end has sent on this one.
    answers: Vec<Vec<u8>>,
}

impl Scene {
    fn new(rng: &mut Rng, suite: CipherSuite, rekey_bytes: u64) -> Self {
        let said = conversation(rng, FRAMES_MAX);
        let (own, other) = (keys(0, suite, rekey_bytes), keys(1, suite, rekey_bytes));
        let records = sealed(&own, KeyDirection::FromConnector, &said);
        // The other one says the very same, so that keys alone tell the two from each other.
        let others = sealed(&other, KeyDirection::FromConnector, &said);
        let answers = sealed(&own, KeyDirection::FromAcceptor, &said);
        Self { said, records, others, answers }
    }

    /// The wire after the attack, and how many records are as they were. What comes behind the End is nobody's: attacks
    /// are before it.
    fn attacked(&self, attack: Attack, rng: &mut Rng) -> (Vec<u8>, usize) {
        let mut wire = self.records.clone();
        let (last, at) = (wire.len() - 1, rng.index(wire.len()));
        let before_last = rng.index(last);
        let later = before_last + 1 + rng.index(last - before_last);
        let intact = match attack {
            Attack::Nothing => wire.len(),
            Attack::Drop => {
                wire.remove(at);
                at
            }
            Attack::Cut => {
                wire.truncate(at);
                at
            }
            Attack::Double => {
                wire.insert(before_last, wire[before_last].clone());
                before_last + 1
            }
            Attack::Replay => {
                wire.insert(later, wire[before_last].clone());
                later
            }
            Attack::Swap => {
                wire.swap(before_last, later);
                before_last
            }
            Attack::Replace => {
                wire[at].clone_from(&self.others[at]);
                at
            }
            Attack::Insert => {
                wire.insert(at, self.others[rng.index(self.others.len())].clone());
                at
            }
            Attack::Splice => {
                wire.truncate(at);
                wire.extend_from_slice(&self.others[at..]);
                at
            }
            Attack::Reflect => {
                wire.insert(at, self.answers[at].clone());
                at
            }
            Attack::Shorten => {
                let len = wire[at].len();
                wire[at].truncate(len - 1 - rng.index(len - 1));
                at
            }
            Attack::Behead => {
                let prefix: [u8; PREFIX_LEN] = wire[later][..PREFIX_LEN].try_into().unwrap();
                let same = wire[before_last][..PREFIX_LEN] == prefix;
                wire[before_last][..PREFIX_LEN].copy_from_slice(&prefix);
                // Two of one shape have one prefix, and then nothing has changed: one of them is dropped instead.
                if same {
                    wire.remove(before_last);
                }
                before_last
            }
        };
        (wire.concat(), intact)
    }
}

/// Whether the receiving end takes what was intact, and no record more.
fn is_held(seed: u64, attack: Attack) -> bool {
    let mut rng = Rng::new(seed);
    let (suite, _) = rng.pick(&CipherSuite::ALL);
    let rekey_bytes = rng.pick(&[1 << 30, 3000]);
    let scene = Scene::new(&mut rng, suite, rekey_bytes);
    let (wire, intact) = scene.attacked(attack, &mut rng);
    is_noticed(&scene.said, intact, &heard(&keys(0, suite, rekey_bytes), wire))
}

#[test]
fn dropped_doubled_swapped_and_spliced_records_are_rejected() {
    let attacks = cases("HAUL_MIDDLE", 500);
    for (seed, attack) in (0..attacks).zip(ATTACKS.into_iter().cycle()) {
        assert!(is_held(seed, attack), "seed {seed}: {attack:?}");
    }
    count("records-dropped-doubled-swapped-spliced", attacks);
}

#[test]
fn the_test_detects_accepted_records() {
    assert!((0..20).all(|seed| !is_held(seed, Attack::Nothing)));
}
