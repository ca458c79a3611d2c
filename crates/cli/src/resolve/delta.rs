//! `--delta` and `--inplace`: what becomes of old files that are replaced.

use haul_engine::job::spec::{DeltaMode, DeltaOptions};

use crate::args::table::typed;
use crate::args::values::Values;
use crate::args::{Dialect, UsageError};

/// Words of `--delta`.
const WORDS: [(&str, DeltaMode); 4] = [
    ("auto", DeltaMode::Auto),
    ("off", DeltaMode::Off),
    ("blocks", DeltaMode::Blocks),
    ("rolling", DeltaMode::Rolling),
];

/// The rules that were asked for.
pub fn rules(values: &Values) -> Result<DeltaOptions, UsageError> {
    let delta = values.choice("delta", &WORDS)?.unwrap_or(DeltaMode::Auto);
    if values.flag("inplace") {
        refuse_contradictions(values, delta)?;
    }
    let in_place = values.flag("inplace") || keeps_inode(values);
    Ok(DeltaOptions { delta, in_place, wrong_before: 0 })
}

/// bbcp's `-K`: a replaced file keeps its inode, so that its other names see the new contents.
fn keeps_inode(values: &Values) -> bool {
    values.dialect() == Dialect::Bbcp && values.flag("truncate")
}

/// What is changed in its own place is not read from its beginning to its end, and has no second file that could be.
fn refuse_contradictions(values: &Values, delta: DeltaMode) -> Result<(), UsageError> {
    if let Some(other) = ["omit", "checksum", "expect"].into_iter().find(|other| values.flag(other)) {
        return Err(UsageError::contradiction("inplace", other));
    }
    let words = [("verify", values.last("verify").is_some_and(|how| how == "disk"), "disk")];
    let how = if delta == DeltaMode::Rolling { "rolling" } else { "off" };
    let delta = ("delta", matches!(delta, DeltaMode::Rolling | DeltaMode::Off), how);
    match words.into_iter().chain([delta]).find(|(_, holds, _)| *holds) {
        Some((option, _, how)) => Err(UsageError::new(format!(
            "{} cannot be used with {} {how}: files are updated in place block by block",
            typed("inplace"),
            typed(option),
        ))),
        None => Ok(()),
    }
}
