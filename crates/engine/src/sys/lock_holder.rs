//! Finds the process that holds a file's lock (flock(2), proc_locks(5)).

use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;

use rustix::fs::{AtFlags, StatxFlags, statx};

/// The system's lists of locks and mounts, opened before the sandbox starts.
pub struct LockTable {
    locks: Option<File>,
    mounts: Option<File>,
}

/// Most bytes read of a list.
const LIST_MAX: usize = 4 << 20;
/// Bytes per read.
const CHUNK: usize = 32 << 10;

impl LockTable {
    /// Opens both.
    pub fn open() -> Self {
        Self { locks: File::open("/proc/locks").ok(), mounts: File::open("/proc/self/mountinfo").ok() }
    }

    /// The process that holds the lock of this open file; `None` where the kernel does not report it, as for a process
    /// in another container or on another machine.
    pub fn holder(&self, file: impl AsFd) -> Option<u32> {
        let stat = statx(file, c"", AtFlags::EMPTY_PATH, StatxFlags::INO | StatxFlags::MNT_ID).ok()?;
        // Before Linux 5.8, there are no numbers of mounts.
        let by_mount = device_of_mount(&whole(self.mounts.as_ref()?), stat.stx_mnt_id);
        let device = by_mount.unwrap_or((stat.stx_dev_major, stat.stx_dev_minor));
        holder_of(&whole(self.locks.as_ref()?), device, stat.stx_ino)
    }
}

/// Reads a list of proc(5).
fn whole(list: &File) -> String {
    let mut text = Vec::new();
    let mut chunk = vec![0; CHUNK];
    while text.len() < LIST_MAX {
        match list.read_at(&mut chunk, text.len() as u64) {
            Ok(read) if read > 0 => text.extend_from_slice(&chunk[..read]),
            _ => break,
        }
    }
    String::from_utf8_lossy(&text).into_owned()
}

/// The device in the kernel's list of locks. On btrfs and overlayfs, stat(2) reports another one.
fn device_of_mount(mounts: &str, id: u64) -> Option<(u32, u32)> {
    let id = id.to_string();
    let fields = |line: &'_ str| line.split(' ').take(3).map(str::to_owned).collect::<Vec<_>>();
    let mount = mounts.lines().map(fields).find(|fields| fields.first().is_some_and(|first| *first == id))?;
    let (major, minor) = mount.get(2)?.split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// Parses lines such as `1: FLOCK  ADVISORY  WRITE 1234 08:01:131 0 EOF`: process, device (hexadecimal) and inode. A
/// waiting process has `->` in second place; a process of another PID namespace has the number 0.
fn holder_of(locks: &str, (major, minor): (u32, u32), inode: u64) -> Option<u32> {
    let place = format!("{major:02x}:{minor:02x}:{inode}");
    let holder = |line: &str| {
        let fields: Vec<_> = line.split_whitespace().collect();
        let is_it = fields.get(1) == Some(&"FLOCK") && fields.get(5) == Some(&place.as_str());
        fields.get(4).filter(|_| is_it)?.parse().ok()
    };
    locks.lines().find_map(holder).filter(|process| *process > 0)
}

#[cfg(test)]
mod tests {
    use rustix::fs::{FlockOperation, flock};

    use super::*;
    use crate::sys::confine::tests::confined;
    use crate::sys::confine::{ConfineNetwork, ConfineRights};

    const LOCKS: &str = "\
1: POSIX  ADVISORY  WRITE 7 08:01:131 0 EOF
2: FLOCK  ADVISORY  WRITE 1234 08:01:131 0 EOF
2: -> FLOCK  ADVISORY  WRITE 99 08:01:131 0 EOF
3: FLOCK  ADVISORY  WRITE 0 fe:11:131 0 EOF
4: FLOCK  ADVISORY  WRITE 5 103:02:9 0 EOF
";

    #[test]
    fn a_locks_holder_is_distinguished_from_waiting_processes() {
        assert_eq!(holder_of(LOCKS, (8, 1), 131), Some(1234));
        assert_eq!(holder_of(LOCKS, (8, 1), 13), None);
        assert_eq!(holder_of(LOCKS, (0xfe, 0x11), 131), None, "it cannot be seen from here");
        assert_eq!(holder_of(LOCKS, (0x103, 2), 9), Some(5));
    }

    #[test]
    fn a_mount_is_found_by_its_full_number() {
        let mounts = "124 1 8:2 / /a rw - ext4 a rw\n24 1 259:3 / / rw - ext4 b rw\n";
        assert_eq!(device_of_mount(mounts, 24), Some((259, 3)));
        assert_eq!(device_of_mount(mounts, 4), None);
    }

    #[test]
    fn this_process_finds_itself() {
        let place = tempfile::tempdir().unwrap();
        let (file, dir) = (File::create(place.path().join("f")).unwrap(), File::open(place.path()).unwrap());
        let table = LockTable::open();
        let allow = |bounds: &mut crate::sys::confine::ConfineBounds| {
            bounds.allow(&dir, ConfineRights::Land(Default::default()))
        };
        for held in [&file, &dir] {
            assert_eq!(table.holder(held), None);
            flock(held, FlockOperation::NonBlockingLockExclusive).unwrap();
            assert_eq!(table.holder(held), Some(std::process::id()));
            let confined = confined(ConfineNetwork::None, allow, || table.holder(held));
            assert!(confined.is_none_or(|holder| holder == Some(std::process::id())));
        }
    }
}
