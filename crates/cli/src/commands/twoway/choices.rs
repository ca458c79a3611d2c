//! What decides conflicts: the options `--prefer` and `--keep-both`.

use std::os::unix::ffi::OsStrExt;

use haul_control::controller::twoway::TwowayRun;
use haul_proto::filter::pattern::PATTERN_MAX;
use haul_proto::twoway::ReplicaSide;
use haul_proto::twoway::prefer::{ConflictRules, KeepBoth, PreferenceRule, ReplicaPreference};

use super::shown::date;
use crate::args::values::Values;
use crate::args::{UsageError, flags};

/// Returns the rules of the options. Those with a pattern go first, and of several the last one: what is typed comes
/// behind the options of a pair.
pub fn conflict_rules(own: &Values) -> Result<ConflictRules, UsageError> {
    let mut preferences = Vec::new();
    for typed in own.all(&flags::twoway::PREFER)? {
        let (word, pattern) = match typed.as_bytes().iter().position(|byte| *byte == b':') {
            Some(colon) => (&typed.as_bytes()[..colon], Some(&typed.as_bytes()[colon + 1..])),
            None => (typed.as_bytes(), None),
        };
        let preference = match word {
            b"newer" => ReplicaPreference::Newer,
            b"older" => ReplicaPreference::Older,
            b"larger" => ReplicaPreference::Larger,
            b"a" => ReplicaPreference::Side(ReplicaSide::A),
            // The parser of the option has checked the word.
            _ => ReplicaPreference::Side(ReplicaSide::B),
        };
        preferences.push(match pattern {
            Some(pattern) if pattern.len() > PATTERN_MAX => {
                return Err(UsageError::new("--prefer: the pattern is too long"));
            }
            Some(pattern) => PreferenceRule::of_pattern(pattern, preference),
            None => PreferenceRule { pattern: None, preference },
        });
    }
    preferences.reverse();
    preferences.sort_by_key(|rule| rule.pattern.is_none());
    let keeps = own.is_set(&flags::twoway::KEEP_BOTH);
    let keep_both = keeps.then(|| KeepBoth { hosts: [Vec::new(), Vec::new()], date: Vec::new() });
    Ok(ConflictRules { preferences, keep_both })
}

/// Completes the names for losers once the hosts are known.
pub fn with_hosts(rules: ConflictRules, run: &TwowayRun) -> ConflictRules {
    let hosts = ReplicaSide::BOTH.map(|side| run.place(side).host.clone().into_bytes());
    let today = date(run.place(ReplicaSide::A).now).into_bytes();
    ConflictRules { keep_both: rules.keep_both.map(|_| KeepBoth { hosts, date: today }), ..rules }
}
