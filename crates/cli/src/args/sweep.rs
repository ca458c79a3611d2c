//! Options of `haul sweep`: its own, and those of a copy, some with lists.

use std::sync::LazyLock;

use super::flags::{self, COPY};
use super::row::OptionRow;

/// Options of a copy that apply to all runs of a sweep.
const KEPT: [&OptionRow; 44] = [
    &flags::CONFIG.row,
    &flags::RECURSIVE.row,
    &flags::PRESERVE.row,
    &flags::SYMLINKS.row,
    &flags::READABLE.row,
    &flags::NO_EMPTY_DIRS.row,
    &flags::ONE_FILE_SYSTEM.row,
    &flags::NOFSCHK.row,
    &flags::TIMELIMIT.row,
    &flags::CONGESTION.row,
    &flags::CPUS.row,
    &flags::BUFFSZ.row,
    &flags::BUFFERS.row,
    &flags::CACHE.row,
    &flags::NO_ENCRYPT.row,
    &flags::COMPRESS.row,
    &flags::IDFILE.row,
    &flags::SSH_CONFIG.row,
    &flags::SSH_PORT.row,
    &flags::SSH_OPTION.row,
    &flags::NO_SSH_REUSE.row,
    &flags::RSH.row,
    &flags::SOURCE_COMMAND.row,
    &flags::TARGET_COMMAND.row,
    &flags::CALLBACK.row,
    &flags::BIND.row,
    &flags::IPV4.row,
    &flags::IPV6.row,
    &flags::REVERSE.row,
    &flags::DATA_PORTS.row,
    &flags::PATHS.row,
    &flags::TRANSPORT.row,
    &flags::NO_DEPLOY.row,
    &flags::WORKER_BINARY.row,
    &flags::REMOTE_DIR.row,
    &flags::SILENCE.row,
    &flags::VERIFY.row,
    &flags::DIGEST.row,
    &flags::FSYNC.row,
    &flags::ORDER.row,
    &flags::JSON.row,
    &flags::QUIET.row,
    &flags::VERBOSE.row,
    &flags::ARCHIVE.row,
];

static ALL: LazyLock<Vec<OptionRow>> = LazyLock::new(|| {
    let kept = COPY.iter().filter(|row| row.is_any(&KEPT));
    flags::sweep::ALL.iter().chain(kept).cloned().collect()
});

/// All options of `haul sweep`.
pub fn rows() -> &'static [OptionRow] {
    &ALL
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sweep::setting::DIMENSIONS;

    #[test]
    fn every_recorded_option_is_unique_and_a_copy_option() {
        assert_eq!(rows().len(), flags::sweep::ALL.len() + KEPT.len());
        let mut ids: Vec<_> = rows().iter().map(|row| row.id).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), rows().len());
    }

    #[test]
    fn options_with_lists_have_the_letter_of_the_copy_option() {
        let others: [&OptionRow; 2] = [&flags::sweep::SIZE, &flags::sweep::TARGET];
        for own in DIMENSIONS.iter().map(|dimension| dimension.flag).filter(|flag| !flag.is_any(&others)) {
            let copy = COPY.iter().find(|row| row.is(own)).expect("a copy has it");
            assert_eq!((own.letter, own.typed()), (copy.letter, copy.typed()));
        }
    }
}
