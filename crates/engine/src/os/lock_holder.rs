//! Which process holds the lock of a file that another one waits for in vain (flock(2), proc_locks(5)).

use std::fs;
use std::os::fd::{AsFd, AsRawFd};

/// The process that holds the lock of this open file; `None` where the system does not tell, as of a process in another
/// container or on another machine.
pub fn lock_holder(file: impl AsFd) -> Option<u32> {
    let file = file.as_fd();
    let about = fs::read_to_string(format!("/proc/self/fdinfo/{}", file.as_raw_fd())).ok()?;
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let device = device_of_mount(&mounts, field(&about, "mnt_id:")?)?;
    let inode = match field(&about, "ino:") {
        Some(inode) => inode.parse().ok()?,
        // Before Linux 5.14.
        None => crate::fs::Look::at_fd(file).ok()?.identity.inode,
    };
    holder_of(&fs::read_to_string("/proc/locks").ok()?, device, inode)
}

fn field<'a>(about: &'a str, name: &str) -> Option<&'a str> {
    about.lines().find_map(|line| line.strip_prefix(name)).map(str::trim)
}

/// The device that the kernel keeps locks by. On btrfs and overlayfs, stat(2) tells another one.
fn device_of_mount(mounts: &str, id: &str) -> Option<(u32, u32)> {
    let fields = |line: &'_ str| line.split(' ').take(3).map(str::to_owned).collect::<Vec<_>>();
    let mount = mounts.lines().map(fields).find(|fields| fields.first().is_some_and(|first| first == id))?;
    let (major, minor) = mount.get(2)?.split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// `1: FLOCK  ADVISORY  WRITE 1234 08:01:131 0 EOF`: process, device (hexadecimal) and inode. Who only waits has `->` in
/// second place; a process that cannot be seen from here has the number 0.
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
    use super::*;
    use rustix::fs::{FlockOperation, flock};

    const LOCKS: &str = "\
1: POSIX  ADVISORY  WRITE 7 08:01:131 0 EOF
2: FLOCK  ADVISORY  WRITE 1234 08:01:131 0 EOF
2: -> FLOCK  ADVISORY  WRITE 99 08:01:131 0 EOF
3: FLOCK  ADVISORY  WRITE 0 fe:11:131 0 EOF
4: FLOCK  ADVISORY  WRITE 5 103:02:9 0 EOF
";

    #[test]
    fn who_holds_a_lock_is_told_from_who_waits_for_it() {
        assert_eq!(holder_of(LOCKS, (8, 1), 131), Some(1234));
        assert_eq!(holder_of(LOCKS, (8, 1), 13), None);
        assert_eq!(holder_of(LOCKS, (0xfe, 0x11), 131), None, "it cannot be seen from here");
        assert_eq!(holder_of(LOCKS, (0x103, 2), 9), Some(5));
    }

    #[test]
    fn a_mount_is_found_by_its_whole_number() {
        let mounts = "124 1 8:2 / /a rw - ext4 a rw\n24 1 259:3 / / rw - ext4 b rw\n";
        assert_eq!(device_of_mount(mounts, "24"), Some((259, 3)));
        assert_eq!(device_of_mount(mounts, "4"), None);
    }

    #[test]
    fn this_process_finds_itself() {
        let place = tempfile::tempdir().unwrap();
        let (file, dir) = (fs::File::create(place.path().join("f")).unwrap(), fs::File::open(place.path()).unwrap());
        for held in [file, dir] {
            assert_eq!(lock_holder(&held), None);
            flock(&held, FlockOperation::NonBlockingLockExclusive).unwrap();
            assert_eq!(lock_holder(&held), Some(std::process::id()));
        }
    }
}
