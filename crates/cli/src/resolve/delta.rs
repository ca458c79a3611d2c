//! `--delta` and `--inplace`: replaced files as base files.

use haul_base::copy::spec::{DeltaMode, DeltaOptions, Verify};

use crate::args::row::OptionRow;
use crate::args::values::Values;
use crate::args::{Dialect, UsageError, contradiction, flags};

/// The requested rules.
pub fn rules(values: &Values) -> Result<DeltaOptions, UsageError> {
    let delta = values.get(&flags::DELTA)?.unwrap_or(DeltaMode::Auto);
    if values.is_set(&flags::INPLACE) {
        refuse_contradictions(values, delta)?;
    }
    let in_place = values.is_set(&flags::INPLACE) || keeps_inode(values);
    Ok(DeltaOptions { delta, in_place, wrong_before: 0 })
}

/// bbcp's `-K`: a replaced file keeps its inode, so that its other names have the new contents.
fn keeps_inode(values: &Values) -> bool {
    values.dialect() == Dialect::Bbcp && values.is_set(&flags::TRUNCATE)
}

/// Refuses digests with updates in place: the file is not read from beginning to end.
fn refuse_contradictions(values: &Values, delta: DeltaMode) -> Result<(), UsageError> {
    if let Some(other) = values.first_of(&[&flags::OMIT, &flags::CHECKSUM, &flags::EXPECT]) {
        return Err(contradiction(&flags::INPLACE, other));
    }
    let reads_back = values.get(&flags::VERIFY)? == Some(Verify::Disk);
    let how = if delta == DeltaMode::Rolling { "rolling" } else { "off" };
    let pairs: [(&OptionRow, bool, &str); 2] = [
        (&flags::VERIFY, reads_back, "disk"),
        (&flags::DELTA, matches!(delta, DeltaMode::Rolling | DeltaMode::Off), how),
    ];
    match pairs.into_iter().find(|(_, holds, _)| *holds) {
        Some((option, _, how)) => Err(UsageError::new(format!(
            "{} cannot be used with {} {how}: files are updated in place block by block",
            flags::INPLACE.typed(),
            option.typed(),
        ))),
        None => Ok(()),
    }
}
