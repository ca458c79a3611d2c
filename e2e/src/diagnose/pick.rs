//! Settings of a case: from the middle of their ranges, or drawn from them by a seed; and their description for the
//! table.

use std::ops::RangeInclusive;

use haul_lab::Rng;

/// How much is limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strength {
    /// Clearly the limit.
    Mild,
    /// Next to nothing gets through.
    Hard,
}

impl Strength {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Mild, Self::Hard];

    /// As the table shows it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mild => "mild",
            Self::Hard => "hard",
        }
    }
}

/// Many things.
const MANY: u32 = 60;

/// Chooses one case's settings.
#[derive(Debug)]
pub struct Pick {
    strength: Strength,
    random: Option<Rng>,
    /// How long the limit is to hold the copy up.
    seconds: u64,
    picked: Vec<String>,
}

impl Pick {
    /// Without a seed, each setting is in the middle of its range.
    pub fn new(strength: Strength, seed: Option<u64>, seconds: u64) -> Self {
        Self { strength, random: seed.map(Rng::new), seconds, picked: Vec::new() }
    }

    /// One setting, from the range of this strength.
    pub fn of(&mut self, name: &str, mild: RangeInclusive<u64>, hard: RangeInclusive<u64>) -> u64 {
        let range = match self.strength {
            Strength::Mild => mild,
            Strength::Hard => hard,
        };
        let (low, high) = range.into_inner();
        let value = match &mut self.random {
            Some(random) => random.between(low, high),
            None => low.midpoint(high),
        };
        self.picked.push(format!("{name} {value}"));
        value
    }

    /// One setting with the same range for both strengths.
    pub fn any(&mut self, name: &str, range: RangeInclusive<u64>) -> u64 {
        self.of(name, range.clone(), range)
    }

    /// How many bytes a limit of so many a second lets through in the time that it is to hold the copy up.
    pub fn bytes_at(&self, bytes_per_s: u64) -> u64 {
        bytes_per_s * self.seconds
    }

    /// A number of things for a rate of so many a second; always a large number.
    pub fn count_at(&self, per_s: u64) -> u32 {
        u32::try_from(per_s * self.seconds).unwrap_or(u32::MAX).max(MANY)
    }

    /// All settings, in words.
    pub fn picked(&self) -> String {
        self.picked.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_draws_from_the_range_of_the_strength() {
        let draw = |strength, seed| Pick::new(strength, seed, 3).of("rate", 100..=200, 10..=20);
        assert_eq!((draw(Strength::Mild, None), draw(Strength::Hard, None)), (150, 15));
        let drawn: Vec<_> = (0..50).map(|seed| draw(Strength::Hard, Some(seed))).collect();
        assert!(drawn.iter().all(|value| (10..=20).contains(value)), "{drawn:?}");
        assert!((10..=20).all(|value| drawn.contains(&value)), "{drawn:?}");
        assert_eq!(draw(Strength::Mild, Some(7)), draw(Strength::Mild, Some(7)));
    }

    #[test]
    fn picked_settings_appear_in_the_table() {
        let mut pick = Pick::new(Strength::Mild, None, 2);
        let rate = pick.of("MB/s", 10..=10, 1..=1);
        pick.any("ms", 5..=5);
        assert_eq!((pick.bytes_at(rate), pick.picked().as_str()), (20, "MB/s 10, ms 5"));
    }
}
