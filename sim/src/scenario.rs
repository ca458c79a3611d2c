//! The scenario of a seed: fault rates, streams, crashes, and the policy for existing entries.

use haul_lab::Rng;
use haul_proto::overwrite_policy::OverwritePolicy;

/// Each such seed has a tree that is wider than the window.
const WIDE_EVERY: u64 = 512;

/// Fault rates, per thousand.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Rates {
    /// Looking at or making an entry at the target.
    pub create: u64,
    /// Writing a frame.
    pub write: u64,
    /// Giving a name, or a directory its metadata.
    pub name: u64,
    /// A record arrives with a flipped bit (after its seal was opened).
    pub damage: u64,
    /// Reading a frame or a small file.
    pub read: u64,
    /// The source hashes something else than it sends.
    pub wrong_value: u64,
    /// Files that cannot be read, or that change.
    pub troubles: u64,
    /// A stream breaks, at each move.
    pub breaks: u64,
    /// The target's disk becomes full, at each move; room comes again.
    pub full: u64,
}

/// The settings from a seed.
#[derive(Debug)]
pub struct Scenario {
    /// The policy for existing entries.
    pub overwrite: OverwritePolicy,
    /// Fault rates.
    pub rates: Rates,
    /// Number of streams.
    pub streams: u16,
    /// Hash received data.
    pub verify_memory: bool,
    /// A tree that is wider than the window.
    pub wide: bool,
    /// Keep journals, and resume from them.
    pub resumes: bool,
    /// Most runs that are cut off.
    pub crashes: u64,
}

impl Scenario {
    /// The scenario of a seed.
    pub fn random(seed: u64, rng: &mut Rng) -> Self {
        let wide = seed % WIDE_EVERY == WIDE_EVERY - 1;
        let calm = rng.chance(300);
        let mut rate = |most: &[u64]| if calm || wide { 0 } else { rng.pick(most) };
        let rates = Rates {
            create: rate(&[0, 0, 20, 100]),
            write: rate(&[0, 0, 10, 60]),
            name: rate(&[0, 0, 20, 100]),
            damage: rate(&[0, 10, 100, 300]),
            read: rate(&[0, 0, 10, 60]),
            wrong_value: rate(&[0, 0, 0, 10]),
            troubles: rate(&[0, 100, 400]),
            breaks: if wide { 0 } else { rng.pick(&[0, 0, 2, 20]) },
            full: if calm || wide { 0 } else { rng.pick(&[0, 0, 0, 2]) },
        };
        Self {
            overwrite: if rng.chance(500) { OverwritePolicy::Replace } else { OverwritePolicy::Report },
            rates,
            streams: 1 + u16::try_from(rng.below(4)).unwrap_or(0),
            verify_memory: rng.chance(300),
            wide,
            resumes: rng.chance(900),
            crashes: if rng.chance(500) { 1 + rng.below(3) } else { 0 },
        }
    }

    /// Whether the only faults are crashes and broken streams.
    pub fn is_calm(&self) -> bool {
        self.rates == Rates { breaks: self.rates.breaks, ..Rates::default() }
    }
}
