//! The generations of an archive: which one is the base of a run, and which stay.
//!
//! A kill between the two ends' writes leaves them one generation apart. The base is then the newest that both have, so
//! what the last run made equal shows as equal updates.

use crate::codec::wire_struct;
use crate::integrity::Digest;

wire_struct! {
    /// An archive that an end holds, read to its end without an error.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct Generation {
        /// Its number.
        pub number: u64,
        /// Digest of the agreed state.
        pub agreed: Digest,
    }
}

/// Returns the newest generation that both ends have with the same digest. `None`: a union merge, in which nothing is
/// removed.
pub fn common_base(a: &[Generation], b: &[Generation]) -> Option<Generation> {
    a.iter().filter(|generation| b.contains(generation)).max_by_key(|generation| generation.number).copied()
}

/// Returns the number of the next generation, which neither end has used.
pub fn next_number(a: &[Generation], b: &[Generation]) -> u64 {
    a.iter().chain(b).map(|generation| generation.number).max().unwrap_or(0).saturating_add(1)
}

/// Whether an end keeps generation `number` once it has written `new`. The base stays until the next run: after a kill,
/// the other end may have nothing newer.
pub fn is_retained(number: u64, base: Option<Generation>, new: u64) -> bool {
    number == new || base.is_some_and(|base| base.number == number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn generations(list: &[(u64, u8)]) -> Vec<Generation> {
        list.iter().map(|(number, agreed)| Generation { number: *number, agreed: [*agreed; 32] }).collect()
    }

    fn base(a: &[(u64, u8)], b: &[(u64, u8)]) -> Option<u64> {
        common_base(&generations(a), &generations(b)).map(|base| base.number)
    }

    #[test]
    fn the_base_is_the_newest_that_both_have() {
        assert_eq!(base(&[(5, 1), (6, 2)], &[(5, 1), (6, 2)]), Some(6));
        assert_eq!(base(&[(5, 1), (6, 2)], &[(4, 0), (5, 1)]), Some(5));
        assert_eq!(base(&[(6, 2)], &[(4, 0), (5, 1)]), None);
        assert_eq!(base(&[], &[]), None);
    }

    #[test]
    fn a_number_with_two_states_is_no_base() {
        assert_eq!(base(&[(5, 1), (6, 2)], &[(5, 1), (6, 3)]), Some(5));
        assert_eq!(next_number(&generations(&[(5, 1), (6, 2)]), &generations(&[(7, 0)])), 8);
    }

    #[test]
    fn kills_between_the_writes_never_cost_the_base() {
        let (mut a, mut b) = (generations(&[(1, 1)]), generations(&[(1, 1)]));
        for round in 0..20 {
            let base = common_base(&a, &b);
            assert!(base.is_some(), "round {round}");
            let number = next_number(&a, &b);
            let ends = if round % 3 == 0 { [&mut a, &mut b] } else { [&mut b, &mut a] };
            // Only the first end writes; in some rounds both do.
            for end in ends.into_iter().take(if round % 4 == 0 { 2 } else { 1 }) {
                end.push(Generation { number, agreed: [round; 32] });
                end.retain(|old| is_retained(old.number, base, number));
            }
        }
    }
}
