//! Options of `haul probe`: its own, and those of a copy for performance and connections.

use std::sync::LazyLock;

use super::row::OptionRow;
use super::values::Values;
use super::{flags, measurement};

/// Options that a probe shares with a copy.
const OTHERS: [&OptionRow; 8] = [
    &flags::BITS.row,
    &flags::FORCE.row,
    &flags::FSYNC.row,
    &flags::VERIFY.row,
    &flags::JSON.row,
    &flags::QUIET.row,
    &flags::TIMELIMIT.row,
    &flags::CONFIG.row,
];

static ALL: LazyLock<Vec<OptionRow>> = LazyLock::new(|| measurement::rows(flags::probe::ALL, &OTHERS));

/// All options of `haul probe`.
pub fn rows() -> &'static [OptionRow] {
    &ALL
}

/// Separates a probe's own options from those of the copy.
pub fn split(values: &Values) -> (Values, Values) {
    measurement::split(values, flags::probe::ALL)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::super::flags::COPY;
    use super::*;

    #[test]
    fn sweep_options_are_unique_and_distinct_from_copy_options() {
        let names: Vec<_> = rows().iter().flat_map(OptionRow::long_forms).collect();
        assert_eq!(names.iter().collect::<HashSet<_>>().len(), names.len());
        let letters: Vec<_> = rows().iter().filter_map(|row| row.letter).collect();
        assert_eq!(letters.iter().collect::<HashSet<_>>().len(), letters.len());
        let others = OTHERS.iter().filter(|id| rows().iter().any(|row| row.is(id)));
        assert_eq!(others.count(), OTHERS.len());
        for own in flags::probe::ALL.iter().filter(|row| row.id != "help") {
            assert!(COPY.iter().all(|row| row.id != own.id), "{own:?}");
        }
    }
}
