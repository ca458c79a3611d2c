//! The whole of the target's disk: names, parts of files, and names at risk in a power cut. It outlives its runs.

use std::collections::BTreeMap;

use haul_lab::Rng;

use crate::content::FileContent;
use crate::disk::{DiskEntry, SimDisk};
use crate::parts::PartFile;

/// A part decays this often in a thousand, whenever a run has ended badly.
const DECAYS: u64 = 60;

/// State that persists between runs.
#[derive(Debug, Default)]
pub struct SimStorage {
    /// Entries by name.
    pub names: SimDisk,
    /// Parts by their later final name.
    pub parts: BTreeMap<Vec<u8>, PartFile>,
    /// No room: whatever writes fails.
    pub full: bool,
    unsynced: BTreeMap<Vec<u8>, Unsynced>,
}

/// A name that was given and that the disk may not have yet.
#[derive(Debug)]
struct Unsynced {
    /// The entry replaced.
    before: Option<DiskEntry>,
    /// The new entry's part, if it was one.
    part: Option<PartFile>,
    /// Its bytes are on the disk.
    written: bool,
}

impl SimStorage {
    /// A disk with these names, all synced.
    pub fn new(names: SimDisk) -> Self {
        Self { names, ..Self::default() }
    }

    /// Gives a name; the disk need not have it. `written`: it has the bytes.
    pub fn give_name(&mut self, path: &[u8], standing: DiskEntry, written: bool) {
        let part = self.parts.remove(path);
        let before = self.names.insert(path.to_vec(), standing);
        let unsynced = Unsynced { before, part, written };
        self.unsynced.entry(path.to_vec()).or_insert(unsynced);
    }

    /// The disk has this name.
    pub fn sync_name(&mut self, path: &[u8]) {
        self.unsynced.remove(path);
    }

    /// The disk has all names.
    pub fn sync_names(&mut self) {
        self.unsynced.clear();
    }

    /// A power cut, and recovery from it.
    pub fn lose_power(&mut self, rng: &mut Rng) {
        self.parts.values_mut().for_each(|part| part.lose_power(rng));
        for (path, Unsynced { before, part, written }) in std::mem::take(&mut self.unsynced) {
            if rng.chance(500) {
                if let (false, Some(DiskEntry::File(content, _))) = (written, self.names.get_mut(&path)) {
                    *content = lost(content);
                }
                continue;
            }
            match before {
                Some(before) => self.names.insert(path.clone(), before),
                None => self.names.remove(&path),
            };
            if let Some(mut part) = part {
                part.lose_power(rng);
                self.parts.insert(path, part);
            }
        }
    }

    /// Ages the remains of a run.
    pub fn decay(&mut self, rng: &mut Rng) {
        for part in self.parts.values_mut() {
            if rng.chance(DECAYS) {
                part.decay(rng);
            }
        }
    }
}

/// Content of a file whose name reached the disk before its bytes: full length, all zeros.
fn lost(content: &FileContent) -> FileContent {
    PartFile::new(content.size(), None).content()
}
