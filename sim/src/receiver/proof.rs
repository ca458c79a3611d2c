//! The remains of an earlier run's file: found, and verified frame by frame before they count.

use std::collections::VecDeque;

use haul_lab::Rng;
use haul_proto::entry::{Entry, EntryContent};
use haul_proto::ids::EntryId;
use haul_proto::integrity::Digest;
use haul_proto::journal::{JournalHeader, JournalRecord, PartialMatch};
use haul_proto::path::Name;
use haul_proto::ranges::RangeSet;
use haul_proto::session::step::TargetStep;

use super::{DoneEntries, Receiver, Todo};
use crate::Plant;
use crate::content::frame_len;
use crate::parts::PartFile;
use crate::storage::SimStorage;

/// Most frames checked before other files have their turn.
const AT_A_TIME: u64 = 4;

/// A partial file during its verification.
pub struct Proof {
    entry: EntryId,
    handle: usize,
    /// Recorded frames not yet checked; none before the missing ranges were reported.
    claimed: Option<VecDeque<u64>>,
}

impl Proof {
    /// With nothing verified yet.
    pub fn new(entry: EntryId, handle: usize) -> Self {
        Self { entry, handle, claimed: None }
    }
}

impl Receiver {
    /// Whether there is a part to go on with, and then whether the source is to compare it. Otherwise a new one is there
    /// afterwards, if the file is to have one.
    pub(super) fn find_part(&self, path: &[u8], entry: &Entry, storage: &mut SimStorage) -> Option<bool> {
        let EntryContent::File { size } = entry.kind else { return None };
        if size <= frame_len().pack_file_max() {
            return None;
        }
        let offered = entry.version.filter(|_| self.settings.resumes).and_then(|version| {
            let name = path.rsplit(|byte| *byte == b'/').next().and_then(|name| Name::new(name).ok())?;
            Some(JournalHeader { name, size, modified: entry.meta.modified, version, frame: frame_len(), range: None })
        });
        let compare = offered.as_ref().zip(storage.parts.get(path)).and_then(|(offered, part)| {
            let kinship = part.header().map(|header| header.kinship(offered));
            match (kinship, self.settings.plant) {
                (_, Plant::TrustSize) | (Some(PartialMatch::Other), Plant::KeepOther) => {
                    (part.size() == size).then_some(false)
                }
                (Some(PartialMatch::Same), _) | (Some(PartialMatch::Likely), Plant::SkipCompare) => Some(false),
                (Some(PartialMatch::Likely), _) => Some(true),
                (Some(PartialMatch::Other | PartialMatch::Unusable) | None, _) => None,
            }
        });
        if compare.is_none() {
            storage.parts.insert(path.to_vec(), PartFile::new(size, offered.as_ref()));
        }
        compare
    }

    /// Continues a verification, and puts it back unless it ended.
    pub(super) fn prove(&mut self, proof: Proof, storage: &mut SimStorage, rng: &mut Rng) -> DoneEntries<()> {
        let Proof { entry, handle, claimed } = proof;
        let open = &self.open[handle];
        let Some(part) = storage.parts.get(&open.path).filter(|_| !open.closed) else { return Ok(()) };
        let (size, compare) = (open.size, open.compare);
        let Some(mut claimed) = claimed else {
            let frames = frame_len().frames(size);
            let mut recorded = RangeSet::new();
            recorded.extend((0..frames).filter(|frame| self.is_claimed(part, *frame)));
            let gaps: Vec<_> = recorded.gaps(frames).collect();
            self.machine.lacks(entry, &gaps);
            let claimed = Some(recorded.iter().flatten().collect());
            self.todo.push(Todo::Prove(Proof { entry, handle, claimed }));
            return Ok(());
        };
        for _ in 0..=rng.below(AT_A_TIME) {
            let Some(frame) = claimed.pop_front() else { return Ok(()) };
            match self.proven(part, frame) {
                Some(value) => {
                    self.held += 1;
                    let step = self.machine.holds(entry, frame, &[value], compare);
                    if !matches!(step, TargetStep::None) {
                        return self.follow(step, storage);
                    }
                }
                None => {
                    self.unproven += 1;
                    self.machine.lacks(entry, std::slice::from_ref(&(frame..frame + 1)));
                }
            }
        }
        self.todo.push(Todo::Prove(Proof { entry, handle, claimed: Some(claimed) }));
        Ok(())
    }

    fn is_claimed(&self, part: &PartFile, frame: u64) -> bool {
        self.settings.plant == Plant::TrustSize || part.recorded(frame).is_some()
    }

    /// The value of a frame, if it equals the recorded one.
    fn proven(&self, part: &PartFile, frame: u64) -> Option<Digest> {
        let (there, recorded) = (part.read(frame), part.recorded(frame));
        let value = there.value(part.size(), frame);
        match (self.settings.plant, recorded) {
            (Plant::TrustSize, _) => Some(value),
            (Plant::SkipProof, Some(recorded)) => recorded.value,
            (_, Some(recorded)) => {
                (recorded == JournalRecord { check: there.check(), value: Some(value) }).then_some(value)
            }
            (_, None) => None,
        }
    }
}
