//! Trust in existing files: another user's file at the target does not get the rights of the source's file.

use std::io;

use haul_proto::entry::{Entry, EntryMetadata};
use rustix::io::Errno;

use crate::fs::FileStat;
use crate::fs::meta::{SETGID, SETUID};
use crate::receiver::place::existing_entry::attributes;

/// Whether an existing file may get the source's mode. Its size and time equal the source's, but any user can set
/// those: set-id bits would then run another user's program.
pub fn may_have_rights(meta: &EntryMetadata, there: &FileStat) -> bool {
    is_trusted(meta, there) || meta.mode & (SETUID | SETGID) == 0
}

/// Whether the existing entry belongs to its final owner or to this user.
pub fn is_trusted(meta: &EntryMetadata, there: &FileStat) -> bool {
    [meta.uid, rustix::process::geteuid().as_raw()].contains(&there.meta.uid)
}

/// Whether a file is to have capabilities, which grant rights like a set-id bit.
pub fn has_capability(entry: &Entry) -> bool {
    attributes(entry).is_some_and(|attributes| attributes.iter().any(|other| *other.name == *b"security.capability"))
}

/// Whether an error concerns another user's entry, or an unsupported attribute.
pub fn is_not_ours(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(Errno::PERM | Errno::ACCESS | Errno::ROFS | Errno::OPNOTSUPP | Errno::NOSYS)
    )
}
