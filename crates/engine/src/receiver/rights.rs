//! Whose files are trusted with what: what somebody else put at the target does not get rights that the source's file has.

use haul_proto::entry::{Entry, EntryMetadata};
use rustix::io::Errno;
use std::io;

use super::standing::attributes;
use crate::fs::FileStat;
use crate::fs::meta::{SETGID, SETUID};

/// Said of a file that somebody else put there.
pub const OTHERS_RIGHTS: &str = "it is there already, belongs to another user, and would be set-user-id or have capabilities\nremove it, and run the same command again";

/// Whether a file that is there may get the source's mode. Its size and time are the source's, but anybody can set
/// those: set-id bits would run what its owner wrote, as somebody else.
pub fn may_have_rights(meta: &EntryMetadata, there: &FileStat) -> bool {
    is_trusted(meta, there) || meta.mode & (SETUID | SETGID) == 0
}

/// Whether what is there belongs to whom it is to belong, or to this process.
pub fn is_trusted(meta: &EntryMetadata, there: &FileStat) -> bool {
    [meta.uid, rustix::process::geteuid().as_raw()].contains(&there.meta.uid)
}

/// Whether a file is to have a capability, which is what a set-id bit is.
pub fn has_capability(entry: &Entry) -> bool {
    attributes(entry).is_some_and(|attributes| attributes.iter().any(|other| *other.name == *b"security.capability"))
}

/// What may not be changed because it belongs to somebody else, or cannot be because there is no such thing here.
pub fn is_not_ours(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(Errno::PERM | Errno::ACCESS | Errno::ROFS | Errno::OPNOTSUPP | Errno::NOSYS)
    )
}
