//! `--delta` and `--inplace`: what becomes of old files that are replaced.

use haul_engine::job::spec::{Delta, DeltaRules};

use super::contradiction;
use crate::args::UsageError;
use crate::args::table::typed;
use crate::args::values::Values;

/// Words of `--delta`.
const WORDS: [(&str, Delta); 4] =
    [("auto", Delta::Auto), ("off", Delta::Off), ("blocks", Delta::Blocks), ("rolling", Delta::Rolling)];

/// The rules that were asked for.
pub fn rules(values: &Values) -> Result<DeltaRules, UsageError> {
    let delta = values.choice("delta", &WORDS)?.unwrap_or(Delta::Auto);
    let in_place = values.flag("inplace");
    if in_place {
        refuse_contradictions(values, delta)?;
    }
    Ok(DeltaRules { delta, in_place, wrong_before: 0 })
}

/// What is changed in its own place is not read from its beginning to its end, and has no second file that could be.
fn refuse_contradictions(values: &Values, delta: Delta) -> Result<(), UsageError> {
    if let Some(other) = ["omit", "checksum", "expect"].into_iter().find(|other| values.flag(other)) {
        return Err(contradiction("inplace", other));
    }
    let words = [("verify", values.last("verify").is_some_and(|how| how == "disk"), "disk")];
    let how = if delta == Delta::Rolling { "rolling" } else { "off" };
    let delta = ("delta", matches!(delta, Delta::Rolling | Delta::Off), how);
    match words.into_iter().chain([delta]).find(|(_, holds, _)| *holds) {
        Some((option, _, how)) => Err(UsageError::new(format!(
            "{} and {} {how} contradict each other: a file is changed in its own place block by block",
            typed("inplace"),
            typed(option),
        ))
        .remedy("leave one of them out")),
        None => Ok(()),
    }
}
