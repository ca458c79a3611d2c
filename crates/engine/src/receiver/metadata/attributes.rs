//! Extended attributes and access control lists of new entries, where they are preserved.

use std::io;
use std::os::fd::AsFd;

use haul_base::sys::describe::describe;
use haul_proto::entry::EntryMetadata;
use haul_proto::entry_extras::ExtendedAttribute;
use haul_proto::path::escape;

use crate::fs::attributes::{RefusedAttribute, is_wanted, put_as_owner};
use crate::fs::meta::{AppliedMetadata, apply_with};
use crate::fs::{FileStat, MetadataParts};
use crate::receiver::metadata::MetadataWriter;
use crate::receiver::metadata::unset::{EntryPlace, MetadataKind};
use crate::receiver::place::existing_entry::is_root;

impl MetadataWriter {
    /// Whether any are preserved.
    pub(crate) fn keeps_attributes(&self) -> bool {
        is_wanted(self.copy.request.metadata.preserve)
    }

    /// Sets metadata and extended attributes of an open file or directory, and records what was refused. Returns
    /// whether the entry counts as complete, too.
    ///
    /// Attributes are set between owner and mode: a change of owner removes capabilities, and without write permission
    /// no attribute can be set. They are then compared, and missing ones are set again.
    pub(crate) fn apply_all(
        &self,
        place: EntryPlace<'_>,
        fd: impl AsFd,
        meta: &EntryMetadata,
        keep: MetadataParts,
        attributes: Option<&[ExtendedAttribute]>,
    ) -> io::Result<(AppliedMetadata, bool)> {
        let fd = fd.as_fd();
        let attributes = attributes.filter(|_| self.keeps_attributes());
        let put = || attributes.and_then(|wanted| put_as_owner(fd, wanted, self.copy.request.metadata.preserve));
        let mut refused = None;
        let applied = apply_with(fd, meta, keep, || refused = put())?;
        if refused.is_some() || attributes.is_some_and(|attributes| !attributes.is_empty()) {
            refused = put();
        }
        let mut is_complete = self.record_refusals(place, &applied);
        if keep.owner && !applied.owner && is_root() {
            self.report_kept_owner(place, FileStat::at_fd(fd)?.meta.uid, meta.uid);
        }
        if let Some(refused) = refused {
            is_complete &= self.record_unset(place, MetadataKind::Attributes, why_refused(&refused));
        }
        Ok((applied, is_complete))
    }
}

fn why_refused(refused: &RefusedAttribute) -> String {
    let (name, why) = (escape(&refused.name), describe(&refused.error));
    let why = why.lines().next().unwrap_or_default();
    format!("{name}: {why}\nuse an account that can, or omit --xattrs and --acls")
}
