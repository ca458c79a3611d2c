//! Finds the base file of a wanted file, and its permitted uses.

use std::io;

use haul_proto::delta::{DeltaMethod, method};
use haul_proto::entry::Entry;
use haul_proto::sync::EarlierCopyUse;
use rustix::fs::FileType;

use crate::fs::{FileStat, FollowLinks};
use crate::receiver::delta::DeltaStage;
use crate::receiver::file::base::{BaseSource, open_to_write};
use crate::receiver::file::patch::InPlaceUpdate;
use crate::receiver::place::target_path::TargetPath;

impl DeltaStage {
    /// The base file of a file of `size` bytes, if there is one. `known_names` of the existing file's names are known
    /// to be names of the source's.
    pub(crate) fn find_base(
        &self,
        path: &TargetPath,
        entry: &Entry,
        size: u64,
        known_names: impl Fn(&FileStat) -> u64,
    ) -> io::Result<Option<BaseSource>> {
        let rules = self.copy.request.delta;
        let is_near = self.copy.is_within_process() && !rules.applies_within_host();
        let is_large = size > self.copy.request.settings.frame.pack_file_max();
        let may_have_one = is_large && !is_near && rules != Default::default();
        let in_place = self.base_in_place(path, entry, known_names)?;
        if !path.replaces || !(may_have_one || in_place.is_some()) {
            return Ok(None);
        }
        let at_name = || FileStat::at_name(&*path.dir.fd()?, &path.name, FollowLinks::Itself);
        let (in_place, stat) = (in_place.is_some(), in_place.map_or_else(at_name, Ok)?);
        let useful = method(rules.delta, in_place, stat.size, size).filter(|_| is_large && !is_near);
        let method = useful.or(in_place.then_some(DeltaMethod::Blocks));
        let Some(method) = method.filter(|_| stat.kind == FileType::RegularFile) else { return Ok(None) };
        let in_place = in_place.then(|| InPlaceUpdate::of(&stat));
        let base = BaseSource::new(path.dir.clone(), path.name.clone(), &stat, method)?;
        let is_lost = useful.is_none() || !self.may_use(&base);
        // An update in place needs its base even if that is unusable for deltas.
        Ok((in_place.is_some() || !is_lost).then(|| base.with(in_place, is_lost)))
    }

    /// The existing file if it is to be updated in place. Counts one that may not be.
    pub(crate) fn base_in_place(
        &self,
        path: &TargetPath,
        entry: &Entry,
        known_names: impl Fn(&FileStat) -> u64,
    ) -> io::Result<Option<FileStat>> {
        // Not if the existing file is to be kept, or may belong to an earlier copy.
        let sync = &self.copy.request.sync;
        let is_linked = !sync.link_dests.is_empty() && sync.earlier_use == EarlierCopyUse::Link;
        let is_free = self.removals.backup.is_none() && !is_linked;
        if !path.replaces || !self.copy.request.delta.in_place || !is_free {
            return Ok(None);
        }
        let judge = |stat: &FileStat| self.metadata.in_place_refusal(entry, stat, known_names(stat));
        let mut stat = FileStat::at_name(&*path.dir.fd()?, &path.name, FollowLinks::Itself)?;
        if stat.kind != FileType::RegularFile {
            return Ok(None);
        }
        let mut refusal = judge(&stat);
        if refusal.is_none() && !self.copy.is_dry() {
            // An unwritable file should fail before its transfer.
            stat = FileStat::at_fd(open_to_write(&path.dir, &path.name)?)?;
            refusal = judge(&stat);
        }
        refusal.into_iter().for_each(|refusal| self.metadata.count_replaced(refusal));
        Ok(refusal.is_none().then_some(stat))
    }

    /// Whether frames may be rebuilt from it: see [`haul_proto::session::target`].
    pub(crate) fn may_use(&self, base: &BaseSource) -> bool {
        self.copy.allows_deltas && self.session.read(|machine| machine.may_use_base(base.id()))
    }
}
