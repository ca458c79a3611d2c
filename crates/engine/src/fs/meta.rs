//! Metadata: read by a descriptor or a name in a held directory, and set on copies. Others decide what to preserve.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::LazyLock;

use haul_proto::entry::{DeviceNumber, EntryMetadata, FileVersion, SpecialFile, Timestamp};
use haul_proto::path::Name;
use rustix::fs::{
    AtFlags, CWD, FileType, Gid, Mode, OFlags, Stat, Timespec, Timestamps, Uid, chmodat, chownat, fchmod, fchown,
    fstat, futimens, major, makedev, minor, mknodat, openat, statat, utimensat,
};
use rustix::io::Errno;

use crate::sys::refusal::refusal;

/// The set-user-ID bit.
pub const SETUID: u16 = 0o4000;
/// The set-group-ID bit.
pub const SETGID: u16 = 0o2000;

/// Identity of a file or directory: device and inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FileIdentity {
    /// `st_dev`.
    pub device: u64,
    /// `st_ino`.
    pub inode: u64,
}

/// Treatment of a name that is a symbolic link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FollowLinks {
    /// The link itself.
    Itself,
    /// The link's target.
    Followed,
}

/// The user of this process, cached: a query for each file would cost as much as a stat.
static OWN_USER: LazyLock<u32> = LazyLock::new(|| rustix::process::geteuid().as_raw());

impl FollowLinks {
    pub(super) fn open_flags(self) -> OFlags {
        match self {
            Self::Itself => OFlags::NOFOLLOW,
            Self::Followed => OFlags::empty(),
        }
    }

    fn at_flags(self) -> AtFlags {
        match self {
            Self::Itself => AtFlags::SYMLINK_NOFOLLOW,
            Self::Followed => AtFlags::empty(),
        }
    }
}

/// Result of one stat(2) call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileStat {
    /// Kind of the entry.
    pub kind: FileType,
    /// Size in bytes; of a symbolic link, the length of its text.
    pub size: u64,
    /// Mode, owner, group and time.
    pub meta: EntryMetadata,
    /// Its identity.
    pub identity: FileIdentity,
    /// Time of the last change of its contents or properties (ctime).
    pub changed: Timestamp,
    /// Bytes allocated on disk.
    pub room: u64,
    /// Number of its names.
    pub names: u64,
    /// The device number, for a device.
    pub device: u64,
}

/// The unit of `st_blocks` (stat(2)).
pub const STAT_BLOCK: u64 = 512;

impl FileStat {
    /// Of an open file or directory.
    pub fn at_fd(fd: impl AsFd) -> io::Result<Self> {
        Ok(Self::from(&fstat(fd)?))
    }

    /// Of `name` in the directory `dir`.
    pub fn at_name(dir: impl AsFd, name: &Name, links: FollowLinks) -> io::Result<Self> {
        Ok(Self::from(&statat(dir, name.as_bytes(), links.at_flags())?))
    }

    /// Whether fewer bytes are allocated than its size.
    pub fn may_have_holes(&self) -> bool {
        self.kind == FileType::RegularFile && self.room < self.size
    }

    /// The device, FIFO or socket, if it is one.
    pub fn node(&self) -> Option<SpecialFile> {
        let device = || DeviceNumber { major: major(self.device), minor: minor(self.device) };
        Some(match self.kind {
            FileType::CharacterDevice => SpecialFile::Character(device()),
            FileType::BlockDevice => SpecialFile::Block(device()),
            FileType::Fifo => SpecialFile::Fifo,
            FileType::Socket => SpecialFile::Socket,
            _ => return None,
        })
    }

    /// Whether it is owned by the user of this process.
    pub(crate) fn is_owned_by_this_user(&self) -> bool {
        self.meta.uid == *OWN_USER
    }

    /// Whether it is the null device (null(4)).
    pub fn is_null_device(&self) -> bool {
        self.kind == FileType::CharacterDevice && (major(self.device), minor(self.device)) == (1, 3)
    }

    /// Whether it is a device, FIFO or socket.
    pub fn is_special(&self) -> bool {
        !matches!(self.kind, FileType::RegularFile | FileType::Directory | FileType::Symlink)
    }
}

impl FileStat {
    /// The file's identity and version.
    pub fn version(&self) -> FileVersion {
        let FileIdentity { device, inode } = self.identity;
        FileVersion { device, inode, changed: self.changed }
    }
}

impl From<&Stat> for FileStat {
    #[allow(clippy::unnecessary_cast)]
    fn from(stat: &Stat) -> Self {
        // The widths differ between architectures, and nanoseconds and mode bits always fit. A file system in user
        // space can report nanoseconds beyond a second.
        let within_second = |nanoseconds: u32| nanoseconds.min(999_999_999);
        #[allow(clippy::unnecessary_cast, clippy::cast_possible_truncation)]
        let modified =
            Timestamp { seconds: stat.st_mtime as i64, nanoseconds: within_second(stat.st_mtime_nsec as u32) };
        #[allow(clippy::unnecessary_cast, clippy::cast_possible_truncation)]
        let mode = (stat.st_mode & 0o7777) as u16;
        #[allow(clippy::unnecessary_cast)]
        let identity = FileIdentity { device: stat.st_dev as u64, inode: stat.st_ino as u64 };
        #[allow(clippy::unnecessary_cast, clippy::cast_possible_truncation)]
        let changed =
            Timestamp { seconds: stat.st_ctime as i64, nanoseconds: within_second(stat.st_ctime_nsec as u32) };
        Self {
            kind: FileType::from_raw_mode(stat.st_mode),
            size: u64::try_from(stat.st_size).unwrap_or(0),
            meta: EntryMetadata { mode, uid: stat.st_uid, gid: stat.st_gid, modified },
            identity,
            changed,
            room: u64::try_from(stat.st_blocks).unwrap_or(0).saturating_mul(STAT_BLOCK),
            names: stat.st_nlink as u64,
            device: stat.st_rdev as u64,
        }
    }
}

/// Parts of [`EntryMetadata`] to set on a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MetadataParts {
    /// The numeric owner.
    pub owner: bool,
    /// The numeric group.
    pub group: bool,
    /// These permission bits; `None` keeps them.
    pub mode: Option<u16>,
    /// The time of last modification.
    pub times: bool,
}

/// What was set, and what was refused.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[must_use]
pub struct AppliedMetadata {
    /// Whether the owner is the source's: requested and permitted.
    pub owner: bool,
    /// Whether the group is the source's: requested and permitted.
    pub group: bool,
    /// Why the mode was refused.
    pub refused_mode: Option<Errno>,
    /// Why the time was refused.
    pub refused_time: Option<Errno>,
}

/// The mode of a new file or directory without `-p`: the source's within the umask; never setuid, setgid or sticky.
pub fn mode_without_preserve(source_mode: u16, umask: u16) -> u16 {
    source_mode & 0o777 & !umask
}

/// Sets owner and group, then mode, then the time of an open file or directory; in this order, since a change of owner
/// clears mode bits. Sets only differing properties: each call changes ctime, and chown removes capabilities even
/// without a change. If the entry then has another owner (group), the setuid (setgid) bit is omitted: it would grant
/// another user's rights. Access times do not change.
///
/// A refusal is no error ([`crate::sys::refusal::is_refusal`]): [`AppliedMetadata`] reports it. `InvalidInput` if
/// `meta` has an impossible time.
pub fn apply(fd: impl AsFd, meta: &EntryMetadata, keep: MetadataParts) -> io::Result<AppliedMetadata> {
    apply_with(fd, meta, keep, || ())
}

/// Calls `in_between` after the change of owner and before that of mode, for properties that chown clears or the mode
/// forbids.
pub fn apply_with(
    fd: impl AsFd,
    meta: &EntryMetadata,
    keep: MetadataParts,
    in_between: impl FnOnce(),
) -> io::Result<AppliedMetadata> {
    let fd = fd.as_fd();
    let stat = fstat(fd)?;
    let times = both_times(&stat, meta.modified)?;
    let there = FileStat::from(&stat).meta;
    let mut applied = set_owner(meta, &there, keep, |uid, gid| fchown(fd, uid, gid))?;
    in_between();
    if let Some(mode) = keep.mode {
        // chown clears some bits, and an access control list sets some. Some file systems ignore a change of owner.
        let now = FileStat::at_fd(fd)?.meta;
        applied.owner &= now.uid == meta.uid;
        applied.group &= now.gid == meta.gid;
        let mode = allowed_mode(mode, meta, &now);
        if now.mode != mode {
            applied.refused_mode = refusal(fchmod(fd, Mode::from_raw_mode(mode.into())))?;
        }
    }
    if keep.times && there.modified != meta.modified {
        applied.refused_time = refusal(futimens(fd, &times))?;
    }
    Ok(applied)
}

/// Sets owner, group and time of the symbolic link `name` in `dir` where they differ, never those of its target. Links
/// have no mode: `keep.mode` has no effect. Errors as in [`apply`].
pub fn apply_to_symlink(
    dir: impl AsFd,
    name: &Name,
    meta: &EntryMetadata,
    keep: MetadataParts,
) -> io::Result<AppliedMetadata> {
    let (dir, name) = (dir.as_fd(), name.as_bytes());
    let stat = statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)?;
    let times = both_times(&stat, meta.modified)?;
    let there = FileStat::from(&stat).meta;
    let mut applied =
        set_owner(meta, &there, keep, |uid, gid| chownat(dir, name, uid, gid, AtFlags::SYMLINK_NOFOLLOW))?;
    if keep.times && there.modified != meta.modified {
        applied.refused_time = refusal(utimensat(dir, name, &times, AtFlags::SYMLINK_NOFOLLOW))?;
    }
    Ok(applied)
}

/// Sets differing owner and group, then mode, then the time of the device, FIFO or socket `name` in `dir`, without
/// opening it or following a link. Errors as in [`apply`].
pub fn apply_to_node(
    dir: impl AsFd,
    name: &Name,
    meta: &EntryMetadata,
    keep: MetadataParts,
) -> io::Result<AppliedMetadata> {
    let (dir, name) = (dir.as_fd(), name.as_bytes());
    let node = openat(dir, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
    let stat = fstat(&node)?;
    let times = both_times(&stat, meta.modified)?;
    let stat = FileStat::from(&stat);
    if !stat.is_special() {
        return Err(io::Error::other("replaced by another entry"));
    }
    let there = stat.meta;
    let mut applied = set_owner(meta, &there, keep, |uid, gid| chownat(&node, c"", uid, gid, AtFlags::EMPTY_PATH))?;
    if let Some(mode) = keep.mode {
        let now = FileStat::at_fd(&node)?.meta;
        let mode = allowed_mode(mode, meta, &now);
        if now.mode != mode {
            applied.refused_mode = refusal(set_mode_of_path(&node, mode))?;
        }
    }
    if keep.times && there.modified != meta.modified {
        applied.refused_time = refusal(utimensat(dir, name, &times, AtFlags::SYMLINK_NOFOLLOW))?;
    }
    Ok(applied)
}

/// Creates a device, FIFO or socket, accessible to its owner only.
pub fn make_node(dir: impl AsFd, name: &Name, node: SpecialFile) -> rustix::io::Result<()> {
    let number = |DeviceNumber { major, minor }| makedev(major, minor);
    let (kind, device) = match node {
        SpecialFile::Character(device) => (FileType::CharacterDevice, number(device)),
        SpecialFile::Block(device) => (FileType::BlockDevice, number(device)),
        SpecialFile::Fifo => (FileType::Fifo, 0),
        SpecialFile::Socket => (FileType::Socket, 0),
    };
    mknodat(dir, name.as_bytes(), kind, Mode::from_raw_mode(0o600), device)
}

/// Sets the mode of an `O_PATH` descriptor's file: possible only through proc(5).
pub fn set_mode_of_path(fd: &OwnedFd, mode: u16) -> rustix::io::Result<()> {
    let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
    chmodat(CWD, path, Mode::from_raw_mode(mode.into()), AtFlags::empty())
}

/// Sets both at once if permitted, otherwise each alone: users may set their own groups, and a user namespace may have
/// only one of the numbers.
fn set_owner(
    meta: &EntryMetadata,
    there: &EntryMetadata,
    keep: MetadataParts,
    chown: impl Fn(Option<Uid>, Option<Gid>) -> rustix::io::Result<()>,
) -> io::Result<AppliedMetadata> {
    // For the system, the largest number means "no change".
    let has_owner = keep.owner && meta.uid != u32::MAX;
    let has_group = keep.group && meta.gid != u32::MAX;
    let uid = (has_owner && meta.uid != there.uid).then(|| Uid::from_raw(meta.uid));
    let gid = (has_group && meta.gid != there.gid).then(|| Gid::from_raw(meta.gid));
    let is_set = |result| refusal(result).map(|refused| refused.is_none());
    if uid.is_none() && gid.is_none() || is_set(chown(uid, gid))? {
        return Ok(AppliedMetadata { owner: has_owner, group: has_group, ..AppliedMetadata::default() });
    }
    let owner = has_owner && (uid.is_none() || is_set(chown(uid, None))?);
    let group = has_group && (gid.is_none() || is_set(chown(None, gid))?);
    Ok(AppliedMetadata { owner, group, ..AppliedMetadata::default() })
}

/// The mode for an entry with the owner and group that it has now.
fn allowed_mode(mode: u16, meta: &EntryMetadata, now: &EntryMetadata) -> u16 {
    let without_owner = if now.uid == meta.uid { 0 } else { SETUID };
    let without_group = if now.gid == meta.gid { 0 } else { SETGID };
    mode & 0o7777 & !without_owner & !without_group
}

/// The access time as it is, and this time of modification. Both are set: libfuse 2 drops a request with one of them,
/// and reports success. Nanoseconds are checked, since the system interprets larger values as "now" or "no change".
pub fn both_times(stat: &Stat, modified: Timestamp) -> io::Result<Timestamps> {
    let Timestamp { seconds, nanoseconds } = modified;
    if nanoseconds > 999_999_999 {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "invalid nanoseconds in its time"));
    }
    #[allow(clippy::unnecessary_cast)]
    let last_access = Timespec { tv_sec: stat.st_atime as i64, tv_nsec: stat.st_atime_nsec as _ };
    Ok(Timestamps { last_access, last_modification: Timespec { tv_sec: seconds, tv_nsec: nanoseconds.into() } })
}

#[cfg(test)]
mod tests {
    use super::super::Dir;
    use super::super::testing::{name, without_capabilities, write_file};
    use super::*;

    const META: EntryMetadata = EntryMetadata {
        mode: 0o6751,
        uid: 1234,
        gid: 2345,
        modified: Timestamp { seconds: -5, nanoseconds: 123_456_789 },
    };
    const ALL: MetadataParts = MetadataParts { owner: true, group: true, mode: Some(META.mode), times: true };

    struct Sandbox {
        _temp: tempfile::TempDir,
        root: Dir,
    }

    fn sandbox() -> Sandbox {
        let temp = tempfile::tempdir().unwrap();
        let root = Dir::open_root(temp.path()).unwrap();
        write_file(&root, "file", b"x");
        Sandbox { _temp: temp, root }
    }

    fn open(root: &Dir) -> OwnedFd {
        root.open_file(&name("file"), FollowLinks::Itself).unwrap().0
    }

    fn is_root() -> bool {
        rustix::process::geteuid().is_root()
    }

    #[test]
    fn keeps_the_time_to_the_nanosecond() {
        let sandbox = sandbox();
        let file = open(&sandbox.root);
        let before = fstat(&file).unwrap();
        let keep = MetadataParts { owner: false, group: false, mode: None, times: true };
        assert_eq!(apply(&file, &META, keep).unwrap(), AppliedMetadata::default());
        let stat = FileStat::at_fd(&file).unwrap();
        assert_eq!(stat.meta.modified, META.modified);
        let after = fstat(&file).unwrap();
        assert_eq!((before.st_atime, before.st_atime_nsec), (after.st_atime, after.st_atime_nsec));
        assert_eq!(before.st_mode, after.st_mode);
    }

    #[test]
    fn keeps_everything_as_root() {
        if haul_lab::is_emulated_without("other owner") {
            return;
        }
        if !is_root() {
            eprintln!("not checked: setting owners needs root");
            return;
        }
        let sandbox = sandbox();
        let file = open(&sandbox.root);
        let owned = AppliedMetadata { owner: true, group: true, ..AppliedMetadata::default() };
        assert_eq!(apply(&file, &META, ALL).unwrap(), owned);
        assert_eq!(FileStat::at_fd(&file).unwrap().meta, META);
    }

    #[test]
    fn equal_metadata_are_not_set_again() {
        let sandbox = sandbox();
        let file = open(&sandbox.root);
        let dir = sandbox.root.fd().unwrap();
        rustix::fs::symlinkat("file", &*dir, "link").unwrap();
        let _ = apply(&file, &META, ALL).unwrap();
        let _ = apply_to_symlink(&*dir, &name("link"), &META, ALL).unwrap();
        let looks =
            || [FileStat::at_fd(&file).unwrap(), FileStat::at_name(&*dir, &name("link"), FollowLinks::Itself).unwrap()];
        let before = looks();
        // Until the clock of the file system has moved on.
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
        loop {
            std::fs::write(sandbox._temp.path().join("other"), "x").unwrap();
            if FileStat::at_name(&*dir, &name("other"), FollowLinks::Itself).unwrap().changed > before[1].changed {
                break;
            }
            assert!(std::time::Instant::now() < deadline);
        }
        let _ = apply(&file, &META, MetadataParts { mode: Some(before[0].meta.mode), ..ALL }).unwrap();
        let _ = apply_to_symlink(&*dir, &name("link"), &META, ALL).unwrap();
        // Where owners cannot be set, an attempt changes nothing.
        assert_eq!(looks(), before);
    }

    #[test]
    fn drops_set_id_bits_of_a_foreign_owner() {
        let sandbox = sandbox();
        let file = open(&sandbox.root);
        let applied = without_capabilities(move || {
            let applied = apply(&file, &META, ALL);
            (applied, FileStat::at_fd(&file))
        });
        assert_eq!(applied.0.unwrap(), AppliedMetadata::default());
        let meta = applied.1.unwrap().meta;
        assert_eq!((meta.mode, meta.modified), (0o751, META.modified));
        assert_ne!(meta.uid, META.uid);
    }

    #[test]
    fn drops_the_bits_when_owners_are_not_kept() {
        let sandbox = sandbox();
        let file = open(&sandbox.root);
        let keep = MetadataParts { owner: false, group: false, mode: Some(0o7755), times: false };
        assert_eq!(apply(&file, &META, keep).unwrap(), AppliedMetadata::default());
        assert_eq!(FileStat::at_fd(&file).unwrap().meta.mode, 0o1755);
    }

    #[test]
    fn keeps_the_bits_of_the_owner_that_a_file_has_anyway() {
        let sandbox = sandbox();
        let file = open(&sandbox.root);
        let own = FileStat::at_fd(&file).unwrap().meta;
        let keep = MetadataParts { owner: false, group: false, mode: Some(0o6755), times: false };
        for (uid, gid, mode) in [
            (own.uid, own.gid, 0o6755),
            (own.uid, own.gid + 1, 0o4755),
            (own.uid + 1, own.gid, 0o2755),
            (u32::MAX, u32::MAX, 0o755),
        ] {
            let _ = apply(&file, &EntryMetadata { uid, gid, ..META }, keep).unwrap();
            assert_eq!(FileStat::at_fd(&file).unwrap().meta, EntryMetadata { mode, ..own }, "{uid}:{gid}");
        }
    }

    #[test]
    fn survives_any_metadata_from_a_peer() {
        let sandbox = sandbox();
        let file = open(&sandbox.root);
        let nobody = EntryMetadata { uid: u32::MAX, gid: u32::MAX, ..META };
        assert_eq!(apply(&file, &nobody, ALL).unwrap(), AppliedMetadata::default());
        assert_eq!(FileStat::at_fd(&file).unwrap().meta.mode, 0o751);
        let late = EntryMetadata { modified: Timestamp { seconds: 0, nanoseconds: 0x3fff_fffe }, ..META };
        assert_eq!(apply(&file, &late, ALL).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }

    #[test]
    fn changes_a_link_and_not_its_target() {
        if haul_lab::is_emulated_without("other owner") {
            return;
        }
        let sandbox = sandbox();
        let dir = sandbox.root.fd().unwrap();
        rustix::fs::symlinkat("file", &*dir, "link").unwrap();
        let file_before = FileStat::at_name(&*dir, &name("file"), FollowLinks::Itself).unwrap();
        let applied = apply_to_symlink(&*dir, &name("link"), &META, ALL).unwrap();
        assert_eq!(applied.owner, is_root());
        let link = FileStat::at_name(&*dir, &name("link"), FollowLinks::Itself).unwrap();
        assert_eq!(link.meta.modified, META.modified);
        assert_eq!(link.meta.uid == META.uid, is_root());
        assert_eq!(FileStat::at_name(&*dir, &name("link"), FollowLinks::Followed).unwrap(), file_before);
    }

    #[test]
    fn gives_plain_modes_without_preserve() {
        assert_eq!(mode_without_preserve(0o7777, 0o022), 0o755);
        assert_eq!(mode_without_preserve(0o4711, 0o077), 0o700);
        assert_eq!(mode_without_preserve(0o640, 0), 0o640);
    }
}
