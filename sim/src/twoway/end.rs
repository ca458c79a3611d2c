//! One end during a run: its archive, its scan, and the look just before an action.

use std::collections::BTreeMap;

use haul_lab::Rng;
use haul_proto::encoding::Decoded;
use haul_proto::entry::Timestamp;
use haul_proto::twoway::ReplicaSide;
use haul_proto::twoway::archive::{ArchiveError, ArchiveHeader, ArchiveReader, ArchiveWriter};
use haul_proto::twoway::base::Generation;
use haul_proto::twoway::detect::{DetectUpdates, DetectedChange, PathLook, ReplicaUpdate, look, resolve};
use haul_proto::twoway::entry::{FileStamp, PathEntry, ReplicaContent, ReplicaEntry, TreePath};
use haul_proto::twoway::merge::MetadataRules;
use haul_proto::twoway::plan::{ArchiveChange, next_archive};

use super::edits::SimPair;
use super::replica::SimReplica;

/// The rules of all runs.
pub const RULES: MetadataRules = MetadataRules::ALL;
const PAIR: [u8; 32] = [9; 32];

/// An end during a run.
#[derive(Debug)]
pub struct SimEnd {
    /// Which.
    pub side: ReplicaSide,
    /// The base, in order.
    pub base: Vec<PathEntry>,
    /// Its clock at the start of the scan.
    pub scanned_at: Timestamp,
    /// Its updates, in order.
    pub updates: Vec<ReplicaUpdate>,
    /// Files that were read and are unchanged.
    pub restamped: BTreeMap<TreePath, PathEntry>,
    /// What it could not read, with all below it.
    pub unreadable: Option<TreePath>,
    /// Stamps that this run's actions left.
    pub made: BTreeMap<TreePath, FileStamp>,
}

/// Returns the archives that can be read.
pub fn generations(replica: &SimReplica) -> Vec<Generation> {
    let check = |(number, bytes): (&u64, &Vec<u8>)| {
        let summary = ArchiveReader::new(&bytes[..]).and_then(ArchiveReader::check).ok()?;
        Some(Generation { number: *number, agreed: summary.agreed })
    };
    replica.archives.iter().filter_map(check).collect()
}

/// Reads an archive that [`generations`] has found.
fn read_archive(replica: &SimReplica, base: Option<Generation>) -> Result<Vec<PathEntry>, ArchiveError> {
    let Some(bytes) = base.and_then(|base| replica.archives.get(&base.number)) else { return Ok(Vec::new()) };
    ArchiveReader::new(&bytes[..])?.collect()
}

impl SimEnd {
    /// Scans a side and reads where stamps do not decide. If `edits` is set, users go on meanwhile, and may close a path.
    pub fn scan(
        pair: &mut SimPair,
        side: ReplicaSide,
        base: Option<Generation>,
        edits: Option<&mut Rng>,
    ) -> Result<Self, ArchiveError> {
        let base = read_archive(pair.side(side), base)?;
        let (mut scan, scanned_at) = (pair.side(side).scan(), pair.side(side).now());
        let mut end = Self {
            side,
            base,
            scanned_at,
            updates: Vec::new(),
            restamped: BTreeMap::new(),
            unreadable: None,
            made: BTreeMap::new(),
        };
        if let Some(rng) = edits {
            pair.edit(rng, side);
            if rng.chance(300) && !scan.is_empty() {
                end.unreadable = Some(scan[rng.index(scan.len())].path.clone());
                scan.retain(|entry| !end.is_unreadable(&entry.path));
            }
        }
        let replica = pair.side(side);
        let archive = end.base.clone().into_iter().map(Ok::<_, ArchiveError>);
        for change in DetectUpdates::new(archive, scan.into_iter().map(Ok), RULES) {
            let change = match change? {
                DetectedChange::Unsure(update) => {
                    let stamp = update.found.as_ref().and_then(|found| found.stamp);
                    let digest = replica.read(&update.path, stamp);
                    resolve(update, digest, &RULES)
                }
                other => other,
            };
            match change {
                DetectedChange::Updated(update) | DetectedChange::Unsure(update) => end.updates.push(update),
                DetectedChange::Restamped(entry) => drop(end.restamped.insert(entry.path.clone(), entry)),
            }
        }
        Ok(end)
    }

    /// Whether it could not read a path.
    pub fn is_unreadable(&self, path: &TreePath) -> bool {
        self.unreadable.as_ref().is_some_and(|closed| path == closed || path.is_below(closed))
    }

    /// Its updates, as a stream.
    pub fn stream(&self) -> impl Iterator<Item = Decoded<ReplicaUpdate>> + use<> {
        self.updates.clone().into_iter().map(Ok)
    }

    /// Reads files that the other end's updates ask for.
    pub fn add_digests(&mut self, replica: &SimReplica, wanted: &[TreePath], by_size: bool) {
        for update in self.updates.iter_mut().filter(|update| wanted.contains(&update.path)) {
            let Some(ReplicaEntry { content: ReplicaContent::File { size, digest }, stamp, .. }) = &mut update.found
            else {
                continue;
            };
            *digest = replica.read(&update.path, *stamp);
            if by_size {
                // The planted mistake: the digest of any file of this size that was there.
                let size_before = |update: &PathEntry| update.entry.content.fingerprint().filter(|(of, _)| of == size);
                *digest = self.base.iter().find_map(size_before).map(|(_, digest)| digest).or(*digest);
            }
        }
    }

    /// Whether a path is still as expected; what is only a source is read anyway.
    pub fn is_untouched(
        &self,
        replica: &SimReplica,
        path: &TreePath,
        expected: Option<&ReplicaEntry>,
        is_source: bool,
    ) -> bool {
        let in_base = || {
            let at = self.base.binary_search_by(|entry| entry.path.cmp(path)).ok()?;
            self.base[at].entry.stamp
        };
        let expected = expected.cloned().map(|mut entry| {
            let restamped = self.restamped.get(path).and_then(|entry| entry.entry.stamp);
            entry.stamp = self.made.get(path).copied().or(entry.stamp).or(restamped).or_else(in_base);
            entry
        });
        match look(expected.as_ref(), replica.stat(path).as_ref(), self.scanned_at, &RULES) {
            PathLook::Untouched => true,
            PathLook::Touched => false,
            PathLook::Unsure => {
                let digest = expected.as_ref().and_then(|entry| entry.content.fingerprint()).map(|(_, digest)| digest);
                let now = replica.read(path, replica.stat(path).and_then(|entry| entry.stamp));
                is_source || (digest.is_some() && digest == now)
            }
        }
    }

    /// Encodes its next archive.
    pub fn encode_archive(&self, generation: u64, changes: Vec<ArchiveChange>) -> Result<Vec<u8>, ArchiveError> {
        let mut bytes = Vec::new();
        let mut writer = ArchiveWriter::new(&ArchiveHeader { pair: PAIR, generation }, &mut bytes);
        let base = self.base.clone().into_iter().map(Ok::<_, ArchiveError>);
        for entry in next_archive(base, changes.into_iter().map(Ok)) {
            writer.add(&entry?, &mut bytes);
        }
        writer.finish(&mut bytes);
        Ok(bytes)
    }
}
