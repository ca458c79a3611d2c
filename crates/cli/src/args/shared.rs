//! Options of commands that share some of a copy's: `haul probe`, `haul net`, `haul read`, `haul config`, and those on
//! files of hosts.

use std::sync::LazyLock;

use super::flags::{self, COPY};
use super::row::{HelpSection, OptionRow};
use super::values::Values;

/// Sections of a copy's options that change what is measured.
const MEASURED: [HelpSection; 2] = [HelpSection::Performance, HelpSection::Connecting];
/// Further options that a probe shares with a copy.
const PROBE_OTHERS: [&OptionRow; 8] = [
    &flags::BITS.row,
    &flags::FORCE.row,
    &flags::FSYNC.row,
    &flags::VERIFY.row,
    &flags::JSON.row,
    &flags::QUIET.row,
    &flags::TIMELIMIT.row,
    &flags::CONFIG.row,
];
/// Further options that `haul net` shares with a copy.
const NET_OTHERS: [&OptionRow; 4] = [&flags::JSON.row, &flags::QUIET.row, &flags::PROGRESS.row, &flags::CONFIG.row];

/// Further options that `haul twoway` shares with a copy.
const TWOWAY_OTHERS: [&OptionRow; 11] = [
    &flags::INCLUDE.row,
    &flags::EXCLUDE.row,
    &flags::INCLUDE_FROM.row,
    &flags::EXCLUDE_FROM.row,
    &flags::XATTRS.row,
    &flags::ACLS.row,
    &flags::FSYNC.row,
    &flags::VERIFY.row,
    &flags::QUIET.row,
    &flags::VERBOSE.row,
    &flags::CONFIG.row,
];

/// All options of `haul probe`.
pub static PROBE: LazyLock<Vec<OptionRow>> = LazyLock::new(|| rows(flags::probe::ALL, &MEASURED, &PROBE_OTHERS));
/// All options of `haul net`.
pub static NET: LazyLock<Vec<OptionRow>> = LazyLock::new(|| rows(flags::net::ALL, &MEASURED, &NET_OTHERS));
/// All options of `haul config`: those of a copy, and its own.
pub static CONFIG: LazyLock<Vec<OptionRow>> = LazyLock::new(|| {
    let of_copy = COPY.iter().filter(|row| !row.is(&flags::JSON.row));
    flags::config::ALL.iter().chain(of_copy).cloned().collect()
});
/// All options of `haul read`.
pub static READ: LazyLock<Vec<OptionRow>> = LazyLock::new(|| of_files(flags::read::ALL));
/// All options of `haul ls`.
pub static LS: LazyLock<Vec<OptionRow>> = LazyLock::new(|| of_files(flags::files::ls::ALL));
/// All options of `haul du`.
pub static DU: LazyLock<Vec<OptionRow>> = LazyLock::new(|| of_files(flags::files::du::ALL));
/// All options of `haul mkdir`.
pub static MKDIR: LazyLock<Vec<OptionRow>> = LazyLock::new(|| of_files(flags::files::mkdir::ALL));
/// All options of `haul status` and `haul clean`.
pub static PARTIALS: LazyLock<Vec<OptionRow>> = LazyLock::new(|| of_files(flags::partials::ALL));
/// All options of `haul rm`.
pub static RM: LazyLock<Vec<OptionRow>> = LazyLock::new(|| of_files(flags::files::rm::ALL));

/// All options of `haul twoway`.
pub static TWOWAY: LazyLock<Vec<OptionRow>> = LazyLock::new(|| {
    let sections = [HelpSection::Performance, HelpSection::Connecting];
    rows(flags::twoway::ALL, &sections, &TWOWAY_OTHERS)
});

fn of_files(own: &[OptionRow]) -> Vec<OptionRow> {
    rows(own, &[HelpSection::Connecting], &[&flags::CONFIG.row])
}

/// `own`, a copy's options in `sections`, and `others`.
fn rows(own: &[OptionRow], sections: &[HelpSection], others: &[&OptionRow]) -> Vec<OptionRow> {
    let is_shared = |row: &&OptionRow| sections.contains(&row.section) || row.is_any(others);
    own.iter().chain(COPY.iter().filter(is_shared)).cloned().collect()
}

/// Separates the command's `own` options from those of the copy.
pub fn split(values: &Values, own: &'static [OptionRow]) -> (Values, Values) {
    let is_own = |row: &OptionRow| own.iter().any(|own| own.is(row));
    let given = values.given().iter().cloned();
    let (of_command, of_copy) = given.partition(|(row, _)| is_own(row));
    let (own_undone, undone) = values.undone().iter().copied().partition(|row| is_own(row));
    let dialect = values.dialect();
    let of_command = Values::new(own, dialect, of_command).undoing(own_undone);
    (of_command, Values::new(COPY, dialect, of_copy).undoing(undone))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn probe_options_are_unique_and_distinct_from_copy_options() {
        let names: Vec<_> = PROBE.iter().flat_map(OptionRow::long_forms).collect();
        assert_eq!(names.iter().collect::<HashSet<_>>().len(), names.len());
        let letters: Vec<_> = PROBE.iter().filter_map(|row| row.letter).collect();
        assert_eq!(letters.iter().collect::<HashSet<_>>().len(), letters.len());
        let others = PROBE_OTHERS.iter().filter(|id| PROBE.iter().any(|row| row.is(id)));
        assert_eq!(others.count(), PROBE_OTHERS.len());
        for own in flags::probe::ALL.iter().filter(|row| row.id != "help") {
            assert!(COPY.iter().all(|row| row.id != own.id), "{own:?}");
        }
    }
}
