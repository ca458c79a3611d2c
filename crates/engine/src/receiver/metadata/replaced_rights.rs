//! The rights of a file that a copy without `-p` replaces: they stay, as with cp, scp and rsync. A private file does
//! not become readable by others, and a group's file stays the group's. The owner is this user: nobody who planted the
//! old file gets the new contents.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use rustix::buffer::spare_capacity;
use rustix::fs::{FileType, Gid, XattrFlags, fchown, fsetxattr, getxattr};
use rustix::io::Errno;

use crate::fs::{FileStat, FollowLinks};
use crate::receiver::metadata::unset::EntryPlace;
use crate::sys::refusal::refusal;

/// The access control list of a file.
const ACL: &[u8] = b"system.posix_acl_access";
/// Most bytes of an access control list (Linux: XATTR_SIZE_MAX).
const ACL_BYTES_MAX: usize = 64 << 10;

/// Gives a new file the group and the access control list of the file that it replaces, and returns the mode to set.
/// `None` if it replaces no file. Where the group or the list cannot be set, the group gets no more than others have.
pub fn keep(place: EntryPlace<'_>, file: impl AsFd) -> io::Result<Option<u16>> {
    let Some(name) = place.name.filter(|_| place.replaces) else { return Ok(None) };
    let old = match place.dir.open_handle(name, FollowLinks::Itself) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        old => old?,
    };
    let stat = FileStat::at_fd(&old)?;
    if stat.kind != FileType::RegularFile {
        return Ok(None);
    }
    let mode = stat.meta.mode & 0o777;
    let group = stat.meta.gid;
    let has_group = FileStat::at_fd(&file)?.meta.gid == group
        || refusal(fchown(&file, None, Some(Gid::from_raw(group))))?.is_none();
    let has_acl = match acl(&old) {
        Ok(None) => true,
        Ok(Some(acl)) => has_group && refusal(fsetxattr(&file, ACL, &acl, XattrFlags::empty()))?.is_none(),
        Err(_) => false,
    };
    Ok(Some(if has_group && has_acl { mode } else { mode & !0o070 | mode & mode << 3 & 0o070 }))
}

/// The access control list of a file that is open as a path. `None` without one.
fn acl(file: impl AsFd) -> io::Result<Option<Vec<u8>>> {
    let path = format!("/proc/self/fd/{}", file.as_fd().as_raw_fd());
    let mut acl = Vec::with_capacity(ACL_BYTES_MAX);
    match getxattr(path, ACL, spare_capacity(&mut acl)) {
        Ok(_) => Ok(Some(acl)),
        Err(Errno::NODATA | Errno::OPNOTSUPP | Errno::NOSYS) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
