//! Extended attributes and access control lists of new entries, where they are preserved. An attribute that cannot be
//! set fails its file or directory, which still exists.

use std::io;
use std::os::fd::AsFd;

use haul_base::sys::describe::describe;
use haul_proto::entry::EntryMetadata;
use haul_proto::entry_extras::ExtendedAttribute;
use haul_proto::path::escape;

use crate::fs::MetadataParts;
use crate::fs::attributes::{RefusedAttribute, is_wanted, put_as_owner};
use crate::fs::meta::apply_with;
use crate::receiver::metadata::MetadataWriter;

impl MetadataWriter {
    /// Whether any are preserved.
    pub(crate) fn keeps_attributes(&self) -> bool {
        is_wanted(self.job.request.metadata.preserve)
    }

    /// Sets metadata and extended attributes of an open file or directory. `Some` names an attribute that could not be
    /// set.
    ///
    /// Attributes are set between owner and mode: a change of owner removes capabilities, and without write permission
    /// no attribute can be set. They are then compared, and missing ones are set again.
    pub(crate) fn apply_all(
        &self,
        fd: impl AsFd,
        meta: &EntryMetadata,
        keep: MetadataParts,
        attributes: Option<&[ExtendedAttribute]>,
    ) -> io::Result<Option<String>> {
        let Some(attributes) = attributes.filter(|_| self.keeps_attributes()) else {
            return apply_with(fd, meta, keep, || ()).map(|_| None);
        };
        let fd = fd.as_fd();
        let put = || put_as_owner(fd, attributes, self.job.request.metadata.preserve);
        let mut refused = None;
        let _ = apply_with(fd, meta, keep, || refused = put())?;
        if !attributes.is_empty() || refused.is_some() {
            refused = put();
        }
        Ok(refused.as_ref().map(why_refused))
    }
}

fn why_refused(refused: &RefusedAttribute) -> String {
    let (name, why) = (escape(&refused.name), describe(&refused.error));
    let why = why.lines().next().unwrap_or_default();
    format!(
        "cannot set the extended attribute {name}: {why}\nuse an account that can, or omit --xattrs, --acls and --archive"
    )
}
