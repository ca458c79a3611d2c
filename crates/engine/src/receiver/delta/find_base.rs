//! Finds the base file of a wanted file, and its permitted uses.

use std::io;

use haul_proto::delta::{DeltaMethod, method};
use rustix::fs::FileType;

use crate::fs::{FileStat, FollowLinks};
use crate::receiver::delta::DeltaStage;
use crate::receiver::file::base::{BaseSource, open_to_write};
use crate::receiver::file::patch::InPlaceUpdate;
use crate::receiver::place::target_path::TargetPath;

impl DeltaStage {
    /// The base file of a file of `size` bytes, if there is one.
    pub(crate) fn find_base(&self, path: &TargetPath, size: u64) -> io::Result<Option<BaseSource>> {
        let rules = self.job.request.delta;
        let is_near = self.job.is_within_process() && !rules.applies_within_host();
        let is_large = size > self.job.request.settings.frame.pack_file_max();
        // Not if the existing file has other names to keep, or may belong to an earlier copy.
        let in_place = rules.in_place && self.removals.backup.is_none() && self.job.request.sync.link_dests.is_empty();
        let may_have_one = is_large && !is_near && rules != Default::default();
        if !path.replaces || !(may_have_one || in_place) {
            return Ok(None);
        }
        let stat = FileStat::at_name(&*path.dir.fd()?, &path.name, FollowLinks::Itself)?;
        let useful = method(rules.delta, in_place, stat.size, size).filter(|_| is_large && !is_near);
        let method = useful.or(in_place.then_some(DeltaMethod::Blocks));
        let Some(method) = method.filter(|_| stat.kind == FileType::RegularFile) else { return Ok(None) };
        if in_place {
            // An unwritable file should fail before its transfer.
            open_to_write(&path.dir, &path.name)?;
        }
        let in_place = in_place.then(InPlaceUpdate::default);
        let base = BaseSource::new(path.dir.clone(), path.name.clone(), &stat, method)?;
        let is_lost = useful.is_none() || !self.may_use(&base);
        // An update in place needs its base even if that is unusable for deltas.
        Ok((in_place.is_some() || !is_lost).then(|| base.with(in_place, is_lost)))
    }

    /// Whether frames may be rebuilt from it: see [`haul_proto::session::target`].
    pub(crate) fn may_use(&self, base: &BaseSource) -> bool {
        self.job.allows_deltas && self.session.read(|machine| machine.may_use_base(base.id()))
    }
}
