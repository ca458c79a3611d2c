//! Sets of numbers as ranges, such as received frames of a file or complete entries.

use std::collections::BTreeMap;
use std::ops::Range;

/// A set of `u64` as disjoint, non-adjacent ranges.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RangeSet {
    /// Start of each range with its exclusive end.
    ranges: BTreeMap<u64, u64>,
    len: u64,
}

impl RangeSet {
    /// Creates an empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns how many numbers are in the set.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the highest number plus one; 0 for an empty set.
    pub fn end(&self) -> u64 {
        self.ranges.last_key_value().map_or(0, |(_, &end)| end)
    }

    /// Returns the least number outside the set.
    pub fn first_gap(&self) -> u64 {
        self.ranges.get(&0).copied().unwrap_or(0)
    }

    /// Whether `number` is in the set.
    pub fn contains(&self, number: u64) -> bool {
        self.ranges.range(..=number).next_back().is_some_and(|(_, &end)| number < end)
    }

    /// Adds `number`; returns `false` if it is there already.
    pub fn insert(&mut self, number: u64) -> bool {
        if self.contains(number) {
            return false;
        }
        let mut start = number;
        let mut end = number.saturating_add(1);
        if let Some((&before, &before_end)) = self.ranges.range(..number).next_back()
            && before_end == number
        {
            start = before;
        }
        if let Some(after_end) = self.ranges.remove(&end) {
            end = after_end;
        }
        self.ranges.insert(start, end);
        self.len += 1;
        true
    }

    /// Returns the number of ranges.
    pub fn runs(&self) -> usize {
        self.ranges.len()
    }

    /// Returns the ranges in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.ranges.iter().map(|(&start, &end)| start..end)
    }

    /// Returns the ranges below `end` outside the set, in ascending order.
    pub fn gaps(&self, end: u64) -> impl Iterator<Item = Range<u64>> + '_ {
        let mut from = 0;
        let behind = std::iter::once(end..end);
        let runs = self.iter().take_while(move |run| run.start < end).chain(behind);
        runs.filter_map(move |run| {
            let gap = from..run.start;
            from = run.end;
            (gap.start < gap.end).then_some(gap)
        })
    }

    /// Returns the ranges within `bounds` outside the set, in ascending order.
    pub fn gaps_within(&self, bounds: Range<u64>) -> impl Iterator<Item = Range<u64>> + '_ {
        let within = move |gap: Range<u64>| gap.start.max(bounds.start)..gap.end;
        self.gaps(bounds.end).map(within).filter(|gap| gap.start < gap.end)
    }

    /// Removes the numbers of `range` from the set and returns the removed ranges in ascending order.
    pub fn take_within(&mut self, range: &Range<u64>) -> Vec<Range<u64>> {
        let touched = self.ranges.range(..range.end).rev().take_while(|(_, end)| **end > range.start);
        let mut touched: Vec<_> = touched.map(|(&start, &end)| start..end).collect();
        touched.reverse();
        for run in &mut touched {
            self.ranges.remove(&run.start);
            if run.start < range.start {
                self.ranges.insert(run.start, range.start);
            }
            if run.end > range.end {
                self.ranges.insert(range.end, run.end);
            }
            *run = run.start.max(range.start)..run.end.min(range.end);
            self.len -= run.end - run.start;
        }
        touched
    }

    /// Removes and returns all ranges.
    pub fn take_ranges(&mut self) -> Vec<Range<u64>> {
        self.len = 0;
        std::mem::take(&mut self.ranges).into_iter().map(|(start, end)| start..end).collect()
    }
}

impl Extend<u64> for RangeSet {
    fn extend<Numbers: IntoIterator<Item = u64>>(&mut self, numbers: Numbers) {
        for number in numbers {
            self.insert(number);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn agrees_with_a_plain_set(numbers in proptest::collection::vec(0u64..60, 0..80)) {
            let mut ranges = RangeSet::new();
            let mut plain = BTreeSet::new();
            for n in numbers {
                prop_assert_eq!(ranges.insert(n), plain.insert(n));
                prop_assert_eq!(ranges.len(), plain.len() as u64);
            }
            for n in 0..61 {
                prop_assert_eq!(ranges.contains(n), plain.contains(&n));
            }
            let listed: Vec<u64> = ranges.iter().flatten().collect();
            prop_assert_eq!(listed, plain.into_iter().collect::<Vec<_>>());
            let touching = ranges.iter().zip(ranges.iter().skip(1)).any(|(a, b)| a.end >= b.start);
            prop_assert!(!touching);
        }

        #[test]
        fn removals_and_gaps_agree_with_a_plain_set(
            numbers in proptest::collection::vec(0u64..60, 0..80), start in 0u64..60, len in 0u64..60, end in 0u64..70,
        ) {
            let mut ranges = RangeSet::new();
            let mut plain: BTreeSet<u64> = numbers.iter().copied().collect();
            ranges.extend(numbers);
            let missing: Vec<u64> = ranges.gaps(end).flatten().collect();
            prop_assert_eq!(missing, (0..end).filter(|n| !plain.contains(n)).collect::<Vec<_>>());
            let within = start..start + len;
            let missing: Vec<u64> = ranges.gaps_within(within.clone()).flatten().collect();
            prop_assert_eq!(missing, within.clone().filter(|n| !plain.contains(n)).collect::<Vec<_>>());
            let taken: Vec<u64> = ranges.take_within(&within).into_iter().flatten().collect();
            let (inside, outside) = plain.into_iter().partition::<Vec<_>, _>(|n| within.contains(n));
            prop_assert_eq!(taken, inside);
            prop_assert_eq!(ranges.len(), outside.len() as u64);
            plain = outside.into_iter().collect();
            prop_assert_eq!(ranges.iter().flatten().collect::<BTreeSet<_>>(), plain);
        }
    }
}
