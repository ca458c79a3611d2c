//! The greatest of many, without keeping the others.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// The n greatest values.
pub struct TopN<T> {
    most: usize,
    /// A heap with the smallest item on top.
    kept: BinaryHeap<Reverse<Ranked<T>>>,
    offered: u64,
}

struct Ranked<T> {
    size: u64,
    /// Of two that are equally great, the first one stays.
    number: Reverse<u64>,
    thing: T,
}

impl<T> TopN<T> {
    /// Keeps at most `most`.
    pub fn new(most: usize) -> Self {
        Self { most, kept: BinaryHeap::new(), offered: 0 }
    }

    /// Offers something of this size, which is made only if it is kept.
    pub fn offer(&mut self, size: u64, make: impl FnOnce() -> T) {
        self.offered += 1;
        if self.kept.len() >= self.most {
            if self.kept.peek().is_none_or(|Reverse(least)| least.size >= size) {
                return;
            }
            self.kept.pop();
        }
        self.kept.push(Reverse(Ranked { size, number: Reverse(self.offered), thing: make() }));
    }

    /// Returns the items, the greatest first.
    pub fn into_sorted(self) -> Vec<T> {
        let sorted = self.kept.into_sorted_vec();
        sorted.into_iter().map(|Reverse(ranked)| ranked.thing).collect()
    }
}

impl<T> Ord for Ranked<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.size, self.number).cmp(&(other.size, other.number))
    }
}

impl<T> PartialOrd for Ranked<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> PartialEq for Ranked<T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<T> Eq for Ranked<T> {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_greatest_stay_in_their_order_and_of_equals_the_first() {
        let mut top = TopN::new(3);
        for (size, name) in [(5, "a"), (1, "b"), (9, "c"), (5, "d"), (7, "e"), (5, "f"), (0, "g")] {
            top.offer(size, || name);
        }
        assert_eq!(top.into_sorted(), ["c", "e", "a"]);
    }

    #[test]
    fn entries_below_the_top_are_not_built() {
        let mut top = TopN::new(1);
        top.offer(2, || 2);
        top.offer(1, || panic!("it is not among the greatest"));
        assert_eq!(top.into_sorted(), [2]);
        let mut none = TopN::<u8>::new(0);
        none.offer(1, || panic!("nothing is kept"));
    }
}
