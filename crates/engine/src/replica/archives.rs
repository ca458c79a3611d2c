//! The archives of a pair at this end: a file for each generation, in the state directory.

use std::io::{self, BufReader, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use haul_base::held_directory::HeldDirectory;
use haul_proto::checksum::hex;
use haul_proto::integrity::Digest;
use haul_proto::limits::REPLICA_GENERATIONS_MAX;
use haul_proto::twoway::archive::{
    ARCHIVE_ENDS_BYTES, ArchiveError, ArchiveHeader, ArchiveReader, ArchiveSummary, ArchiveWriter, claim,
};
use haul_proto::twoway::base::{Generation, is_retained};
use haul_proto::twoway::entry::PathEntry;
use haul_proto::wire::replica_session::ReplicaId;

use super::error::ReplicaError;

/// Bytes of an archive that are written at once.
const WRITE_BYTES: usize = 256 << 10;

/// Entries of an archive.
pub type ArchiveEntries = ArchiveReader<BufReader<std::fs::File>>;

/// The archives of a pair.
#[derive(Debug)]
pub struct PairArchives {
    directory: PathBuf,
    pair: Digest,
}

/// Identifies a pair, in whichever order it is named.
fn pair_of(one: ReplicaId, other: ReplicaId) -> Digest {
    let (first, second) = if one <= other { (one, other) } else { (other, one) };
    *blake3::Hasher::new().update(b"haul two-way pair\0").update(&first).update(&second).finalize().as_bytes()
}

impl PairArchives {
    /// Makes the directory of the end `own` of a pair with `other` in `state`, which is at `path`. Both ends of a pair may
    /// share a state directory.
    pub fn open(state: &HeldDirectory, path: &Path, own: ReplicaId, other: ReplicaId) -> io::Result<Self> {
        let pair = pair_of(own, other);
        let directory = path.join(format!("{}-{}", &hex(&pair)[..32], hex(&own)));
        state.make_directory(&directory)?;
        Ok(Self { directory, pair })
    }

    /// Returns the generations, as their first and last bytes claim. Those of a later haul do not count. A scan finds
    /// out whether a claim is true.
    pub fn generations(&self, state: &HeldDirectory) -> io::Result<Vec<Generation>> {
        let mut found = Vec::new();
        for number in self.numbers(state)? {
            found.extend(self.claimed(state, number)?);
        }
        found.sort_unstable_by_key(|generation| std::cmp::Reverse(generation.number));
        found.truncate(REPLICA_GENERATIONS_MAX);
        Ok(found)
    }

    fn numbers(&self, state: &HeldDirectory) -> io::Result<Vec<u64>> {
        let names = state.names(&self.directory)?;
        Ok(names.iter().filter_map(|name| std::str::from_utf8(name.as_bytes()).ok()?.parse().ok()).collect())
    }

    fn file_of(&self, number: u64) -> PathBuf {
        self.directory.join(number.to_string())
    }

    fn claimed(&self, state: &HeldDirectory, number: u64) -> io::Result<Option<Generation>> {
        let file = state.open(&self.file_of(number))?;
        let [mut start, mut end] = ARCHIVE_ENDS_BYTES.map(|bytes| vec![0; bytes]);
        let Some(tail_at) = file.metadata()?.len().checked_sub(end.len() as u64) else { return Ok(None) };
        let read = file.read_exact_at(&mut start, 0).and_then(|()| file.read_exact_at(&mut end, tail_at));
        let own = ArchiveHeader { pair: self.pair, generation: number };
        let claimed = read.ok().and_then(|()| claim(&start, &end).ok()).filter(|(header, _)| *header == own);
        Ok(claimed.map(|(_, summary)| Generation { number, agreed: summary.agreed }))
    }

    /// Removes a damaged generation.
    pub fn remove(&self, state: &HeldDirectory, number: u64) -> io::Result<()> {
        state.remove(&self.file_of(number))
    }

    /// Opens a generation of this pair.
    pub fn read(&self, state: &HeldDirectory, number: u64) -> Result<ArchiveEntries, ReplicaError> {
        let file = state.open(&self.file_of(number)).map_err(ReplicaError::Archives)?;
        let entries = ArchiveReader::new(BufReader::with_capacity(WRITE_BYTES, file))?;
        match entries.header() == (ArchiveHeader { pair: self.pair, generation: number }) {
            true => Ok(entries),
            false => Err(ArchiveError::NoArchive.into()),
        }
    }

    /// Writes a generation durably, and then removes those that no run needs.
    pub fn write(
        &self,
        state: &HeldDirectory,
        number: u64,
        base: Option<Generation>,
        entries: impl Iterator<Item = Result<PathEntry, ArchiveError>>,
    ) -> Result<ArchiveSummary, ReplicaError> {
        let mut bytes = Vec::new();
        let mut file = state.create_unnamed(&self.file_of(number)).map_err(ReplicaError::Archives)?;
        let mut writer = ArchiveWriter::new(&ArchiveHeader { pair: self.pair, generation: number }, &mut bytes);
        for entry in entries {
            writer.add(&entry?, &mut bytes);
            if bytes.len() >= WRITE_BYTES {
                file.write_all(&bytes).map_err(ReplicaError::Archives)?;
                bytes.clear();
            }
        }
        let summary = writer.finish(&mut bytes);
        file.write_all(&bytes).and_then(|()| file.publish()).map_err(ReplicaError::Archives)?;
        self.prune(state, number, base).map_err(ReplicaError::Archives)?;
        Ok(summary)
    }

    fn prune(&self, state: &HeldDirectory, new: u64, base: Option<Generation>) -> io::Result<()> {
        let obsolete = self.numbers(state)?.into_iter().filter(|number| !is_retained(*number, base, new));
        obsolete.map(|number| self.file_of(number)).try_for_each(|path| state.remove(&path))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use haul_proto::twoway::entry::{ReplicaContent, ReplicaEntry, ReplicaMetadata, TreePath};

    use super::*;

    fn entry(path: &str) -> Result<PathEntry, ArchiveError> {
        let (content, metadata) = (ReplicaContent::Directory, ReplicaMetadata::default());
        Ok(PathEntry { path: TreePath::new(path.as_bytes())?, entry: ReplicaEntry { content, metadata, stamp: None } })
    }

    fn state() -> (tempfile::TempDir, HeldDirectory, PathBuf) {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("state");
        let state = HeldDirectory::create_private(&path).unwrap();
        (temp, state, path)
    }

    #[test]
    fn the_base_and_the_new_generation_stay() {
        let (_temp, state, path) = state();
        let archives = PairArchives::open(&state, &path, [7; 16], [8; 16]).unwrap();
        let mut base = None;
        for number in 1..=4 {
            let written = archives.write(&state, number, base, [entry("a"), entry("b")].into_iter()).unwrap();
            base = Some(Generation { number, agreed: written.agreed });
        }
        let numbers: Vec<_> = archives.generations(&state).unwrap().iter().map(|found| found.number).collect();
        assert_eq!(numbers, [4, 3]);
        assert_eq!(archives.read(&state, 4).unwrap().count(), 2);
    }

    #[test]
    fn damaged_archives_and_those_of_another_pair_do_not_count() {
        let (_temp, state, path) = state();
        let archives = PairArchives::open(&state, &path, [7; 16], [8; 16]).unwrap();
        archives.write(&state, 1, None, [entry("a")].into_iter()).unwrap();
        fs::write(archives.file_of(2), b"haul2way").unwrap();
        fs::write(archives.directory.join("x"), b"").unwrap();
        let foreign = PairArchives { directory: archives.directory.clone(), pair: [9; 32] };
        assert!(matches!(foreign.read(&state, 1), Err(ReplicaError::Archive(ArchiveError::NoArchive))));
        assert_eq!(archives.generations(&state).unwrap().len(), 1);
        assert_eq!(foreign.generations(&state).unwrap(), []);
    }

    #[test]
    fn both_ends_of_a_pair_may_share_a_state_directory() {
        let (_temp, state, path) = state();
        let open = |own, other| PairArchives::open(&state, &path, own, other).unwrap();
        let [one, other] = [open([7; 16], [8; 16]), open([8; 16], [7; 16])];
        one.write(&state, 1, None, [entry("a")].into_iter()).unwrap();
        assert_eq!((one.generations(&state).unwrap().len(), other.generations(&state).unwrap().len()), (1, 0));
        assert_eq!(one.pair, other.pair);
    }

    #[test]
    fn a_pair_is_the_same_in_either_order() {
        assert_eq!(pair_of([1; 16], [2; 16]), pair_of([2; 16], [1; 16]));
        assert_ne!(pair_of([1; 16], [2; 16]), pair_of([1; 16], [3; 16]));
    }
}
