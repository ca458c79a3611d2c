//! The rates that keys step through: 1, 1.5, 2, 3, 5, 7, 10 of each power of ten.

use haul_base::copy::rate::RATE_MAX;
use haul_proto::limits::RATE_MIN;

/// In tenths.
const STEPS: [u64; 6] = [10, 15, 20, 30, 50, 70];

/// The next rate above this one.
pub fn above(bytes_per_s: u64) -> u64 {
    all().find(|step| *step > bytes_per_s).unwrap_or(RATE_MAX)
}

/// The next rate below this one.
pub fn below(bytes_per_s: u64) -> u64 {
    all().take_while(|step| *step < bytes_per_s).last().unwrap_or(RATE_MIN)
}

fn all() -> impl Iterator<Item = u64> {
    let powers = std::iter::successors(Some(100), |power: &u64| power.checked_mul(10));
    let steps = powers.flat_map(|power| STEPS.map(|step| power.saturating_mul(step)));
    steps.skip_while(|step| *step < RATE_MIN).take_while(|step| *step <= RATE_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_lead_up_and_down_the_same_rates() {
        let up: Vec<_> = std::iter::successors(Some(900_000), |rate| Some(above(*rate))).skip(1).take(8).collect();
        assert_eq!(up, [1_000_000, 1_500_000, 2_000_000, 3_000_000, 5_000_000, 7_000_000, 10_000_000, 15_000_000]);
        let down: Vec<_> = std::iter::successors(Some(15_000_000), |rate| Some(below(*rate))).take(8).collect();
        assert_eq!(down, up.into_iter().rev().collect::<Vec<_>>());
    }

    #[test]
    fn rates_have_a_minimum_and_a_maximum() {
        assert_eq!((below(0), below(1500), above(0)), (RATE_MIN, RATE_MIN, 1500));
        assert_eq!((above(u64::MAX), above(RATE_MAX)), (RATE_MAX, RATE_MAX));
        assert!(below(u64::MAX) > 1 << 39);
    }
}
