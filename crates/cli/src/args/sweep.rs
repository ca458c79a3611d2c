//! Options of `haul sweep`: its own, and those of a copy; some take lists.

use std::sync::LazyLock;

use super::row::OptionRow;
use super::table::{COPY, SWEEP};

/// Options of a copy that all runs of a sweep can have.
const KEPT: [&str; 40] = [
    "config",
    "recursive",
    "preserve",
    "symlinks",
    "readable",
    "no-empty-dirs",
    "nofschk",
    "timelimit",
    "congestion",
    "cpus",
    "buffsz",
    "buffers",
    "cache",
    "no-encrypt",
    "compress",
    "idfile",
    "ssh-config",
    "ssh-port",
    "ssh-option",
    "rsh",
    "source-command",
    "target-command",
    "callback",
    "bind",
    "ipv4",
    "ipv6",
    "reverse",
    "port",
    "paths",
    "no-deploy",
    "worker-binary",
    "silence",
    "verify",
    "digest",
    "fsync",
    "order",
    "json",
    "quiet",
    "verbose",
    "archive",
];

static ALL: LazyLock<Vec<OptionRow>> = LazyLock::new(|| {
    let kept = COPY.iter().filter(|row| KEPT.contains(&row.id));
    SWEEP.iter().chain(kept).cloned().collect()
});

/// All of them.
pub fn rows() -> &'static [OptionRow] {
    &ALL
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sweep::setting::{DIMENSIONS, SIZE, TARGET};

    #[test]
    fn all_that_is_kept_is_an_option_of_a_copy_and_none_is_there_twice() {
        assert_eq!(rows().len(), SWEEP.len() + KEPT.len());
        let mut ids: Vec<_> = rows().iter().map(|row| row.id).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), rows().len());
    }

    #[test]
    fn what_takes_a_list_is_an_option_of_a_copy_under_its_letter() {
        for dimension in DIMENSIONS.iter().filter(|dimension| ![SIZE, TARGET].contains(&dimension.id)) {
            let copy = COPY.iter().find(|row| row.id == dimension.id).expect("a copy has it");
            let own = SWEEP.iter().find(|row| row.id == dimension.id).expect("a sweep has it");
            assert_eq!((own.letter, own.typed()), (copy.letter, copy.typed()));
        }
    }
}
